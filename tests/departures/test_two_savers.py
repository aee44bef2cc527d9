"""Two savers on one database, as in two processes: of two runs that begin with one node, one runs it (P7)."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest
from places import S, cfg, flat
from writers import settled

from langgraph_async import START, Command, StateGraph, ThreadConflictError, interrupt
from langgraph_async.aio.clock import FakeClock
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.errors import UnknownInterruptError
from langgraph_async.func import entrypoint


@contextlib.asynccontextmanager
async def two(make):
    async with make() as one, make() as other:
        yield one, other


@pytest.fixture(params=["sqlite", "postgres"])
def made(request, tmp_path):
    """Make a saver for a database."""
    if request.param == "sqlite":
        return lambda: AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", synchronous="NORMAL")
    dsn = request.getfixturevalue("postgres_database")
    return lambda: AsyncPostgresSaver.from_conn_string(dsn, max_size=2)


@pytest.fixture
async def pair(made):
    """Two savers on one database."""
    async with two(made) as savers:
        yield savers


@pytest.fixture
async def files(tmp_path):
    """Two savers on one file."""
    async with two(lambda: AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", synchronous="NORMAL")) as savers:
        yield savers


class Body:
    """What a node does after it has its answer: it waits, the first time, until the test lets it go on."""

    def __init__(self):
        self.ran = []
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.error = None

    async def __call__(self, value):
        self.ran.append(value)
        if len(self.ran) == 1:
            self.entered.set()
            await self.go.wait()
        if self.error is not None:
            raise self.error
        return {"log": [value]}

    async def begin(self, run):
        """Start a run, and return it when it is in here."""
        task = asyncio.ensure_future(run)
        await asyncio.wait([task, entered := asyncio.ensure_future(self.entered.wait())], return_when="FIRST_COMPLETED")
        entered.cancel()
        assert not task.done(), task
        return task


# -- what runs begin with ---------------------------------------------------------------------------------------


def asking(saver, body):
    async def node(state):
        return await body(interrupt("?"))

    return flat(node, saver)


def plain(saver, body, **options):
    async def node(state):
        return await body(state.get("x"))

    return flat(node, saver, **options)


def asking_inside(saver, body):
    async def node(state):
        return await body(interrupt("?"))

    inner = StateGraph(S).add_node("q", node).add_edge(START, "q").compile()
    return StateGraph(S).add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=saver)


def asking_function(saver, body):
    @entrypoint(checkpointer=saver)
    async def work(value):
        return (await body(interrupt("?")))["log"]

    return work


def stopping(saver, body):
    return plain(saver, body, interrupt_before=["q"])


RUNS = {
    "an answer": (asking, {"x": 1}, Command(resume="yes"), {}),
    "an answer to a graph inside": (asking_inside, {"x": 1}, Command(resume="yes"), {}),
    "an answer to a function": (asking_function, 1, Command(resume="yes"), {}),
    "an answer with an update": (asking, {"x": 1}, Command(resume="yes", update={"x": 2}), {}),
    "no input": (stopping, {"x": 1}, None, {}),
    "an update": (stopping, {"x": 1}, Command(update={"x": 2}), {}),
    "a goto": (plain, None, Command(goto="q"), {}),
    "the input of the same run": (stopping, {"x": 1}, {"x": 1}, {"metadata": {"run_id": "r"}}),
}


async def prepared(name, pair):
    """Return graphs on two savers, with the thread as the run finds it, their body, and the run's input and config."""
    make, first, value, more = RUNS[name]
    body = Body()
    graphs = [make(saver, body) for saver in pair]
    config = cfg(**more)
    if first is not None:
        await graphs[0].ainvoke(first, config)
    else:
        body.go.set()
        await graphs[0].ainvoke({"x": 0}, config)
        body.ran.clear()
        body.go.clear()
        body.entered.clear()
    return graphs, body, value, config


@pytest.mark.parametrize("name", RUNS)
async def test_the_second_run_is_refused_before_its_node(pair, name):
    graphs, body, value, config = await prepared(name, pair)
    first = await body.begin(graphs[0].ainvoke(value, config))

    with pytest.raises(ThreadConflictError, match="'t' is held by a run of another process, or on another saver"):
        await graphs[1].ainvoke(value, config)
    body.go.set()
    await first

    assert len(body.ran) == 1


@pytest.mark.parametrize("name", RUNS)
async def test_the_second_run_is_refused_whatever_the_durability(files, name, durability):
    graphs, body, value, config = await prepared(name, files)
    first = await body.begin(graphs[0].ainvoke(value, config, durability=durability))

    with pytest.raises(ThreadConflictError):
        await graphs[1].ainvoke(value, config, durability=durability)
    body.go.set()
    await first

    assert len(body.ran) == 1


