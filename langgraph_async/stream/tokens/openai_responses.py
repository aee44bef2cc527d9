"""Events of OpenAI's Responses API.

Source: the streaming events of ``POST /v1/responses``, as the `openai` SDK's `ResponseStreamEvent` has them, or as
dicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from langgraph_async.stream.tokens.chunks import TokenDelta, ToolCallDelta, Usage, part, usage_of

_TEXT: Final = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
}
_ARGUMENTS: Final = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
_REASONS: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}


class ResponsesReader:
    """Reads the events of one response: its texts and calls are one message, with the response's id."""

    provider: str | None = "openai"

    def __init__(self) -> None:
        self._calls: dict[Any, int] = {}

    @staticmethod
    def accepts(item: Any) -> bool:
        """Tell whether an item is such an event."""
        kind = part(item, "type")
        return isinstance(kind, str) and kind.startswith("response.")

    def __call__(self, item: Any) -> Iterator[TokenDelta]:
        """Yield what an item adds."""
        kind = part(item, "type")
        if kind in _TEXT:
            given: dict[str, Any] = {_TEXT[kind]: part(item, "delta") or ""}
            yield TokenDelta(**given)
        elif kind in _ARGUMENTS:
            index = self._index(part(item, "output_index"))
            yield TokenDelta(tool_calls=(ToolCallDelta(index, arguments=part(item, "delta") or ""),))
        elif kind == "response.output_item.added":
            yield from self._item(part(item, "output_index"), part(item, "item"))
        elif kind == "response.created":
            response = part(item, "response")
            yield TokenDelta(id=part(response, "id"), model=part(response, "model"))
        elif kind in _ENDS:
            response = part(item, "response")
            yield TokenDelta(
                id=part(response, "id"),
                model=part(response, "model"),
                usage=_usage(part(response, "usage")),
                finish_reason=self._finish_reason(kind, response),
            )

    def _item(self, place: Any, item: Any) -> Iterator[TokenDelta]:
        if part(item, "type") in ("function_call", "custom_tool_call"):
            call = ToolCallDelta(
                index=self._index(place),
                id=part(item, "call_id"),
                name=part(item, "name"),
                arguments=part(item, "arguments") or part(item, "input") or "",
            )
            yield TokenDelta(tool_calls=(call,))

    def _index(self, place: Any) -> int:
        return self._calls.setdefault(place, len(self._calls))

    def _finish_reason(self, kind: str, response: Any) -> str:
        if kind == "response.failed":
            return "error"
        if kind == "response.incomplete":
            reason = part(part(response, "incomplete_details"), "reason") or "length"
            return _REASONS.get(reason, reason)
        return "tool_calls" if self._calls else "stop"


def _usage(given: Any) -> Usage | None:
    if given is None:
        return None
    return usage_of(
        input_tokens=part(given, "input_tokens"),
        output_tokens=part(given, "output_tokens"),
        total_tokens=part(given, "total_tokens"),
        cache_read_tokens=part(part(given, "input_tokens_details"), "cached_tokens"),
        reasoning_tokens=part(part(given, "output_tokens_details"), "reasoning_tokens"),
    )
