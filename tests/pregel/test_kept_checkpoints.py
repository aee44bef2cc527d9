"""What is left after threads were pruned, copied and deleted in parts reads as before, and goes on as before.

Random sequences are done to a thread whose lists are stored as what was appended to them, and to a twin in memory whose
lists are stored whole. Every value that was ever read of a checkpoint is kept here, and compared after each thing done.
"""

from __future__ import annotations

import operator
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID, uuid4

import pytest
from typing_extensions import TypedDict

from langgraph_async import END, START, Command, Send, StateGraph, interrupt
from langgraph_async.channels import DeltaChannel, appending
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.checkpoint.postgres import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite import AsyncSqliteSaver
from langgraph_async.errors import (
    EmptyInputError,
    InvalidUpdateError,
    ReducerError,
    StorageError,
    UnknownInterruptError,
)
from langgraph_async.graph.messages import RemoveMessage, add_messages
from langgraph_async.types import Overwrite


def extend(state: list[Any], batch: list[list[Any]]) -> list[Any]:
    return [*state, *(item for write in batch for item in write)]


class Log(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    chat: Annotated[list[Any], add_messages]
    declared: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=3)]
    rare: Annotated[list[Any], DeltaChannel(extend)]
    last: list[Any]
    todo: list[Any]


KEYS = ("log", "chat", "declared", "rare", "last")


class Refused(Exception):
    """Raised by a node."""


async def work(state: Any) -> dict[str, Any]:
    key, value = state["write"]
    if key == "ask":
        return {"log": [interrupt("?")]}
    if key == "fail":
        raise Refused
    return {key: value}


async def close(state: Any) -> dict[str, Any]:
    return {"todo": [], "last": list(state.get("log") or [])[-3:]}


def spread(state: Any) -> list[Send]:
    return [Send("work", {"write": write}) for write in state.get("todo") or []]


def graph_of(saver: Any, *, delta: bool) -> Any:
    builder = StateGraph(Log)
    builder.add_node("work", work)
    builder.add_node("close", close)
    builder.add_conditional_edges(START, spread)
    builder.add_edge("work", "close")
    builder.add_edge("close", END)
    return builder.compile(checkpointer=saver, delta_storage=delta)


def config_of(thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any]:
    named = {"checkpoint_id": checkpoint_id} if checkpoint_id else {}
    return {"configurable": {"thread_id": thread_id, **named}}


def id_of(item: Any) -> str:
    return str(item.config["configurable"]["checkpoint_id"])


def values_of(values: Any) -> dict[str, Any]:
    return {key: values.get(key) for key in KEYS}


