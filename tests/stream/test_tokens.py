"""Tokens of models, from whatever they come, to ``stream_mode="messages"``: acceptance of specification 5.3 and 5.4."""

import asyncio
import threading
import warnings

import pytest
from model_streams import CHAT, RESPONSES, STREAMS, Response, chat_chunk, joined, response, thing
from pydantic import BaseModel

from langgraph_async import START, MessagesState, StateGraph, entrypoint, interrupt, stream_tokens, task
from langgraph_async.channels import LastValue
from langgraph_async.constants import TAG_NOSTREAM
from langgraph_async.errors import StreamOverflowError
from langgraph_async.graph.message import add_messages
from langgraph_async.pregel import NodeBuilder, Pregel
from langgraph_async.stream.bus import SOFT_LIMIT
from langgraph_async.stream.tokens import TokenDelta
from langgraph_async.types import RetryPolicy


def graph(*nodes):
    builder = StateGraph(MessagesState)
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
    return builder.compile()


def streaming(make, **options):
    """A node that streams what `make` returns, and returns the message."""

    async def n(state):
        stream = stream_tokens(make(), **options)
        async for _ in stream:
            pass
        return {"messages": stream.message}

    return n


async def heard(compiled, given=None, config=None, **options):
    given = {"messages": []} if given is None else given
    return [item async for item in compiled.astream(given, config, stream_mode="messages", **options)]


async def tokens(*texts):
    for text in texts:
        yield text


# -- what is told ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["objects", "dicts"])
@pytest.mark.parametrize("sdk", STREAMS)
async def test_the_chunks_of_a_response_make_its_message(sdk, form):
    raw, expected = STREAMS[sdk]
    items = [thing(item) for item in raw] if form == "objects" else raw

    told = await heard(graph(streaming(lambda: Response(items))))

    assert joined([chunk for chunk, _ in told]) == expected
    assert {chunk["type"] for chunk, _ in told} == {"AIMessageChunk"}


@pytest.mark.parametrize("sdk", STREAMS)
async def test_the_message_of_a_response_is_whole(sdk):
    raw, expected = STREAMS[sdk]

    assert await stream_tokens(Response(raw)).collect() == expected


@pytest.mark.parametrize("sdk", STREAMS)
async def test_every_item_is_passed_on_as_it_is(sdk):
    items = [thing(item) for item in STREAMS[sdk][0]]

    passed = [item async for item in stream_tokens(Response(items))]

    assert all(one is other for one, other in zip(passed, items, strict=True))


async def test_a_token_is_told_before_it_is_passed_on():
    order: list = []

    async def n(state):
        async for token in stream_tokens(tokens("a", "b")):
            order.append(f"node {token}")
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async for chunk, _ in graph(n).astream({"messages": []}, stream_mode="messages"):
        order.append(f"reader {chunk['content']}")

    assert order.index("reader a") < order.index("node b")


async def test_the_returned_message_is_not_told_again():
    told = await heard(graph(streaming(lambda: tokens("Hel", "lo"))))

    assert [chunk["content"] for chunk, _ in told] == ["Hel", "lo"]


async def test_a_refusal_is_told_as_one():
    chunks = [chat_chunk({"refusal": "I can"}), chat_chunk({"refusal": "not."}), chat_chunk({}, finish="stop")]

    told = await heard(graph(streaming(lambda: Response(chunks))))

    assert joined([chunk for chunk, _ in told])["refusal"] == "I cannot."


@pytest.mark.parametrize("usage", [None, 0, 1, 2])
async def test_the_reason_that_a_message_ended_is_in_its_last_chunk(usage):
    items = [chat_chunk({"content": "Tea"}), chat_chunk({"content": "."}, finish="stop"), chat_chunk({})]
    if usage is not None:
        items[usage]["usage"] = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}

    chunks = [chunk for chunk, _ in await heard(graph(streaming(lambda: items)))]
    assert [chunk.get("finish_reason") for chunk in chunks] == [*[None] * (len(chunks) - 1), "stop"]
    assert "".join(chunk["content"] for chunk in chunks) == "Tea."


