"""Reducers that append to a list: such a key is stored as what was appended, and the whole list now and then.

The distance between two whole lists grows with the list: it is stored again when about as much was written since as
it then held. So what is stored of a conversation grows with its length, not with the square of it, and reading
it takes a number of rows that is proportional to what is read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

SHORTEST: Final = 8
"""Items of a list below which it is always stored whole: there is nothing to gain."""
_FEWEST_UPDATES: Final = 32
"""Updates after which a list is stored whole at the earliest."""
_FEWEST_SUPERSTEPS: Final = 500
"""Supersteps after which a list that is hardly written is stored whole: each is a row to read."""


@dataclass(frozen=True, slots=True)
class Appending:
    """What is known of a reducer that appends.

    Attributes:
        settle: From the value and a write to that write with everything that the reducer would make up (ids), so
            that replaying it gives the same value; None where there is nothing to make up.
        settled: Tells whether a list, as a value or as a write, lacks nothing that the reducer would make up.
        replay: Folds many writes, oldest first, in a time that is linear in their number; None where the
            reducer's own is.
    """

    settle: Callable[[Any, Any], Any] | None = None
    settled: Callable[[Any], bool] | None = None
    replay: Callable[[Any, Sequence[Any]], Any] | None = None


_KNOWN: Final[dict[Any, Appending]] = {operator.add: Appending(), operator.iadd: Appending()}


def declare_appending(reducer: Callable[[Any, Any], Any], appending: Appending) -> None:
    """Let list keys with this reducer be stored as what was appended."""
    _KNOWN[reducer] = appending


def appending_of(reducer: Any) -> Appending | None:
    """Return what is known of a reducer, or None if it is not known to append."""
    try:
        return _KNOWN.get(reducer)
    except TypeError:  # not hashable
        return None


def long_enough(value: Any) -> bool:
    """Tell whether a value may be stored as what was appended to it."""
    return type(value) is list and len(value) >= SHORTEST


def whole_is_due(value: Any, updates: int, supersteps: int) -> bool:
    """Tell whether the whole list is to be stored.

    Args:
        value: The list.
        updates: Supersteps that wrote to it since it was stored whole.
        supersteps: All supersteps since then.
    """
    items = len(value)
    return updates >= max(_FEWEST_UPDATES, items // 3) or supersteps >= max(_FEWEST_SUPERSTEPS, 2 * items)
