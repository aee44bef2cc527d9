"""What the channels that accumulate their writes share: where they start, overwrites, and who owns a container."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, NotRequired, Required, TypeVar, cast, get_args, get_origin

from typing_extensions import ReadOnly

from langgraph_async.constants import MISSING, OVERWRITE
from langgraph_async.errors import ErrorCode, InvalidUpdateError, ReducerError, create_error_message
from langgraph_async.types import Overwrite

V = TypeVar("V")

_CONCRETE: dict[Any, Any] = {
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    abc.Set: set,
    abc.MutableSet: set,
    abc.Mapping: dict,
    abc.MutableMapping: dict,
}


def concrete_type(typ: Any) -> Any:
    """Return the class to call for an empty value of the annotation `typ`: ``Sequence[int]`` gives ``list``."""
    while (origin := get_origin(typ)) is not None:
        if origin in (Annotated, Required, NotRequired, ReadOnly):
            typ = get_args(typ)[0]
        else:
            typ = origin
            break
    return _CONCRETE.get(typ, typ)


def empty_value(typ: Any) -> Any:
    """Return an empty value of the annotation `typ`, or `MISSING` when it cannot be made."""
    try:
        return concrete_type(typ)()
    except Exception:  # noqa: BLE001 - a user's class may refuse to be made without arguments in any way it likes
        return MISSING


def owned(value: V) -> V:
    """Return `value`, or a shallow copy of it when it is a list, dict or set (not a subclass)."""
    kind = type(value)
    if kind is list or kind is dict or kind is set:
        return cast("V", cast("Any", value).copy())
    return value


def factory_of(default: Any, default_factory: Callable[[], Any] | None) -> Callable[[], Any] | None:
    """Return what makes the declared first value of a channel, or None when none is declared.

    A default of None counts as none: it says that nothing was written yet, and reducers do not expect it.
    """
    if default_factory is None and default is not MISSING and default is not None:
        return partial(owned, default)
    return default_factory


def overwritten(value: Any) -> Any:
    """Return what `value` says to replace the accumulated value with, or `MISSING` if it is an ordinary write.

    Besides `Overwrite` itself, its JSON shapes count: ``{"__overwrite__": x}`` and
    ``{"type": "__overwrite__", "value": x}``.
    """
    if isinstance(value, Overwrite):
        return value.value
    if isinstance(value, dict):
        if len(value) == 1 and OVERWRITE in value:
            return value[OVERWRITE]
        kind = value.get("type")
        if isinstance(kind, str) and kind == OVERWRITE and "value" in value:
            return value["value"]
    return MISSING


def replacement(values: Iterable[Any], key: str) -> Any:
    """Return what one superstep's `values` replace the accumulated value with, or `MISSING` if they do not.

    Raises:
        InvalidUpdateError: More than one of them does.
    """
    found: Any = MISSING
    for value in values:
        payload = overwritten(value)
        if payload is MISSING:
            continue
        if found is not MISSING:
            raise InvalidUpdateError(
                create_error_message(
                    message=f"At key '{key}': Can receive only one Overwrite value per super-step.",
                    error_code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
                )
            )
        found = payload
    return found


def since_overwrite(values: list[Any]) -> tuple[Any, list[Any]]:
    """Split a history of writes, oldest first, at its last overwrite: its payload (or `MISSING`), and the rest."""
    for index in range(len(values) - 1, -1, -1):
        payload = overwritten(values[index])
        if payload is not MISSING:
            return payload, values[index + 1 :]
    return MISSING, values


def same_reducer(one: Any, other: Any) -> bool:
    """Tell whether two declarations mean the same reducer; a lambda, written twice, is taken to be the same."""
    names = (getattr(one, "__name__", ""), getattr(other, "__name__", ""))
    return one is other or one == other or "<lambda>" in names


def reducer_failed(key: str, reducer: Any, exc: Exception) -> ReducerError:
    """Return the error for a reducer that raised `exc`; raise it from `exc`."""
    name = getattr(reducer, "__qualname__", None) or repr(reducer)
    return ReducerError(
        f"At key '{key}': reducer {name} raised {type(exc).__name__}: {exc}. The value is unchanged.", key=key
    )
