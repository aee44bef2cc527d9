"""Lists that are stored as what was appended hold, at every checkpoint, what they would hold if stored whole."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from langgraph_async import END, START, Send, StateGraph
from langgraph_async.channels import appending
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.checkpoint.postgres import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite import AsyncSqliteSaver
from langgraph_async.graph.messages import RemoveMessage, add_messages
from langgraph_async.types import Overwrite

OpenSaver = Callable[[], AbstractAsyncContextManager[Any]]


class Log(TypedDict):
    log: Annotated[list[Any], operator.add]
    chat: Annotated[list[Any], add_messages]
    todo: list[Any]


@dataclass(frozen=True)
class Step:
    """One thing done to both threads."""

    kind: str
    writes: tuple[Any, ...] = ()
    place: int = 0
    durability: str = "async"


def as_update(write: Any) -> dict[str, Any]:
    key, value = write
    return {key: value}


async def work(state: Any) -> dict[str, Any]:
    return as_update(state["write"])


async def idle(state: Any) -> dict[str, Any]:
    return {"todo": []}


def spread(state: Any) -> list[Send]:
    return [Send("work", {"write": write}) for write in state["todo"]]


def graph_of(saver: Any, *, delta: bool) -> Any:
    builder = StateGraph(Log)
    builder.add_node("work", work)
    builder.add_node("idle", idle)
    builder.add_conditional_edges(START, spread)
    builder.add_edge("work", "idle")
    builder.add_edge("idle", END)
    return builder.compile(checkpointer=saver, delta_storage=delta)


class Twins:
    """The same thread twice: stored as what was appended, and whole."""

    def __init__(self, one: Any, two: Any) -> None:
        self.graphs: tuple[Any, ...] = (graph_of(one, delta=True), graph_of(two, delta=False))
        self.name = uuid4().hex
        self.config: Any = {"configurable": {"thread_id": self.name}}
        self.threads = 1

    async def do(self, step: Step) -> None:
        if step.kind == "prune":
            for graph in self.graphs:
                await graph.checkpointer.aprune([self.config["configurable"]["thread_id"]])
            return
        if step.kind == "copy":
            old, new = self.config["configurable"]["thread_id"], f"{self.name}-{self.threads}"
            self.threads += 1
            for graph in self.graphs:
                await graph.checkpointer.acopy_thread(old, new)
            self.config = {"configurable": {"thread_id": new}}
            return
        if step.kind == "swap":
            self.graphs = tuple(graph_of(graph.checkpointer, delta=not graph.delta_storage) for graph in self.graphs)
            return
        histories = [[item.config async for item in graph.aget_state_history(self.config)] for graph in self.graphs]
        shared = min(map(len, histories))  # pruning keeps what the newest is rebuilt from
        results = [
            await self._one(graph, step, configs[:shared])
            for graph, configs in zip(self.graphs, histories, strict=True)
        ]
        assert results[0] == results[1]

    async def _one(self, graph: Any, step: Step, history: list[Any]) -> Any:
        config = self.config
        if step.kind in ("fork", "edit_old", "run_old") and history:
            config = history[step.place % min(len(history), 6)]
        try:
            if step.kind in ("edit", "edit_old"):
                for write in step.writes:
                    config = await graph.aupdate_state(config, as_update(write), as_node="work")
                return None
            value = None if step.kind == "fork" else {"todo": list(step.writes)}
            if value is None and not history:
                return None
            result = await graph.ainvoke(value, config, durability=step.durability)
            return None if result is None else (result.get("log"), result.get("chat"))
        except Exception as exc:
            return type(exc).__name__

    async def compare(self) -> None:
        one, two = [
            [(item.values.get("log"), item.values.get("chat")) async for item in graph.aget_state_history(self.config)]
            for graph in self.graphs
        ]
        shared = min(len(one), len(two))
        assert one[:shared] == two[:shared]
        graph = self.graphs[0]
        singly = []
        async for item in graph.aget_state_history(self.config):
            found = await graph.aget_state(item.config)
            singly.append((found.values.get("log"), found.values.get("chat")))
        assert singly == one


ITEMS = st.lists(st.integers(0, 9), max_size=3)
IDS = st.sampled_from(["m1", "m2", "m3", "m4", "m5"])
MESSAGES = st.builds(lambda key, text: {"role": "user", "content": text, "id": key}, IDS, st.sampled_from("abc"))
WRITES = st.one_of(
    st.tuples(st.just("log"), ITEMS),
    st.tuples(st.just("log"), st.builds(Overwrite, ITEMS)),
    st.tuples(st.just("chat"), st.lists(MESSAGES, max_size=3)),
    st.tuples(st.just("chat"), st.lists(st.builds(RemoveMessage, IDS), max_size=1)),
    st.tuples(st.just("chat"), MESSAGES),
)
STEPS = st.builds(
    Step,
    st.sampled_from(["run", "run", "run", "run", "edit", "edit_old", "fork", "run_old", "prune", "copy", "swap"]),
    st.lists(WRITES, min_size=1, max_size=3).map(tuple),
    st.integers(0, 30),
    st.sampled_from(["async", "sync", "exit"]),
)


async def check(open_saver: OpenSaver, steps: list[Step]) -> None:
    async with open_saver() as one:
        twins = Twins(one, InMemorySaver())
        for step in steps:
            await twins.do(step)
            await twins.compare()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store lists as what was appended from the first item on, and whole after two updates at the earliest."""
    monkeypatch.setattr(appending, "SHORTEST", 1)
    monkeypatch.setattr(appending, "_FEWEST_UPDATES", 2)


@asynccontextmanager
async def memory() -> AsyncIterator[Any]:
    yield InMemorySaver()


@asynccontextmanager
async def sqlite() -> AsyncIterator[Any]:
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        yield saver


FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.usefixtures("eager")
@settings(max_examples=25, deadline=None, suppress_health_check=FIXTURES)
@given(st.lists(STEPS, min_size=2, max_size=7))
def test_in_memory(steps: list[Step]) -> None:
    asyncio.run(check(memory, steps))


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
@settings(max_examples=80, deadline=None, suppress_health_check=FIXTURES)
@given(st.lists(STEPS, min_size=2, max_size=7))
def test_in_memory_however_long_it_is_tried(steps: list[Step]) -> None:
    asyncio.run(check(memory, steps))


@pytest.mark.usefixtures("eager")
@settings(max_examples=15, deadline=None, suppress_health_check=FIXTURES)
@given(st.lists(STEPS, min_size=2, max_size=6))
def test_on_sqlite(steps: list[Step]) -> None:
    asyncio.run(check(sqlite, steps))


@pytest.mark.usefixtures("eager")
@settings(max_examples=6, deadline=None, suppress_health_check=FIXTURES)
@given(steps=st.lists(STEPS, min_size=3, max_size=6))
def test_on_postgres(postgres_dsn: str, steps: list[Step]) -> None:
    @asynccontextmanager
    async def postgres() -> AsyncIterator[Any]:
        async with AsyncPostgresSaver.from_conn_string(postgres_dsn, max_size=1) as saver:
            await saver.setup()
            yield saver

    asyncio.run(check(postgres, steps))
