"""Responses of models as their SDKs give them, made of plain objects: what streams carry, without the SDKs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def thing(given: Any) -> Any:
    """Return JSON as objects with attributes, as SDKs do."""
    if isinstance(given, dict):
        return SimpleNamespace(**{key: thing(value) for key, value in given.items()})
    return [thing(item) for item in given] if isinstance(given, list) else given


def chat_chunk(
    delta: dict | None = None, *, finish: str | None = None, usage: dict | None = None, index: int = 0
) -> dict:
    choices = [] if delta is None else [{"index": index, "delta": delta, "finish_reason": finish, "logprobs": None}]
    return {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-test",
        "choices": choices,
        "usage": usage,
    }


def call_delta(index: int, arguments: str, id: str | None = None, name: str | None = None) -> dict:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"tool_calls": [{"index": index, "function": function, **({"id": id, "type": "function"} if id else {})}]}


CHAT = [
    chat_chunk({"role": "assistant", "content": ""}),
    chat_chunk({"content": "Hel"}),
    chat_chunk({"content": "lo"}),
    chat_chunk(call_delta(0, "", "call_a", "search")),
    chat_chunk(call_delta(0, '{"q":')),
    chat_chunk(call_delta(0, '"tea"}')),
    chat_chunk(call_delta(1, "{}", "call_b", "now")),
    chat_chunk({}, finish="tool_calls"),
    chat_chunk(
        usage={
            "prompt_tokens": 7,
            "completion_tokens": 5,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }
    ),
]
CALLS = [
    {"id": "call_a", "type": "function", "function": {"name": "search", "arguments": '{"q":"tea"}'}},
    {"id": "call_b", "type": "function", "function": {"name": "now", "arguments": "{}"}},
]
CHAT_MESSAGE = {
    "role": "assistant",
    "content": "Hello",
    "id": "chatcmpl-0123456789abcdef",
    "tool_calls": CALLS,
    "usage": {
        "input_tokens": 7,
        "output_tokens": 5,
        "total_tokens": 12,
        "cache_read_tokens": 3,
        "reasoning_tokens": 2,
    },
    "finish_reason": "tool_calls",
}


def response(status: str, usage: dict | None = None, **more: Any) -> dict:
    return {
        "id": "resp_0123456789abcdef",
        "object": "response",
        "created_at": 1,
        "model": "gpt-test",
        "status": status,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1,
        "top_p": 1,
        **more,
    }


def _numbered(events: list[dict]) -> list[dict]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


_SPOT = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
_CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_a",
    "name": "search",
    "arguments": "",
    "status": "in_progress",
}
RESPONSES = _numbered(
    [
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.in_progress", "response": response("in_progress")},
        {
            "type": "response.reasoning_summary_text.delta",
            "item_id": "rs_1",
            "output_index": 0,
            "summary_index": 0,
            "delta": "Hmm.",
        },
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []},
        },
        {"type": "response.output_text.delta", **_SPOT, "delta": "Hel", "logprobs": []},
        {"type": "response.output_text.delta", **_SPOT, "delta": "lo", "logprobs": []},
        {"type": "response.output_text.done", **_SPOT, "text": "Hello", "logprobs": []},
        {"type": "response.output_item.added", "output_index": 2, "item": _CALL},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 2, "delta": '{"q":'},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 2, "delta": '"tea"}'},
        {
            "type": "response.function_call_arguments.done",
            "item_id": "fc_1",
            "output_index": 2,
            "name": "search",
            "arguments": '{"q":"tea"}',
        },
        {
            "type": "response.completed",
            "response": response(
                "completed",
                {
                    "input_tokens": 7,
                    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                    "output_tokens": 5,
                    "output_tokens_details": {"reasoning_tokens": 2},
                    "total_tokens": 12,
                },
            ),
        },
    ]
)
RESPONSES_MESSAGE = {
    "role": "assistant",
    "content": "Hello",
    "id": "resp_0123456789abcdef",
    "tool_calls": CALLS[:1],
    "reasoning": "Hmm.",
    "usage": {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12, "reasoning_tokens": 2},
    "finish_reason": "tool_calls",
}

ANTHROPIC = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_0123456789abcdef",
            "type": "message",
            "role": "assistant",
            "model": "claude-test",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 3},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hmm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "lo"}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "call_a", "name": "search", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"q":'}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"tea"}'}},
    {"type": "content_block_stop", "index": 2},
    {
        "type": "content_block_start",
        "index": 3,
        "content_block": {"type": "tool_use", "id": "call_b", "name": "now", "input": {}},
    },
    {"type": "content_block_stop", "index": 3},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 5},
    },
    {"type": "message_stop"},
]
ANTHROPIC_MESSAGE = {
    "role": "assistant",
    "content": "Hello",
    "id": "msg_0123456789abcdef",
    "tool_calls": CALLS,
    "reasoning": "Hmm.",
    "usage": {"input_tokens": 7, "output_tokens": 5, "cache_read_tokens": 3, "total_tokens": 12},
    "finish_reason": "tool_calls",
}

STREAMS = {
    "chat": (CHAT, CHAT_MESSAGE),
    "responses": (RESPONSES, RESPONSES_MESSAGE),
    "anthropic": (ANTHROPIC, ANTHROPIC_MESSAGE),
}


class Response:
    """What an async SDK returns for ``stream=True``: iterable once, closed by a coroutine."""

    def __init__(self, items: list) -> None:
        self._items = iter(items)
        self.closed = False
        self.given = 0

    async def __aiter__(self):
        for item in self._items:
            self.given += 1
            yield item

    async def close(self) -> None:
        self.closed = True


def joined(chunks: list[dict]) -> dict:
    """Return the message that chunks make, put together as a reader would."""
    calls: dict[int, dict] = {}
    whole: dict[str, Any] = {"role": chunks[0]["role"], "content": "".join(c["content"] for c in chunks)}
    (whole["id"],) = {c["id"] for c in chunks}
    for chunk in chunks:
        for key in ("usage", "finish_reason"):
            if key in chunk:
                assert key not in whole, "told twice"
                whole[key] = chunk[key]
        for key in ("reasoning", "refusal"):
            if key in chunk:
                whole[key] = whole.get(key, "") + chunk[key]
        for piece in chunk.get("tool_calls", ()):
            call = calls.setdefault(
                piece["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            )
            call["id"] += piece.get("id", "")
            call["function"]["name"] += piece["function"].get("name", "")
            call["function"]["arguments"] += piece["function"].get("arguments", "")
    for call in calls.values():
        call["function"]["arguments"] = call["function"]["arguments"] or "{}"
    return {**whole, **({"tool_calls": [calls[i] for i in sorted(calls)]} if calls else {})}