async def test_the_reason_is_told_also_if_the_response_is_left_at_once():
    async def leaves(state):
        async for item in stream_tokens([chat_chunk({"content": "Tea"}), chat_chunk({}, finish="stop"), "more"]):
            if item["choices"][0]["finish_reason"]:
                break
        return {}

    chunks = [chunk for chunk, _ in await heard(graph(leaves))]
    assert [chunk.get("finish_reason") for chunk in chunks] == [None, "stop"]


async def test_choices_are_messages_of_their_own():
    chunks = [chat_chunk({"content": text}, index=index) for index, text in [(0, "a"), (1, "x"), (0, "b"), (1, "y")]]
    stream = stream_tokens(Response(chunks))

    await stream.collect()

    assert [(m["id"], m["content"]) for m in stream.messages] == [
        ("chatcmpl-0123456789abcdef", "ab"),
        ("chatcmpl-0123456789abcdef-1", "xy"),
    ]
    assert stream.message == stream.messages[0]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({"type": "response.incomplete", "response": response("incomplete")}, "length"),
        (
            {
                "type": "response.incomplete",
                "response": response("incomplete", incomplete_details={"reason": "content_filter"}),
            },
            "content_filter",
        ),
        ({"type": "response.failed", "response": response("failed")}, "error"),
        ({"type": "response.completed", "response": response("completed")}, "stop"),
    ],
)
async def test_a_response_says_why_it_ended(end, reason):
    message = await stream_tokens(Response([RESPONSES[0], end])).collect()

    assert message["finish_reason"] == reason


async def test_events_of_the_chat_helper_are_read_once():
    events = []
    for chunk in CHAT[:3]:
        events.append({"type": "chunk", "chunk": chunk, "snapshot": {}})
        events.append({"type": "content.delta", "delta": "again", "snapshot": ""})

    assert (await stream_tokens(Response(events)).collect())["content"] == "Hello"


async def test_an_id_that_may_not_be_unique_is_not_used():
    chunks = [
        {**chat_chunk({"content": "x"}), "id": "chatcmpl-42"},
        {**chat_chunk({"content": "y"}), "id": "chatcmpl-42"},
    ]

    message = await stream_tokens(Response(chunks)).collect()

    assert message["content"] == "xy"
    assert len(message["id"]) == 36


async def test_the_id_can_be_given():
    assert (await stream_tokens(tokens("a"), id="mine").collect())["id"] == "mine"


async def test_dicts_with_content_are_chunks():
    items = [{"role": "assistant", "content": "Hel", "id": "0123456789abcdef"}, {"content": "lo"}]

    told = await heard(graph(streaming(lambda: Response(items))))

    assert joined([chunk for chunk, _ in told]) == {"role": "assistant", "content": "Hello", "id": "0123456789abcdef"}


@pytest.mark.parametrize(
    "adapter",
    [
        lambda item: item["t"],
        lambda item: TokenDelta(text=item["t"]),
        lambda item: [TokenDelta(text=c) for c in item["t"]],
        lambda item: item["t"] or None,
    ],
)
async def test_an_adapter_says_what_an_item_adds(adapter):
    told = await heard(graph(streaming(lambda: Response([{"t": "Hel"}, {"t": "lo"}, {"t": ""}]), adapter=adapter)))

    assert "".join(chunk["content"] for chunk, _ in told) == "Hello"


async def test_a_response_in_which_no_tokens_are_found_is_warned_of():
    with pytest.warns(RuntimeWarning, match=r"found no tokens .* adapter="):
        await stream_tokens(Response([object()])).collect()


@pytest.mark.parametrize("wrong", ["a whole text", b"bytes", {"choices": []}, 3, None])
async def test_what_is_no_stream_is_refused(wrong):
    with pytest.raises(TypeError, match="comes in pieces"):
        stream_tokens(wrong)


class Whole(BaseModel):
    choices: list[str] = []


