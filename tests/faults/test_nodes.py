"""Nodes that misbehave, and nodes of every shape."""

import asyncio
import functools
import gc

import pytest
from drawings import State, chain, logs
from threads import on, stored

from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import NodeCancelledError, siblings


class Odd(BaseException):
    pass


def parallel(saver=None, **nodes):
    builder = StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


async def outcome(awaitable):
    """What an awaitable comes to; nothing it raises may reach the event loop, which would stop."""
    try:
        async with asyncio.timeout(10):
            return await awaitable
    except BaseException as exc:
        return exc


EXCEPTIONS = [
    StopIteration("s"),
    StopAsyncIteration("s"),
    GeneratorExit("g"),
    ExceptionGroup("group", [ValueError(1), KeyError(2)]),
    BaseExceptionGroup("group", [Odd(1)]),
    Odd("odd"),
    AssertionError("a"),
    TimeoutError("t"),
    RecursionError("r"),
]


@pytest.mark.parametrize("exc", EXCEPTIONS, ids=lambda exc: type(exc).__name__)
@pytest.mark.parametrize("shape", ["alone", "parallel", "sync", "nested", "late", "stream", "router"])
async def test_whatever_a_node_raises_reaches_the_caller_and_is_recorded(exc, shape):
    async def bad(state):
        raise exc

    async def late(state):
        await asyncio.sleep(0)
        raise exc

    def sync(state):
        raise exc

    saver = InMemorySaver()
    if shape == "parallel":
        graph = parallel(saver, a=logs("a"), bad=late, z=logs("z"))
    elif shape == "nested":
        graph = chain(saver=saver, bad=chain(inner=bad))
    elif shape == "router":
        builder = StateGraph(State)
        builder.add_node("bad", logs("bad"))
        builder.add_edge(START, "bad")
        builder.add_conditional_edges("bad", sync)
        graph = builder.compile(checkpointer=saver)
    else:
        graph = chain(saver=saver, bad={"sync": sync, "late": late}.get(shape, bad))

    async def read():
        return [item async for item in graph.astream({"log": []}, on())]

    raised = await outcome(read() if shape == "stream" else graph.ainvoke({"log": []}, on()))

    # Python itself turns a StopIteration that leaves a coroutine into a RuntimeError.
    found = raised
    while found is not exc and isinstance(found, BaseException):
        found = found.__cause__
    assert found is exc
    assert "bad" in (await stored(graph, on())).next
    assert len(asyncio.all_tasks()) == 1
    assert not saver.leases


