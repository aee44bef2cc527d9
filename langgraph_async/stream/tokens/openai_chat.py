"""Chunks of OpenAI's chat completions, and of whatever speaks like them.

Source: the streaming format of ``POST /v1/chat/completions``, as the `openai` SDK's `ChatCompletionChunk` has it, or as
a dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from langgraph_async.stream.tokens.chunks import TokenDelta, ToolCallDelta, Usage, part, usage_of

_HELPER_EVENTS: Final = frozenset(
    {
        "chunk",
        "content.delta",
        "content.done",
        "refusal.delta",
        "refusal.done",
        "tool_calls.function.arguments.delta",
        "tool_calls.function.arguments.done",
        "logprobs.content.delta",
        "logprobs.content.done",
        "logprobs.refusal.delta",
        "logprobs.refusal.done",
    }
)


class ChatReader:
    """Reads the chunks of one response, also out of the events of ``chat.completions.stream``."""

    provider: str | None = "openai"

    @staticmethod
    def accepts(item: Any) -> bool:
        """Tell whether an item is such a chunk or event."""
        return isinstance(part(item, "choices"), list) or part(item, "type") in _HELPER_EVENTS

    def __call__(self, item: Any) -> Iterator[TokenDelta]:
        """Yield what an item adds."""
        if part(item, "type") == "chunk":
            item = part(item, "chunk")
        choices = part(item, "choices")
        if not isinstance(choices, list):
            return
        id, model = part(item, "id"), part(item, "model")
        usage = _usage(part(item, "usage"))
        for choice in choices:
            delta = part(choice, "delta") or part(choice, "message")
            yield TokenDelta(
                text=part(delta, "content") or "",
                id=id,
                index=part(choice, "index") or 0,
                reasoning=part(delta, "reasoning_content") or part(delta, "reasoning") or "",
                refusal=part(delta, "refusal") or "",
                tool_calls=tuple(_calls(part(delta, "tool_calls"), part(delta, "function_call"))),
                finish_reason=part(choice, "finish_reason"),
                model=model,
                usage=usage if choice is choices[0] else None,
            )
        if not choices and usage is not None:
            yield TokenDelta(id=id, model=model, usage=usage)


def _calls(calls: Any, legacy: Any) -> Iterator[ToolCallDelta]:
    for place, call in enumerate(calls or ()):
        function = part(call, "function") or part(call, "custom")
        index = part(call, "index")
        yield ToolCallDelta(
            index=place if index is None else index,
            id=part(call, "id") or None,
            name=part(function, "name") or None,
            arguments=part(function, "arguments") or part(function, "input") or "",
        )
    if legacy is not None:
        yield ToolCallDelta(0, name=part(legacy, "name") or None, arguments=part(legacy, "arguments") or "")


def _usage(given: Any) -> Usage | None:
    if given is None:
        return None
    return usage_of(
        input_tokens=part(given, "prompt_tokens"),
        output_tokens=part(given, "completion_tokens"),
        total_tokens=part(given, "total_tokens"),
        cache_read_tokens=part(part(given, "prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=part(part(given, "completion_tokens_details"), "reasoning_tokens"),
    )
