"""LangGraph's own savers, and some that others wrote for it, under our engine - and then again under LangGraph.

Runs only where LangGraph can be imported beside this library; a saver whose package is not there is left out.
"""

from __future__ import annotations

import asyncio
import importlib
import operator
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import asyncpg
import pytest
from postgres import database
from typing_extensions import TypedDict

pytest.importorskip("langgraph")

from langgraph_async.checkpoint.foreign.saver import as_saver
from langgraph_async.errors import ThreadConflictError
from langgraph_async.ids import checkpoint_id

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIG: Any = {"configurable": {"thread_id": "1"}}


def _library(package: str) -> Any:
    def words(module: str, *names: str) -> dict[str, Any]:
        found = importlib.import_module(f"{package}.{module}")
        return {name: getattr(found, name) for name in names}

    return SimpleNamespace(
        name=package,
        **words("graph", "StateGraph", "START"),
        **words("types", "Command", "Send", "Interrupt", "RetryPolicy", "interrupt"),
        **words("func", "entrypoint", "task"),
        **words("config", "get_stream_writer"),
        **words("channels.delta", "DeltaChannel"),
    )


OURS = _library("langgraph_async")
PEER = _library("langgraph")


# -- savers --------------------------------------------------------------------------------------------------------


class Reversing:
    """A cipher that can be told from plain text, and no more."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "reversed"
        return ciphertext[::-1]


def _encrypted() -> Any:
    return importlib.import_module("langgraph.checkpoint.serde.encrypted").EncryptedSerializer(Reversing())


@asynccontextmanager
async def _opened(name: str, path: Path, dsn: str) -> AsyncIterator[Any]:
    def kind(module: str, cls: str) -> Any:
        return getattr(pytest.importorskip(module), cls)

    async with AsyncExitStack() as stack:
        if name == "memory":
            yield kind("langgraph.checkpoint.memory", "InMemorySaver")()
        elif name == "encrypted memory":
            yield kind("langgraph.checkpoint.memory", "InMemorySaver")(serde=_encrypted())
        elif name == "sqlite":
            conn = sqlite3.connect(path / "a.db", check_same_thread=False)
            stack.callback(conn.close)
            yield kind("langgraph.checkpoint.sqlite", "SqliteSaver")(conn)
        elif name == "async sqlite":
            opened = kind("langgraph.checkpoint.sqlite.aio", "AsyncSqliteSaver").from_conn_string(str(path / "a.db"))
            yield await stack.enter_async_context(opened)
        elif name == "postgres":
            saver = stack.enter_context(kind("langgraph.checkpoint.postgres", "PostgresSaver").from_conn_string(dsn))
            saver.setup()
            yield saver
        elif name == "async postgres":
            opened = kind("langgraph.checkpoint.postgres.aio", "AsyncPostgresSaver").from_conn_string(dsn)
            saver = await stack.enter_async_context(opened)
            await saver.setup()
            yield saver
        elif name == "objects":
            local = kind("fsspec.implementations.local", "LocalFileSystem")
            yield kind("langgraph_checkpoint_objectstorage", "ObjectStorageSaver")(local(), str(path / "objects"))
        else:
            cls = kind("langgraph_checkpoint_lmdb", "LMDBSaver" if name == "lmdb" else "AsyncLMDBSaver")
            env = importlib.import_module("lmdb").open(str(path / "lmdb"), max_dbs=8, map_size=1 << 24)
            stack.callback(env.close)
            yield cls(env)


SAVERS = (
    "memory",
    "encrypted memory",
    "sqlite",
    "async sqlite",
    "postgres",
    "async postgres",
    "objects",
    "lmdb",
    "async lmdb",
)


@pytest.fixture(params=SAVERS)
async def saver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:
        dsn = ""
        if "postgres" in request.param:
            dsn = await stack.enter_async_context(_new_database(request.getfixturevalue("postgres_dsn")))
        yield await stack.enter_async_context(_opened(request.param, tmp_path, dsn))


@asynccontextmanager
async def _new_database(server: str) -> AsyncIterator[str]:
    name = f"test_{uuid.uuid4().hex}"
    conn = await asyncpg.connect(server)
    try:
        await conn.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        yield database(server, name)
        await conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await conn.close()


# -- one program for both libraries --------------------------------------------------------------------------------


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    pair: Any


def _review(lg: Any, saver: Any, **options: Any) -> Any:
    """Return a graph with a question, a fan-out and a join."""

    async def begin(state: State) -> Any:
        return {"log": ["begin"], "pair": {1, 2}}

    async def ask(state: State) -> Any:
        return {"log": [lg.interrupt({"question": "go on?"})]}

    def each(state: State) -> list[Any]:
        return [lg.Send("work", {"number": number}) for number in range(3)]

    async def work(state: Any) -> Any:
        return {"log": [state["number"]]}

    async def end(state: State) -> Any:
        return {"log": ["end"]}

    builder = lg.StateGraph(State)
    for node in (begin, ask, work, end):
        builder.add_node(node.__name__, node)
    builder.add_edge(lg.START, "begin").add_edge("begin", "ask").add_edge("work", "end")
    builder.add_conditional_edges("ask", each, ["work"])
    return builder.compile(checkpointer=saver, **options)


def _nested(lg: Any, saver: Any) -> Any:
    """Return a graph with a question in a nested graph that has memory of its own."""

    async def count(state: State) -> Any:
        return {"log": [f"inner {len(state['log'])}"]}

    async def ask(state: State) -> Any:
        return {"log": [lg.interrupt("inner?")]}

    inner = lg.StateGraph(State)
    inner.add_node("count", count).add_node("ask", ask).add_edge(lg.START, "count").add_edge("count", "ask")
    outer = lg.StateGraph(State)
    outer.add_node("inner", inner.compile()).add_edge(lg.START, "inner")
    return outer.compile(checkpointer=saver)


def _flow(lg: Any, saver: Any, calls: list[int]) -> Any:
    @lg.task
    async def double(number: int) -> int:
        calls.append(number)
        return number * 2

    @lg.entrypoint(checkpointer=saver)
    async def flow(number: int, *, previous: Any = None) -> Any:
        doubled = await double(number)
        return {"sum": doubled + lg.interrupt("more?") + (previous["sum"] if previous else 0)}

    return flow


class Deltas(TypedDict):
    log: Annotated[list[Any], operator.add]


def _with_deltas(lg: Any, saver: Any) -> Any:
    def added(state: Any, writes: Any) -> Any:
        return [*state, *(item for write in writes for item in write)]

    schema = TypedDict("schema", {"log": Annotated[list, lg.DeltaChannel(added, snapshot_frequency=3)]})  # noqa: UP013

    async def one(state: Any) -> Any:
        return {"log": ["one"]}

    async def two(state: Any) -> Any:
        return {"log": ["two"]}

    builder = lg.StateGraph(schema)
    builder.add_node("one", one).add_node("two", two).add_edge(lg.START, "one").add_edge("one", "two")
    return builder.compile(checkpointer=saver)


class Driver:
    """Runs a graph of either library; LangGraph's blocking savers need its blocking methods."""

    def __init__(self, lg: Any, graph: Any, *, blocking: bool) -> None:
        self.lg = lg
        self.graph = graph
        self.blocking = blocking and lg is PEER

    async def run(self, value: Any, config: Any = CONFIG, **options: Any) -> Any:
        if self.blocking:
            return await asyncio.to_thread(_run_blocking, self.graph, value, config, options)
        return await self.graph.ainvoke(value, config, **options)

    async def answer(self, value: Any, config: Any = CONFIG) -> Any:
        return await self.run(self.lg.Command(resume=value), config)

    async def state(self, config: Any = CONFIG) -> Any:
        if self.blocking:
            return await asyncio.to_thread(self.graph.get_state, config)
        return await self.graph.aget_state(config)

    async def history(self, config: Any = CONFIG) -> list[Any]:
        if self.blocking:
            return await asyncio.to_thread(lambda: list(self.graph.get_state_history(config)))
        return [state async for state in self.graph.aget_state_history(config)]

    async def update(self, values: Any, config: Any = CONFIG) -> Any:
        if self.blocking:
            return await asyncio.to_thread(self.graph.update_state, config, values)
        return await self.graph.aupdate_state(config, values)


