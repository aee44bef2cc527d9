"""Which values JSONB gives back as they were.

LangGraph keeps primitive values inside the JSONB document of a checkpoint and reads others from `checkpoint_blobs`,
where a value counts first. So what JSONB would change or refuse goes there, and LangGraph reads it all the same.
"""

from __future__ import annotations

import math
from typing import Any

from langgraph_async.checkpoint.json_text import json_encoder

MAX_INLINE_CHARS = 1024
"""Longer texts are stored once as a value of their own, not again with each checkpoint."""
_MAX_INT_BITS = 1024

encode = json_encoder(ascii_only=True, allow_nan=False, separators=(",", ":"))
"""Returns JSON without blanks."""


def jsonb_keeps(value: Any) -> bool:
    """Tell whether `value` comes back from JSONB with the same type and equal, and is small."""
    kind = type(value)  # a subclass, such as an enum of texts, would lose its type
    if kind is str:
        return len(value) <= MAX_INLINE_CHARS and is_json_text(value)
    if kind is int:
        return int(value).bit_length() <= _MAX_INT_BITS
    if kind is float:
        return _float_stays(value)
    return value is None or kind is bool


def is_json_text(text: str) -> bool:
    """Tell whether PostgreSQL can hold the text: it has neither NUL nor half a surrogate pair."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _float_stays(value: float) -> bool:
    # JSONB writes out exponents, so that 1e308 comes back as a whole number, and it knows no negative zero.
    if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
        return False
    return "e" not in repr(value)


def clean(value: Any) -> Any:
    """Return JSON data without what the texts of PostgreSQL cannot hold."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "ignore").decode()
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return value


def json_text(value: Any) -> str:
    """Return `value` as JSON that JSONB takes; NUL and half surrogate pairs are left out of its texts.

    Raises:
        TypeError: Part of it has no form in JSON.
        ValueError: Likewise: a number that is not finite, or a structure that contains itself.
        RecursionError: It is nested too deeply.
    """
    text = encode(value)
    if "\\u0000" in text or "\\ud" in text:
        text = encode(clean(value))
    return text


__all__ = ["MAX_INLINE_CHARS", "clean", "encode", "is_json_text", "json_text", "jsonb_keeps"]
