"""Which classes of users may be stored: those that a schema mentions, and those that somebody listed."""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import sys
import typing
from collections.abc import Iterable
from typing import Any, TypeAlias, cast

from typing_extensions import is_typeddict

from langgraph_async.errors import ConfigError
from langgraph_async.serde.ext import BY_TYPE

Allowed: TypeAlias = type[Any] | tuple[str, ...]
"""A class, or its module and its name. What is listed by name is imported when stored bytes ask for it."""


class Allowlist:
    """Classes that may be stored and read, by class or by module and name. Never changes once made."""

    __slots__ = ("_by_name", "_classes", "_names", "_unresolved")

    def __init__(self, items: Iterable[Allowed] = ()) -> None:
        listed = list(items)
        self._names = frozenset(_as_name(item) for item in listed if not isinstance(item, type))
        self._classes: frozenset[type] = frozenset().union(
            *({item, *collect_types(item)} for item in listed if isinstance(item, type))
        )
        self._by_name = {name: cls for cls in self._classes for name in names_of(cls)}
        self._unresolved = bool(self._names)

    def extended(self, items: Iterable[Allowed]) -> Allowlist:
        """Return a list with `items` too; this one when that adds nothing."""
        bigger = Allowlist([*self._classes, *self._names, *items])
        same = bigger._classes == self._classes and bigger._names == self._names
        return self if same else bigger

    def permits(self, cls: type) -> bool:
        """Tell whether objects of exactly this class may be stored."""
        if cls in self._classes or not self._names.isdisjoint(names_of(cls)):
            return True
        if self._unresolved:
            self._resolve()
        return cls in self._by_name.values()

    def find(self, module: str, name: str) -> Any:
        """Return the class, or other callable, that stored bytes name, or None when it is not listed.

        Raises:
            ImportError: It is listed by name, and there is no such thing.
            AttributeError: Likewise.
        """
        found = self._by_name.get((module, name))
        if found is None and self._unresolved:
            self._resolve()
            found = self._by_name.get((module, name))
        if found is None and (module, name) in self._names:
            return _imported(module, name)
        return found

    def _resolve(self) -> None:
        """Look up what was listed by name, for the classes in its fields; what is not there is found out when used."""
        self._unresolved = False
        for module, name in self._names:
            try:
                found = _imported(module, name)
            except (ImportError, AttributeError):
                continue
            if isinstance(found, type):
                for cls in (found, *collect_types(found)):
                    self._by_name |= {each: cls for each in names_of(cls) if each not in self._by_name}


def _as_name(item: Any) -> tuple[str, str]:
    if isinstance(item, tuple) and len(item) > 1 and all(isinstance(part, str) for part in item):
        return ".".join(item[:-1]), item[-1]
    raise ConfigError(f"Cannot allow {item!r}: give a class, or a tuple of its module and its name.")


def names_of(cls: type) -> tuple[tuple[str, str], ...]:
    """Return the names stored bytes may have for `cls`: LangGraph leaves out the class that one is nested in."""
    full, short = (cls.__module__, cls.__qualname__), (cls.__module__, cls.__name__)
    return (full,) if full == short else (full, short)


def _imported(module: str, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


# -- what a schema mentions ---------------------------------------------------------------------------------


def collect_types(hint: Any) -> set[type]:
    """Return the classes of users that values of type `hint` may hold.

    Walks through `Annotated`, unions, type parameters, `NewType`, `TypedDict`, and the fields of dataclasses, named
    tuples and pydantic, attrs and msgspec classes. Base types whose subclasses are meant are not enough: list those.
    """
    found: set[type] = set()
    seen: set[int] = set()
    waiting = [hint]
    kept = []
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        kept.append(each)  # ids are only unique while the object lives
        if isinstance(each, type) and typing.get_origin(each) is None:
            if is_storable_class(each):
                found.add(each)
            waiting.extend(_field_hints(each))
        else:
            waiting.extend(_parts(each))
    return found


def _parts(hint: Any) -> list[Any]:
    arguments = list(typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return [type(value) for value in arguments]
    if typing.get_origin(hint) is typing.Annotated:
        arguments = arguments[:1]
    linked = [getattr(hint, name, None) for name in ("__supertype__", "__value__", "__bound__", "__origin__")]
    constraints = list(getattr(hint, "__constraints__", ()) or ())
    nested = [inner for each in arguments if isinstance(each, list) for inner in each]
    return [each for each in (*arguments, *nested, *linked, *constraints) if each is not None and each is not hint]


def is_storable_class(cls: type) -> bool:
    """Tell whether `cls` is a class of a user's of a kind that has a row once it is registered."""
    if cls.__module__ == "builtins" or cls in BY_TYPE or is_typeddict(cls):
        return False
    if cls.__module__.partition(".")[0] in ("typing", "collections", "langgraph_async"):
        return False
    data = (enum.Enum, BaseException, str, int, float, bytes, bytearray, list, tuple, set, frozenset, dict)
    marks = ("__pydantic_fields__", "__attrs_attrs__", "__struct_fields__", "__fields__")
    return issubclass(cls, data) or dataclasses.is_dataclass(cls) or any(hasattr(cls, mark) for mark in marks)


def _field_hints(cls: type) -> list[Any]:
    if not (is_storable_class(cls) or is_typeddict(cls)) or issubclass(cls, enum.Enum):
        return [type(member.value) for member in cls] if issubclass(cls, enum.Enum) else []
    hints = _hints(cls)
    for mark in ("__pydantic_fields__", "model_fields"):
        fields = getattr(cls, mark, None)
        if isinstance(fields, dict):
            return [*hints, *(getattr(field, "annotation", None) for field in fields.values())]
    bases = [base for base in getattr(cls, "__orig_bases__", ()) if typing.get_args(base)]
    return [*hints, *bases]


def _hints(cls: type) -> list[Any]:
    try:
        return list(typing.get_type_hints(cls, include_extras=True).values())
    except Exception:  # noqa: BLE001  (hints are any text at all: those that cannot be looked up are left out)
        return [found for base in cls.__mro__ for found in _own_hints(cast("type[Any]", base))]


def _annotations(cls: type[Any]) -> dict[str, Any]:
    if sys.version_info >= (3, 14):  # where asking for them looks all of them up
        library = importlib.import_module("annotationlib")
        found: dict[str, Any] = library.get_annotations(cls, format=library.Format.FORWARDREF)
        return found
    return dict(vars(cls).get("__annotations__", {}))


def _own_hints(cls: type[Any]) -> list[Any]:
    """Return the hints of one class that can be looked up, one by one."""
    hints = []
    for text in _annotations(cls).values():
        hint = text
        if isinstance(text, str):
            names = {**vars(sys.modules.get(cls.__module__, typing)), **vars(cls)}
            try:
                hint = eval(text, names)
            except Exception:  # noqa: BLE001  (as above)
                continue
        hints.append(hint)
    return hints
