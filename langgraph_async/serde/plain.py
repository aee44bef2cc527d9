"""Packs values that are plain all the way down, in one go: exactly None, bool, int, float, str, bytes, list, dict.

Most of what is stored is plain, and needs none of the care that `wire` takes. What a packer would change without a word
(bytearray, memoryview and the like become bytes) leaves a mark in the bytes; only where there is one, which may be just
part of a number or a text, is the value looked through.

ormsgpack, where it is installed, is several times faster than msgpack; for plain values both write the same bytes.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

_BIN_OR_EXT: Final = bytes((*range(0xC4, 0xCA), *range(0xD4, 0xD9)))
_SHORT_BYTES: Final = 2048
_FLOAT: Final = 0xCB
_FLOAT_BYTES: Final = 9
_LEAVES: Final = frozenset({float, bool, type(None), bytes})
_KEYS: Final = _LEAVES | {str, int}
_CONTAINERS: Final = frozenset({list, dict})
_MARKLESS: Final = frozenset({str, int, float, bool, type(None)})
PLAIN: Final = _MARKLESS | {bytes, list, dict}
"""Types of values that may be plain."""
_LONG_LIST: Final = 16
_BUFFER_BYTES: Final = 4096
_EXACT_TYPES: Final = ("BIG_INT", "DATACLASS", "DATETIME", "ENUM", "SUBCLASS", "TUPLE", "UUID")

Pack = Callable[[Any], bytes]


@functools.cache
def _accelerator() -> Any:
    """Return ormsgpack, or None; looked for when something is stored, not when this is imported."""
    try:
        fast = importlib.import_module("ormsgpack")
    except ImportError:
        return None
    return fast if all(hasattr(fast, f"OPT_PASSTHROUGH_{kind}") for kind in _EXACT_TYPES) else None


@functools.cache
def hidden_types() -> frozenset[type]:
    """Return the types that a packer takes for others without saying so."""
    found = {bytearray, memoryview, msgpack.ExtType, msgpack.Timestamp}
    fast = _accelerator()
    return frozenset(found if fast is None else {*found, fast.Ext})


@functools.cache
def shared_packer() -> Pack | None:
    """Return a packer that any number of threads may use at once, or None when there is only that of msgpack."""
    fast = _accelerator()
    if fast is None:
        return None
    options = 0
    for kind in _EXACT_TYPES:
        options |= getattr(fast, f"OPT_PASSTHROUGH_{kind}")
    return functools.partial(fast.packb, option=options)


def new_packer() -> Pack:
    """Return a function that packs a value and raises for one that is not plain. Not to be shared between threads."""
    shared = shared_packer()
    if shared is not None:
        return shared
    pack: Pack = msgpack.Packer(use_bin_type=True, strict_types=True, buf_size=_BUFFER_BYTES).pack
    return pack


def pack_plain(pack: Pack, value: Any) -> bytes | None:
    """Return the bytes of `value`, or None when it is not plain (or may not be, which is for others to find out)."""
    try:
        packed = pack(value)
    except (TypeError, ValueError, OverflowError):  # a lone surrogate is a ValueError, too
        return None
    if type(value) in _MARKLESS or not may_hide(packed) or _are_floats(value, packed) or not hides(value, plain=True):
        return packed
    return None


def _are_floats(value: Any, packed: bytes) -> bool:
    """Tell whether the bytes are those of a long list of floats: then each float begins where the last one ends."""
    if type(value) is not list or len(value) < _LONG_LIST:
        return False
    count = len(value)
    head = len(packed) - count * _FLOAT_BYTES
    return head in (3, 5) and packed[head::_FLOAT_BYTES].count(_FLOAT) == count


def may_hide(packed: bytes) -> bool:
    """Tell whether the bytes could hold a bin or an extension; text, numbers and lengths can look like one."""
    if len(packed) < _SHORT_BYTES:
        return len(packed.translate(None, _BIN_OR_EXT)) < len(packed)
    return any(mark in packed for mark in _BIN_OR_EXT)


def hides(root: Any, *, plain: bool = False) -> bool:
    """Look through lists and dicts, level by level, for what a packer changes without a word.

    Args:
        root: The value.
        plain: A packer has taken all of it for plain, so that nothing in it has code of its own.
    """
    level, hidden = [root], hidden_types()
    while level:
        if plain and _are_numbers(level):
            return False
        kinds = set(map(type, level))
        if not kinds.isdisjoint(hidden):
            return True
        if kinds.isdisjoint(_CONTAINERS):
            return False
        dicts = [each for each in level if type(each) is dict] if dict in kinds else []
        if not _KEYS.issuperset(map(type, chain.from_iterable(dicts))):
            return True
        lists = [each for each in level if type(each) is list] if list in kinds else []
        if plain:
            lists = [each for each in lists if not _are_numbers(each)]
        level = [*chain.from_iterable(map(dict.values, dicts)), *chain.from_iterable(lists)]
    return False


def _are_numbers(values: list[Any]) -> bool:
    """Tell whether a long list holds numbers only: those can be added up, which is the fastest way to find out."""
    if len(values) < _LONG_LIST or type(values[0]) not in (float, int):
        return False
    try:
        sum(values)
    except TypeError:
        return False
    return True


__all__ = ["PLAIN", "Pack", "hidden_types", "hides", "may_hide", "new_packer", "pack_plain", "shared_packer"]