@pytest.mark.parametrize("response", [5, None, "text", {"content": "text"}, Whole()], ids=repr)
async def test_what_is_awaited_and_is_no_stream_is_refused(response):
    async def create():
        return response

    with pytest.raises(TypeError, match=r"comes in pieces, got .*stream=True"):
        await stream_tokens(create()).collect()


@pytest.mark.parametrize("wrong", [{"tags": "nostream"}, {"tags": None}, {"id": 5}, {"adapter": 5}], ids=repr)
async def test_an_argument_of_another_type_is_refused(wrong):
    with pytest.raises(TypeError, match=f"{next(iter(wrong))}=.*expected"):
        stream_tokens(["a"], **wrong)


@pytest.mark.parametrize("result", [5, ["text"], [None], b"x"], ids=repr)
async def test_an_adapter_that_returns_something_else_is_told_so(result):
    with pytest.raises(TypeError, match="adapter of stream_tokens returned .*expected text"):
        await stream_tokens(["a"], adapter=lambda item: result).collect()


async def test_a_response_that_was_closed_cannot_be_read():
    stream = stream_tokens(tokens("a"))
    await stream.aclose()

    with pytest.raises(RuntimeError, match="closed before it was read"):
        await stream.collect()


async def test_an_empty_response_gives_an_empty_message_with_an_id():
    message = await stream_tokens(tokens()).collect()

    assert message["content"] == ""
    assert message["id"]


async def test_a_response_can_be_read_once():
    stream = stream_tokens(tokens("a"))
    await stream.collect()

    with pytest.raises(RuntimeError, match="read once"):
        await stream.collect()


# -- sources -----------------------------------------------------------------------------------------------------


class Manager:
    def __init__(self, inner):
        self.inner = inner
        self.left = False

    async def __aenter__(self):
        return self.inner

    async def __aexit__(self, *error):
        self.left = True


async def test_an_awaitable_and_a_context_manager_are_opened_and_closed():
    async def asked():
        return manager

    manager = Manager(Response(CHAT))

    message = await stream_tokens(asked()).collect()

    assert message["content"] == "Hello"
    assert manager.left


@pytest.mark.parametrize("make", [list, tuple, iter])
async def test_a_blocking_response_can_be_read_in_an_async_node(make):
    told = await heard(graph(streaming(lambda: make(["Hel", "lo"]))))

    assert [chunk["content"] for chunk, _ in told] == ["Hel", "lo"]


async def test_a_blocking_response_is_awaited_in_a_worker_thread():
    threads: set = set()

    def blocking():
        threads.add(threading.get_ident())
        yield "a"

    await stream_tokens(blocking()).collect()

    assert threading.get_ident() not in threads


async def test_a_plain_node_reads_with_for():
    def n(state):
        stream = stream_tokens(iter(["Hel", "lo"]))
        for _ in stream:
            pass
        return {"messages": stream.message}

    told = await heard(graph(n))

    assert [chunk["content"] for chunk, _ in told] == ["Hel", "lo"]


async def test_an_async_response_cannot_be_read_with_for():
    with pytest.raises(TypeError, match="async for"):
        next(iter(stream_tokens(tokens("a"))))


async def test_langchain_chunks_are_told_as_they_are():
    from langchain_core.messages import AIMessage, AIMessageChunk

    chunks = [AIMessageChunk(content="Hel", id="run-1"), AIMessageChunk(content="lo", id="run-1")]
    told = await heard(graph(streaming(lambda: Response(chunks))))

    assert all(one is other for (one, _), other in zip(told, chunks, strict=True))
    assert await stream_tokens(Response(chunks)).collect() == AIMessage(content="Hello", id="run-1")


async def test_langchain_chunks_without_id_get_one():
    from langchain_core.messages import AIMessageChunk

    told = await heard(graph(streaming(lambda: Response([AIMessageChunk(content=c) for c in "ab"]))))

    assert len({chunk.id for chunk, _ in told}) == 1


