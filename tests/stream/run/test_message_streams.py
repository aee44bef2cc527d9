from __future__ import annotations

import gc

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from model_streams import STREAMS
from run_stream_graphs import chain, nested, opened, read

from langgraph_async import START, MessagesState, StateGraph, ambient, stream_tokens
from langgraph_async.stream import ChatModelStream
from langgraph_async.stream.run.chunks import merge_calls, read_chunk


def emit(*chunks, **extra):
    """A node that tells `chunks`."""

    def speak(state, config):
        task = ambient.current.get()
        ns = task.task.checkpoint_ns if hasattr(task.task, "checkpoint_ns") else f"speak:{task.task.id}"
        for chunk in chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            task.emit_message(chunk, {"langgraph_node": "speak", "langgraph_checkpoint_ns": ns, **extra})

    return speak


def delta(text=None, finish=None, id="c1", **body):
    """A chunk in the form of OpenAI's."""
    content = {"content": text} if text is not None else {}
    return {
        "id": id,
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {**content, **body}, "finish_reason": finish}],
    }


TOKENS = [delta(role="assistant"), delta("Hel"), delta("lo"), delta(finish="stop")]
CHUNKS = [AIMessageChunk("Hel", id="m1"), AIMessageChunk("lo", id="m1", chunk_position="last")]


async def messages(*chunks, **extra):
    run = await opened(chain(emit(*chunks, **extra)))
    return await read(run.messages)


# -- one message -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [TOKENS, CHUNKS], ids=["dicts", "langchain"])
async def test_chunks_of_one_message_become_one_stream(chunks):
    (stream,) = await messages(*chunks)

    assert await read(stream.text) == ["Hel", "lo"]
    assert await stream.text == "Hello"
    assert await read(stream) == chunks
    assert stream.message_id == chunks[0]["id"] if isinstance(chunks[0], dict) else chunks[0].id
    assert stream.done
    assert stream.error is None
    assert stream.node == "speak"
    assert stream.namespace == []
    assert stream.metadata["langgraph_node"] == "speak"


async def test_the_output_of_dicts_is_a_dict():
    (stream,) = await messages(*TOKENS)

    expected = {"role": "assistant", "content": "Hello", "id": "c1", "finish_reason": "stop"}
    assert await stream.output() == expected
    assert await stream.output == expected
    assert await stream == expected
    assert stream.output_message == expected


async def test_the_output_of_langchain_chunks_is_a_message():
    (stream,) = await messages(*CHUNKS)
    output = await stream.output()

    assert type(output) is AIMessage
    assert (output.content, output.id) == ("Hello", "m1")


async def test_a_stream_is_given_with_its_first_chunk_and_read_as_it_comes():
    pulled = []

    async def speak(state, writer):
        emit_message = ambient.current.get().emit_message
        for chunk in TOKENS:
            emit_message(chunk, {"langgraph_node": "speak"})
            await writer.drain()
            pulled.append(chunk)

    run = await opened(chain(speak))
    stream = await anext(aiter(run.messages))
    assert not stream.done
    assert stream.output_message is None
    pieces = aiter(stream.text)

    assert await anext(pieces) == "Hel"
    assert len(pulled) < 3
    assert await stream.text == "Hello"
    assert [piece async for piece in pieces] == ["lo"]


async def test_a_stream_can_be_read_by_several_and_again():
    (stream,) = await messages(*TOKENS)

    assert [await read(stream.text), await read(stream.text)] == [["Hel", "lo"], ["Hel", "lo"]]


async def test_reasoning_and_usage_are_told_apart():
    (stream,) = await messages(
        delta(reasoning_content="hm"), delta("yes"), {**delta(finish="stop"), "usage": {"total_tokens": 3}}
    )

    assert (await stream.reasoning, await stream.text, stream.usage) == ("hm", "yes", {"total_tokens": 3})
    assert (await stream)["reasoning_content"] == "hm"


