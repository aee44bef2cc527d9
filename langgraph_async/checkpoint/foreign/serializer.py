"""Our serializer, in the place of LangGraph's: same bytes, our words and our rules on what may be loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import new_class
from typing import Any, Final

from langgraph_async.checkpoint.foreign.words import our_class, to_ours
from langgraph_async.serde.allowlist import Allowed
from langgraph_async.serde.ext import BY_TYPE, Row
from langgraph_async.serde.msgpack import JsonPlusSerializer

_STANDARD: Final = ("langgraph.checkpoint.serde.jsonplus", "JsonPlusSerializer")


@dataclass(slots=True)
class Use:
    """Whether a saver uses the serializer that it shows: some have another one, out of reach."""

    seen: bool = False


class _TakesWords(JsonPlusSerializer):
    """Also stores LangGraph's own words, which savers are handed; they come back as ours."""

    _use: Use

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the tag and the bytes of `obj`; see `JsonPlusSerializer.dumps_typed`."""
        self._use.seen = True
        return super().dumps_typed(obj)

    def _new_row(self, cls: type) -> Row:
        ours = our_class(cls)
        if ours is None:
            return super()._new_row(cls)
        row = self._rows.get(ours) or BY_TYPE[ours]
        return Row(row.module, row.name, lambda value: row.encode(to_ours(value, deep=False)), row.decode)


class StandInSerializer(_TakesWords):
    """Stands in for LangGraph's standard serializer inside a saver.

    What else a saver asks of its serializer is answered by the one that this one stands in for.

    Args:
        original: LangGraph's serializer.
        types: What may be stored and read besides the known types.
        use: Told when the saver stores something with this one.
    """

    def __init__(self, original: Any, types: Iterable[Allowed], use: Use) -> None:
        listed = getattr(original, "_allowed_msgpack_modules", None)
        listed_json = getattr(original, "_allowed_json_modules", None)
        super().__init__(
            pickle_fallback=getattr(original, "pickle_fallback", False) is True,
            allowed_msgpack_modules=[*_names(listed), *types],
            allowed_json_modules=_names(listed_json),
        )
        self._original = original
        self._use = use

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_original" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._original, name)


def stand_in(serde: Any, *, types: Iterable[Allowed], use: Use) -> Any:
    """Return what stands in for a serializer inside a saver; None for anything else, which stays.

    Args:
        serde: What a saver holds.
        types: What may be stored and read besides the known types.
        use: Told when the saver stores something with the serializer that is returned.
    """
    if is_standard(serde):
        return StandInSerializer(serde, types, use)
    if not isinstance(serde, JsonPlusSerializer):
        return None
    extended = serde.with_allowlist(types)
    kind = type(serde)
    derived = new_class(kind.__name__, (_TakesWords,) if kind is JsonPlusSerializer else (_TakesWords, kind))
    made: Any = object.__new__(derived)
    made.__dict__.update(extended.__dict__, _use=use)
    made._set_allowed(extended._allowed, extended._allowed_json)  # with rows of its own
    return made


def is_standard(serde: Any) -> bool:
    """Tell whether a serializer is LangGraph's own, as it comes: no subclass, and reading with no hook of a user's."""
    kind = type(serde)
    return (kind.__module__, kind.__qualname__) == _STANDARD and not getattr(serde, "_custom_unpack_ext_hook", False)


def _names(listed: Any) -> list[tuple[str, ...]]:
    """Return what a list of allowed names holds; LangGraph has True for everything, which nothing may have here."""
    return [] if listed is None or isinstance(listed, bool) else [tuple(name) for name in listed]
