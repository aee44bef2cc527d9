"""What a chunk of a chat model's answer says: OpenAI-style dicts, and messages of langchain-core (known by shape).

Nothing of langchain-core is imported here; what a chunk is made of says what it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ChunkView:
    """One chunk or message, read.

    Attributes:
        id: Id of the message, if the chunk tells it.
        role: ``"assistant"``, ``"tool"``, ...; None if a chunk does not tell it.
        whole: It is a whole message.
        finished: It is the last of its message.
        text: Its text.
        reasoning: Its reasoning.
        tool_calls: Its parts of tool calls: ``index``, ``id``, ``name`` and ``args`` (text), each None if not told;
            the ``args`` of a whole message may be a dict.
        usage: Token counts, if told.
    """

    id: str | None
    role: str | None
    whole: bool
    finished: bool
    text: str = ""
    reasoning: str = ""
    tool_calls: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    usage: Any = None


_ROLES = {"ai": "assistant", "AIMessageChunk": "assistant", "human": "user", "HumanMessageChunk": "user"}


def read_chunk(chunk: Any) -> ChunkView | None:
    """Return what `chunk` says, or None if it is neither kind of message.

    A dict is a chunk, and not a whole message, if it has ``choices``, a ``delta``, a ``finish_reason``, no role, or
    says so in ``object`` or ``type``.
    """
    if isinstance(chunk, Mapping):
        return _read_dict(chunk)
    if hasattr(chunk, "content") and isinstance(getattr(chunk, "type", None), str):
        return _read_message(chunk)
    return None


def _read_dict(chunk: Mapping[str, Any]) -> ChunkView | None:
    choices = chunk.get("choices")
    choice, body = _choice(chunk)
    if not isinstance(body, Mapping):
        return None
    kind = str(chunk.get("type", ""))
    if choices is None and not {"role", "content", "delta", "tool_calls", "finish_reason"} & chunk.keys():
        return None
    partial = (
        "delta" in choice
        or choices == []
        or "delta" in chunk
        or "finish_reason" in chunk
        or str(chunk.get("object", "")).endswith("chunk")
        or kind.endswith("Chunk")
        or not (body.get("role") or kind)
    )
    text, reasoning = _content(body.get("content"))
    role = body.get("role") or chunk.get("role") or _ROLES.get(kind, kind or None)
    return ChunkView(
        id=chunk.get("id") or body.get("id"),
        role=_ROLES.get(role, role) if isinstance(role, str) else None,
        whole=not partial,
        finished=not partial or bool(_finish_reason(chunk)),
        text=text,
        reasoning=reasoning or body.get("reasoning_content") or body.get("reasoning") or "",
        tool_calls=_calls(body.get("tool_calls"), whole=not partial),
        usage=chunk.get("usage"),
    )


def _choice(chunk: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
    """Return the first choice of a chunk, empty if it has none, and what says what is new."""
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, Sequence) and choices else {}
    body = choice.get("delta") or choice.get("message") or chunk.get("delta") or (chunk if choices is None else {})
    return choice, body


def _finish_reason(chunk: Mapping[str, Any]) -> Any:
    return _choice(chunk)[0].get("finish_reason") or chunk.get("finish_reason")


def _read_message(message: Any) -> ChunkView:
    partial = message.type.endswith("Chunk")
    text, reasoning = _content(message.content)
    calls = getattr(message, "tool_call_chunks", None) if partial else getattr(message, "tool_calls", None)
    return ChunkView(
        id=message.id,
        role=_ROLES.get(message.type, message.type.removesuffix("MessageChunk").lower()),
        whole=not partial,
        finished=not partial or getattr(message, "chunk_position", None) == "last",
        text=text,
        reasoning=reasoning,
        tool_calls=_calls(calls, whole=not partial),
        usage=getattr(message, "usage_metadata", None),
    )


def _content(content: Any) -> tuple[str, str]:
    """Return text and reasoning of a message's content: text, or a list of blocks."""
    if isinstance(content, str):
        return content, ""
    text, reasoning = [], []
    for block in content if isinstance(content, Sequence) else ():
        if isinstance(block, str):
            text.append(block)
        elif isinstance(block, Mapping):
            kind = block.get("type")
            if kind == "text":
                text.append(str(block.get("text") or ""))
            elif kind in ("reasoning", "thinking"):
                reasoning.append(str(block.get("reasoning") or block.get("thinking") or ""))
    return "".join(text), "".join(reasoning)


def _calls(calls: Any, *, whole: bool) -> tuple[dict[str, Any], ...]:
    read = tuple(_call(call) for call in calls or ())
    if whole:
        for index, call in enumerate(read):
            call["index"] = index
    return read


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    args = call.get("args", function.get("arguments"))
    return {
        "index": call.get("index"),
        "id": call.get("id"),
        "name": call.get("name") or function.get("name"),
        "args": args,
    }


def merge_calls(parts: Sequence[Mapping[str, Any]], *, parsed: bool = True) -> list[dict[str, Any]]:
    """Return the tool calls that `parts` make: ``name``, ``args``, ``id`` and ``type``, in order.

    Parts with one index, or without index but with one id, belong together; one that has neither belongs to the call
    before it. Arguments are `parsed`, unless they are not JSON, or left as text.
    """
    calls: dict[Any, dict[str, Any]] = {}
    last: Any = None
    for part in parts:
        key = part["index"] if part["index"] is not None else part["id"] if part["id"] is not None else last
        last = key
        call = calls.setdefault(key, {"name": "", "args": "", "id": None, "type": "tool_call"})
        call["name"] = part["name"] or call["name"]
        call["id"] = part["id"] or call["id"]
        if isinstance(part["args"], str) and isinstance(call["args"], str):
            call["args"] += part["args"]
        elif part["args"] is not None:
            call["args"] = part["args"]
    for call in calls.values() if parsed else ():
        call["args"] = _arguments(call["args"])
    return list(calls.values())


def _arguments(args: Any) -> Any:
    if not isinstance(args, str):
        return args
    try:
        return json.loads(args) if args else {}
    except ValueError:
        return args


def whole_message(chunks: Sequence[Any], view: ChunkView) -> Any:
    """Return the message that `chunks` make: of langchain-core if they are, else a dict in OpenAI style.

    Args:
        chunks: All chunks of the message, or the whole message alone.
        view: What they say together; its tool calls are merged, their arguments text.
    """
    if view.whole and chunks:
        return chunks[-1]
    if chunks and not isinstance(chunks[0], Mapping):
        total = chunks[0]
        for chunk in chunks[1:]:
            total = total + chunk
        return _of_chunk(total)
    message: dict[str, Any] = {"role": view.role or "assistant", "content": view.text}
    if view.id is not None:
        message["id"] = view.id
    if view.tool_calls:
        message["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": _text(call["args"])}}
            for call in view.tool_calls
        ]
    bodies = [body for chunk in chunks if isinstance(body := _choice(chunk)[1], Mapping)]
    for key in ("reasoning", "reasoning_content", "refusal"):
        if pieces := "".join(str(body.get(key) or "") for body in bodies):
            message[key] = pieces
    if view.usage:
        message["usage"] = dict(view.usage) if isinstance(view.usage, Mapping) else view.usage
    reasons = [reason for chunk in chunks if (reason := _finish_reason(chunk))]
    if reasons:
        message["finish_reason"] = reasons[-1]
    return message


def _text(args: Any) -> str:
    return args or "{}" if isinstance(args, str) else json.dumps(args)


def _of_chunk(chunk: Any) -> Any:
    from langchain_core.messages import message_chunk_to_message

    return message_chunk_to_message(chunk)