@pytest.mark.parametrize("name", RUNS)
async def test_of_runs_at_once_one_runs_the_node(pair, name):
    graphs, body, value, config = await prepared(name, pair)
    body.go.set()

    await settled(*(graph.ainvoke(value, config) for graph in graphs))
    ran = len(body.ran)
    first = await graphs[0].aget_state(config)

    # Without an answer there is nothing that could be known to be done: a run that comes after the other is its own.
    assert ran == 1 or name == "a goto"
    assert not first.next or name == "a goto"


@pytest.mark.parametrize("thread", ["new", "known"])
async def test_with_durability_exit_an_input_counts_too(pair, thread):
    body = Body()
    graphs = [plain(saver, body) for saver in pair]
    if thread == "known":
        await plain(pair[0], lambda value: asyncio.sleep(0, {"x": value})).ainvoke({"x": 0}, cfg())
    first = await body.begin(graphs[0].ainvoke({"x": 1}, cfg(), durability="exit"))

    with pytest.raises(ThreadConflictError):
        await graphs[1].ainvoke({"x": 2}, cfg(), durability="exit")
    body.go.set()
    await first

    assert body.ran == [1]


async def test_going_back_to_an_old_checkpoint_counts_too(pair):
    body = Body()
    graphs = [plain(saver, body) for saver in pair]
    body.go.set()
    await graphs[0].ainvoke({"x": 0}, cfg())
    (old,) = [s async for s in graphs[0].aget_state_history(cfg()) if s.next == ("q",)]
    body.ran.clear()
    body.go.clear()
    body.entered.clear()
    first = await body.begin(graphs[0].ainvoke(None, old.config))

    with pytest.raises(ThreadConflictError):
        await graphs[1].ainvoke(None, old.config)
    body.go.set()
    await first

    assert len(body.ran) == 1


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("thread", ["new", "known"])
async def test_of_two_inputs_at_once_one_reaches_its_node_without_a_claim(pair, mode, thread, monkeypatch):
    body = Body()
    body.go.set()
    graphs = [plain(saver, body) for saver in pair]
    if thread == "known":
        await graphs[0].ainvoke({"x": 0}, cfg())
        body.ran.clear()
    here, both = [], asyncio.Event()
    for saver in pair:

        async def load(config, load=saver.aget_tuple):
            found = await load(config)
            here.append(1)
            if len(here) == 2:
                both.set()
            await both.wait()
            return found

        async def claim(thread_id):
            raise AssertionError("an input needs no claim")

        monkeypatch.setattr(saver, "aget_tuple", load)
        monkeypatch.setattr(saver, "aclaim", claim)

    done, errors = await settled(
        *(graph.ainvoke({"x": n}, cfg(), durability=mode) for n, graph in enumerate(graphs, 1))
    )

    assert len(done) == len(errors) == len(body.ran) == 1
    assert isinstance(errors[0], ThreadConflictError)


# -- what the one that was refused may do -----------------------------------------------------------------------


async def test_an_answer_that_comes_again_afterwards_is_refused(pair):
    graphs, body, _, config = await prepared("an answer", pair)
    question = (await graphs[0].aget_state(config)).interrupts[0].id
    first = await body.begin(graphs[0].ainvoke(Command(resume={question: "yes"}), config))
    queued = cfg(multitask_strategy="enqueue")
    second = asyncio.ensure_future(graphs[1].ainvoke(Command(resume={question: "no"}), queued))
    body.go.set()
    await first

    with pytest.raises(UnknownInterruptError):
        await second
    assert body.ran == ["yes"]


async def test_a_run_that_waits_looks_from_time_to_time_and_sees_what_the_other_stored(files):
    graphs, body, value, config = await prepared("no input", files)
    clock = graphs[1].clock = FakeClock()
    first = await body.begin(graphs[0].ainvoke(value, config))
    second = asyncio.ensure_future(graphs[1].ainvoke(value, cfg(multitask_strategy="enqueue")))
    for _ in range(7):
        await clock.sleepers()
        await clock.advance(clock.slept[-1])
    await clock.sleepers()
    body.go.set()
    result = await first
    await clock.advance(0.25)

    assert clock.slept == [0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.25]
    assert await second == result
    assert body.ran == [1]


async def test_a_run_that_waits_can_be_cancelled(files):
    graphs, body, value, config = await prepared("no input", files)
    clock = graphs[1].clock = FakeClock()
    first = await body.begin(graphs[0].ainvoke(value, config))
    second = asyncio.ensure_future(graphs[1].ainvoke(value, cfg(multitask_strategy="enqueue")))
    await clock.sleepers()
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    body.go.set()
    await first

    assert files[1].leases == {}
    assert body.ran == [1]


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_a_run_of_another_saver_cannot_be_stopped(files, strategy):
    graphs, body, value, config = await prepared("no input", files)
    first = await body.begin(graphs[0].ainvoke(value, config))

    with pytest.raises(ThreadConflictError, match=f"multitask_strategy='{strategy}' cannot stop it from here"):
        await graphs[1].ainvoke(value, cfg(multitask_strategy=strategy))
    body.go.set()
    await first

    assert body.ran == [1]


