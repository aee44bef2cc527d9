"""Prints what is streamed, for ``print_mode`` and ``debug=True``."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, Final

from langgraph_async.stream.parts import Namespace

_BOLD: Final = "\x1b[1m"
_YELLOW: Final = "\x1b[33m"
_RESET: Final = "\x1b[0m"


def printed(ns: Namespace, mode: str, payload: Any) -> str:
    """Return one item as a line: the mode, the namespace of a nested graph, and the payload's ``repr``."""
    graph = f" {_YELLOW}[graph={ns!r}]{_RESET}" if ns else ""
    return f"{_BOLD}[{mode}]{_RESET}{graph} {payload!r}"


def printer(modes: Set[str], write: Callable[[str], Any] = print) -> Callable[[Namespace, str, Any], None]:
    """Return a function that writes those items whose mode is one of `modes`, as they come, one line each."""

    def show(ns: Namespace, mode: str, payload: Any) -> None:
        if mode in modes:
            write(printed(ns, mode, payload))

    return show
