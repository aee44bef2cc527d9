"""Whether a rebuilt value is the value it was built from: same types all the way down, equal leaves."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, Final


def identical(left: Any, right: Any) -> bool:
    """Tell whether both are of the same types, all the way down, and equal; a NaN equals a NaN of the same bits."""
    if left is right:
        return True
    kind = type(left)
    if kind is not type(right):
        return False
    compare = _COMPARE.get(kind)
    if compare is not None:
        return compare(left, right)
    if issubclass(kind, (list, tuple, dict, set, frozenset)):
        # Their own comparison would call two NaN in them different.
        bare = not parts_of(left) and not parts_of(right)
        return _base_identical(left, right) and (bare or _parts_identical(left, right))
    if hasattr(left, "dtype") and hasattr(left, "tobytes"):
        return bool(left.dtype == right.dtype and left.shape == right.shape and _bytes_equal(left, right))
    return _parts_identical(left, right)


def _parts_identical(left: Any, right: Any) -> bool:
    parts, others = parts_of(left), parts_of(right)
    if not parts and not others:
        return bool(left == right)
    if parts.keys() != others.keys():
        parts, others = _without_cached(left, parts), _without_cached(right, others)
    if parts.keys() != others.keys() or not all(identical(value, others[name]) for name, value in parts.items()):
        return False
    return not isinstance(left, (str, bytes, int, float)) or bool(left == right)


def parts_of(value: Any) -> dict[str, Any]:
    """Return the attributes that make up `value`: those in its dict and slots, and what pydantic keeps beside."""
    found: dict[str, Any] = dict(getattr(value, "__dict__", None) or {})
    cls: Any = type(value)
    for name in _slots_of(cls):
        if hasattr(value, name):
            found[name] = getattr(value, name)
    return found


@functools.lru_cache(512)
def _slots_of(cls: Any) -> tuple[str, ...]:
    found: list[str] = []
    for kind in cls.__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__dict__", "__weakref__", "__pydantic_fields_set__"):
                continue
            mangled = name.startswith("__") and not name.endswith("__")
            attribute = f"_{kind.__name__.lstrip('_')}{name}" if mangled else name
            found.append(attribute)
    return (*found, *getattr(cls, "__struct_fields__", ()))


def _without_cached(value: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """Leave out what `cached_property` has worked out: it comes back when it is asked for."""
    static = {name: inspect.getattr_static(type(value), name, None) for name in parts}
    return {name: part for name, part in parts.items() if not isinstance(static[name], functools.cached_property)}


def _bytes_equal(left: Any, right: Any) -> bool:
    if getattr(left.dtype, "hasobject", False):
        return identical(left.ravel().tolist(), right.ravel().tolist())
    return bool(left.tobytes() == right.tobytes())


def _base_identical(left: Any, right: Any) -> bool:
    for base in (list, tuple, dict, set, frozenset):
        if isinstance(left, base):
            return _COMPARE[base](left, right)
    return True


def _floats(left: float, right: float) -> bool:
    return struct.pack(">d", left) == struct.pack(">d", right)


def _sequences(left: Any, right: Any) -> bool:
    return len(left) == len(right) and all(map(identical, left, right))


def _mappings(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    for (key, value), (other_key, other) in zip(left.items(), right.items(), strict=True):
        if key is not other_key and not identical(key, other_key):
            return False
        if value is not other and not identical(value, other):
            return False
    return True


def _sets(left: Any, right: Any) -> bool:
    if left != right:
        return False
    twins = {value: value for value in right}
    return all(identical(value, twins[value]) for value in left)


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right)


def _times(left: Any, right: Any) -> bool:
    bare = left.replace(tzinfo=None) == right.replace(tzinfo=None)
    return bool(bare and left.fold == right.fold and identical(left.tzinfo, right.tzinfo))


def _zones(left: Any, right: Any) -> bool:
    return identical(left.__getinitargs__(), right.__getinitargs__())


def _deques(left: Any, right: Any) -> bool:
    return bool(left.maxlen == right.maxlen and _sequences(left, right))


def _default_dicts(left: Any, right: Any) -> bool:
    return left.default_factory is right.default_factory and _mappings(left, right)


def _texts(left: Any, right: Any) -> bool:
    return str(left) == str(right)


_COMPARE: Final[dict[type, Callable[[Any, Any], bool]]] = {
    str: _equal,
    int: _equal,
    bool: _equal,
    bytes: _equal,
    float: _floats,
    list: _sequences,
    tuple: _sequences,
    dict: _mappings,
    set: _sets,
    frozenset: _sets,
    dt.datetime: _times,
    dt.time: _times,
    dt.timezone: _zones,
    deque: _deques,
    defaultdict: _default_dicts,
    OrderedDict: _mappings,
    Counter: _mappings,
    complex: _texts,
    Decimal: _texts,
    **dict.fromkeys((PosixPath, WindowsPath, PurePosixPath, PureWindowsPath), _equal),
}
