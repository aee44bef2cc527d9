"""The tail of a message about a wrong name: which right name was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 8


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a sentence, with a leading space, that names the nearest of `known`, or lists them.

    Example:
        >>> did_you_mean("wether", ["weather", "news"])
        " Did you mean 'weather'?"
        >>> did_you_mean("x", ["news"])
        " Known names: 'news'."
    """
    names = sorted(set(known))
    if not names:
        return ""
    if isinstance(name, str):
        by_case = [other for other in names if other.casefold() == name.casefold()]
        near = by_case or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
        if near:
            return f" Did you mean {near[0]!r}?"
    shown = ", ".join(repr(other) for other in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" Known names: {shown}{more}."
