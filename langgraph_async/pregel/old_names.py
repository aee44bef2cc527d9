"""Takes arguments by the names that they had in earlier versions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from langgraph_async.pregel.suggest import did_you_mean
from langgraph_async.warnings import LangGraphDeprecatedSinceV05, LangGraphDeprecatedSinceV10


def renamed(caller: str, given: Mapping[str, Any], **new_names: str) -> dict[str, Any]:
    """Return arguments that were given by an old name under their new ones, with a warning for each.

    Args:
        caller: The function that they were given to; the warning points at its caller.
        given: The arguments.
        new_names: The new name of each old one.

    Raises:
        TypeError: An argument is not known by any name.
    """
    found: dict[str, Any] = {}
    for old, value in given.items():
        if old not in new_names:
            raise TypeError(
                f"{caller}() got an unexpected keyword argument {old!r}.{did_you_mean(old, new_names.values())}"
            )
        warnings.warn(
            f"`{old}` is deprecated and will be removed. Please use `{new_names[old]}` instead.",
            LangGraphDeprecatedSinceV10 if old == "config_schema" else LangGraphDeprecatedSinceV05,
            stacklevel=3,
        )
        found[new_names[old]] = value
    return found
