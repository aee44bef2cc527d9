"""Events as rows: what databases keep of them, in the same way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from langgraph_async.errors import SerializationError
from langgraph_async.serde.base import RowPlace, SerializerProtocol
from langgraph_async.stream.log.base import END, Event

EventRow: TypeAlias = tuple[int, str, str, str, bytes]
"""Number, mode, namespace as JSON, type tag, bytes."""

UNSTORABLE: Final = "__unstorable__"
"""Key of the dict that stands for a value which the serializer refused: the name of its class; beside it ``repr``."""
_DEPTH: Final = 50
_REPR: Final = 500


def event_rows(serde: SerializerProtocol, run_id: str, events: Sequence[Event]) -> list[EventRow]:
    """Return events as rows. A value that cannot be stored is replaced by its class and ``repr``: see `UNSTORABLE`."""
    return [_row(serde, run_id, event) for event in events]


def load_events(serde: SerializerProtocol, run_id: str, rows: Sequence[EventRow]) -> tuple[Event, ...]:
    """Return the events of rows.

    Raises:
        SerializationError: A row holds a type that is not allowed, or was not written there.
    """
    found = []
    for seq, mode, ns, tag, stored in rows:
        place = _place(run_id, seq, mode)
        found.append(Event(seq, mode, tuple(json.loads(ns)), _load(serde, (tag, bytes(stored)), place)))
    return tuple(found)


def status_after(events: Sequence[Event]) -> str | None:
    """Return the status that a run has after these events, or None if it goes on."""
    return next((event.data["status"] for event in events if event.mode == END), None)


def _row(serde: SerializerProtocol, run_id: str, event: Event) -> EventRow:
    place = _place(run_id, event.seq, event.mode)
    try:
        tag, stored = _dump(serde, event.data, place)
    except (SerializationError, RecursionError):
        tag, stored = _dump(serde, _storable(serde, event.data, _DEPTH), place)
    return event.seq, event.mode, json.dumps(event.ns), tag, stored


def _place(run_id: str, seq: int, mode: str) -> RowPlace:
    return RowPlace("event", "", "", mode, run_id, (str(seq),))


def _dump(serde: SerializerProtocol, value: Any, place: RowPlace) -> tuple[str, bytes]:
    placed = getattr(serde, "dumps_at", None)
    found: tuple[str, bytes] = serde.dumps_typed(value) if placed is None else placed(value, place)
    return found


def _load(serde: SerializerProtocol, stored: tuple[str, bytes], place: RowPlace) -> Any:
    placed = getattr(serde, "loads_at", None)
    return serde.loads_typed(stored) if placed is None else placed(stored, place)


def _storable(serde: SerializerProtocol, value: Any, depth: int) -> Any:
    """Return a value with those parts replaced that the serializer refuses."""
    if depth and type(value) in (list, tuple):
        return type(value)(_storable(serde, item, depth - 1) for item in value)
    if depth and type(value) is dict:
        return {_storable_key(serde, key): _storable(serde, item, depth - 1) for key, item in value.items()}
    return value if depth and _can_store(serde, value) else _stand_in(value)


def _storable_key(serde: SerializerProtocol, key: Any) -> Any:
    return key if _can_store(serde, {key: None}) else str(_stand_in(key))


def _can_store(serde: SerializerProtocol, value: Any) -> bool:
    try:
        _dump(serde, value, _place("", 0, ""))
    except (SerializationError, RecursionError):
        return False
    return True


def _stand_in(value: Any) -> dict[str, str]:
    kind = type(value)
    try:
        shown = repr(value)[:_REPR]
    except Exception:  # noqa: BLE001 - it is somebody else's
        shown = f"<{kind.__qualname__}>"
    return {UNSTORABLE: f"{kind.__module__}.{kind.__qualname__}", "repr": shown}
