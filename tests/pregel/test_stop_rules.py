"""Draining, cancelling and what nodes are told while graphs inside, handlers and hand-made nodes run."""

import asyncio
import gc
from operator import add
from typing import Annotated, Any

import anyio
import pytest
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph, interrupt
from langgraph_async.aio.clock import FakeClock
from langgraph_async.cache.memory import InMemoryCache
from langgraph_async.channels import LastValue
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.constants import INTERRUPT
from langgraph_async.errors import GraphDrained, NodeError, NodeTimeoutError
from langgraph_async.pregel import NodeBuilder, Pregel
from langgraph_async.runtime import RunControl, Runtime
from langgraph_async.types import CachePolicy, Command, RetryPolicy, Send


class State(TypedDict):
    log: Annotated[list[str], add]


ON: Any = {"configurable": {"thread_id": "1"}}


def chain(saver: Any = None, **nodes: Any) -> Any:
    builder, before = StateGraph(State), START
    for name, node in nodes.items():
        builder.add_node(name, node).add_edge(before, name)
        before = name
    return builder.compile(checkpointer=saver)


def says(text: str) -> Any:
    async def node(state: State) -> State:
        return {"log": [text]}

    return node


# -- drain -----------------------------------------------------------------------------------------------------


async def test_a_drain_asked_for_from_outside_lets_all_nodes_of_the_step_finish() -> None:
    control, started, go = RunControl(), asyncio.Event(), asyncio.Event()

    async def waits(state: State) -> State:
        started.set()
        await go.wait()
        return {"log": ["waited"]}

    builder = StateGraph(State).add_node("a", waits).add_node("b", says("b")).add_node("c", says("c"))
    builder.add_edge(START, "a").add_edge(START, "b").add_edge("b", "c")
    graph = builder.compile(checkpointer=InMemorySaver())
    run = asyncio.create_task(graph.ainvoke({"log": []}, ON, control=control))
    await started.wait()
    control.request_drain("deploy")
    go.set()
    with pytest.raises(GraphDrained) as caught:
        await run
    assert (caught.value.reason, str(caught.value)) == ("deploy", "Graph drained: deploy")
    shown = await graph.aget_state(ON)
    assert (shown.values, shown.next) == ({"log": ["waited", "b"]}, ("c",))
    assert await graph.ainvoke(None, ON) == {"log": ["waited", "b", "c"]}


async def test_a_drain_that_takes_too_long_may_be_followed_by_a_cancellation() -> None:
    control, started, ended = RunControl(), asyncio.Event(), []

    async def stuck(state: State) -> State:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stuck")
        raise AssertionError

    graph = chain(InMemorySaver(), a=says("a"), stuck=stuck, z=says("z"))
    run = asyncio.create_task(graph.ainvoke({"log": []}, ON, control=control))
    await started.wait()
    control.request_drain()
    await asyncio.sleep(0)
    assert not run.done()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    shown = await graph.aget_state(ON)
    assert (shown.values, shown.next, ended) == ({"log": ["a"]}, ("stuck",), ["stuck"])


async def test_a_graph_inside_stops_between_its_steps_and_goes_on_there() -> None:
    control, calls = RunControl(), []

    async def first(state: State) -> State:
        calls.append("first")
        control.request_drain()
        return {"log": ["first"]}

    async def second(state: State) -> State:
        calls.append("second")
        return {"log": ["second"]}

    graph = chain(InMemorySaver(), sub=chain(first=first, second=second), z=says("z"))
    with pytest.raises(GraphDrained):
        await graph.ainvoke({"log": []}, ON, control=control)
    assert (await graph.aget_state(ON)).next == ("sub",)
    assert await graph.ainvoke(None, ON) == {"log": ["first", "second", "z"]}
    assert calls == ["first", "second"]


# -- what a handler and a hand-made node are told --------------------------------------------------------------


async def test_a_handler_is_told_where_it_runs() -> None:
    seen: list[Any] = []

    async def bad(state: State) -> State:
        raise ValueError("boom")

    async def handler(state: State, error: NodeError, runtime: Runtime) -> State:
        info = runtime.execution_info
        assert info is not None
        seen.append((info.node_attempt, info.thread_id, info.task_id))
        if len(seen) == 1:
            raise ConnectionError
        return {"log": ["handled"]}

    class Eager(FakeClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(0)

    builder = StateGraph(State).set_node_defaults(retry_policy=RetryPolicy(jitter=False))
    graph = builder.add_node("a", bad, error_handler=handler).add_edge(START, "a").compile(checkpointer=InMemorySaver())
    graph.clock = Eager()
    assert await graph.ainvoke({"log": []}, ON) == {"log": ["handled"]}
    assert [(attempt, thread) for attempt, thread, _ in seen] == [(1, "1"), (2, "1")]
    assert len({task_id for _, _, task_id in seen}) == 1


async def test_a_hand_made_node_may_be_bounded_in_time() -> None:
    clock = FakeClock()

    async def slow(value: int) -> int:
        await asyncio.Event().wait()
        return value

    graph = Pregel(
        nodes={"n": NodeBuilder().subscribe_only("in").do(slow).write_to("out").set_timeout(2)},
        channels={"in": LastValue(int), "out": LastValue(int)},
        input_channels="in",
        output_channels="out",
    )
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke(1))
    await clock.sleepers()
    await clock.advance(2)
    with pytest.raises(NodeTimeoutError, match="'n'"):
        await run


