"""Turns what users hand over as a node, a router or a task into one uniform `Action`.

All inspection of signatures happens here, once, when the graph is built. Running an action does none.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from langgraph_async.errors import GraphBuildError, NodeError

Kind: TypeAlias = Literal["async", "thread", "inline", "async_gen", "gen", "runnable", "sequence"]

_CONFIG_HINTS: Final = ("RunnableConfig", "Optional[RunnableConfig]", "RunnableConfig | None")
_WRITER_HINTS: Final = ("StreamWriter",)
_STORE_HINTS: Final = ("BaseStore", "Optional[BaseStore]", "BaseStore | None")
_BY_NAME: Final = ("config", "writer", "store", "previous", "runtime", "error")


class SupportsAinvoke(Protocol):
    """Something with ``ainvoke(input, config)``: a compiled graph, or a langchain-core runnable."""

    @property
    def ainvoke(self) -> Callable[..., Awaitable[Any]]:
        """Called with the input and a config."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Action:
    """Something that can be called with an input.

    Attributes:
        name: What it is called in messages and, for a node without an explicit name, in the graph.
        func: Called with the input, and with `inject` as keyword arguments.
        kind: How it is run: awaited, in a worker thread, inline, iterated, or through its ``ainvoke``.
        inject: Parameter name to whether it must be available (a missing required one is an error).
        original: What the user handed over.
        steps: For a sequence: the actions, each of which gets what the one before returned.
        literal: What it returns or raises is passed on as it is: nothing returned is invoked, no command is taken.
    """

    name: str
    func: Callable[..., Any]
    kind: Kind
    inject: Mapping[str, bool]
    original: Any
    steps: tuple[Action, ...] = ()
    literal: bool = False

    @property
    def is_async(self) -> bool:
        """Whether it can be cancelled at an await."""
        if self.kind == "sequence":
            return all(step.is_async for step in self.steps)
        return self.kind in ("async", "async_gen", "runnable")


def in_sequence(steps: tuple[Action, ...]) -> Action:
    """Return one action that calls `steps` in order."""

    def refuse(*_: Any) -> None:
        raise TypeError("A sequence is run step by step.")

    return Action(name="sequence", func=refuse, kind="sequence", inject={}, original=steps, steps=steps)


def unwrap(func: Any) -> Any:
    """Return the function below partials and bound methods."""
    while isinstance(func, functools.partial):
        func = func.func
    return func


def action_name(target: Any) -> str:
    """Return the name that `target` goes by: ``get_name()``, ``__name__``, or its class's name."""
    if hasattr(target, "ainvoke"):
        get_name = getattr(target, "get_name", None)
        found = get_name() if callable(get_name) else getattr(target, "name", None)
        return str(found or type(target).__name__)
    base = unwrap(target)
    return str(getattr(base, "__name__", None) or type(base).__name__)


def _kind(target: Any, run_sync: Literal["thread", "inline"]) -> Kind:
    base = unwrap(target)
    candidates = (base,) if inspect.isroutine(base) else (base, getattr(base, "__call__", None))  # noqa: B004
    for candidate in candidates:
        if inspect.isasyncgenfunction(candidate):
            return "async_gen"
        if inspect.isgeneratorfunction(candidate):
            return "gen"
        if inspect.iscoroutinefunction(candidate):
            return "async"
    return run_sync


def _is_subclass_name(hint: Any, name: str) -> bool:
    if isinstance(hint, type):
        return any(cls.__name__ == name for cls in hint.__mro__)
    return getattr(hint, "__name__", None) == name


def _strip_optional(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [a for a in typing.get_args(hint) if a is not type(None)]
        if len(members) == 1:
            return members[0], True
    return hint, False


def _accepts(parameter: inspect.Parameter, hint: Any, owner: str) -> bool | None:
    """Return whether the parameter must be available, or None when nothing is injected into it."""
    name, empty = parameter.name, hint is inspect.Parameter.empty
    bare, optional = _strip_optional(hint)
    has_default = parameter.default is not inspect.Parameter.empty
    if name == "config":
        if empty or hint in _CONFIG_HINTS or _is_subclass_name(bare, "RunnableConfig"):
            return False
        if has_default is False or not empty:
            warnings.warn(
                f"'config' parameter of {owner!r} should be typed as 'RunnableConfig' or 'RunnableConfig | None', "
                f"not {hint!r}; nothing is injected into it.",
                UserWarning,
                stacklevel=6,
            )
        return None
    if name == "writer":
        return False if empty or hint in _WRITER_HINTS or _is_writer(bare) else None
    if name == "store":
        if empty or hint in _STORE_HINTS or _is_subclass_name(bare, "BaseStore"):
            return not (optional or has_default or (isinstance(hint, str) and hint != "BaseStore"))
        return None
    if name == "error":
        return False if hint == "NodeError" or bare is NodeError else None
    if name == "runtime":
        return True
    return not has_default


def _is_writer(hint: Any) -> bool:
    return typing.get_origin(hint) is Callable or getattr(hint, "__origin__", None) is Callable or callable(hint)


def _resolved_hints(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        return dict(getattr(function, "__annotations__", {}))


def injected(target: Any, name: str, *, skip_first: bool = True) -> dict[str, bool]:
    """Return which parameters of `target` the engine fills in by name.

    Args:
        target: A function, method, partial or callable object.
        name: What it is called, for messages.
        skip_first: Leave out the first positional parameter, which takes the input.
    """
    base = unwrap(target)
    function = base if inspect.isroutine(base) else getattr(type(base), "__call__", base)  # noqa: B004
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return {}
    hints = _resolved_hints(inspect.unwrap(function))
    found: dict[str, bool] = {}
    positional = 0
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional += 1
            if skip_first and positional == 1:
                continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            continue
        if parameter.name not in _BY_NAME:
            continue
        required = _accepts(parameter, hints.get(parameter.name, parameter.annotation), name)
        if required is not None:
            found[parameter.name] = required
    return found


def prepare(target: Any, *, name: str | None = None, run_sync: Literal["thread", "inline"] = "thread") -> Action:
    """Return `target` as an action.

    Args:
        target: A function (sync, async, generator or async generator), method, partial, object with ``__call__``,
            object with ``ainvoke(input, config)``, or a dict of such things, which run side by side.
        name: Overrides the name that is read off `target`.
        run_sync: Where plain functions run: in a worker thread, or inline where the author knows that they do
            not block.

    Raises:
        GraphBuildError: `target` cannot be called.
    """
    if hasattr(target, "ainvoke"):
        return Action(
            name=name or action_name(target), func=target.ainvoke, kind="runnable", inject={}, original=target
        )
    if isinstance(target, Mapping):
        raise _not_callable(target, name)
    if not callable(target):
        raise _not_callable(target, name)
    label = name or action_name(target)
    return Action(
        name=label,
        func=target,
        kind=_kind(target, run_sync),
        inject=injected(target, label),
        original=target,
    )


class NotCallableError(GraphBuildError, TypeError):
    """What was given as a node cannot be called."""


def _not_callable(target: Any, name: str | None) -> NotCallableError:
    place = "" if name is None else f"Node {name!r}: "
    return NotCallableError(
        f"{place}Expected a function, a callable object or something with ainvoke(input, config), got "
        f"{type(target).__name__}: {target!r}."
    )