async def test_langchain_chunks_that_callbacks_tell_are_not_told_twice():
    from langchain_core.messages import AIMessageChunk

    from langgraph_async import ambient

    async def model():
        for text in ("Hel", "lo"):
            chunk = AIMessageChunk(content=text, id="run-1")
            ambient.current.get().emit_message(chunk, {"from": "callback"})
            yield chunk

    told = await heard(graph(streaming(model)))

    assert [(chunk.content, metadata) for chunk, metadata in told] == [
        ("Hel", {"from": "callback"}),
        ("lo", {"from": "callback"}),
    ]


# -- who hears it ------------------------------------------------------------------------------------------------


async def test_the_metadata_says_where_and_from_which_model():
    node = streaming(lambda: Response(CHAT[:3]), tags=["mine"], metadata={"step": "draft"})
    config = {"metadata": {"user": "me"}, "tags": ["run", "seq:step:2"]}

    _, metadata = (await heard(graph(node), config=config))[0]

    ns = metadata["langgraph_checkpoint_ns"]
    assert metadata == {
        "user": "me",
        "step": "draft",
        "langgraph_step": 1,
        "langgraph_node": "n",
        "langgraph_triggers": ("branch:to:n",),
        "langgraph_path": ("__pregel_pull", "n"),
        "langgraph_checkpoint_ns": ns,
        "checkpoint_ns": ns,
        "ls_model_name": "gpt-test",
        "ls_model_type": "chat",
        "ls_provider": "openai",
        "tags": ["run", "mine"],
    }


async def test_a_given_model_name_comes_before_that_of_the_response():
    ((_, metadata), *_) = await heard(graph(streaming(lambda: Response(CHAT[:3]), model="best")))

    assert metadata["ls_model_name"] == "best"


async def test_tokens_tagged_nostream_are_not_told_but_the_returned_message_is():
    told = await heard(graph(streaming(lambda: tokens("Hel", "lo"), tags=[TAG_NOSTREAM])))

    assert [chunk["content"] for chunk, _ in told] == ["Hello"]


@pytest.mark.parametrize("tag", [TAG_NOSTREAM, "langsmith:hidden"])
async def test_a_node_so_tagged_tells_nothing(tag):
    async def n(x):
        return {"role": "assistant", "content": (await stream_tokens(tokens("a")).collect())["content"]}

    app = Pregel(
        nodes={"n": NodeBuilder().subscribe_only("x").do(n).meta(tag).write_to("y")},
        channels={"x": LastValue(str), "y": LastValue(dict)},
        input_channels="x",
        output_channels="y",
    )

    assert await heard(app, "go") == []


async def test_outside_of_a_run_items_just_pass():
    assert [token async for token in stream_tokens(tokens("a", "b"))] == ["a", "b"]


async def test_nothing_is_told_when_nobody_listens():
    compiled = graph(streaming(lambda: tokens("Hel", "lo")))

    assert (await compiled.ainvoke({"messages": []}))["messages"][0]["content"] == "Hello"


async def test_tokens_of_tasks_and_workflows_are_told():
    @task
    async def ask(x):
        return await stream_tokens(tokens("t", "ask")).collect()

    @entrypoint()
    async def flow(x):
        return [await ask(x), await stream_tokens(tokens("own")).collect()]

    told = await heard(flow, "x")

    assert [(chunk["content"], metadata["langgraph_node"]) for chunk, metadata in told] == [
        ("t", "ask"),
        ("ask", "ask"),
        ("own", "flow"),
    ]


async def test_tokens_of_nested_graphs_come_with_their_namespace_when_asked_for():
    inner = graph(streaming(lambda: tokens("Hel", "lo")))

    async def outer(state):
        return await inner.ainvoke(state)

    whole = await heard(graph(outer))
    pieces = await heard(graph(outer), subgraphs=True)

    assert [chunk["content"] for chunk, _ in whole] == ["Hello"]
    assert [chunk["content"] for _, (chunk, _) in pieces] == ["Hel", "lo"]
    assert {ns[0].split(":")[0] for ns, _ in pieces} == {"outer"}


