"""`tool_call`: events of tools for ``stream_mode="tools"`` (specification 5.3 and 12.5)."""

import asyncio

import pytest
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph, interrupt, tool_call
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.constants import TAG_NOSTREAM
from langgraph_async.errors import GraphDrained
from langgraph_async.stream.bus import SOFT_LIMIT


class State(TypedDict, total=False):
    x: int


def graph(node, **options):
    builder = StateGraph(State)
    builder.add_node("n", node)
    builder.add_edge(START, "n")
    return builder.compile(**options)


async def events(compiled, config=None, **options):
    return [event async for event in compiled.astream({"x": 1}, config, stream_mode="tools", **options)]


async def search(query="tea", **options):
    async with tool_call("search", "c1", {"q": query}, **options) as call:
        call.delta("fo")
        call.delta("und")
        return call.finish("found")


STARTED = {"event": "tool-started", "tool_call_id": "c1", "tool_name": "search", "input": {"q": "tea"}}


async def test_a_call_is_told_from_its_start_to_its_end():
    async def n(state):
        assert await search() == "found"

    assert await events(graph(n)) == [
        STARTED,
        {"event": "tool-output-delta", "tool_call_id": "c1", "delta": "fo"},
        {"event": "tool-output-delta", "tool_call_id": "c1", "delta": "und"},
        {"event": "tool-finished", "tool_call_id": "c1", "output": "found"},
    ]


async def test_a_call_without_id_gets_one_and_without_input_tells_none():
    def n(state):
        with tool_call("now") as call:
            assert call.id

    started, finished = await events(graph(n))

    assert started == {"event": "tool-started", "tool_call_id": started["tool_call_id"], "tool_name": "now"}
    assert finished == {"event": "tool-finished", "tool_call_id": started["tool_call_id"], "output": None}


async def test_an_error_is_told_and_goes_on():
    async def n(state):
        async with tool_call("search", "c1", {"q": "tea"}):
            raise ConnectionError("down")

    told: list = []
    with pytest.raises(ConnectionError):
        async for event in graph(n).astream({"x": 1}, stream_mode="tools"):
            told.append(event)

    assert told == [STARTED, {"event": "tool-error", "tool_call_id": "c1", "message": "down"}]


@pytest.mark.parametrize("signal", ["interrupt", "drain", "cancel"])
async def test_a_tool_that_was_stopped_tells_no_error(signal):
    async def n(state):
        async with tool_call("search", "c1", {"q": "tea"}):
            if signal == "interrupt":
                interrupt("?")
            if signal == "drain":
                raise GraphDrained("shutdown")
            raise asyncio.CancelledError

    told: list = []
    try:
        compiled = graph(n, checkpointer=InMemorySaver())
        async for event in compiled.astream({"x": 1}, {"configurable": {"thread_id": "1"}}, stream_mode="tools"):
            told.append(event)
    except BaseException:
        pass

    assert told == [STARTED]


async def test_outside_of_a_run_nothing_is_told():
    assert await search() == "found"


async def test_a_call_tagged_nostream_is_not_told():
    async def n(state):
        await search(tags=(TAG_NOSTREAM,))

    assert await events(graph(n)) == []


async def test_a_run_tagged_nostream_tells_no_calls():
    async def n(state):
        await search()

    assert await events(graph(n), {"tags": [TAG_NOSTREAM]}) == []


async def test_calls_in_nested_graphs_are_told_when_asked_for():
    async def n(state):
        await search()

    inner = graph(n)

    async def outer(state):
        await inner.ainvoke(state)

    assert await events(graph(outer)) == []
    told = await events(graph(outer), subgraphs=True)
    assert [event["event"].removeprefix("tool-") for _, event in told] == [
        "started",
        "output-delta",
        "output-delta",
        "finished",
    ]
    assert all(ns[0].startswith("n:") for ns, _ in told)


async def test_events_of_code_that_outlived_its_node_are_refused_with_a_warning():
    kept: list = []

    async def n(state):
        call = tool_call("search", "c1").__enter__()
        kept.append(call)

    await events(graph(n))

    with pytest.warns(RuntimeWarning, match="'n' streamed a tool event after it was done"):
        kept[0].delta("late")


async def test_a_slow_reader_is_waited_for(monkeypatch):
    from langgraph_async.pregel import graph as module

    buses: list = []

    class Watched(module.Bus):
        def __init__(self):
            super().__init__()
            buses.append(self)

    monkeypatch.setattr(module, "Bus", Watched)

    async def n(state):
        async with tool_call("search") as call:
            for number in range(2_000):
                call.delta(number)
                await call.drain()

    longest, got = 0, []
    async for event in graph(n).astream({"x": 1}, stream_mode="tools"):
        longest = max(longest, len(buses[0]))
        got.append(event.get("delta"))

    assert longest <= SOFT_LIMIT + 1
    assert got[1:-1] == list(range(2_000))