class Twins:
    """Threads on two savers, and what their checkpoints hold."""

    kinds = (*["run"] * 5, *["resume"] * 3, "edit", "edit_old", "run_old", "fork", "prune", "copy", "forget", "forget")

    def __init__(self, one: Any, two: Any, seed: int) -> None:
        self.graphs = (graph_of(one, delta=True), graph_of(two, delta=False))
        self.random = random.Random(seed)
        self.base = uuid4().hex
        self.threads = [self.base]
        self.runs: list[str] = []
        self.forgotten: set[str] = set()
        self.pruned: set[str] = set()
        self.pairs: dict[str, list[tuple[str, ...]]] = {}
        self.known: dict[tuple[str, str], Any] = {}
        self.done: list[Any] = []

    async def step(self) -> None:
        thread, kind = self.random.choice(self.threads), self.random.choice(self.kinds)
        place = await self._readable(thread) if kind in ("edit_old", "run_old", "fork") else (None, None)
        writes = [self._write() for _ in range(self.random.randrange(1, 4))]
        durability = self.random.choice(["async", "sync", "exit"])
        self.done.append((kind, self.threads.index(thread), writes, durability))
        if place is None:
            return
        run = UUID(int=self.random.getrandbits(128), version=4)
        chosen = [run for run in self.runs if self.random.random() < 0.25] if kind == "forget" else []
        copy = f"{self.base}-{len(self.threads)}"
        results = []
        for graph, checkpoint in zip(self.graphs, place, strict=True):
            config = config_of(thread, checkpoint)
            if kind == "prune":
                results.append(await graph.checkpointer.aprune([thread]))
            elif kind == "copy":
                results.append(await graph.checkpointer.acopy_thread(thread, copy))
            elif kind == "forget":
                results.append(await graph.checkpointer.adelete_for_runs(chosen))
            else:
                results.append(await self._outcome(graph, kind, {**config, "run_id": run}, writes, durability))
        assert results[0] == results[1], self.done
        self._note(kind, thread, copy, str(run), chosen)
        for thread in self.threads:
            await self._check(thread)

    def _note(self, kind: str, thread: str, copy: str, run: str, chosen: list[str]) -> None:
        self.forgotten.update(chosen)
        if kind == "prune":
            self.pruned.add(thread)
        elif kind == "copy":
            self.threads.append(copy)
            self.pairs[copy] = list(self.pairs.get(thread, ()))
            self.pruned.update({copy} if thread in self.pruned else ())
            self.known.update({(copy, id): value for (of, id), value in list(self.known.items()) if of == thread})
        elif kind in ("run", "run_old", "resume", "fork"):
            self.runs.append(run)

    async def _outcome(self, graph: Any, kind: str, config: Any, writes: Any, durability: str) -> Any:
        try:
            if kind.startswith("edit"):
                for key, value in [write for write in writes if write[0] not in ("ask", "fail")]:
                    config = await graph.aupdate_state(config, {key: value}, as_node="work")
                return None
            new = {"todo": writes, "log": [99]}
            value: Any = {"run": new, "run_old": new, "resume": Command(resume=5), "fork": None}[kind]
            result = await graph.ainvoke(value, config, durability=durability)
            return None if result is None else values_of(result)
        except (Refused, ReducerError, EmptyInputError, InvalidUpdateError, UnknownInterruptError) as exc:
            return type(exc)

    def _write(self) -> tuple[str, Any]:
        pick = self.random.randrange
        items = [pick(10) for _ in range(pick(4))]
        name = f"m{pick(6)}"
        return self.random.choice(
            [
                ("log", items),
                ("log", items),
                ("log", Overwrite(items)),
                ("declared", items),
                ("declared", Overwrite(items)),
                ("rare", items),
                ("chat", [{"role": "user", "content": str(pick(3)), "id": name}]),
                ("chat", [RemoveMessage(name)]),
                ("ask", None),
                ("fail", None) if pick(3) == 0 else ("ask", None),
            ]
        )

    async def _rows(self, number: int, thread: str) -> list[Any]:
        saver = self.graphs[number].checkpointer
        return [item async for item in saver.alist({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})]

    async def _pair_up(self, thread: str) -> list[tuple[str, ...]]:
        """Return which checkpoints of the two savers are the same, of those that both still have, oldest first."""
        there = [[id_of(item) for item in await self._rows(number, thread)] for number in (0, 1)]
        pairs = self.pairs.setdefault(thread, [])
        new = [[id for id in ids if all(id not in pair for pair in pairs)] for ids in there]
        pairs.extend(list(zip(*new, strict=False))[::-1])  # "exit" needs one more below, to store writes on
        return [pair for pair in pairs if pair[0] in there[0] and pair[1] in there[1]]

    async def _readable(self, thread: str) -> tuple[str, ...] | None:
        pairs = [pair for pair in await self._pair_up(thread) if (thread, pair[0]) in self.known]
        pair = self.random.choice(pairs[-6:]) if pairs else None
        try:
            return pair and (await self.graphs[0].aget_state(config_of(thread, pair[0])) and pair)
        except StorageError:
            return None

    async def _check(self, thread: str) -> None:
        graph, twin = self.graphs
        await self._pair_up(thread)
        found: dict[str, Any] = {}
        for number, row in enumerate(await self._rows(0, thread)):
            try:
                state = await graph.aget_state(config_of(thread, id_of(row)))
            except StorageError:
                left_over = thread in self.pruned or row.metadata.get("run_id") in self.forgotten
                if number == 0 or not left_over:
                    raise
                continue
            found[id_of(row)] = values_of(state.values)
            assert found[id_of(row)] == self.known.setdefault((thread, id_of(row)), found[id_of(row)]), self.done
        history = [state async for state in graph.aget_state_history(config_of(thread))]
        assert {id_of(state): values_of(state.values) for state in history} == found, self.done
        heads = [await one.aget_state(config_of(thread)) for one in (graph, twin)]
        assert values_of(heads[0].values) == values_of(heads[1].values), self.done
        assert heads[0].next == heads[1].next, self.done


@asynccontextmanager
async def open_saver(kind: str, dsn: str) -> AsyncIterator[Any]:
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "sqlite":
        async with AsyncSqliteSaver.from_conn_string(":memory:") as sqlite:
            yield sqlite
    else:
        async with AsyncPostgresSaver.from_conn_string(dsn, max_size=1) as postgres:
            yield postgres


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store lists as what was appended from the first item on, and whole after two updates at the earliest."""
    monkeypatch.setattr(appending, "SHORTEST", 1)
    monkeypatch.setattr(appending, "_FEWEST_UPDATES", 2)


async def check(kind: str, dsn: str, seeds: range) -> None:
    async with open_saver(kind, dsn) as saver:
        for seed in seeds:
            twins = Twins(saver, InMemorySaver(), seed)
            for _ in range(14):
                await twins.step()


@pytest.mark.parametrize(("kind", "seeds"), [("memory", range(12)), ("sqlite", range(4)), ("postgres", range(2))])
async def test_checkpoints_that_are_left_keep_their_values(kind: str, seeds: range, postgres_database: str) -> None:
    await check(kind, postgres_database, seeds)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_checkpoints_that_are_left_keep_their_values_in_many_sequences(kind: str, postgres_database: str) -> None:
    await check(kind, postgres_database, range(100, 160))


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_declared_list_whose_beginning_was_pruned_is_not_read_shorter(
    kind: str, postgres_database: str
) -> None:
    thread = config_of("1")
    async with open_saver(kind, postgres_database) as saver:
        graph = graph_of(saver, delta=True)
        await graph.ainvoke({"rare": [1]}, thread)
        for number in range(8):
            await graph.ainvoke({"declared": [number]}, thread)
        await graph.aupdate_state(thread, {"rare": Overwrite([7])}, as_node="work")
        before = {id_of(state): values_of(state.values) async for state in graph.aget_state_history(thread)}
        await saver.aprune(["1"])
        rows = [id_of(row) async for row in saver.alist(thread)]
        after = {id_of(state): values_of(state.values) async for state in graph.aget_state_history(thread)}

        assert after == {key: before[key] for key in after}
        assert 0 < len(after) < len(rows)
        with pytest.raises(StorageError, match=r"'rare'.*older checkpoints") as caught:
            await graph.aget_state(config_of("1", rows[-1]))
        assert caught.value.reason == "incomplete"
