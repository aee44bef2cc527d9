"""What a model adds to a message: as adapters say it, and as readers of ``messages`` get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class Usage(TypedDict, total=False):
    """Tokens that a message cost, as the provider counts them.

    `cache_read_tokens` and `cache_creation_tokens` are of the input, `reasoning_tokens` of the output.
    """

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int
    reasoning_tokens: int


class FunctionDelta(TypedDict, total=False):
    """A piece of a call: the name comes once, the arguments are JSON text in pieces."""

    name: str
    arguments: str


class CallDelta(TypedDict):
    """A piece of a tool call; `index` says of which, `id` comes with its first piece."""

    index: int
    type: Literal["function"]
    function: FunctionDelta
    id: NotRequired[str]


class MessageChunk(TypedDict):
    """A piece of a message, as ``stream_mode="messages"`` yields it; plain JSON.

    Chunks with the same `id` are one message: `content`, `reasoning`, `refusal` and the calls' `arguments` are to be
    joined, `usage` and `finish_reason` come at most once; the latter with the last chunk. A whole message has the `id`
    of its chunks, and no `type`.
    """

    type: Literal["AIMessageChunk"]
    role: Literal["assistant"]
    content: str
    id: str
    tool_calls: NotRequired[list[CallDelta]]
    reasoning: NotRequired[str]
    refusal: NotRequired[str]
    usage: NotRequired[Usage]
    finish_reason: NotRequired[str]


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call.

    Attributes:
        index: Which call of the message.
        id: Its id, with the first piece.
        name: The tool, with the first piece.
        arguments: A piece of the arguments' JSON text.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDelta:
    """What one item of a response adds to a message.

    Attributes:
        text: A piece of the text.
        id: The message's id, as far as it is known; another one than before begins another message.
        index: Which of several messages at once, for a response with several choices.
        reasoning: A piece of what the model thinks.
        refusal: A piece of why it does not answer.
        tool_calls: Pieces of tool calls.
        usage: Tokens of the whole message.
        finish_reason: Why it ended, in OpenAI's words: ``"stop"``, ``"length"``, ``"tool_calls"``, ...
        model: The model's name.
        message: A message or chunk object that is told as it is, instead of a `MessageChunk`.
    """

    text: str = ""
    id: str | None = None
    index: int = 0
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    usage: Usage | None = None
    finish_reason: str | None = None
    model: str | None = None
    message: Any = None

    @property
    def tells(self) -> bool:
        """Whether there is anything in it for a reader."""
        return bool(
            self.text
            or self.reasoning
            or self.refusal
            or self.tool_calls
            or self.usage
            or self.finish_reason
            or self.message is not None
        )

    def chunk(self, id: str) -> Any:
        """Return it as readers get it, for the message of this id."""
        if self.message is not None:
            return self.message
        made = MessageChunk(type="AIMessageChunk", role="assistant", content=self.text, id=id)
        if self.tool_calls:
            made["tool_calls"] = [_call(piece) for piece in self.tool_calls]
        if self.reasoning:
            made["reasoning"] = self.reasoning
        if self.refusal:
            made["refusal"] = self.refusal
        if self.usage:
            made["usage"] = self.usage
        if self.finish_reason:
            made["finish_reason"] = self.finish_reason
        return made


def _call(piece: ToolCallDelta) -> CallDelta:
    function = FunctionDelta(arguments=piece.arguments)
    if piece.name:
        function["name"] = piece.name
    made = CallDelta(index=piece.index, type="function", function=function)
    if piece.id:
        made["id"] = piece.id
    return made


def part(thing: Any, name: str) -> Any:
    """Return a field of an SDK's object or of a dict of the same form; None where it has none."""
    if isinstance(thing, dict):
        return thing.get(name)
    return getattr(thing, name, None)


def usage_of(**counts: Any) -> Usage | None:
    """Return the counts that are there, with their total; None without any."""
    found: Any = {key: value for key, value in counts.items() if isinstance(value, int) and value is not False}
    for key in ("cache_read_tokens", "cache_creation_tokens", "reasoning_tokens"):
        if not found.get(key):
            found.pop(key, None)
    if not found:
        return None
    found.setdefault("total_tokens", found.get("input_tokens", 0) + found.get("output_tokens", 0))
    usage: Usage = found
    return usage
