"""Messages as dicts in OpenAI's form, without langchain-core (specification 10.1, format)."""

import subprocess
import sys

import pytest
from langchain_core.messages import AIMessage

from langgraph_async import add_messages
from langgraph_async.graph.message import openai_messages

PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
WEB = {"type": "image_url", "image_url": {"url": "http://x"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}
THOUGHT = {"type": "thinking", "thinking": "x", "signature": "s"}


def text(words):
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("content", "converted"),
    [
        ("x", "x"),
        ([], ""),
        ([text("a"), text("b")], "a\nb"),
        (["a", text("b")], "a\nb"),
        ([text("a"), WEB], [text("a"), WEB]),
        ([{"type": "image_url", "image_url": "http://x"}], [WEB]),
        ([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}], [PNG]),
        ([{"type": "image", "source": {"type": "url", "url": "http://x"}}], [WEB]),
        ([{"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "aGk="}], [PNG]),
        ([{"type": "image", "base64": "aGk=", "mime_type": "image/png"}], [PNG]),
        ([{"type": "image", "url": "http://x"}], [WEB]),
        ([{"image": {"format": "png", "source": {"bytes": b"hi"}}}], [PNG]),
        ([{"type": "media", "mime_type": "image/png", "data": b"hi"}], [PNG]),
        ([AUDIO], [AUDIO]),
        ([THOUGHT, text("a")], [THOUGHT, text("a")]),
        ([{"type": "json", "json": {"a": 1}}, {"json": {"b": 2}}], '{"a": 1}\n{"b": 2}'),
        ([{"guard_content": {"text": "g"}}], "g"),
        ([{"type": "weird", "x": 1}], [{"type": "weird", "x": 1}]),
        ([text("a"), {"type": "text"}], [text("a"), {"type": "text"}]),
        ([{"type": "image_url"}], [{"type": "image_url"}]),
        ([{"type": "image"}], [{"type": "image"}]),
    ],
    ids=str,
)
def test_content_is_converted(content, converted):
    merged = add_messages([], [{"role": "user", "content": content, "id": "1"}], format="langchain-openai")

    assert merged == [{"role": "user", "content": converted, "id": "1"}]


def test_calls_of_tools_become_tool_calls():
    used = {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}
    message = {"role": "assistant", "content": [text("a"), used], "id": "1"}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}

    (made,) = add_messages([], [message], format="langchain-openai")
    assert made == {"role": "assistant", "content": "a", "id": "1", "tool_calls": [call]}

    (again,) = add_messages([], [{**message, "tool_calls": [call]}], format="langchain-openai")
    assert again["tool_calls"] == [call]


def test_results_of_tools_become_messages_with_ids_that_stay():
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [text("r")]}
    message = {"role": "user", "content": [text("more"), result], "id": "1"}
    merge = add_messages(format="langchain-openai")

    made = merge([], [message])

    assert made == [
        {"role": "tool", "content": "r", "tool_call_id": "c1", "id": "1-c1"},
        {"role": "user", "content": "more", "id": "1"},
    ]
    assert merge(made, []) == made
    assert merge([], [{**message, "content": [result]}]) == made[:1]


def test_what_was_passed_in_is_not_changed():
    message = {"role": "user", "content": [text("a"), text("b")], "id": "1"}

    add_messages([message], [], format="langchain-openai")

    assert message["content"] == [text("a"), text("b")]


def test_a_request_has_only_what_it_may_have():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    state = [
        {"role": "user", "content": "q", "id": "1"},
        {"role": "assistant", "content": "", "id": "2", "tool_calls": [call], "usage": {}, "finish_reason": "stop"},
        {"role": "tool", "content": "r", "tool_call_id": "c", "id": "3"},
        {"type": "ai", "content": [text("a")], "id": "4"},
        AIMessage("b", id="5"),
        "c",
        ("system", "d"),
    ]

    assert openai_messages(state) == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "r", "tool_call_id": "c"},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "system", "content": "d"},
    ]


def test_langchain_is_not_needed():
    code = (
        "import sys; sys.modules['langchain_core'] = None\n"
        "from langgraph_async.graph.message import add_messages, openai_messages\n"
        "m = [{'role': 'user', 'content': [{'type': 'text', 'text': 'a'}], 'id': '1'}]\n"
        "assert add_messages(m, [], format='langchain-openai')[0]['content'] == 'a'\n"
        "assert openai_messages(['x', ('ai', 'y')])[1] == {'role': 'assistant', 'content': 'y'}\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
