"""Anything as JSON: what clients get to see of states, messages and questions. Never fails on an odd value.

| value | JSON |
|---|---|
| None, bool, int, str | itself |
| float | itself; ``"NaN"``, ``"Infinity"``, ``"-Infinity"`` where JSON has no number |
| dict and other mappings | object; keys that are no text become text |
| list, tuple, set, frozenset, deque | array (a set in the order of its elements' text) |
| bytes, bytearray, memoryview | text, base64 |
| datetime, date, time | text, ISO 8601 |
| timedelta | seconds |
| UUID, Decimal, Path | text |
| Enum | its value |
| Interrupt | object of ``value``, ``id`` and, if there is one, ``response_schema`` |
| named tuple, dataclass, attrs, msgspec struct | object of its fields |
| pydantic model (a langchain message, too) | object of its fields, as ``model_dump`` gives them |
| exception | object of ``type``, ``code`` (or null) and ``message`` |
| numpy scalar, numpy array | number, array |
| anything else | object of ``type`` (the class's name) and ``repr`` |

So are integers of thousands of digits, and what is nested more than a hundred deep.
"""

from __future__ import annotations

import base64
import json
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from langgraph_async.stream.log.recorder import describe
from langgraph_async.types import Interrupt

_DEPTH: Final = 100
_REPR: Final = 500
_INT_BITS: Final = 10_000
"""Python writes no integers of many more digits."""
_NO_NUMBERS: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def json_text(value: Any) -> str:
    """Return any value as one line of JSON."""
    text = json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return json.dumps(jsonable(value), separators=(",", ":"), allow_nan=False)
    return text


def jsonable(value: Any) -> Any:
    """Return any value as what JSON has: None, bool, numbers, text, lists, and dicts with text as keys."""
    return _plain(value, _DEPTH)


def _plain(value: Any, depth: int) -> Any:
    if value is None or value is True or value is False:
        return value
    if not depth:
        return _shown(value)
    try:
        for kinds, convert in _CONVERTERS:
            if isinstance(value, kinds):
                return convert(value, depth - 1)
        return _by_shape(value, depth - 1)
    except Exception:  # noqa: BLE001 - properties, iterators and the like of others
        return _shown(value)


def _int(value: int, _: int) -> Any:
    return int(value) if value.bit_length() < _INT_BITS else _shown(value)


def _float(value: float, _: int) -> Any:
    number = float(value)
    if math.isfinite(number):
        return number
    return _NO_NUMBERS.get(number, "NaN")


def _object(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    return {_key(key): _plain(item, depth) for key, item in value.items()}


def _key(key: Any) -> str:
    if isinstance(key, Enum):
        key = key.value
    return str.__str__(key) if isinstance(key, str) else str(key)


def _array(value: Any, depth: int) -> list[Any]:
    return [_plain(item, depth) for item in value]


def _tuple(value: tuple[Any, ...], depth: int) -> Any:
    names = getattr(value, "_fields", None)
    return _array(value, depth) if names is None else _object(dict(zip(names, value, strict=True)), depth)


def _set(value: Any, depth: int) -> list[Any]:
    return sorted(_array(value, depth), key=str)


def _interrupt(value: Interrupt[Any], depth: int) -> dict[str, Any]:
    found = {"value": _plain(value.value, depth), "id": value.id}
    if value.response_schema is not None:
        found["response_schema"] = _plain(value.response_schema, depth)
    return found


_CONVERTERS: Final[tuple[tuple[Any, Callable[[Any, int], Any]], ...]] = (
    (Enum, lambda value, depth: _plain(value.value, depth)),
    (str, lambda value, _: str.__str__(value)),
    (int, _int),
    (float, _float),
    (Interrupt, _interrupt),
    (Mapping, _object),
    (tuple, _tuple),
    ((list, deque), _array),
    ((set, frozenset), _set),
    ((bytes, bytearray, memoryview), lambda value, _: base64.b64encode(bytes(value)).decode()),
    ((datetime, date, time), lambda value, _: value.isoformat()),
    (timedelta, lambda value, _: value.total_seconds()),
    ((UUID, Decimal, PurePath), lambda value, _: str(value)),
    (BaseException, lambda value, _: describe(value)),
)


def _by_shape(value: Any, depth: int) -> Any:
    """Return a value of a class that is known by what it has."""
    kind = type(value)
    if isinstance(value, type):
        return _shown(value)
    if hasattr(kind, "model_dump"):
        return _object(value.model_dump(), depth)
    if is_dataclass(value):
        return _object({field.name: getattr(value, field.name) for field in fields(value)}, depth)
    for names in (getattr(kind, "__struct_fields__", None), _attrs(kind)):
        if names is not None:
            return _object({name: getattr(value, name) for name in names}, depth)
    if kind.__module__.split(".")[0] == "numpy" and hasattr(value, "tolist"):
        return _plain(value.tolist(), depth)
    return _shown(value)


def _attrs(kind: type) -> list[str] | None:
    found = getattr(kind, "__attrs_attrs__", None)
    return None if found is None else [attribute.name for attribute in found]


def _shown(value: Any) -> dict[str, str]:
    kind = type(value)
    try:
        text = repr(value)[:_REPR]
    except Exception:  # noqa: BLE001 - it is somebody else's
        text = f"<{kind.__qualname__}>"
    return {"type": f"{kind.__module__}.{kind.__qualname__}", "repr": text}


__all__ = ["json_text", "jsonable"]
