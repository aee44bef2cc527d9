"""The words that stored values are made of, besides plain data: LangGraph's classes for them, and ours.

A saver that was written for LangGraph may look at what it is given (``isinstance(value, Send)``), and its own
serializer gives LangGraph's objects back. LangGraph is never imported here: where its classes are not loaded, nothing
can ask for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, Literal

from langgraph_async.constants import PLACEHOLDER_ID
from langgraph_async.types import DeltaSnapshot, Interrupt, Overwrite, Send, TimeoutPolicy

_TYPES: Final = "langgraph.types"
_SNAPSHOTS: Final = "langgraph.checkpoint.serde.types"

_Names = dict[type, tuple[str, str]]
NAMES: Final[_Names] = {
    Interrupt: (_TYPES, "Interrupt"),
    Send: (_TYPES, "Send"),
    Overwrite: (_TYPES, "Overwrite"),
    TimeoutPolicy: (_TYPES, "TimeoutPolicy"),
    DeltaSnapshot: (_SNAPSHOTS, "_DeltaSnapshot"),
}
"""Our class to module and name of LangGraph's."""

_OURS: Final = {name: kind for kind, name in NAMES.items()}
_DEEP: Final = 1 << 16


def our_class(kind: type) -> type | None:
    """Return our class for one of LangGraph's, or None when it is none of its words."""
    return _OURS.get((kind.__module__, kind.__qualname__))


def to_ours(value: Any, *, deep: bool) -> Any:
    """Return `value` with our words in place of LangGraph's; the same object when it has none.

    Args:
        value: Anything.
        deep: Look into all lists, tuples and dicts, not just the outermost list or tuple.
    """
    return _translated(value, "ours", _DEEP if deep else 1)


def to_theirs(value: Any, *, deep: bool) -> Any:
    """Return `value` with LangGraph's words in place of ours, as far as they are loaded; see `to_ours`."""
    return _translated(value, "theirs", _DEEP if deep else 1)


def _translated(value: Any, into: Literal["ours", "theirs"], depth: int) -> Any:
    kind = type(value)
    if kind in (list, tuple):
        return _sequence(value, into, depth)
    if kind is dict:
        return _mapping(value, into, depth) if depth > 1 else value
    if into == "ours":
        found = our_class(kind)
        build: Callable[..., Any] | None = found
    else:
        found = kind if kind in NAMES else None
        build = _theirs(kind)
    if found is None or build is None:
        return value
    return _BUILDERS[found](build, value, lambda inner: _translated(inner, into, max(depth, 2)))


def _sequence(value: Any, into: Literal["ours", "theirs"], depth: int) -> Any:
    if depth <= 0:
        return value
    items = [_translated(item, into, depth - 1) for item in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return type(value)(items)


def _mapping(value: dict[Any, Any], into: Literal["ours", "theirs"], depth: int) -> dict[Any, Any]:
    items = {key: _translated(item, into, depth - 1) for key, item in value.items()}
    return items if any(items[key] is not value[key] for key in value) else value


def _theirs(kind: type) -> Callable[..., Any] | None:
    module, name = NAMES.get(kind, ("", ""))
    found: Callable[..., Any] | None = getattr(sys.modules.get(module), name, None)
    return found


_Inner = Callable[[Any], Any]


def _interrupt(build: Callable[..., Any], value: Any, inner: _Inner) -> Any:
    more: dict[str, Any] = {}
    if getattr(value, "response_schema", None) is not None:
        more["response_schema"] = value.response_schema
    found = getattr(value, "id", None) or getattr(value, "interrupt_id", None) or PLACEHOLDER_ID
    return build(value=inner(value.value), id=found, **more)


def _send(build: Callable[..., Any], value: Any, inner: _Inner) -> Any:
    timeout = getattr(value, "timeout", None)
    more = {"timeout": inner(timeout)} if timeout is not None else {}
    return build(value.node, inner(value.arg), **more)


def _overwrite(build: Callable[..., Any], value: Any, inner: _Inner) -> Any:
    return build(inner(value.value))


def _timeout(build: Callable[..., Any], value: Any, inner: _Inner) -> Any:  # noqa: ARG001
    return build(run_timeout=value.run_timeout, idle_timeout=value.idle_timeout, refresh_on=value.refresh_on)


_BUILDERS: Final[dict[type, Callable[[Callable[..., Any], Any, _Inner], Any]]] = {
    Interrupt: _interrupt,
    Send: _send,
    Overwrite: _overwrite,
    TimeoutPolicy: _timeout,
    DeltaSnapshot: _overwrite,
}
