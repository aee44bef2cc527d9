"""Rules of workflows that have to do with failing, stopping and time."""

import asyncio
from typing import Any

import pytest

from langgraph_async import Command, StateGraph, interrupt
from langgraph_async.aio.clock import FakeClock
from langgraph_async.cache.memory import InMemoryCache
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import GraphDrained, NodeTimeoutError
from langgraph_async.func import entrypoint, task
from langgraph_async.runtime import RunControl, Runtime
from langgraph_async.types import CachePolicy, RetryPolicy

ON: Any = {"configurable": {"thread_id": "1"}}


class Eager(FakeClock):
    """Waits for nothing."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


async def test_a_task_knows_its_attempt_and_the_calling_function_its_own() -> None:
    seen: list[tuple[str, int]] = []

    @task(retry_policy=RetryPolicy(max_attempts=3, jitter=False))
    async def flaky(runtime: Runtime) -> str:
        assert runtime.execution_info is not None
        seen.append(("task", runtime.execution_info.node_attempt))
        if len(seen) < 3:
            raise ConnectionError
        return "ok"

    @entrypoint()
    async def flow(value: int, runtime: Runtime) -> str:
        found = await flaky()
        assert runtime.execution_info is not None
        seen.append(("flow", runtime.execution_info.node_attempt))
        return found

    flow.clock = Eager()
    assert await flow.ainvoke(1) == "ok"
    assert seen == [("task", 1), ("task", 2), ("task", 3), ("flow", 1)]


async def test_a_call_of_a_timed_out_attempt_is_cancelled_with_it() -> None:
    clock, ended = FakeClock(), []

    @task
    async def child() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("child")

    @entrypoint(timeout=1)
    async def flow(value: int) -> None:
        try:
            await child()
        finally:
            ended.append("flow")

    flow.clock = clock
    run = asyncio.create_task(flow.ainvoke(1))
    await clock.sleepers()
    for _ in range(10):
        await asyncio.sleep(0)
    await clock.advance(1)
    with pytest.raises(NodeTimeoutError, match="'flow'"):
        await run
    assert sorted(ended) == ["child", "flow"]
    assert len(asyncio.all_tasks()) == 1


async def test_a_workflow_handles_the_timeout_of_a_task() -> None:
    clock = FakeClock()

    @task(timeout=1)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    @entrypoint()
    async def flow(value: int) -> str:
        try:
            return await slow()
        except NodeTimeoutError as error:
            return f"{error.node} took too long"

    flow.clock = clock
    run = asyncio.create_task(flow.ainvoke(1))
    await clock.sleepers()
    await clock.advance(1)
    assert await run == "slow took too long"


async def test_a_workflow_that_was_drained_beforehand_does_not_start_and_goes_on_later() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def flow(value: int) -> int:
        return value + 1

    control = RunControl()
    control.request_drain()
    with pytest.raises(GraphDrained, match="Graph drained: shutdown"):
        await flow.ainvoke(1, ON, control=control)
    assert await flow.ainvoke(None, ON) == 2


async def test_a_failed_call_is_stored_with_its_task_and_a_rerun_repeats_only_it() -> None:
    saver, calls = InMemorySaver(), []

    @task
    async def good(n: int) -> int:
        calls.append(f"good{n}")
        return n

    @task
    async def bad() -> int:
        calls.append("bad")
        if calls.count("bad") == 1:
            raise ValueError("boom")
        return 9

    @entrypoint(checkpointer=saver)
    async def flow(value: int) -> list[int]:
        return [await good(1), await bad(), await good(2)]

    with pytest.raises(ValueError, match="boom"):
        await flow.ainvoke(1, ON)
    head = await saver.aget_tuple(ON)
    assert head is not None
    assert sorted(channel for _, channel, _ in head.pending_writes) == ["__error__", "__error__", "__return__"]
    assert await flow.ainvoke(None, ON) == [1, 9, 2]
    assert calls == ["good1", "bad", "bad", "good2"]


async def test_a_question_asked_in_a_cached_task_is_asked_again_by_the_next_run() -> None:
    cache = InMemoryCache[Any]()

    @task(cache_policy=CachePolicy())
    async def ask(what: str) -> str:
        return str(interrupt(what))

    @entrypoint(checkpointer=InMemorySaver(), cache=cache)
    async def flow(value: str) -> str:
        return await ask(value)

    for thread, answer in (("1", "yes"), ("2", "no")):
        on: Any = {"configurable": {"thread_id": thread}}
        paused = await flow.ainvoke("sure?", on)
        assert [q.value for q in paused["__interrupt__"]] == ["sure?"]
        assert await flow.ainvoke(Command(resume=answer), on) == answer


async def test_clearing_without_a_policy_does_nothing() -> None:
    cache = InMemoryCache[Any]()
    await cache.aset({(("ns",), "key"): (1, None)})

    @task
    async def plain() -> None: ...

    await plain.aclear_cache(cache)
    plain.clear_cache(cache)
    assert await cache.aget([(("ns",), "key")]) == {(("ns",), "key"): 1}


@pytest.mark.parametrize("raised", [KeyError("k"), ExceptionGroup("g", [ValueError(1)]), TimeoutError("t")])
async def test_whatever_a_task_raises_is_raised_where_it_is_awaited(raised: Exception) -> None:
    @task
    async def bad() -> None:
        raise raised

    @entrypoint()
    async def flow(value: int) -> bool:
        try:
            await bad()
        except Exception as error:
            return error is raised
        return False

    assert await flow.ainvoke(1) is True


@pytest.mark.parametrize("raised", [StopIteration("s"), StopAsyncIteration("s"), GeneratorExit("g")])
async def test_what_cannot_be_raised_through_a_future_fails_the_workflow_all_the_same(raised: BaseException) -> None:
    @task
    async def bad() -> None:
        raise raised

    @entrypoint()
    async def flow(value: int) -> None:
        await bad()

    found: BaseException | None = None
    try:
        async with asyncio.timeout(20):
            await flow.ainvoke(1)
    except BaseException as error:
        found = error
    while found is not None and found is not raised:
        found = found.__cause__
    assert found is raised
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_what_stops_the_interpreter_in_a_task_stops_the_run(raised: type[BaseException]) -> None:
    @task
    async def bad() -> None:
        raise raised

    @entrypoint()
    async def flow(value: int) -> None:
        await bad()

    with pytest.raises(raised):
        asyncio.run(flow.ainvoke(1))


async def test_a_sync_task_that_raises_stop_iteration_fails_and_does_not_hang() -> None:
    @task
    def bad() -> None:
        next(iter(()))

    @entrypoint()
    async def flow(value: int) -> None:
        await bad()

    with pytest.raises(RuntimeError, match="StopIteration"):
        async with asyncio.timeout(20):
            await flow.ainvoke(1)


async def test_a_task_called_in_a_sync_workflow_that_raises_stop_iteration_does_not_hang() -> None:
    @task
    async def bad() -> None:
        raise StopIteration("s")

    @entrypoint()
    def flow(value: int) -> None:
        bad().result()  # type: ignore[attr-defined]

    with pytest.raises(RuntimeError):
        async with asyncio.timeout(20):
            await flow.ainvoke(1)


def test_a_workflow_is_no_state_graph() -> None:
    @entrypoint()
    async def flow(value: int) -> int:
        return value

    assert not isinstance(flow, StateGraph)
    assert (list(flow.nodes), flow.stream_mode) == (["flow"], "updates")
    assert set(flow.channels) >= {"__start__", "__end__", "__previous__"}
