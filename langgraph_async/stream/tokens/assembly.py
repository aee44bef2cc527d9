"""Puts a message together from its pieces."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from langgraph_async.stream.tokens.chunks import TokenDelta, ToolCallDelta, Usage

_SHORTEST_ID: Final = 16
"""Characters of an id below which it may not be unique: some local servers draw theirs from a thousand."""


class Assembly:
    """One message that grows.

    Attributes:
        id: Its id: the one given, else the provider's if it is long enough to be unique, else a new one.
        known_as: The provider's id, by which its pieces are known.
        told_elsewhere: Somebody else tells its pieces to those who listen.
    """

    __slots__ = (
        "_calls",
        "_finish_reason",
        "_reasoning",
        "_refusal",
        "_text",
        "_untold",
        "_usage",
        "_whole",
        "id",
        "known_as",
        "told_elsewhere",
    )

    def __init__(self, known_as: str | None, index: int, id: str | None = None) -> None:
        self.known_as = known_as
        own = id or (known_as if known_as is not None and len(known_as) >= _SHORTEST_ID else str(uuid4()))
        self.id = f"{own}-{index}" if index else own
        self.told_elsewhere = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._usage: Usage | None = None
        self._finish_reason: str | None = None
        self._untold: str | None = None
        self._whole: Any = None

    def add(self, delta: TokenDelta) -> None:
        """Add a piece."""
        if delta.message is not None:
            self.id = delta.message.id
            self._whole = delta.message if self._whole is None else self._whole + delta.message
            return
        for pieces, piece in (
            (self._text, delta.text),
            (self._reasoning, delta.reasoning),
            (self._refusal, delta.refusal),
        ):
            if piece:
                pieces.append(piece)
        for call in delta.tool_calls:
            self._calls.setdefault(call.index, _Call()).add(call)
        self._usage = delta.usage or self._usage
        self._finish_reason = delta.finish_reason or self._finish_reason

    def to_tell(self, delta: TokenDelta) -> TokenDelta:
        """Return what of a piece that was added is to be told now.

        Why a message ended is told when its usage is known, which may come after it: so that is the last chunk.
        """
        reason = delta.finish_reason or self._untold
        if reason is None:
            return delta
        self._untold = reason if self._usage is None else None
        return replace(delta, finish_reason=reason if self._usage is not None else None)

    def rest(self) -> TokenDelta:
        """Return what is left to tell when the response is over."""
        reason, self._untold = self._untold, None
        return TokenDelta(finish_reason=reason)

    def message(self) -> Any:
        """Return the message as far as it has come: a dict in OpenAI's form, or langchain-core's object."""
        if self._whole is not None:
            langchain = sys.modules["langchain_core.messages"]
            chunk = isinstance(self._whole, langchain.BaseMessageChunk)
            return langchain.message_chunk_to_message(self._whole) if chunk else self._whole
        made: dict[str, Any] = {"role": "assistant", "content": "".join(self._text), "id": self.id}
        if self._calls:
            made["tool_calls"] = [self._calls[index].whole() for index in sorted(self._calls)]
        for key, pieces in (("reasoning", self._reasoning), ("refusal", self._refusal)):
            if pieces:
                made[key] = "".join(pieces)
        if self._usage:
            made["usage"] = dict(self._usage)
        if self._finish_reason:
            made["finish_reason"] = self._finish_reason
        return made


class _Call:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = self.name = ""
        self.arguments: list[str] = []

    def add(self, piece: ToolCallDelta) -> None:
        self.id = self.id or piece.id or ""
        self.name = self.name or piece.name or ""
        if piece.arguments:
            self.arguments.append(piece.arguments)

    def whole(self) -> dict[str, Any]:
        self.id = self.id or f"call_{uuid4().hex}"
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": "".join(self.arguments) or "{}"},
        }
