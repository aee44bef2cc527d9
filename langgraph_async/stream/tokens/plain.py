"""Items that are no SDK's: text, dicts that are chunks of a message, and langchain-core's messages and chunks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from langgraph_async.stream.tokens.chunks import TokenDelta, ToolCallDelta, part


class TextReader:
    """Reads items that are text."""

    provider: str | None = None

    @staticmethod
    def accepts(item: Any) -> bool:
        """Tell whether an item is text."""
        return isinstance(item, str)

    def __call__(self, item: Any) -> Iterator[TokenDelta]:
        """Yield what an item adds."""
        if isinstance(item, str):
            yield TokenDelta(text=item)


class DictReader:
    """Reads dicts with `content` or `tool_calls`, such as a `MessageChunk`, or a delta in OpenAI's form."""

    provider: str | None = None

    @staticmethod
    def accepts(item: Any) -> bool:
        """Tell whether an item is such a dict."""
        return isinstance(item, dict) and ("role" in item or "content" in item or "tool_calls" in item)

    def __call__(self, item: Any) -> Iterator[TokenDelta]:
        """Yield what an item adds."""
        if not self.accepts(item):
            return
        content = item.get("content")
        calls = enumerate(item.get("tool_calls") or ())
        yield TokenDelta(
            text=content if isinstance(content, str) else "",
            id=item.get("id"),
            reasoning=item.get("reasoning") or "",
            refusal=item.get("refusal") or "",
            tool_calls=tuple(_call(place, call) for place, call in calls),
            usage=item.get("usage"),
            finish_reason=item.get("finish_reason"),
            model=item.get("model"),
        )


def _call(place: int, call: Any) -> ToolCallDelta:
    function, index = part(call, "function"), part(call, "index")
    return ToolCallDelta(
        index=place if index is None else index,
        id=part(call, "id"),
        name=part(function, "name"),
        arguments=part(function, "arguments") or "",
    )


class LangchainReader:
    """Reads langchain-core's chunks and messages; they are told as they are."""

    provider: str | None = None

    def __init__(self) -> None:
        self._fresh = str(uuid4())

    @staticmethod
    def accepts(item: Any) -> bool:
        """Tell whether an item is such a message."""
        langchain = sys.modules.get("langchain_core.messages")
        return langchain is not None and isinstance(item, langchain.BaseMessage)

    def __call__(self, item: Any) -> Iterator[TokenDelta]:
        """Yield what an item adds."""
        if self.accepts(item):
            message = item if item.id else item.model_copy(update={"id": self._fresh})
            yield TokenDelta(id=message.id, message=message)