async def test_a_graph_streamed_inside_a_node_gets_its_own_tokens():
    inner = graph(streaming(lambda: tokens("Hel", "lo")))
    got: list = []

    async def outer(state):
        got.extend([c["content"] async for c, _ in inner.astream(state, stream_mode="messages")])

    assert await heard(graph(outer)) == []
    assert got == ["Hel", "lo"]


# -- ending early ------------------------------------------------------------------------------------------------


class Wrong(Exception):
    pass


@pytest.mark.parametrize("end", ["break", "return", "raise", "interrupt"])
async def test_a_response_that_is_left_early_is_closed_with_the_node(end):
    answer = Response(["a", "b", "c"])

    async def n(state):
        async for _ in stream_tokens(answer):
            if end == "break":
                break
            if end == "return":
                return None
            if end == "raise":
                raise Wrong
            interrupt("?")
        return None

    async def run():
        async for _ in graph(n).astream({"messages": []}, stream_mode="messages"):
            pass

    if end == "raise":
        with pytest.raises(Wrong):
            await run()
    else:
        await run()
    assert answer.closed
    assert answer.given == 1


async def test_a_response_that_is_still_held_is_closed_with_the_node():
    answer, kept = Response(["a", "b"]), []

    async def n(state):
        items = aiter(stream_tokens(answer))
        kept.append(items)
        await anext(items)

    await graph(n).ainvoke({"messages": []})

    assert answer.closed


async def test_a_response_is_closed_when_its_run_is_cancelled():
    reached, answer = asyncio.Event(), Response([])

    async def forever(self):
        yield "a"
        reached.set()
        await asyncio.Event().wait()

    answer.__class__ = type("Waiting", (Response,), {"__aiter__": forever})

    run = asyncio.create_task(graph(streaming(lambda: answer)).ainvoke({"messages": []}))
    await reached.wait()
    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await run
    assert answer.closed


async def test_a_response_that_ended_is_left_as_it_is():
    answer = Response(["a"])

    await stream_tokens(answer).collect()

    assert not answer.closed


async def test_a_blocking_response_that_is_left_early_is_closed():
    closed: list = []

    def blocking():
        try:
            yield "a"
            yield "b"
        finally:
            closed.append(True)

    def n(state):
        for _ in stream_tokens(blocking()):
            break

    await graph(n).ainvoke({"messages": []})

    assert closed == [True]


@pytest.mark.parametrize("mode", ["messages", "updates"])
async def test_a_plain_node_stops_reading_when_its_run_is_cancelled(mode):
    loop, reached, closed = asyncio.get_running_loop(), asyncio.Event(), []

    def endless():
        try:
            while True:
                loop.call_soon_threadsafe(reached.set)
                yield "a"
        finally:
            closed.append(True)

    def n(state):
        for _ in stream_tokens(endless()):
            pass

    async def run():
        async for _ in graph(n).astream({"messages": []}, stream_mode=mode):
            pass

    work = asyncio.create_task(run())
    await reached.wait()
    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work
    assert closed == [True]


async def test_an_error_of_the_response_is_raised_after_what_came():
    async def breaks():
        yield "a"
        raise Wrong("down")

    got: list = []
    with pytest.raises(Wrong, match="down"):
        async for chunk, _ in graph(streaming(breaks)).astream({"messages": []}, stream_mode="messages"):
            got.append(chunk["content"])

    assert got == ["a"]


async def test_a_reader_that_leaves_ends_the_response():
    class Endless(Response):
        async def __aiter__(self):
            while True:
                yield "a"

    answer = Endless([])
    stream = graph(streaming(lambda: answer)).astream({"messages": []}, stream_mode="messages")

    await anext(stream)
    await stream.aclose()

    assert answer.closed


