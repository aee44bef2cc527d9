"""Nodes and functional tasks that may only take so long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from operator import add
from typing import Annotated, Any

import pytest
from threads import on
from typing_extensions import TypedDict

from langgraph_async.aio.clock import FakeClock
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import GraphBuildError, NodeError, NodeTimeoutError
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import START, StateGraph
from langgraph_async.pregel.deadline import GRACE_S
from langgraph_async.runtime import Runtime
from langgraph_async.types import RetryPolicy, Send, TimeoutPolicy, interrupt


class State(TypedDict):
    log: Annotated[list[str], add]


async def forever(state: State) -> State:
    await asyncio.Event().wait()
    raise AssertionError


def start(node: Any, clock: FakeClock, **options: Any) -> "asyncio.Task[Any]":
    graph = StateGraph(State).add_node("a", node, **options).add_edge(START, "a").compile()
    graph.clock = clock
    return asyncio.create_task(graph.ainvoke({"log": []}))


async def test_a_node_that_takes_too_long_is_cancelled_and_fails() -> None:
    clock, ended = FakeClock(), []

    async def slow(state: State) -> State:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        raise AssertionError

    run = start(slow, clock, timeout=2)
    await clock.sleepers()
    await clock.advance(1.9)
    assert not run.done()
    await clock.advance(0.2)
    with pytest.raises(NodeTimeoutError, match=r"Node 'a' exceeded its run timeout of 2\.000s") as caught:
        await run
    assert (caught.value.kind, caught.value.run_timeout, ended) == ("run", 2.0, [True])


async def test_a_node_that_is_fast_enough_is_left_alone() -> None:
    async def fast(state: State) -> State:
        await asyncio.sleep(0)
        return {"log": ["fast"]}

    assert await start(fast, FakeClock(), timeout=2) == {"log": ["fast"]}


async def test_a_timeout_that_the_node_raises_itself_passes_unchanged() -> None:
    async def own(state: State) -> State:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await start(own, FakeClock(), timeout=2)


async def test_heartbeats_put_the_idle_limit_off_but_not_the_run_limit() -> None:
    clock, beat = FakeClock(), asyncio.Event()

    async def alive(state: State, runtime: Runtime) -> State:
        while True:
            await beat.wait()
            beat.clear()
            runtime.heartbeat()

    run = start(alive, clock, timeout=TimeoutPolicy(run_timeout=3, idle_timeout=1, refresh_on="heartbeat"))
    await clock.sleepers()
    for _ in range(4):
        beat.set()
        await clock.advance(0.7)
        assert not run.done()
    beat.set()
    await clock.advance(0.3)
    with pytest.raises(NodeTimeoutError) as caught:
        await run
    assert caught.value.kind == "run"


async def test_silence_ends_a_node_with_an_idle_limit() -> None:
    clock = FakeClock()
    run = start(forever, clock, timeout=TimeoutPolicy(idle_timeout=1))
    await clock.sleepers()
    await clock.advance(1)
    with pytest.raises(NodeTimeoutError, match="idle timeout"):
        await run


@pytest.mark.parametrize(("refresh_on", "lives"), [("auto", True), ("heartbeat", False)])
async def test_chunks_are_signs_of_life_unless_only_heartbeats_count(refresh_on: Any, lives: bool) -> None:
    clock, go = FakeClock(), asyncio.Event()

    async def chatty(state: State, runtime: Runtime) -> State:
        await go.wait()
        runtime.stream_writer("chunk")
        await asyncio.Event().wait()
        raise AssertionError

    run = start(chatty, clock, timeout=TimeoutPolicy(idle_timeout=1, refresh_on=refresh_on))
    await clock.sleepers()
    await clock.advance(0.6)
    go.set()
    await clock.advance(0)
    await clock.advance(0.6)
    assert run.done() is not lives
    run.cancel()
    with pytest.raises((asyncio.CancelledError, NodeTimeoutError)):
        await run


async def test_what_a_generator_yields_is_a_sign_of_life() -> None:
    clock, go = FakeClock(), asyncio.Event()

    async def yields(state: State) -> AsyncIterator[State]:
        await go.wait()
        yield {"log": ["one"]}
        await asyncio.Event().wait()

    run = start(yields, clock, timeout=TimeoutPolicy(idle_timeout=1))
    await clock.sleepers()
    await clock.advance(0.6)
    go.set()
    await clock.advance(0)
    await clock.advance(0.6)
    assert not run.done()
    await clock.advance(0.4)
    with pytest.raises(NodeTimeoutError):
        await run


async def test_a_node_that_swallows_its_cancellation_has_a_bounded_time_to_end() -> None:
    clock, release = FakeClock(), asyncio.Event()

    async def stubborn(state: State) -> State:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()
        return {"log": ["late"]}

    run = start(stubborn, clock, timeout=1)
    await clock.sleepers()
    await clock.advance(1)
    assert not run.done()
    await clock.advance(GRACE_S)
    with pytest.raises(NodeTimeoutError) as caught:
        await run
    assert "swallowed its cancellation" in str(caught.value.__notes__)
    release.set()
    await asyncio.sleep(0)


async def test_what_a_timed_out_node_returns_after_all_is_ignored() -> None:
    clock = FakeClock()

    async def returns(state: State) -> State:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return {"log": ["late"]}

    run = start(returns, clock, timeout=1)
    await clock.sleepers()
    await clock.advance(1)
    with pytest.raises(NodeTimeoutError):
        await run


async def test_late_calls_of_a_timed_out_node_are_refused() -> None:
    clock, refused = FakeClock(), []

    @task
    async def child() -> None:
        refused.append("ran")

    async def late(state: State) -> State:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await child()
            except asyncio.CancelledError:
                refused.append("refused")
        raise AssertionError

    run = start(late, clock, timeout=1)
    await clock.sleepers()
    await clock.advance(1)
    with pytest.raises(NodeTimeoutError):
        await run
    assert refused == ["refused"]


async def test_each_attempt_has_its_own_time() -> None:
    clock, tries = FakeClock(), []

    async def slow_once(state: State) -> State:
        tries.append(clock.monotonic())
        if len(tries) == 1:
            await asyncio.Event().wait()
        return {"log": ["done"]}

    run = start(slow_once, clock, timeout=1, retry_policy=RetryPolicy(initial_interval=5, jitter=False))
    await clock.sleepers()
    await clock.advance(1)
    await clock.advance(5)
    assert await run == {"log": ["done"]}
    assert tries == [0, 6]


async def test_a_timeout_is_handled_by_the_error_handler() -> None:
    async def handler(state: State, error: NodeError) -> State:
        return {"log": [type(error.error).__name__]}

    clock = FakeClock()
    run = start(forever, clock, timeout=1, error_handler=handler)
    await clock.sleepers()
    await clock.advance(1)
    assert await run == {"log": ["NodeTimeoutError"]}


async def test_cancelling_a_run_cancels_a_timed_node_and_waits_for_it() -> None:
    clock, ended = FakeClock(), []

    async def slow(state: State) -> State:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)
        raise AssertionError

    run = start(slow, clock, timeout=1)
    await clock.sleepers()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == [True]


def ends_well(state: State) -> State:
    return {"log": ["timed"]}


def ends_badly(state: State) -> State:
    raise ConnectionError


def ends_in_a_question(state: State) -> State:
    return {"log": [interrupt("?")]}


@pytest.mark.parametrize("end", [ends_well, ends_badly, ends_in_a_question])
@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize("alone", [False, True])
async def test_a_run_can_be_cancelled_at_any_turn_around_the_end_of_a_timed_node(
    end: Any, handled: bool, alone: bool
) -> None:
    last_ran = asyncio.Event()
    for turn in range(1_000):

        async def timed(state: State) -> State:
            await asyncio.sleep(0)
            return end(state)

        async def last(state: State) -> State:
            last_ran.set()
            await asyncio.sleep(0)
            return state

        retry = RetryPolicy(max_attempts=2, initial_interval=0, jitter=False)
        builder = StateGraph(State).add_node("last", last).add_edge(START, "timed").add_edge("timed", "last")
        builder.add_node("timed", timed, timeout=100, retry_policy=retry, error_handler=last if handled else None)
        if not alone:
            builder.add_node("beside", timed, timeout=100).add_edge(START, "beside")
        graph = builder.compile(checkpointer=InMemorySaver())
        run = asyncio.create_task(graph.ainvoke({"log": []}, on()))
        for _ in range(turn):
            await asyncio.sleep(0)
        if last_ran.is_set() or run.done():
            break
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled(), (turn, run)
        assert len(asyncio.all_tasks()) == 1
    run.cancel()
    await asyncio.wait([run])
    assert turn > 4


@pytest.mark.parametrize("ending", ["cancelled", "swallowed"])
async def test_a_run_that_is_cancelled_while_a_timed_out_node_ends_is_cancelled(ending: str) -> None:
    clock, told, attempts = FakeClock(), asyncio.Event(), []

    async def slow(state: State) -> State:
        attempts.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            if ending == "cancelled":
                raise
        return {"log": ["slow"]}

    retry = RetryPolicy(max_attempts=2, retry_on=NodeTimeoutError)
    run = start(slow, clock, timeout=1, retry_policy=retry, error_handler=forever)
    await clock.sleepers()
    await clock.advance(1.5)
    await told.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert attempts == [1]


async def test_a_timed_node_that_ended_as_its_run_was_cancelled_is_not_run_again() -> None:
    for turn in range(1_000):
        made: list[str] = []

        async def timed(state: State) -> State:
            await asyncio.sleep(0)
            made.append("timed")  # noqa: B023
            return {"log": ["timed"]}

        graph = StateGraph(State).add_node("a", timed, timeout=100).add_edge(START, "a")
        compiled = graph.compile(checkpointer=InMemorySaver())
        run = asyncio.create_task(compiled.ainvoke({"log": []}, on()))
        for _ in range(turn):
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait([run])
        begun = (await compiled.aget_state(on())).created_at is not None
        assert await compiled.ainvoke(None if begun else {"log": []}, on()) == {"log": ["timed"]}
        assert made == ["timed"]
        if not run.cancelled():
            break
    assert turn > 4


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), "5", True, [], {}], ids=repr)
@pytest.mark.parametrize("form", [lambda value: value, lambda value: TimeoutPolicy(idle_timeout=value)])
def test_a_limit_that_is_no_time_is_refused(wrong: Any, form: Any) -> None:
    with pytest.raises(GraphBuildError, match=r"The timeout of 'a' cannot be used: (idle_)?timeout must be"):
        StateGraph(State).add_node("a", forever, timeout=form(wrong))


async def test_a_packet_may_bound_its_task() -> None:
    clock = FakeClock()
    builder = StateGraph(State).add_node("a", forever, timeout=100)
    builder.add_conditional_edges(START, lambda s: [Send("a", s, timeout=1)], ["a"])
    graph = builder.compile()
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    await clock.sleepers()
    await clock.advance(1)
    with pytest.raises(NodeTimeoutError, match=r"1\.000s"):
        await run


async def test_a_packet_cannot_bound_a_node_that_cannot_be_stopped() -> None:
    def plain(state: State) -> State:
        return {"log": []}

    builder = StateGraph(State).add_node("a", plain)
    builder.add_conditional_edges(START, lambda s: [Send("a", s, timeout=1)], ["a"])
    with pytest.raises(GraphBuildError, match="Node 'a' is sync"):
        await builder.compile().ainvoke({"log": []})


async def test_a_called_task_may_be_bounded() -> None:
    clock = FakeClock()

    @task(timeout=1)
    async def slow() -> None:
        await asyncio.Event().wait()

    @entrypoint()
    async def flow(value: int) -> str:
        try:
            await slow()
        except NodeTimeoutError as exc:
            return exc.node
        return "?"

    flow.clock = clock
    run = asyncio.create_task(flow.ainvoke(1))
    await clock.sleepers()
    await clock.advance(1)
    assert await run == "slow"