@pytest.mark.parametrize("exc", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("shape", ["alone", "parallel", "sync", "nested"])
def test_an_exception_that_stops_the_interpreter_stops_the_run_and_leaves_no_task(exc, shape):
    """The event loop lets it through wherever it is; after that, nothing of the run may be left."""

    async def bad(state):
        raise exc

    def sync(state):
        raise exc

    async def main():
        if shape == "parallel":
            graph = parallel(a=logs("a"), bad=bad)
        elif shape == "nested":
            graph = chain(sub=chain(bad=bad))
        else:
            graph = chain(bad=sync if shape == "sync" else bad)
        await graph.ainvoke({"log": []})

    with pytest.raises(exc):
        asyncio.run(main())


@pytest.mark.parametrize("shape", ["alone", "parallel"])
async def test_a_cancelled_error_raised_by_a_node_is_a_failure_of_the_node(shape):
    async def bad(state):
        raise asyncio.CancelledError

    graph = parallel(bad=bad) if shape == "alone" else parallel(a=logs("a"), bad=bad, z=logs("z"))
    with pytest.raises(NodeCancelledError, match="'bad'"):
        await graph.ainvoke({})


@pytest.mark.parametrize("swallows", [1, 3])
async def test_a_node_that_swallows_a_cancellation_leaves_no_task_behind(swallows):
    reached = asyncio.Event()

    async def stubborn(state):
        reached.set()
        for _ in range(swallows):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                for _ in range(3):
                    await asyncio.sleep(0)
                break
        return {"log": ["stubborn"]}

    for graph in (parallel(s=stubborn), parallel(s=stubborn, t=logs("t")), chain(s=stubborn, after=logs("after"))):
        reached.clear()
        run = asyncio.create_task(graph.ainvoke({}))
        await reached.wait()
        run.cancel()
        await asyncio.wait([run])

        assert run.done()
        assert len(asyncio.all_tasks()) == 1


async def test_a_sibling_that_swallows_its_cancellation_does_not_hide_the_failure():
    async def stubborn(state):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return {"log": ["stubborn"]}

    async def bad(state):
        await asyncio.sleep(0)
        raise ConnectionError

    graph = parallel(InMemorySaver(), s=stubborn, bad=bad)
    with pytest.raises(ConnectionError):
        await graph.ainvoke({"log": []}, on())

    assert (await stored(graph, on())).next == ("bad",)
    assert len(asyncio.all_tasks()) == 1


async def test_a_node_that_raises_while_it_is_cancelled_does_not_hide_the_cancellation_from_the_caller():
    reached = asyncio.Event()

    async def bad(state):
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectionError("clean-up")

    for graph in (parallel(bad=bad), parallel(bad=bad, t=logs("t"))):
        reached.clear()
        run = asyncio.create_task(graph.ainvoke({}))
        await reached.wait()
        run.cancel()
        raised = await outcome(run)

        assert isinstance(raised, (asyncio.CancelledError, ConnectionError))
        assert len(asyncio.all_tasks()) == 1


async def test_tasks_that_a_node_leaves_behind_are_its_own_and_the_run_does_not_wait_for_them():
    left: list = []

    async def leaves(state):
        left.append(asyncio.create_task(asyncio.sleep(3600)))
        return {"log": ["left"]}

    assert await chain(leaves=leaves).ainvoke({}) == {"log": ["left"]}
    left[0].cancel()
    await asyncio.wait(left)


async def test_every_failure_during_the_clean_up_of_cancelled_siblings_is_attached():
    async def messy(state):
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("clean-up")

    async def bad(state):
        await asyncio.sleep(0)
        raise ConnectionError

    with pytest.raises(ConnectionError) as caught:
        await parallel(m1=messy, m2=messy, bad=bad).ainvoke({})

    assert len(siblings(caught.value)) == 2


async def test_a_node_that_blocks_the_loop_is_cancelled_at_its_next_await_and_the_thread_goes_on():
    saver, turns = InMemorySaver(), []

    async def blocks(state):
        for turn in range(3):
            sum(range(200_000))  # nobody else runs meanwhile
            turns.append(turn)
            await asyncio.sleep(0)
        return {"log": ["blocks"]}

    graph = chain(saver=saver, a=logs("a"), blocks=blocks)
    run = graph.start({"log": []}, on())
    while not turns:
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert turns == [0]
    assert len(asyncio.all_tasks()) == 1
    assert await graph.ainvoke(None, on()) == {"log": ["a", "blocks"]}


async def test_a_task_that_a_cancelled_node_leaves_behind_can_neither_write_nor_call_into_the_run():
    reached, go_on, refused = asyncio.Event(), asyncio.Event(), []
    left: list = []
    inner = chain(inner=logs("inner"))

    async def late(writer):
        await go_on.wait()
        with pytest.warns(RuntimeWarning, match="after it was done"):
            writer("late")
        try:
            inner.start({"log": []})
        except RuntimeError as exc:
            refused.append(str(exc))

    async def leaves(state, writer):
        left.append(asyncio.create_task(late(writer)))
        reached.set()
        await asyncio.Event().wait()

    run = chain(leaves=leaves).start({"log": []}, stream_mode="custom")
    await reached.wait()
    await run.aclose()
    go_on.set()
    await asyncio.wait_for(left[0], 10)

    assert ["outlived node 'leaves'" in text for text in refused] == [True]
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("exc", EXCEPTIONS, ids=lambda exc: type(exc).__name__)
async def test_whatever_a_node_raises_reaches_those_who_hold_its_run(exc):
    async def bad(state):
        await asyncio.sleep(0)
        raise exc

    run = chain(a=logs("a"), bad=bad).start({"log": []}, stream_mode="updates")
    parts = []

    async def read():
        async for part in run:
            parts.append(part)

    assert same(await outcome(read()), exc)
    assert parts == [{"a": {"log": ["a"]}}]
    assert same(await outcome(run), exc)
    assert len(asyncio.all_tasks()) == 1


def same(raised, exc):
    """Whether it is that exception; Python itself wraps those that would end a generator or coroutine."""
    return raised is exc or (isinstance(raised, RuntimeError) and raised.__cause__ is exc)


@pytest.mark.parametrize("exc", [KeyboardInterrupt, SystemExit])
def test_an_exception_that_stops_the_interpreter_stops_a_run_that_is_held(exc):
    ended = []

    async def bad(state):
        await asyncio.sleep(0)
        raise exc

    async def waits(state):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def main():
        async with parallel(bad=bad, waits=waits).start({"log": []}) as run:
            await run

    with pytest.raises(exc):
        asyncio.run(main())
    assert ended == ["waits"]


# -- shapes ------------------------------------------------------------------------------------------------------


async def plain(state):
    return {"log": ["ok"]}


async def with_word(word, state):
    return {"log": [word]}


def sync_word(word, state):
    return {"log": [word]}


class Shapes:
    async def method(self, state):
        return {"log": ["ok"]}

    def sync_method(self, state):
        return {"log": ["ok"]}

    def returns_coroutine(self, state):
        return plain(state)

    @staticmethod
    async def static(state):
        return {"log": ["ok"]}

    @classmethod
    async def of_class(cls, state):
        return {"log": ["ok"]}


class AsyncCallable:
    async def __call__(self, state):
        return {"log": ["ok"]}


class SyncCallable:
    def __call__(self, state):
        return {"log": ["ok"]}


class Runnable:
    async def ainvoke(self, input, config=None):
        assert config["configurable"]["checkpoint_ns"].startswith("node:")
        return {"log": ["ok"]}


class Awaitable:
    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return {"log": ["ok"]}


def decorated(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapper


SHAPES = {
    "function": plain,
    "sync": lambda state: {"log": ["ok"]},
    "lambda_coroutine": lambda state: plain(state),
    "lambda_awaitable": lambda state: Awaitable(),
    "partial": functools.partial(with_word, "ok"),
    "partial_sync": functools.partial(sync_word, "ok"),
    "partial_partial": functools.partial(functools.partial(with_word, "ok")),
    "method": Shapes().method,
    "sync_method": Shapes().sync_method,
    "method_coroutine": Shapes().returns_coroutine,
    "static": Shapes.static,
    "class_method": Shapes.of_class,
    "callable": AsyncCallable(),
    "sync_callable": SyncCallable(),
    "partial_callable": functools.partial(AsyncCallable()),
    "runnable": Runnable(),
    "decorated": decorated(plain),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_node_may_have_any_shape(shape):
    assert await chain(node=SHAPES[shape]).ainvoke({}) == {"log": ["ok"]}
    assert await chain(before=logs("before"), node=SHAPES[shape]).ainvoke({}) == {"log": ["before", "ok"]}


@pytest.mark.parametrize("value", ["text", 1, ("a", 1), object(), [1], [{"log": []}], b"bytes", True])
async def test_a_result_that_is_no_update_is_refused_by_name(value):
    async def bad(state):
        return value

    from langgraph_async.errors import InvalidUpdateError

    with pytest.raises(InvalidUpdateError, match=r"(?s)Expected dict.*'bad'"):
        await chain(bad=bad).ainvoke({})


async def test_a_coroutine_that_an_async_node_returns_unawaited_is_refused_without_a_leak():
    """A coroutine never awaited would warn; the error says what happened instead."""
    from langgraph_async.errors import InvalidUpdateError

    made: list = []

    async def bad(state):
        made.append(plain(state))
        return made[0]

    raised = await outcome(chain(bad=bad).ainvoke({}))
    assert raised == {"log": ["ok"]} or isinstance(raised, InvalidUpdateError)
    made[0].close()
    gc.collect()
