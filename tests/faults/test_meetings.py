"""Failures, pauses and limits that meet one another in one superstep or one run."""

import asyncio
from typing import Any

import pytest
from drawings import State, chain, logs
from threads import on, stored

from langgraph_async import START, Command, Runtime, StateGraph, interrupt
from langgraph_async.aio.clock import FakeClock
from langgraph_async.cache.memory import InMemoryCache
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import GraphDrained, NodeError
from langgraph_async.func import entrypoint, task
from langgraph_async.types import CachePolicy, RetryPolicy


def parallel(saver: Any = None, **nodes: Any) -> Any:
    builder = StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_question_beside_a_failure_stays_and_can_be_answered(durability):
    asked, broken = asyncio.Event(), [True]

    async def asks(state):
        asked.set()
        return {"log": [interrupt("?")]}

    async def bad(state):
        await asked.wait()
        for _ in range(3):
            await asyncio.sleep(0)
        if broken[0]:
            raise ConnectionError
        return {"log": ["mended"]}

    graph = parallel(InMemorySaver(), asks=asks, bad=bad)
    with pytest.raises(ConnectionError):
        await graph.ainvoke({"log": []}, on(), durability=durability)
    state = await graph.aget_state(on())
    assert state.next == ("asks", "bad")
    assert [question.value for question in state.interrupts] == ["?"]

    broken[0] = False
    result = await graph.ainvoke(Command(resume="yes"), on(), durability=durability)

    assert result == {"log": ["yes", "mended"]}


async def test_a_handler_knows_where_it_runs():
    seen = []

    async def bad(state):
        raise ValueError

    async def handler(state, error: NodeError, runtime: Runtime):
        info = runtime.execution_info
        seen.append((error.node, info.node_attempt, info.thread_id))

    builder = StateGraph(State).add_node("bad", bad, error_handler=handler).add_edge(START, "bad")
    await builder.compile(checkpointer=InMemorySaver()).ainvoke({"log": []}, on())

    assert seen == [("bad", 1, "t")]


async def test_a_command_for_the_graph_around_is_taken_under_a_step_timeout():
    async def leave(state):
        await asyncio.sleep(0)
        return Command(graph=Command.PARENT, update={"log": ["left"]}, goto="after")

    inner = StateGraph(State).add_node("leave", leave).add_edge(START, "leave").compile(step_timeout=30)
    builder = StateGraph(State).add_node("inner", inner).add_node("after", logs("after")).add_edge(START, "inner")

    assert await builder.compile(step_timeout=30).ainvoke({"log": []}) == {"log": ["left", "after"]}


async def test_a_drained_run_that_takes_too_long_can_be_cancelled_and_the_thread_goes_on():
    reached, first = asyncio.Event(), [True]

    async def slow(state):
        if first[0]:
            first[0] = False
            reached.set()
            await asyncio.Event().wait()
        return {"log": ["slow"]}

    graph = chain(saver=InMemorySaver(), a=logs("a"), slow=slow, b=logs("b"))
    run = graph.start({"log": []}, on())
    await reached.wait()
    run.drain("deploying")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert len(asyncio.all_tasks()) == 1
    assert await graph.ainvoke(None, on()) == {"log": ["a", "slow", "b"]}


async def test_a_run_drained_from_elsewhere_beside_others_stops_alone():
    gates = [asyncio.Event() for _ in range(3)]
    reached = [asyncio.Event() for _ in range(3)]

    async def wait(state):
        reached[state["x"]].set()
        await gates[state["x"]].wait()
        return {"log": ["wait"]}

    graph = chain(wait=wait, after=logs("after"))
    runs = [graph.start({"log": [], "x": place}) for place in range(3)]
    for each in reached:
        await each.wait()
    runs[1].drain()
    for gate in gates:
        gate.set()
    found = await asyncio.gather(*(run_of(run) for run in runs), return_exceptions=True)

    assert isinstance(found[1], GraphDrained)
    assert [found[place]["log"] for place in (0, 2)] == [["wait", "after"]] * 2


