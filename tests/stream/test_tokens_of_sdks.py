"""Tokens of the real SDKs, against a server in the process. The same streams without SDKs are in test_tokens.py."""

import json

import pytest
from model_streams import ANTHROPIC, ANTHROPIC_MESSAGE, CHAT, CHAT_MESSAGE, RESPONSES, RESPONSES_MESSAGE, joined

from langgraph_async import START, MessagesState, StateGraph, stream_tokens

ASKED = [{"role": "user", "content": "Hi"}]


def sent(events: list[dict], *, named: bool, done: bool = False) -> bytes:
    """Return events as a server sends them."""
    lines = []
    for event in events:
        if named:
            lines.append(f"event: {event['type']}")
        lines.append(f"data: {json.dumps(event)}\n")
    if done:
        lines.append("data: [DONE]\n")
    return ("\n".join(lines) + "\n").encode()


BODIES = {
    "/v1/chat/completions": sent(CHAT, named=False, done=True),
    "/v1/responses": sent(RESPONSES, named=True),
    "/v1/messages": sent(ANTHROPIC, named=True),
}


def transport(module):
    """Return what answers requests with the streams, for the HTTP client of an SDK."""

    def answer(request):
        return module.Response(
            200, headers={"content-type": "text/event-stream"}, content=BODIES[request.url.path], request=request
        )

    return module.MockTransport(answer)


def http_of(sdk):
    """Return the HTTP library that an SDK works with."""
    import importlib

    base = sdk.DefaultAsyncHttpxClient.__mro__
    return importlib.import_module(next(cls.__module__.split(".")[0] for cls in base if cls.__name__ == "AsyncClient"))


@pytest.fixture
def openai():
    sdk = pytest.importorskip("openai")
    http = http_of(sdk)
    return sdk.AsyncOpenAI(
        api_key="k", base_url="http://test/v1", http_client=http.AsyncClient(transport=transport(http)), max_retries=0
    )


@pytest.fixture
def blocking_openai():
    sdk = pytest.importorskip("openai")
    http = http_of(sdk)
    return sdk.OpenAI(
        api_key="k", base_url="http://test/v1", http_client=http.Client(transport=transport(http)), max_retries=0
    )


@pytest.fixture
def anthropic():
    sdk = pytest.importorskip("anthropic")
    http = http_of(sdk)
    return sdk.AsyncAnthropic(
        api_key="k", base_url="http://test", http_client=http.AsyncClient(transport=transport(http)), max_retries=0
    )


async def run(ask):
    """Return the chunks that a node tells which streams the response of `ask`, and the message that it returns."""

    async def n(state):
        return {"messages": await stream_tokens(ask()).collect()}

    builder = StateGraph(MessagesState)
    builder.add_node(n)
    builder.add_edge(START, "n")
    modes = ["messages", "values"]
    items = [item async for item in builder.compile().astream({"messages": []}, stream_mode=modes)]
    return [item[0] for mode, item in items if mode == "messages"], items[-1][1]["messages"][-1]


async def test_openai_chat_completions(openai):
    chunks, message = await run(lambda: openai.chat.completions.create(model="m", messages=ASKED, stream=True))

    assert joined(chunks) == message == CHAT_MESSAGE


async def test_openai_chat_helper(openai):
    chunks, message = await run(lambda: openai.chat.completions.stream(model="m", messages=ASKED))

    assert joined(chunks) == message == CHAT_MESSAGE


async def test_openai_responses(openai):
    chunks, message = await run(lambda: openai.responses.create(model="m", input="Hi", stream=True))

    assert joined(chunks) == message == RESPONSES_MESSAGE


async def test_openai_blocking_client_in_an_async_node(blocking_openai):
    chunks, message = await run(lambda: blocking_openai.chat.completions.create(model="m", messages=ASKED, stream=True))

    assert joined(chunks) == message == CHAT_MESSAGE


async def test_anthropic_messages(anthropic):
    chunks, message = await run(lambda: anthropic.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True))

    assert joined(chunks) == message == ANTHROPIC_MESSAGE


async def test_anthropic_message_stream(anthropic):
    chunks, message = await run(lambda: anthropic.messages.stream(model="m", max_tokens=9, messages=ASKED))

    assert joined(chunks) == message == ANTHROPIC_MESSAGE


async def test_anthropic_message_stream_that_is_open_already(anthropic):
    async with anthropic.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream:
        message = await stream_tokens(stream).collect()
        final = await stream.get_final_message()

    assert message == ANTHROPIC_MESSAGE
    assert final.id == message["id"]


async def test_anthropic_text_stream(anthropic):
    async with anthropic.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream:
        message = await stream_tokens(stream.text_stream).collect()

    assert message["content"] == "Hello"


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
async def test_a_response_that_is_left_early_is_closed(sdk, request):
    client = request.getfixturevalue(sdk)
    opened: list = []

    async def ask():
        if sdk == "openai":
            answer = await client.chat.completions.create(model="m", messages=ASKED, stream=True)
        else:
            answer = await client.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True)
        opened.append(answer.response)
        return answer

    async def n(state):
        async for _ in stream_tokens(ask()):
            break

    builder = StateGraph(MessagesState)
    builder.add_node(n)
    builder.add_edge(START, "n")
    await builder.compile().ainvoke({"messages": []})

    assert opened[0].is_closed
