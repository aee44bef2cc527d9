"""What a function's type hints say about its place in the graph: what it reads, and where it may go.

Hints that cannot be resolved say nothing; they are never an error.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final

from langgraph_async.pregel.call import unwrap
from langgraph_async.types import Command, Send

_UNIONS: Final = (typing.Union, types.UnionType)
_UNRESOLVED: Final = (NameError, TypeError, AttributeError, ValueError, SyntaxError)


def _function(target: Any) -> Callable[..., Any] | None:
    base = unwrap(target)
    if hasattr(base, "ainvoke"):
        return None
    return base if inspect.isroutine(base) else getattr(type(base), "__call__", None)  # noqa: B004


def _hints(target: Any) -> dict[str, Any]:
    function = _function(target)
    if function is None:
        return {}
    try:
        return typing.get_type_hints(function)
    except _UNRESOLVED:
        return {}


def first_parameter_schema(target: Any) -> Any:
    """Return the class that the first positional parameter of `target` is declared with, or None.

    Only a class whose own fields are declared counts: ``dict`` and ``str`` say nothing about keys.
    """
    if hasattr(unwrap(target), "ainvoke"):
        return None
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return None
    first = next((p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)), None)
    if first is None:
        return None
    hint = _hints(target).get(first.name)
    try:
        declared = isinstance(hint, type) and bool(typing.get_type_hints(hint))
    except _UNRESOLVED:
        declared = False
    return hint if declared else None


def command_destinations(target: Any) -> tuple[str, ...]:
    """Return the names in a ``Command[Literal[...]]`` that the return hint of `target` is, or has as a member."""
    found: dict[str, None] = {}
    for member in _members(_hints(target).get("return")):
        if typing.get_origin(member) is Command:
            for argument in typing.get_args(member):
                found.update(dict.fromkeys(_literals(argument)))
    return tuple(found)


def literal_results(target: Any) -> tuple[str, ...]:
    """Return the names in a ``Literal[...]`` return hint of `target`, if every result but a `Send` is among them."""
    members = list(_members(_hints(target).get("return")))
    found: dict[str, None] = {}
    for member in members:
        names = _literals(member)
        if not names and not _gives_sends(member):
            return ()
        found.update(dict.fromkeys(names))
    return tuple(found)


def _members(hint: Any) -> Iterator[Any]:
    if typing.get_origin(hint) in _UNIONS:
        for argument in typing.get_args(hint):
            yield from _members(argument)
    elif hint is not None:
        yield hint


def _literals(hint: Any) -> tuple[str, ...]:
    if typing.get_origin(hint) is typing.Literal:
        return tuple(value for value in typing.get_args(hint) if isinstance(value, str))
    if typing.get_origin(hint) in _UNIONS:
        return tuple(name for argument in typing.get_args(hint) for name in _literals(argument))
    return ()


def _gives_sends(hint: Any) -> bool:
    return hint is Send or (typing.get_origin(hint) is list and typing.get_args(hint) == (Send,))
