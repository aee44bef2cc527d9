"""Finds the graphs that a node calls, without running it.

Looked at: the node itself, the steps of runnables, partials, wrapped functions, owners of bound methods, variables
captured by closures, and globals that the code refers to, with the attributes that it reads off them. What sits inside
plain containers, or is looked up while running, is not found.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel

_DEPTH: Final = 4
_INNER: Final = ("bound", "func", "afunc", "runnable")


def is_graph(target: Any) -> bool:
    """Tell whether `target` is a compiled graph: its class says ``is_pregel = True``."""
    return getattr(type(target), "is_pregel", False) is True


def find_subgraphs(target: Any) -> tuple[Pregel, ...]:
    """Return the graphs that `target` is known to call, each once, nearest first."""
    found: dict[int, Pregel] = {}
    for graph in _graphs(target, set(), _DEPTH):
        found.setdefault(id(graph), graph)
    return tuple(found.values())


def _graphs(target: Any, seen: set[int], depth: int) -> Iterator[Any]:
    if is_graph(target):
        yield target
        return
    if depth == 0 or id(target) in seen or isinstance(target, (type, types.ModuleType)):
        return
    seen.add(id(target))
    for inner in _parts(target):
        yield from _graphs(inner, seen, depth - 1)


def _parts(target: Any) -> Iterator[Any]:
    if isinstance(target, functools.partial):
        yield target.func
        yield from target.args
        yield from target.keywords.values()
    elif inspect.ismethod(target):
        yield from _method_parts(target.__self__, target.__func__)
    elif inspect.isfunction(target):
        yield from _function_parts(target)
    elif hasattr(target, "ainvoke"):
        yield from _runnable_parts(target)
    else:
        call = getattr(type(target), "__call__", None)  # noqa: B004
        if inspect.isfunction(call):
            yield from _method_parts(target, call)


def _method_parts(owner: Any, function: Any) -> Iterator[Any]:
    if is_graph(owner):
        yield owner
        return
    if inspect.isfunction(function):
        yield from _function_parts(function)
        yield from _attributes(owner, tuple(dict.fromkeys(_names(function.__code__))), _DEPTH)


def _runnable_parts(target: Any) -> Iterator[Any]:
    yield from getattr(target, "steps", None) or ()
    for name in _INNER:
        inner = inspect.getattr_static(target, name, None)
        if inner is not None:
            yield getattr(target, name, None)


def _function_parts(function: types.FunctionType) -> Iterator[Any]:
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield wrapped
    names = tuple(dict.fromkeys(_names(function.__code__)))
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
        yield value
        yield from _attributes(value, names, _DEPTH)
    for name in names:
        value = function.__globals__.get(name)
        if is_graph(value):
            yield value
        elif value is not None:
            yield from _attributes(value, names, _DEPTH)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _attributes(owner: Any, names: tuple[str, ...], depth: int) -> Iterator[Any]:
    """Yield the graphs reached from `owner` by attributes called one of `names`; runs no descriptor."""
    held = getattr(owner, "__dict__", None)
    if depth == 0 or held is None or isinstance(owner, types.FunctionType):
        return
    for name in names:
        value = held.get(name)
        if value is None and not isinstance(owner, types.ModuleType):
            value = inspect.getattr_static(owner, name, None)
        if is_graph(value):
            yield value
        elif value is not None and not isinstance(value, (str, int, float, type, types.FunctionType)):
            yield from _attributes(value, names, depth - 1)