@pytest.mark.parametrize("sdk", STREAMS)
async def test_the_output_of_streamed_tokens_is_the_message_that_the_node_returns(sdk):
    items, message = STREAMS[sdk]

    async def speak(state):
        return {"messages": [await stream_tokens(items).collect()]}

    run = (
        await StateGraph(MessagesState)
        .add_node(speak)
        .add_edge(START, "speak")
        .compile()
        .astream_events({"messages": []}, version="v3")
    )
    (stream,) = await read(run.messages)

    assert await stream == message
    assert (await stream.reasoning, stream.usage) == (message.get("reasoning", ""), message["usage"])
    assert await run.output() == {"messages": [message]}


async def test_a_refusal_of_streamed_tokens_is_in_the_output():
    def told(**more):
        return {"type": "AIMessageChunk", "role": "assistant", "content": "", "id": "c1", **more}

    (stream,) = await messages(told(refusal="I "), told(refusal="won't."), told(finish_reason="stop"))

    assert (await stream)["refusal"] == "I won't."


async def test_blocks_of_content_are_read():
    (stream,) = await messages(
        AIMessageChunk([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "yes"}], id="m")
    )

    assert (await stream.reasoning, await stream.text) == ("hm", "yes")


# -- tool calls ------------------------------------------------------------------------------------------------


async def test_tool_calls_of_dicts_are_put_together():
    def part(index, **call):
        return delta(tool_calls=[{"index": index, **call}])

    (stream,) = await messages(
        part(0, id="t0", type="function", function={"name": "add", "arguments": ""}),
        part(0, function={"arguments": '{"a"'}),
        part(1, id="t1", function={"name": "neg", "arguments": "{}"}),
        part(0, function={"arguments": ": 1}"}),
        delta(finish="tool_calls"),
    )

    assert await stream.tool_calls == [
        {"name": "add", "args": {"a": 1}, "id": "t0", "type": "tool_call"},
        {"name": "neg", "args": {}, "id": "t1", "type": "tool_call"},
    ]
    assert [piece["args"] async for piece in stream.tool_calls] == ["", '{"a"', "{}", ": 1}"]
    assert (await stream)["tool_calls"][0] == {
        "id": "t0",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a": 1}'},
    }


async def test_tool_calls_of_langchain_chunks_are_put_together():
    def part(**call):
        return AIMessageChunk("", id="m", tool_call_chunks=[{"index": 0, "id": None, "name": None, "args": "", **call}])

    (stream,) = await messages(part(id="t0", name="add"), part(args='{"a": 1'), part(args="}"))

    assert await stream.tool_calls == [{"name": "add", "args": {"a": 1}, "id": "t0", "type": "tool_call"}]
    assert (await stream).tool_calls == [{"name": "add", "args": {"a": 1}, "id": "t0", "type": "tool_call"}]


def test_arguments_that_are_not_json_stay_text():
    assert merge_calls([{"index": 0, "id": "t", "name": "add", "args": "{"}])[0]["args"] == "{"


def test_calls_of_a_whole_message_are_kept_apart():
    view = read_chunk(
        {"role": "assistant", "content": "", "tool_calls": [{"name": "a", "args": {}}, {"name": "b", "args": {}}]}
    )

    assert [call["name"] for call in merge_calls(view.tool_calls)] == ["a", "b"]


# -- several messages ------------------------------------------------------------------------------------------


async def test_messages_are_kept_apart_by_their_ids():
    streams = await messages(delta("a", id="x"), delta("1", id="y"), delta("b", id="x"), delta("2", id="y"))

    assert [(s.message_id, await s.text) for s in streams] == [("x", "ab"), ("y", "12")]


async def test_chunks_without_an_id_belong_to_the_message_of_their_task():
    streams = await messages({"content": "a"}, {"content": "b", "finish_reason": "stop"}, {"content": "c"})

    assert [await stream.text for stream in streams] == ["ab", "c"]