def _run_blocking(graph: Any, value: Any, config: Any, options: dict[str, Any]) -> Any:
    return graph.invoke(value, config, **options)


def _is_blocking(saver: Any) -> bool:
    return type(saver).__name__ in ("SqliteSaver", "PostgresSaver", "LMDBSaver")


def _both(make: Callable[..., Any], saver: Any, *args: Any) -> tuple[Driver, Driver]:
    blocking = _is_blocking(saver)
    return tuple(Driver(lg, make(lg, saver, *args), blocking=blocking) for lg in (OURS, PEER))  # type: ignore[return-value]


def _needs_sync_nodes(saver: Any) -> None:
    if _is_blocking(saver):
        pytest.skip("LangGraph does not run async nodes with a blocking saver")


def _log(found: Any) -> Any:
    return found["log"]


# -- our engine alone ----------------------------------------------------------------------------------------------


async def test_a_run_pauses_fans_out_and_ends(saver: Any) -> None:
    graph = _review(OURS, saver)

    paused = await graph.ainvoke({"log": ["in"]}, CONFIG)
    state = await graph.aget_state(CONFIG)
    ended = await _review(OURS, saver).ainvoke(OURS.Command(resume="yes"), CONFIG)

    assert [type(question) for question in paused["__interrupt__"]] == [OURS.Interrupt]
    assert state.next == ("ask",)
    assert ended["log"] == ["in", "begin", "yes", 0, 1, 2, "end"]
    assert ended["pair"] == {1, 2}


