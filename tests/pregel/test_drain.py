"""A run that is asked to stop between two supersteps."""

import asyncio

import pytest
from drawings import State, chain, logs
from threads import on, stored

from langgraph_async import START, Command, StateGraph, entrypoint, interrupt, task
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import GraphDrained
from langgraph_async.runtime import RunControl, get_runtime
from langgraph_async.types import RetryPolicy

pytestmark = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


def asked(reason="shutdown"):
    control = RunControl()
    control.request_drain(reason)
    return control


async def drains(state):
    get_runtime().control.request_drain("inside")
    return {"log": ["drains"]}


async def test_a_step_in_flight_finishes_and_the_thread_goes_on(durability):
    graph = chain(saver=InMemorySaver(), drains=drains, b=logs("b"))
    with pytest.raises(GraphDrained, match="inside") as caught:
        await graph.ainvoke({"log": []}, on(), durability=durability)

    assert caught.value.reason == "inside"
    kept = await stored(graph, on())
    assert (kept.values, kept.next, kept.errors) == ({"log": ["drains"]}, ("b",), {})
    assert await graph.ainvoke(None, on(), durability=durability) == {"log": ["drains", "b"]}


async def test_a_run_drained_in_its_last_step_ends_as_always(durability):
    graph = chain(saver=InMemorySaver(), drains=drains)
    assert await graph.ainvoke({"log": []}, on(), durability=durability) == {"log": ["drains"]}


async def test_a_control_that_was_drained_before_stops_the_run_before_its_first_step(durability):
    graph = chain(saver=InMemorySaver(), a=logs("a"))
    with pytest.raises(GraphDrained, match="early"):
        await graph.ainvoke({"log": []}, on(), control=asked("early"), durability=durability)

    assert (await stored(graph, on())).values.get("log", []) == []
    assert await graph.ainvoke(None, on(), durability=durability) == {"log": ["a"]}


async def test_a_static_breakpoint_wins(durability):
    graph = chain(saver=InMemorySaver(), drains=drains, b=logs("b"))
    found = await graph.ainvoke({"log": []}, on(), interrupt_before=["b"], durability=durability)

    assert found == {"log": ["drains"]}
    assert await graph.ainvoke(None, on(), durability=durability) == {"log": ["drains", "b"]}


async def test_a_reader_that_drains_at_a_part_is_shown_no_further_step(durability):
    graph, control = chain(saver=InMemorySaver(), a=logs("a"), b=logs("b"), c=logs("c")), RunControl()
    parts = []
    with pytest.raises(GraphDrained):
        async for part in graph.astream(
            {"log": []}, on(), stream_mode="updates", control=control, durability=durability
        ):
            parts.append(part)
            control.request_drain()

    assert parts == [{"a": {"log": ["a"]}}]
    assert await graph.ainvoke(None, on(), durability=durability) == {"log": ["a", "b", "c"]}


async def test_siblings_of_a_drained_graph_finish_and_nothing_is_recorded_as_a_failure(durability):
    runs = []

    async def sibling(state):
        for _ in range(20):
            await asyncio.sleep(0)
        runs.append("sibling")
        return {"log": ["sibling"]}

    builder = StateGraph(State)
    builder.add_node("sub", chain(drains=drains, b=logs("b")))
    builder.add_node("sibling", sibling)
    builder.add_edge(START, "sub")
    builder.add_edge(START, "sibling")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(GraphDrained, match="inside"):
        await graph.ainvoke({"log": []}, on(), durability=durability)

    kept = await stored(graph, on())
    assert (kept.next, kept.errors, runs) == (("sub",), {}, ["sibling"])
    found = await graph.ainvoke(None, on(), durability=durability)
    assert sorted(found["log"]) == ["b", "drains", "sibling"]
    assert runs == ["sibling"]


async def test_a_failure_beside_a_drained_graph_is_what_is_raised(durability):
    async def bad(state):
        for _ in range(20):
            await asyncio.sleep(0)
        raise ConnectionError

    builder = StateGraph(State)
    builder.add_node("sub", chain(drains=drains, b=logs("b")))
    builder.add_node("bad", bad)
    builder.add_edge(START, "sub")
    builder.add_edge(START, "bad")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        await graph.ainvoke({"log": []}, on(), durability=durability)

    assert list((await stored(graph, on())).errors) == ["bad"]


async def test_neither_retries_nor_handlers_take_a_drained_graph_for_a_failure(durability):
    inner, calls = chain(drains=drains, b=logs("b")), []

    async def node(state):
        calls.append("node")
        return await inner.ainvoke({"log": []})

    async def handler(state):
        calls.append("handler")
        return {"log": ["handler"]}

    builder = StateGraph(State)
    builder.add_node("node", node, retry_policy=RetryPolicy(retry_on=lambda _: True), error_handler=handler)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(GraphDrained):
        await graph.ainvoke({"log": []}, on(), durability=durability)

    assert calls == ["node"]
    assert await graph.ainvoke(None, on(), durability=durability) == {"log": ["drains", "b"]}


async def test_answers_given_before_a_graph_inside_was_drained_are_not_asked_for_again(durability):
    inner = chain(drains=drains, b=logs("b"))

    async def node(state):
        answer = interrupt("?")
        return {"log": [answer, *(await inner.ainvoke({"log": []}))["log"]]}

    graph = chain(saver=InMemorySaver(), node=node)
    await graph.ainvoke({"log": []}, on(), durability=durability)
    with pytest.raises(GraphDrained):
        await graph.ainvoke(Command(resume="yes"), on(), durability=durability)

    assert await graph.ainvoke(None, on(), durability=durability) == {"log": ["yes", "drains", "b"]}


async def test_functions_may_be_called_after_the_request_and_their_results_count(durability):
    control, made = RunControl(), []

    @task
    async def child(number):
        made.append(number)
        await asyncio.sleep(0)
        return number

    @entrypoint(checkpointer=InMemorySaver())
    async def flow(number):
        first = child(1)
        await asyncio.sleep(0)
        control.request_drain()
        return await first + await child(2)

    assert await flow.ainvoke(0, on(), control=control, durability=durability) == 3
    assert made == [1, 2]


async def test_a_graph_drained_inside_a_function_goes_on_with_what_other_functions_returned(durability):
    made = []
    inner = chain(drains=drains, b=logs("b"))

    @task
    async def first():
        made.append("first")
        return "first"

    @task
    async def second():
        answer = interrupt("?")
        return [answer, *(await inner.ainvoke({"log": []}))["log"]]

    @entrypoint(checkpointer=InMemorySaver())
    async def flow(_):
        return [await first(), *await second()]

    await flow.ainvoke(0, on(), durability=durability)
    with pytest.raises(GraphDrained, match="inside"):
        await flow.ainvoke(Command(resume="yes"), on(), durability=durability)

    assert await flow.ainvoke(None, on(), durability=durability) == ["first", "yes", "drains", "b"]
    assert made == ["first"]