async def run_of(run):
    return await run


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_task_that_is_tried_again_gives_its_value(streamed):
    tries = []

    @task(retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    async def flaky():
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError
        return "value"

    @entrypoint()
    async def flow(_: int):
        return await flaky()

    if streamed:
        assert [item async for item in flow.astream(1)] == [{"flaky": "value"}, {"flow": "value"}]
    else:
        assert await flow.ainvoke(1) == "value"


async def test_a_run_that_stores_at_its_end_has_one_checkpoint_without_a_parent_and_nothing_pending():
    saver = InMemorySaver()
    graph = chain(saver=saver, a=logs("a"), b=logs("b"))

    await graph.ainvoke({"log": []}, on(), durability="exit")

    found = [c async for c in saver.alist(on())]
    assert [(c.parent_config, c.pending_writes) for c in found] == [(None, [])]


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_run_that_has_ended_leaves_nothing_pending(durability):
    saver = InMemorySaver()
    await chain(saver=saver, a=logs("a")).ainvoke({"log": []}, on(), durability=durability)

    found = await saver.aget_tuple(on())
    assert found is not None
    assert found.pending_writes == []


@pytest.mark.parametrize("waits_in", ["aget", "aset"])
async def test_a_run_that_waits_for_its_cache_can_be_cancelled_and_keeps_what_was_finished(waits_in):
    reached, hanging = asyncio.Event(), [True]

    class Hanging(InMemoryCache[Any]):
        async def aget(self, keys):
            await self.hang("aget")
            return await super().aget(keys)

        async def aset(self, pairs):
            await self.hang("aset")
            await super().aset(pairs)

        async def hang(self, method):
            if method == waits_in and hanging[0]:
                reached.set()
                await asyncio.Event().wait()

    builder = StateGraph(State).add_node("a", logs("a"), cache_policy=CachePolicy()).add_edge(START, "a")
    graph = builder.compile(cache=Hanging(), checkpointer=InMemorySaver())
    run = graph.start({"log": []}, on())
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert len(asyncio.all_tasks()) == 1
    hanging[0] = False
    assert "a" in (await stored(graph, on())).next or waits_in == "aset"
    assert await graph.ainvoke(None, on()) == {"log": ["a"]}


@pytest.mark.parametrize("exc", [StopIteration("s"), StopAsyncIteration("s"), BaseException("b")])
@pytest.mark.parametrize("way", ["alone", "gathered", "sync"])
async def test_whatever_a_task_raises_reaches_who_awaits_it(exc, way):
    @task
    async def bad():
        raise exc

    @task
    def sync_bad():
        raise exc

    @task
    async def good():
        return 1

    @entrypoint()
    async def flow(_: int):
        try:
            if way == "gathered":
                await asyncio.gather(good(), bad())
            else:
                await (bad() if way == "alone" else sync_bad())
        except BaseException as raised:
            return origin(raised) is exc

    async with asyncio.timeout(10):
        assert await flow.ainvoke(1) is True
    assert len(asyncio.all_tasks()) == 1


def origin(raised: BaseException | None) -> BaseException | None:
    """What Python wrapped: a StopIteration cannot leave a coroutine."""
    while raised is not None and isinstance(raised, RuntimeError) and raised.__cause__ is not None:
        raised = raised.__cause__
    return raised


@pytest.mark.parametrize("exc", [StopIteration("s"), StopAsyncIteration("s"), GeneratorExit("g"), BaseException("b")])
@pytest.mark.parametrize("where", ["retried", "handled", "in the handler", "timed"])
async def test_whatever_a_node_raises_under_a_policy_ends_the_run_or_is_handled(exc, where):
    async def bad(state):
        raise exc

    async def handler(state, error: NodeError):
        if where == "in the handler":
            raise exc
        return {"log": [type(error.error).__name__]}

    options: dict[str, Any] = {
        "retried": {"retry_policy": RetryPolicy(initial_interval=0, jitter=False)},
        "handled": {"error_handler": handler},
        "in the handler": {"error_handler": handler},
        "timed": {"timeout": 30},
    }[where]
    graph = StateGraph(State).add_node("bad", bad, **options).add_edge(START, "bad").compile()
    graph.clock = FakeClock() if where == "timed" else graph.clock

    result = await outcome(graph.ainvoke({"log": []}))

    if isinstance(result, BaseException):
        assert origin(result) is exc
    else:
        assert where == "handled"
        assert len(result["log"]) == 1
    assert len(asyncio.all_tasks()) == 1


async def outcome(awaitable):
    try:
        async with asyncio.timeout(10):
            return await awaitable
    except BaseException as exc:
        return exc