async def test_parallel_tasks_do_not_mix_chunks_without_an_id():
    from run_stream_graphs import Trail

    from langgraph_async import START, StateGraph

    builder = StateGraph(Trail)
    for name in ("one", "two"):

        async def speak(state, writer, name=name):
            for _ in range(3):
                ambient.current.get().emit_message({"content": name}, {"langgraph_node": name})
                await writer.drain()

        builder.add_node(name, speak)
        builder.add_edge(START, name)
    run = await opened(builder.compile())

    assert sorted([await stream.text async for stream in run.messages]) == ["one" * 3, "two" * 3]


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("Hello", id="w"),
        HumanMessage("Hello", id="w"),
        {"role": "assistant", "content": "Hello", "id": "w"},
        {"type": "ai", "content": "Hello", "id": "w"},
    ],
)
async def test_a_whole_message_is_a_finished_stream(message):
    run = await opened(chain(emit(message)))
    stream = await anext(aiter(run.messages))

    assert stream.done
    assert stream.message_id == "w"
    assert await stream.text == "Hello"
    assert await read(stream) == [message]
    assert await stream.output() is message


async def test_a_message_that_was_streamed_is_not_told_again():
    streams = await messages(*CHUNKS, AIMessage("Hello", id="m1"), delta("more", id="m1"))

    assert [await stream.text for stream in streams] == ["Hello"]


async def test_a_whole_message_ends_the_stream_of_its_chunks():
    run = await opened(chain(emit(AIMessageChunk("Hel", id="m1"), AIMessage("Hello", id="m1"))))
    (stream,) = await read(run.messages)

    assert (await stream.output()).content == "Hello"


@pytest.mark.parametrize(
    "message",
    [ToolMessage("5", tool_call_id="t", id="w"), {"role": "tool", "content": "5", "id": "w"}, {"other": 1}, 7],
)
async def test_messages_of_tools_and_what_is_no_message_are_left_out(message):
    assert await messages(message) == []


async def test_messages_of_nested_graphs_are_those_of_their_handles():
    run = await opened(nested(emit(*TOKENS)))
    own = aiter(run.messages)
    handle = await anext(aiter(run.subgraphs))
    streams = await read(handle.messages)

    assert [await stream.text for stream in streams] == ["Hello"]
    assert streams[0].namespace == list(handle.path)
    assert await read(own) == []


async def test_all_messages_are_told_as_events():
    run = await opened(nested(emit(*TOKENS)))
    events = [event async for event in run if event["method"] == "messages"]

    assert [event["params"]["data"][0] for event in events] == TOKENS
    assert all(len(event["params"]["namespace"]) == 1 for event in events)


# -- ends ------------------------------------------------------------------------------------------------------


async def test_a_message_without_a_last_chunk_ends_with_its_task():
    after = []

    def later(state):
        after.append(True)

    run = await opened(chain(("speak", emit(delta("Hel"), delta("lo"))), later))
    stream = await anext(aiter(run.messages))

    assert await stream.text == "Hello"
    assert after == []


async def test_a_message_breaks_off_with_what_its_node_fails_with():
    run = await opened(chain(emit(delta("Hel"), ValueError("broken"))))
    cursor = aiter(run.messages)
    stream = await anext(cursor)
    pieces = aiter(stream.text)

    assert await anext(pieces) == "Hel"
    for reading in (anext(pieces), stream.output(), stream.tool_calls, read(stream)):
        with pytest.raises(ValueError, match="broken"):
            await reading
    assert isinstance(stream.error, ValueError)
    assert stream.output_message is None
    with pytest.raises(ValueError, match="broken"):
        await anext(cursor)


async def test_a_message_ends_with_an_aborted_run():
    run = await opened(chain(emit(delta("Hel"), delta("lo"))))
    stream = await anext(aiter(run.messages))
    await run.abort()

    assert await stream.text == "Hel"


async def test_who_comes_in_the_middle_of_a_message_gets_the_next_one():
    async def speak(state, writer):
        tell = ambient.current.get().emit_message
        for chunk in (delta("a"), delta("b"), delta("c", id="c2")):
            tell(chunk, {"langgraph_node": "speak"})
            await writer.drain()

    run = await opened(chain(speak))
    events = aiter(run)
    while (await anext(events))["method"] != "messages":
        pass

    assert [await stream.text async for stream in run.messages] == ["c"]


async def test_nothing_is_kept_of_messages_that_nobody_reads():
    run = await opened(chain(emit(*TOKENS)))
    await run.output()
    gc.collect()

    assert not [found for found in gc.get_objects() if type(found) is ChatModelStream]
