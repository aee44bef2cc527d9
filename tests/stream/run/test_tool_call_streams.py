from __future__ import annotations

import pytest
from run_stream_graphs import chain, nested, opened, read

from langgraph_async import ambient
from langgraph_async.stream import ToolCallTransformer


def tool(*events):
    """A node that tells what happens in tool calls."""

    def use(state):
        for event in events:
            if isinstance(event, BaseException):
                raise event
            ambient.current.get().emit_tool_event(event)

    return use


STARTED = {"event": "tool-started", "tool_call_id": "t", "tool_name": "add", "input": {"a": 1}}
DELTA = {"event": "tool-output-delta", "tool_call_id": "t", "delta": "half"}
FINISHED = {"event": "tool-finished", "tool_call_id": "t", "output": 5}
FAILED = {"event": "tool-error", "tool_call_id": "t", "message": "no"}


async def calls(*events):
    return await opened(chain(tool(*events)), transformers=[ToolCallTransformer])


async def test_a_call_is_given_when_it_starts():
    run = await calls(STARTED, DELTA, FINISHED)
    call = await anext(aiter(run.tool_calls))

    assert (call.tool_call_id, call.tool_name, call.input) == ("t", "add", {"a": 1})
    assert (call.completed, call.output, call.error) == (False, None, None)
    assert await read(call.output_deltas) == ["half"]
    assert (call.completed, call.output, call.error) == (True, 5, None)


async def test_a_call_that_fails_says_so():
    (call,) = await read((await calls(STARTED, FAILED)).tool_calls)

    assert (call.completed, call.output, call.error) == (True, None, "no")
    assert await read(call.output_deltas) == []


async def test_calls_at_the_same_time_are_kept_apart():
    other = {"tool_call_id": "u"}
    run = await calls(STARTED, {**STARTED, **other}, DELTA, {**FINISHED, **other}, FINISHED)
    got = await read(run.tool_calls)

    assert [(call.tool_call_id, call.output_deltas.items) for call in got] == [("t", ["half"]), ("u", [])]


async def test_a_call_without_an_end_ends_with_the_run():
    (call,) = await read((await calls(STARTED, DELTA)).tool_calls)

    assert await read(call.output_deltas) == ["half"]
    assert not call.completed


async def test_a_call_breaks_off_with_what_the_run_fails_with():
    run = await calls(STARTED, ValueError("broken"))
    call = await anext(aiter(run.tool_calls))

    with pytest.raises(ValueError, match="broken"):
        await read(call.output_deltas)
    assert (call.completed, call.error) == (True, "broken")


async def test_calls_of_nested_graphs_are_those_of_their_handles():
    run = await opened(nested(tool(STARTED, FINISHED)), transformers=[ToolCallTransformer])
    own = aiter(run.tool_calls)
    handle = await anext(aiter(run.subgraphs))

    assert [call.output for call in await read(handle.tool_calls)] == [5]
    assert await read(own) == []


async def test_the_events_are_told_too():
    run = await calls(STARTED, DELTA, FINISHED)

    assert [event["params"]["data"] async for event in run if event["method"] == "tools"] == [STARTED, DELTA, FINISHED]