async def test_sends_are_stored_and_run_later(saver: Any) -> None:
    graph = _review(OURS, saver, interrupt_before=["work"])
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke(OURS.Command(resume="yes"), CONFIG)

    waiting = await graph.aget_state(CONFIG)
    ended = await _review(OURS, saver).ainvoke(None, CONFIG)

    assert waiting.next == ("work", "work", "work")
    assert ended["log"] == ["begin", "yes", 0, 1, 2, "end"]


async def test_a_nested_graph_pauses(saver: Any) -> None:
    graph = _nested(OURS, saver)

    await graph.ainvoke({"log": ["in"]}, CONFIG)
    inside = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state
    ended = await graph.ainvoke(OURS.Command(resume="yes"), CONFIG)

    assert inside.values["log"] == ["in", "inner 1"]
    assert ended["log"] == ["in", "in", "inner 1", "yes"]


async def test_a_thread_is_forked_and_edited(saver: Any) -> None:
    graph = _review(OURS, saver)
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke(OURS.Command(resume="yes"), CONFIG)

    history = [state async for state in graph.aget_state_history(CONFIG)]
    before = next(state for state in history if state.next == ("begin",))
    await graph.ainvoke(None, before.config)
    again = await graph.ainvoke(OURS.Command(resume="no"), CONFIG)
    await graph.aupdate_state(CONFIG, {"log": ["edited"]})

    assert [state.metadata["step"] for state in history] == [4, 3, 2, 1, 0, -1]
    assert again["log"] == ["begin", "no", 0, 1, 2, "end"]
    assert (await graph.aget_state(CONFIG)).values["log"][-1] == "edited"


async def test_a_workflow_pauses_and_remembers(saver: Any) -> None:
    calls: list[int] = []
    flow = _flow(OURS, saver, calls)

    await flow.ainvoke(1, CONFIG)
    first = await flow.ainvoke(OURS.Command(resume=10), CONFIG)
    await flow.ainvoke(1, CONFIG)
    second = await flow.ainvoke(OURS.Command(resume=10), CONFIG)

    assert (first, second, calls) == ({"sum": 12}, {"sum": 24}, [1, 1])