async def test_chunks_of_code_that_outlived_its_node_are_refused_with_a_warning():
    go, done, kept = asyncio.Event(), asyncio.Event(), []

    async def waits():
        yield "early"
        await go.wait()
        yield "late"

    async def a(state):
        async def late():
            with pytest.warns(RuntimeWarning, match="'a' streamed a message after it was done"):
                assert [t async for t in stream_tokens(waits())] == ["early", "late"]
            done.set()

        kept.append(asyncio.create_task(late()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def b(state):
        go.set()
        await done.wait()

    builder = StateGraph(MessagesState)
    builder.add_node(a)
    builder.add_node(b)
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")

    told = await heard(builder.compile())

    assert [chunk["content"] for chunk, _ in told] == ["early"]
    await kept[0]


# -- slow readers ------------------------------------------------------------------------------------------------


async def test_two_nodes_stream_ten_thousand_tokens_each_to_a_slow_reader(monkeypatch):
    from langgraph_async.pregel import graph as module

    buses: list = []

    class Watched(module.Bus):
        def __init__(self):
            super().__init__()
            buses.append(self)

    monkeypatch.setattr(module, "Bus", Watched)
    many = 10_000

    async def numbers():
        for number in range(many):
            yield f"{number} "

    async def one(state):
        return {"messages": await stream_tokens(numbers()).collect()}

    async def two(state):
        return {"messages": await stream_tokens(numbers()).collect()}

    longest, got = 0, {"one": [], "two": []}
    async for chunk, metadata in graph(one, two).astream({"messages": []}, stream_mode="messages"):
        longest = max(longest, len(buses[0]))
        got[metadata["langgraph_node"]].append(chunk["content"])
        if len(got["one"]) % 100 == 0:
            await asyncio.sleep(0)

    assert longest <= SOFT_LIMIT + 2
    assert got["one"] == got["two"] == [f"{number} " for number in range(many)]


async def test_a_plain_node_waits_for_a_slow_reader_too():
    many = 2_000

    def n(state):
        for _ in stream_tokens([str(number) for number in range(many)]):
            pass

    got: list = []
    async for chunk, _ in graph(n).astream({"messages": []}, stream_mode="messages"):
        got.append(chunk["content"])

    assert got == [str(number) for number in range(many)]


async def test_chunks_that_nobody_waits_for_are_refused_at_last():
    from langgraph_async import ambient

    async def n(state):
        for _ in range(20_000):
            ambient.current.get().emit_message({"role": "assistant", "content": "x", "id": "m"}, {})

    with pytest.raises(StreamOverflowError):
        await heard(graph(n))


async def test_every_reader_gets_every_token():
    inner = graph(streaming(lambda: tokens(*"abcdef")))
    got: list = []

    async def outer(state):
        got.extend([c["content"] async for c, _ in inner.astream(state, stream_mode="messages")])

    told = await heard(graph(outer), subgraphs=True)

    assert got == [chunk["content"] for _, (chunk, _) in told] == list("abcdef")


async def test_a_handle_gives_the_tokens_to_who_iterates():
    async with graph(streaming(lambda: tokens("Hel", "lo"))).start({"messages": []}, stream_mode="messages") as run:
        assert [chunk["content"] async for chunk, _ in run] == ["Hel", "lo"]


async def test_a_run_that_is_not_streamed_collects_the_tokens():
    told = await graph(streaming(lambda: tokens("Hel", "lo"))).ainvoke({"messages": []}, stream_mode="messages")

    assert [chunk["content"] for chunk, _ in told] == ["Hel", "lo"]


def test_the_blocking_methods_give_the_tokens_too():
    told = graph(streaming(lambda: tokens("Hel", "lo"))).stream({"messages": []}, stream_mode="messages")

    assert [chunk["content"] for chunk, _ in told] == ["Hel", "lo"]


async def test_a_second_attempt_streams_a_message_of_its_own():
    tries: list = []

    async def unsure():
        yield "a"
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError

    builder = StateGraph(MessagesState)
    builder.add_node("n", streaming(unsure), retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    builder.add_edge(START, "n")

    told = await heard(builder.compile())

    assert [chunk["content"] for chunk, _ in told] == ["a", "a"]
    assert told[0][0]["id"] != told[1][0]["id"]


async def test_reducers_get_what_the_stream_had():
    assert add_messages([], await stream_tokens(tokens("a"), id="mine").collect()) == [
        {"role": "assistant", "content": "a", "id": "mine"}
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await stream_tokens(tokens()).collect()
