"""Our serializer, in the place of LangGraph's: same bytes, our words and our rules on what may be loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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


class StandInSerializer(JsonPlusSerializer):
    """Stands in for LangGraph's standard serializer inside a saver.

    It also stores LangGraph's own words, which savers are handed. What else a saver asks of its serializer is
    answered by the one that this one stands in for.

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

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the tag and the bytes of `obj`; see `JsonPlusSerializer.dumps_typed`."""
        self._use.seen = True
        return super().dumps_typed(obj)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_original" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._original, name)

    def _new_row(self, cls: type) -> Row:
        ours = our_class(cls)
        if ours is None:
            return super()._new_row(cls)
        row = self._rows.get(ours) or BY_TYPE[ours]
        return Row(row.module, row.name, lambda value: row.encode(to_ours(value, deep=False)), row.decode)


def is_standard(serde: Any) -> bool:
    """Tell whether a serializer is LangGraph's own, as it comes: no subclass, and reading with no hook of a user's."""
    kind = type(serde)
    return (kind.__module__, kind.__qualname__) == _STANDARD and not getattr(serde, "_custom_unpack_ext_hook", False)


def _names(listed: Any) -> list[tuple[str, ...]]:
    """Return what a list of allowed names holds; LangGraph has True for everything, which nothing may have here."""
    return [] if listed is None or isinstance(listed, bool) else [tuple(name) for name in listed]