async def test_a_run_is_streamed(saver: Any) -> None:
    graph = _review(OURS, saver)

    modes = ["updates", "checkpoints", "values"]
    parts = [part async for part in graph.astream({"log": []}, CONFIG, stream_mode=modes)]

    assert next(value for mode, value in parts if mode == "updates") == {"begin": {"log": ["begin"], "pair": {1, 2}}}
    assert sum(mode == "checkpoints" for mode, _ in parts) == 3


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_failed_step_is_retried_and_its_siblings_are_kept(saver: Any, durability: Any) -> None:
    ran: list[str] = []

    async def good(state: State) -> Any:
        ran.append("good")
        return {"log": ["good"]}

    async def bad(state: State) -> Any:
        ran.append("bad")
        if len(ran) < 4:
            raise ConnectionError("no")
        return {"log": ["bad"]}

    policy = OURS.RetryPolicy(initial_interval=0, jitter=False, max_attempts=2)
    builder = OURS.StateGraph(State).add_node(good).add_node(bad, retry_policy=policy)
    graph = builder.add_edge(OURS.START, "good").add_edge(OURS.START, "bad").compile(checkpointer=saver)

    with pytest.raises(ConnectionError):
        await graph.ainvoke({"log": []}, CONFIG, durability=durability)
    ended = await graph.ainvoke(None, CONFIG, durability=durability)

    assert sorted(ended["log"]) == ["bad", "good"]
    assert sorted(ran) == ["bad", "bad", "bad", "good"]


async def test_values_keep_their_types(saver: Any) -> None:
    if type(saver).__name__ == "ObjectStorageSaver":
        pytest.skip("it has LangGraph's serializer in a module, out of reach, and stores what that can store")

    async def make(state: State) -> Any:
        return {"pair": (1, "a\0b"), "log": [1 << 70, (2,)]}

    graph = OURS.StateGraph(State).add_node(make).add_edge(OURS.START, "make").compile(checkpointer=saver)

    await graph.ainvoke({"log": []}, CONFIG)

    assert (await graph.aget_state(CONFIG)).values == {"pair": (1, "a\0b"), "log": [1 << 70, (2,)]}


async def test_a_second_saver_that_stored_meanwhile_is_a_conflict(saver: Any) -> None:
    async def overtake(state: State) -> Any:
        other = as_saver(saver)
        newest = await other.aget_tuple(CONFIG)
        later = {**newest.checkpoint, "id": checkpoint_id(5)}
        await other.aput(newest.config, later, {"source": "update", "step": 5, "parents": {}}, {})
        return {"log": ["late"]}

    graph = OURS.StateGraph(State).add_node(overtake).add_edge(OURS.START, "overtake").compile(checkpointer=saver)

    with pytest.raises(ThreadConflictError):
        await graph.ainvoke({"log": []}, CONFIG, durability="sync")


# -- one thread, both libraries, the same saver object -------------------------------------------------------------


@pytest.mark.parametrize("first", ["ours", "peer"])
async def test_the_other_goes_on_with_a_paused_thread(saver: Any, first: str) -> None:
    _needs_sync_nodes(saver)
    one, other = _both(_review, saver) if first == "ours" else _both(_review, saver)[::-1]

    await one.run({"log": ["in"]})
    seen = await other.state()
    await other.answer("yes")
    ended = await one.run({"log": ["again"]})

    questions = [question for task in seen.tasks for question in task.interrupts]
    assert [type(question) for question in questions] == [other.lg.Interrupt]
    assert _log(ended) == ["in", "begin", "yes", 0, 1, 2, "end", "again", "begin"]
    assert [(s.metadata["step"], s.next, s.values) for s in await one.history()] == [
        (s.metadata["step"], s.next, s.values) for s in await other.history()
    ]


@pytest.mark.parametrize("first", ["ours", "peer"])
async def test_the_other_runs_stored_sends(saver: Any, first: str) -> None:
    _needs_sync_nodes(saver)
    one, other = _both(_review, saver) if first == "ours" else _both(_review, saver)[::-1]

    await one.run({"log": []})
    await one.run(one.lg.Command(resume="yes"), interrupt_before=["work"])
    ended = await other.run(None)

    assert _log(ended) == ["begin", "yes", 0, 1, 2, "end"]


