"""Tells functions of the same name apart: by what they do, and by what they took along when they were made."""

from __future__ import annotations

import dis
import functools
import hashlib
import re
from collections import deque
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final
from uuid import UUID
from weakref import WeakKeyDictionary

from langgraph_async.pregel.call import Action, unwrap
from langgraph_async.pregel.node import PregelNode

_SIMPLE: Final = (str, bytes, int, float, complex, bool, type(None))
_VALUES: Final = (
    date,
    time,
    timedelta,
    Decimal,
    Fraction,
    UUID,
    PurePath,
    Enum,
    range,
    bytearray,
    re.Pattern,
)
"""What is told apart by its text."""
_PLAIN: Final = (*_SIMPLE, *_VALUES, list, tuple, deque, set, frozenset, Mapping, functools.partial)
_DATA_MARKS: Final = (
    "__dataclass_fields__",
    "__pydantic_fields__",
    "__attrs_attrs__",
    "__struct_fields__",
    "dtype",
)
"""Class attributes by which classes that hold data are known."""
_HIDDEN: Final = ("__dict__", "__weakref__")
_digests: WeakKeyDictionary[PregelNode, str] = WeakKeyDictionary()


def digest(node: PregelNode) -> str:
    """Return what tells a node from others of the same name: what its functions do, and what follows from them.

    The same in every process with the same code and Python version.
    """
    known = _digests.get(node)
    if known is None:
        known = _digests[node] = hashlib.sha256(repr(_node_parts(node, frozenset())).encode()).hexdigest()
    return known


def _node_parts(node: PregelNode, around: frozenset[int]) -> tuple[Any, ...]:
    routers = tuple((r.name, r.channels, _action_parts(r.action, around)) for r in node.routers)
    return (_action_parts(node.action, around), node.channels, tuple(channel for channel, _ in node.edges), routers)


def _action_parts(action: Action | None, around: frozenset[int]) -> Any:
    if action is None:
        return None
    if action.kind == "sequence":
        return tuple(_action_parts(step, around) for step in action.steps)
    return _parts(action.original, around)


def _parts(target: Any, around: frozenset[int]) -> Any:
    """Return what tells a value that a function uses from others, as nested tuples of plain values."""
    if isinstance(target, _SIMPLE):
        return (type(target).__name__, target)
    if isinstance(target, type):
        return path_of(target)
    if isinstance(target, _VALUES):
        return (path_of(type(target)), repr(target))
    if id(target) in around:
        return path_of(target)
    around |= {id(target)}
    contained = _contained(target, around)
    if contained is not None:
        return (path_of(type(target)), contained)
    if getattr(target, "is_pregel", False):
        return (target.name, tuple((name, _node_parts(node, around)) for name, node in sorted(target.nodes.items())))
    if isinstance(target, functools.partial):
        given = (*target.args, *sorted(target.keywords.items()))
        return (_parts(target.func, around), _parts(given, around))
    return _callable_parts(target, around)


def _contained(target: Any, around: frozenset[int]) -> Any:
    """Return what tells apart what a container holds, or None for what is no container."""
    if isinstance(target, (list, tuple, deque)):
        return tuple(_parts(item, around) for item in target)
    if isinstance(target, (set, frozenset)):
        return tuple(sorted(repr(_parts(item, around)) for item in target))
    if isinstance(target, Mapping):
        return tuple(sorted(repr((_parts(key, around), _parts(value, around))) for key, value in target.items()))
    if hasattr(target, "dtype") and hasattr(target, "tobytes"):
        return (str(target.dtype), repr(getattr(target, "shape", ())), hashlib.sha256(target.tobytes()).hexdigest())
    return None


def _callable_parts(target: Any, around: frozenset[int]) -> Any:
    function = getattr(target, "__func__", target)
    owner = _attributes(getattr(target, "__self__", target), around)
    code = getattr(function, "__code__", None)
    if code is None:
        return (path_of(target), owner)
    return (path_of(target), owner, _code_parts(code, around), _captured(function, code, around))


def _attributes(owner: Any, around: frozenset[int]) -> tuple[Any, ...]:
    """Return the attributes of an object, which tell it from others of its class.

    Those that are objects themselves count by their attributes if they are data, and else by their class: clients and
    the like differ in every process.
    """
    if isinstance(owner, (type, ModuleType)) or hasattr(owner, "__code__"):
        return ()
    return tuple((name, _attribute(value, around)) for name, value in sorted(_fields(owner).items()))


def _fields(owner: Any) -> dict[str, Any]:
    slots = (name for cls in type(owner).__mro__ for name in _names(cls.__dict__.get("__slots__", ())))
    found = {name: getattr(owner, name) for name in slots if name not in _HIDDEN and hasattr(owner, name)}
    own = getattr(owner, "__dict__", None)
    return {**found, **own} if isinstance(own, dict) else found


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _attribute(value: Any, around: frozenset[int]) -> Any:
    if isinstance(value, _PLAIN) or hasattr(value, "__code__") or _is_data(value):
        return _parts(value, around)
    return path_of(value)


def _is_data(value: Any) -> bool:
    return any(hasattr(type(value), mark) for mark in _DATA_MARKS)


def _captured(function: Any, code: Any, around: frozenset[int]) -> tuple[Any, ...]:
    """Return what a function took along when it was made, without the variables that it changes itself."""
    changed = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF"}
    cells = zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False)
    kept = tuple((name, _cell(cell, around)) for name, cell in cells if name not in changed)
    defaults = (getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None))
    return (kept, _parts(defaults, around))


def _cell(cell: Any, around: frozenset[int]) -> Any:
    try:
        return _parts(cell.cell_contents, around)
    except ValueError:  # not filled yet
        return None


def _code_parts(code: Any, around: frozenset[int]) -> tuple[Any, ...]:
    inner = tuple(_code_parts(c, around) if hasattr(c, "co_code") else _parts(c, around) for c in code.co_consts)
    return (code.co_code.hex(), code.co_names, inner)


def path_of(target: Any) -> str:
    """Return module and qualified name of a function, or of the class of something else."""
    base = unwrap(target)
    named = base if hasattr(base, "__qualname__") else type(base)
    return f"{named.__module__}.{named.__qualname__}"
