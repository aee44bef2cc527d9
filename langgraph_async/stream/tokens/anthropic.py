"""Events of Anthropic's messages, as they come and as the SDK's `MessageStream` adds to them.

Source: the streaming events of ``POST /v1/messages``, as the `anthropic` SDK's `RawMessageStreamEvent` has them, or as
dicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from langgraph_async.stream.tokens.chunks import TokenDelta, ToolCallDelta, part, usage_of

_EVENTS: Final = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
    }
)
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class MessagesReader:
    """Reads the events of one message. What `MessageStream` adds (``text``, ``input_json``, ...) says nothing new."""

    provider: str | None = "anthropic"

    def __init__(self) -> None:
        self._calls: dict[Any, int] = {}
        self._input: dict[str, Any] = {}

    @staticmethod
    def accepts(item: Any) -> bool:
        """Tell whether an item is such an event."""
        return part(item, "type") in _EVENTS

    def __call__(self, item: Any) -> Iterator[TokenDelta]:
        """Yield what an item adds."""
        kind = part(item, "type")
        if kind == "message_start":
            message = part(item, "message")
            self._calls = {}
            self._input = _counts(part(message, "usage"))
            yield TokenDelta(id=part(message, "id"), model=part(message, "model"))
        elif kind == "content_block_start":
            yield from self._begun(part(item, "index"), part(item, "content_block"))
        elif kind == "content_block_delta":
            yield from self._added(part(item, "index"), part(item, "delta"))
        elif kind == "message_delta":
            reason = part(part(item, "delta"), "stop_reason")
            counts = {**self._input, **_counts(part(item, "usage"))}
            yield TokenDelta(usage=usage_of(**counts), finish_reason=_REASONS.get(reason, reason))

    def _begun(self, place: Any, block: Any) -> Iterator[TokenDelta]:
        kind = part(block, "type")
        if kind in _CALLS:
            index = self._calls.setdefault(place, len(self._calls))
            yield TokenDelta(tool_calls=(ToolCallDelta(index, id=part(block, "id"), name=part(block, "name")),))
        elif kind == "text":
            yield TokenDelta(text=part(block, "text") or "")
        elif kind == "thinking":
            yield TokenDelta(reasoning=part(block, "thinking") or "")

    def _added(self, place: Any, delta: Any) -> Iterator[TokenDelta]:
        kind = part(delta, "type")
        if kind == "text_delta":
            yield TokenDelta(text=part(delta, "text") or "")
        elif kind == "thinking_delta":
            yield TokenDelta(reasoning=part(delta, "thinking") or "")
        elif kind == "input_json_delta" and place in self._calls:
            piece = ToolCallDelta(self._calls[place], arguments=part(delta, "partial_json") or "")
            yield TokenDelta(tool_calls=(piece,) if piece.arguments else ())


def _counts(usage: Any) -> dict[str, Any]:
    names = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cache_read_input_tokens": "cache_read_tokens",
        "cache_creation_input_tokens": "cache_creation_tokens",
    }
    return {ours: count for theirs, ours in names.items() if (count := part(usage, theirs)) is not None}
