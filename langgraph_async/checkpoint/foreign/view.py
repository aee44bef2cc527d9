"""A second face of a saver: the same object in all but its serializer.

LangGraph may use the saver at the same time, so nothing of it may be changed; and much of it comes about late
(connections, locks, whether it is set up), so that a copy would fall behind. A view has a class of its own, derived
from the saver's, in which only the attributes that hold the serializer are replaced; its ``__dict__`` is the saver's.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Final

_DEPTH: Final = 3
"""Objects within objects that are searched for the serializer: saver, its store or writer, a wrapper there."""
_OPAQUE: Final = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType)

Swap = Callable[[Any], Any]
"""From a serializer to what is to stand in its place, or to None for any other object, which stays."""


def view_of(owner: Any, swap: Swap) -> Any:
    """Return `owner` as it would be with other serializers; itself when it holds none that `swap` replaces.

    Serializers are found in its attributes, in those of its class, and in those of the objects that it holds.
    """
    return _View(swap).of(owner, _DEPTH)


class _View:
    """The making of one view: what was replaced by what, so that shared parts stay shared."""

    def __init__(self, swap: Swap) -> None:
        self._swap = swap
        self._made: dict[int, tuple[Any, Any]] = {}

    def of(self, owner: Any, depth: int) -> Any:
        """Return the view of `owner`, or `owner`."""
        known = self._made.get(id(owner))
        if known is not None:
            return known[1]
        if not _has_parts(owner):
            return owner
        self._made[id(owner)] = (owner, owner)  # whoever is found again inside itself stays as it is there
        names = [name for name, value in _attributes(owner).items() if self._in_place_of(value, depth) is not value]
        found = self._derived(owner, names, depth) if names else owner
        self._made[id(owner)] = (owner, found)
        return found

    def _in_place_of(self, value: Any, depth: int) -> Any:
        known = self._made.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        found = self._swap(value)
        if found is not None:
            self._made[id(value)] = (value, found)
            return found
        return self.of(value, depth - 1) if depth > 1 else value

    def _derived(self, owner: Any, names: list[str], depth: int) -> Any:
        kind = type(owner)
        # The owner closes what it holds, once; its views do not.
        members: dict[str, Any] = {"__module__": kind.__module__, "__slots__": (), "__del__": _nothing}
        members.update((name, self._attribute(name, depth)) for name in names)
        try:
            derived = types.new_class(kind.__name__, (kind,), exec_body=lambda body: body.update(members))
            view: Any = object.__new__(derived)
            view.__dict__ = owner.__dict__
        except Exception:  # noqa: BLE001 - a class that cannot be derived from is left as it is
            return owner
        return view

    def _attribute(self, name: str, depth: int) -> property:
        def get(view: Any) -> Any:
            value = view.__dict__[name] if name in view.__dict__ else getattr(type(view).__mro__[1], name)
            return self._in_place_of(value, depth)

        def put(view: Any, value: Any) -> None:
            view.__dict__[name] = value

        return property(get, put)


def _has_parts(owner: Any) -> bool:
    if isinstance(owner, _OPAQUE) or type(owner).__module__ in ("builtins", "threading", "asyncio", "_thread"):
        return False
    return isinstance(getattr(owner, "__dict__", None), dict) and not any(
        slot not in ("__dict__", "__weakref__") for kind in type(owner).__mro__ for slot in _slots(kind)
    )


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _attributes(owner: Any) -> dict[str, Any]:
    """Return what an object holds, and what its classes hold that is neither a function nor a property."""
    inert = (*_OPAQUE, property, classmethod, staticmethod)
    shared: dict[str, Any] = {
        name: value
        for kind in reversed(type(owner).__mro__)
        for name, value in vars(kind).items()
        if not name.startswith("__") and not isinstance(value, inert)
    }
    shared.update(vars(owner))
    return shared


def _nothing(view: Any) -> None:
    pass
