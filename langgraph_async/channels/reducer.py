"""A channel that combines its writes with a binary function."""

from __future__ import annotations

import operator as op
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import Any, ClassVar, Final, Self

from typing_extensions import TypeVar

from langgraph_async.channels.accumulation import (
    concrete_type,
    empty_value,
    factory_of,
    owned,
    reducer_failed,
    replacement,
    same_reducer,
    since_overwrite,
)
from langgraph_async.channels.appending import Appending, appending_of
from langgraph_async.channels.base import BaseChannel
from langgraph_async.constants import MISSING
from langgraph_async.errors import EmptyChannelError
from langgraph_async.types import DeltaSnapshot

Value = TypeVar("Value", default=Any)

_PURE: Final = frozenset({op.add, op.concat, op.or_, op.and_, op.xor, op.sub, op.mul, max, min})
"""Functions that leave their left operand as it is, so that it need not be copied for them."""


class BinaryOperatorAggregate(BaseChannel[Value, Value, Any]):
    """Folds a superstep's writes into its value: ``operator(value, write)``, in the order of the tasks.

    It starts from its default, or else from an empty value of its type (0, ``""``, ``[]``); with a type that
    has none, the first write is the value. An `Overwrite` replaces the value and everything else that was
    written in its superstep.

    The operator may change its left operand in place, if that is a list, a dict or a set: it is given a shallow
    copy of the value. What is nested inside it must not change in place.

    Args:
        typ: The declared type.
        operator: Combines the value and one write.
        default: A first value; a list, dict or set is copied for each thread. None counts as no default.
        default_factory: Makes a first value for each thread.

    Attributes:
        value: The value, or `MISSING`. Replaced by each update, so copies may share it.
    """

    __slots__ = ("default_factory", "operator", "value")
    __hash__ = None  # type: ignore[assignment]
    reacts_to_empty: ClassVar[bool] = False

    def __init__(
        self,
        typ: Any,
        operator: Callable[[Value, Any], Value],
        *,
        default: Any = MISSING,
        default_factory: Callable[[], Any] | None = None,
        key: str = "",
    ) -> None:
        super().__init__(typ, key)
        self.operator = operator
        self.default_factory = factory_of(default, default_factory)
        self.value: Any = self._first()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinaryOperatorAggregate) and same_reducer(self.operator, other.operator)

    @property
    def ValueType(self) -> Any:  # noqa: N802
        """The declared type."""
        return self.typ

    @property
    def UpdateType(self) -> Any:  # noqa: N802
        """The declared type."""
        return self.typ

    def get(self) -> Value:
        """Return the value.

        Raises:
            EmptyChannelError: There is none.
        """
        if self.value is MISSING:
            raise EmptyChannelError(f"Channel '{self.key}' has no value")
        return self.value  # type: ignore[no-any-return]

    def is_available(self) -> bool:
        """Tell whether there is a value."""
        return self.value is not MISSING

    def update(self, values: Sequence[Any]) -> bool:
        """Fold `values` into the value; all of them or, when the operator raises, none.

        Raises:
            ReducerError: The operator raised.
            InvalidUpdateError: Several overwrites were written.
        """
        if not values:
            return False
        payload = replacement(values, self.key)
        self.value = self._fold(self.value, values) if payload is MISSING else owned(payload)
        return True

    @property
    def appending(self) -> Appending | None:
        """What is known of the operator if it appends to a list, so that the writes may be stored instead of the value.

        None for any other operator or type.
        """
        return appending_of(self.operator) if concrete_type(self.typ) is list else None

    def replay_writes(self, writes: Sequence[tuple[str, str, Any]]) -> None:
        """Rebuild the value from stored writes to this channel, oldest first, on top of the one it has.

        The last overwrite counts, and what came after it.

        Raises:
            ReducerError: The operator raised.
        """
        payload, rest = since_overwrite([value for _, _, value in writes])
        base = self.value if payload is MISSING else payload
        self.value = self._replay(base, rest) if rest else base

    def checkpoint(self) -> Any:
        """Return the value, or `MISSING`."""
        return self.value

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel declared like this one that holds what was stored; with `MISSING`, the first value."""
        fresh = self._blank()
        if checkpoint is MISSING:
            fresh.value = fresh._first()
        else:
            fresh.value = checkpoint.value if isinstance(checkpoint, DeltaSnapshot) else checkpoint
        return fresh

    def copy(self) -> Self:
        """Return an independent channel with the same value."""
        fresh = self._blank()
        fresh.value = self.value
        return fresh

    def _blank(self) -> Self:
        fresh = self.__class__(self.typ, self.operator, default_factory=_nothing, key=self.key)
        fresh.default_factory = self.default_factory
        return fresh

    def _first(self) -> Any:
        return empty_value(self.typ) if self.default_factory is None else self.default_factory()

    def _replay(self, value: Any, values: Sequence[Any]) -> Any:
        known = self.appending
        if known is None or known.replay is None:
            return self._fold(value, values)
        try:
            return known.replay(value, values)
        except Exception as exc:
            raise reducer_failed(self.key, self.operator, exc) from exc

    def _fold(self, value: Any, values: Sequence[Any]) -> Any:
        if value is MISSING:
            value, values = values[0], values[1:]
        operator = self.operator
        try:
            if type(operator) is BuiltinFunctionType and operator in _PURE:
                if operator is op.add and len(values) > 1 and _all_lists(value, values):
                    return _concatenated(value, values)
                for update in values:
                    value = operator(value, update)
                return value
            value = owned(value)
            for update in values:
                value = operator(value, update)
                if value is update:
                    value = owned(value)  # the next call may change it in place, and it is the writer's
            return value
        except Exception as exc:
            raise reducer_failed(self.key, operator, exc) from exc


def _nothing() -> Any:
    return MISSING


def _all_lists(value: Any, values: Sequence[Any]) -> bool:
    return type(value) is list and all(type(update) is list for update in values)


def _concatenated(value: list[Any], values: Sequence[list[Any]]) -> list[Any]:
    # Adding one list after the other would copy the sum each time: quadratic in the width of a fan-out.
    result = value.copy()
    for update in values:
        result.extend(update)
    return result
