"""Messages that are dicts, in the form of OpenAI's chat completions; without langchain-core.

Source: the request format of ``POST /v1/chat/completions``. Content blocks are read as Anthropic, Bedrock, Google and
langchain-core write them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

Block = Mapping[str, Any]

_ROLES: Final = {"human": "user", "ai": "assistant"}
_REQUEST_KEYS: Final = ("role", "content", "name", "tool_calls", "tool_call_id", "refusal")


def in_openai_form(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message with its content in OpenAI's form; several if there are results of tools in it.

    Text blocks alone become one text. Calls of tools become `tool_calls`, their results messages of their own, before
    what else there is. Blocks that OpenAI has no form for stay as they are.
    """
    made = dict(message)
    if "role" not in made and "type" in made:
        made["role"] = _ROLES.get(made["type"], made.pop("type"))
    content = made.get("content")
    if not isinstance(content, (list, tuple)):
        return [made]
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    results = [_result(made, block) for block in blocks if block.get("type") == "tool_result"]
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    if calls:
        known = list(made.get("tool_calls") or ())
        made["tool_calls"] = known + [call for call in calls if all(call["id"] != other.get("id") for other in known)]
    rest = [_converted(block) for block in blocks if block.get("type") not in ("tool_result", "tool_use")]
    made["content"] = _joined(rest)
    return results if results and not rest and not calls else [*results, made]


def request_form(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message as a request takes it: in OpenAI's form, and without what is only for the state."""
    return [
        {key: item[key] for key in _REQUEST_KEYS if item.get(key) is not None or key == "content"}
        for item in in_openai_form({"content": None, **message})
    ]


def _joined(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if all(block.get("type") == "text" and isinstance(block.get("text"), str) for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _call(block: Block) -> dict[str, Any]:
    arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
    return {"id": block.get("id"), "type": "function", "function": {"name": block.get("name"), "arguments": arguments}}


def _result(message: Mapping[str, Any], block: Block) -> dict[str, Any]:
    call = block.get("tool_use_id")
    (made, *_) = in_openai_form({"role": "tool", "content": block.get("content", "")})
    made["tool_call_id"] = call
    if message.get("id"):
        made["id"] = f"{message['id']}-{call}"
    return made


def _converted(block: Block) -> dict[str, Any]:
    kind = block.get("type") or next((key for key in ("image", "guard_content", "json") if key in block), None)
    convert = _BLOCKS.get(kind) if isinstance(kind, str) else None
    return (convert(block) if convert is not None else None) or dict(block)


def _image_url(block: Block) -> dict[str, Any] | None:
    given = block.get("image_url")
    return {"type": "image_url", "image_url": {"url": given}} if isinstance(given, str) else None


def _image(block: Block) -> dict[str, Any] | None:
    """Read an image of Anthropic (`source`), of Bedrock (`image`), or of langchain-core (`base64`, `data`, `url`)."""
    bedrock = block.get("image")
    if isinstance(bedrock, Mapping):
        return _url(f"image/{bedrock.get('format', 'png')}", (bedrock.get("source") or {}).get("bytes"))
    source = block.get("source") or block
    if source.get("url"):
        return {"type": "image_url", "image_url": {"url": source["url"]}}
    return _url(
        source.get("media_type") or source.get("mime_type") or "image/png", source.get("base64") or source.get("data")
    )


def _media(block: Block) -> dict[str, Any] | None:
    kind = block.get("mime_type")
    return _url(kind, block.get("data")) if isinstance(kind, str) and kind.startswith("image/") else None


def _url(kind: str, data: Any) -> dict[str, Any] | None:
    if isinstance(data, (bytes, bytearray)):
        data = base64.b64encode(data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}} if data else None


def _guarded(block: Block) -> dict[str, Any] | None:
    inner = block.get("guard_content")
    text = inner.get("text") if isinstance(inner, Mapping) else None
    return {"type": "text", "text": text.get("text") if isinstance(text, Mapping) else text} if text else None


def _json(block: Block) -> dict[str, Any] | None:
    return {"type": "text", "text": json.dumps(block["json"], ensure_ascii=False)} if "json" in block else None


_BLOCKS: Final[dict[str, Callable[[Block], dict[str, Any] | None]]] = {
    "image_url": _image_url,
    "image": _image,
    "media": _media,
    "guard_content": _guarded,
    "json": _json,
}