async def test_the_limit_of_a_packet_takes_the_place_of_the_nodes_own() -> None:
    clock = FakeClock()

    async def slow(state: State) -> State:
        await asyncio.Event().wait()
        raise AssertionError

    builder = StateGraph(State).add_node("a", slow, timeout=100)
    builder.add_conditional_edges(START, lambda s: [Send("a", {"log": []}, timeout=1)], ["a"])
    graph = builder.compile()
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    await clock.sleepers()
    await clock.advance(1)
    with pytest.raises(NodeTimeoutError) as caught:
        await run
    assert caught.value.timeout == 1.0


# -- nothing is left -------------------------------------------------------------------------------------------


async def test_generators_of_nodes_that_were_cancelled_are_closed_before_the_run_has_ended() -> None:
    started, ended = asyncio.Event(), []

    async def numbers() -> Any:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("inner")

    async def node(state: State) -> Any:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)
                async for _ in numbers():
                    yield {"log": ["one"]}
                    started.set()
        finally:
            ended.append("node")

    run = asyncio.create_task(chain(a=node).ainvoke({"log": []}))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == ["inner", "node"]
    assert len(asyncio.all_tasks()) == 1


async def test_a_stream_of_nested_graphs_that_is_collected_ends_everything_below() -> None:
    started, ended = asyncio.Event(), []

    async def deep(state: State) -> State:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("deep")
        raise AssertionError

    graph = chain(InMemorySaver(), a=says("a"), sub=chain(sub=chain(deep=deep)))
    stream = graph.astream({"log": []}, ON, subgraphs=True)
    await anext(stream)
    reading = asyncio.create_task(anext(stream))
    await started.wait()
    reading.cancel()
    await asyncio.wait([reading])
    del stream, reading
    gc.collect()
    async with asyncio.timeout(20):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)
    assert ended == ["deep"]
    assert (await graph.aget_state(ON)).next == ("sub",)


async def test_a_node_may_cancel_the_run_that_it_is_part_of() -> None:
    runs: list[asyncio.Task[Any]] = []

    async def suicidal(state: State) -> State:
        runs[0].cancel()
        await asyncio.sleep(0)
        return {"log": ["survived"]}

    graph = chain(InMemorySaver(), a=suicidal, z=says("z"))
    runs.append(asyncio.create_task(graph.ainvoke({"log": []}, ON)))
    with pytest.raises(asyncio.CancelledError):
        await runs[0]
    assert (await graph.aget_state(ON)).next == ("a",)


# -- caches ----------------------------------------------------------------------------------------------------


async def test_a_result_lives_as_long_as_its_policy_says() -> None:
    clock, runs = FakeClock(), []

    async def node(state: State) -> State:
        runs.append(1)
        return {"log": ["done"]}

    builder = StateGraph(State).add_node("a", node, cache_policy=CachePolicy(ttl=10)).add_edge(START, "a")
    cache = InMemoryCache[Any](clock=clock)
    graph = builder.compile(cache=cache)
    for seconds, total in ((0, 1), (9, 1), (2, 2)):
        await clock.advance(seconds)
        assert await graph.ainvoke({"log": []}) == {"log": ["done"]}
        assert len(runs) == total


async def test_a_question_that_stands_in_a_cache_counts_as_missing() -> None:
    class Planted(InMemoryCache[Any]):
        async def aget(self, keys: Any) -> Any:
            return {key: [(INTERRUPT, "?")] for key in keys}

    builder = StateGraph(State).add_node("a", says("ran"), cache_policy=CachePolicy()).add_edge(START, "a")
    assert await builder.compile(cache=Planted()).ainvoke({"log": []}) == {"log": ["ran"]}


async def test_a_graph_as_a_cached_node_runs_once_and_its_pauses_are_not_kept() -> None:
    runs: list[str] = []

    async def inner(state: State) -> State:
        runs.append("inner")
        return {"log": ["inner"]}

    async def asks(state: State) -> State:
        runs.append("asks")
        return {"log": [interrupt("?")]}

    builder = StateGraph(State).add_node("sub", chain(inner=inner), cache_policy=CachePolicy())
    graph = builder.add_edge(START, "sub").compile(cache=InMemoryCache())
    assert [await graph.ainvoke({"log": []}) for _ in range(2)] == [{"log": ["inner"]}] * 2
    assert runs == ["inner"]

    builder = StateGraph(State).add_node("sub", chain(asks=asks), cache_policy=CachePolicy()).add_edge(START, "sub")
    graph = builder.compile(cache=InMemoryCache(), checkpointer=InMemorySaver())
    for thread in ("1", "2"):
        on: Any = {"configurable": {"thread_id": thread}}
        await graph.ainvoke({"log": []}, on)
        assert await graph.ainvoke(Command(resume=thread), on) == {"log": [thread]}