@pytest.mark.parametrize("first", ["ours", "peer"])
async def test_the_other_answers_a_nested_graph(saver: Any, first: str) -> None:
    _needs_sync_nodes(saver)
    one, other = _both(_nested, saver) if first == "ours" else _both(_nested, saver)[::-1]

    await one.run({"log": ["in"]})
    ended = await other.answer("yes")

    assert _log(ended) == ["in", "in", "inner 1", "yes"]


@pytest.mark.parametrize("first", ["ours", "peer"])
async def test_the_other_goes_on_with_a_workflow(saver: Any, first: str) -> None:
    _needs_sync_nodes(saver)
    calls: list[int] = []
    one, other = _both(_flow, saver, calls) if first == "ours" else _both(_flow, saver, calls)[::-1]

    await one.run(1)
    ended = await other.answer(10)
    await other.run(1)
    again = await one.answer(10)

    assert (ended, again, calls) == ({"sum": 12}, {"sum": 24}, [1, 1])


@pytest.mark.parametrize("first", ["ours", "peer"])
async def test_the_other_sees_an_edit(saver: Any, first: str) -> None:
    _needs_sync_nodes(saver)
    one, other = _both(_review, saver) if first == "ours" else _both(_review, saver)[::-1]

    await one.run({"log": []})
    await one.answer("yes")
    await one.update({"log": ["edited"]})

    assert _log((await other.state()).values) == ["begin", "yes", 0, 1, 2, "end", "edited"]


@pytest.mark.parametrize("first", ["ours", "peer"])
async def test_the_other_rebuilds_delta_channels(saver: Any, first: str) -> None:
    _needs_sync_nodes(saver)
    one, other = _both(_with_deltas, saver) if first == "ours" else _both(_with_deltas, saver)[::-1]

    for turn in range(3):
        await one.run({"log": [f"one {turn}"]})
        await other.run({"log": [f"other {turn}"]})

    turns = [item for turn in range(3) for item in (f"one {turn}", "one", "two", f"other {turn}", "one", "two")]
    assert _log((await one.state()).values) == turns
    assert _log((await other.state()).values) == turns


@pytest.mark.parametrize("first", ["ours", "peer"])
async def test_the_other_goes_on_with_a_blocking_saver(saver: Any, first: str) -> None:
    if not _is_blocking(saver):
        pytest.skip("covered by the tests above")

    def make(lg: Any, saver: Any) -> Any:
        def begin(state: State) -> Any:
            return {"log": ["begin"]}

        def ask(state: State) -> Any:
            return {"log": [lg.interrupt("go on?")]}

        builder = lg.StateGraph(State).add_node("begin", begin).add_node("ask", ask)
        return builder.add_edge(lg.START, "begin").add_edge("begin", "ask").compile(checkpointer=saver)

    one, other = _both(make, saver) if first == "ours" else _both(make, saver)[::-1]

    await one.run({"log": ["in"]})
    asked = (await other.state()).tasks[0].interrupts
    await other.answer("yes")
    await one.run({"log": ["again"]})
    ended = await one.answer("no")

    assert [type(question) for question in asked] == [other.lg.Interrupt]
    assert _log(ended) == ["in", "begin", "yes", "again", "begin", "no"]


# -- what was configured stays -------------------------------------------------------------------------------------


async def test_an_encrypted_saver_stays_encrypted() -> None:
    saver = importlib.import_module("langgraph.checkpoint.memory").InMemorySaver(serde=_encrypted())

    await _review(OURS, saver).ainvoke({"log": []}, CONFIG)

    stored = [row[2][0] for rows in saver.writes.values() for row in rows.values()]
    assert stored
    assert all(tag.endswith("+reversed") for tag in stored)


async def test_the_saver_object_is_not_changed(saver: Any) -> None:
    serde, kind = saver.serde, type(saver)

    await _review(OURS, saver).ainvoke({"log": []}, CONFIG)

    assert saver.serde is serde
    assert type(saver) is kind