async def test_a_run_inside_a_node_does_not_wait_for_the_run_around_it(files):
    body = Body()
    body.go.set()
    inner = asking(files[1], body)

    async def calls(value):
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}, "multitask_strategy": "enqueue"}
        await inner.ainvoke(Command(resume="yes"), config)

    outer = asking(files[0], calls)
    await outer.ainvoke({"x": 1}, cfg())

    with pytest.raises(ThreadConflictError, match="the very run"):
        await outer.ainvoke(Command(resume="yes"), cfg())
    assert body.ran == []


async def test_a_state_can_be_edited_while_a_run_holds_a_claim_and_the_run_notices(pair):
    graphs, body, value, config = await prepared("no input", pair)
    first = await body.begin(graphs[0].ainvoke(value, config))
    await graphs[1].aupdate_state(config, {"x": 5}, as_node="__start__")
    body.go.set()

    with pytest.raises(ThreadConflictError):
        await first
    assert (await graphs[1].aget_state(config)).values["x"] == 5


async def test_without_claims_the_first_who_stores_wins(tmp_path):
    async with two(lambda: AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", claims=False)) as savers:
        graphs, body, value, config = await prepared("no input", savers)
        first = await body.begin(graphs[0].ainvoke(value, config))
        await graphs[1].ainvoke(value, config)
        body.go.set()

        with pytest.raises(ThreadConflictError):
            await first
        assert len(body.ran) == 2
        assert [path.name for path in tmp_path.glob("*claims*")] == []


# -- how it ends ------------------------------------------------------------------------------------------------


async def free(graphs, value, config, body):
    """Tell whether the other saver can run now."""
    body.error = None
    body.go.set()
    await graphs[1].ainvoke(value, config)
    return True


async def test_a_run_that_failed_holds_nothing(pair):
    graphs, body, value, config = await prepared("no input", pair)
    body.error = ValueError("no")
    body.go.set()
    with pytest.raises(ValueError, match="no"):
        await graphs[0].ainvoke(value, config)

    assert await free(graphs, value, config, body)


async def test_a_cancelled_run_holds_nothing(pair):
    graphs, body, value, config = await prepared("no input", pair)
    first = await body.begin(graphs[0].ainvoke(value, config))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert await free(graphs, value, config, body)


async def test_a_run_that_is_cancelled_at_any_moment_holds_nothing(files):
    graphs, body, value, config = await prepared("an answer", files)
    turns = 0
    while not body.entered.is_set():
        turns += 1
        first = asyncio.ensure_future(graphs[0].ainvoke(value, config))
        for _ in range(turns):
            await asyncio.sleep(0)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        claim = await files[1].aclaim("t")

        assert claim is not None
        await claim.arelease()


async def test_a_stream_that_was_closed_holds_nothing(pair):
    graphs, body, value, config = await prepared("no input", pair)
    async for _ in graphs[0].astream(value, config, stream_mode="debug"):
        break
    stream = graphs[0].astream(value, config, stream_mode="tasks")
    await anext(stream)
    await stream.aclose()

    assert await free(graphs, value, config, body)


async def test_a_stream_that_was_dropped_holds_nothing(files):
    graphs, body, value, config = await prepared("no input", files)
    stream = graphs[0].astream(value, config, stream_mode="tasks")
    await anext(stream)
    del stream
    gc.collect()
    body.go.set()

    result = await graphs[1].ainvoke(value, cfg(multitask_strategy="enqueue"))

    assert result["log"] == [1]


async def test_a_run_that_pauses_again_holds_nothing(pair):
    async def node(state):
        return {"log": [interrupt("one"), interrupt("two")]}

    graphs = [flat(node, saver) for saver in pair]
    await graphs[0].ainvoke({"x": 1}, cfg())
    await graphs[0].ainvoke(Command(resume=1), cfg())

    assert (await graphs[1].ainvoke(Command(resume=2), cfg()))["log"] == [1, 2]


async def test_a_refused_answer_holds_nothing(pair):
    graphs, body, value, config = await prepared("an answer", pair)
    question = (await graphs[0].aget_state(config)).interrupts[0].id
    with pytest.raises(UnknownInterruptError):
        await graphs[0].ainvoke(Command(resume={question: 1, "0" * 32: 1}), config)

    assert await free(graphs, value, config, body)
