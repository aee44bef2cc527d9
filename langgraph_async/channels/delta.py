"""A channel that is stored as its writes, with a snapshot of the whole value now and then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from typing_extensions import TypeVar

from langgraph_async.channels.accumulation import (
    empty_value,
    factory_of,
    owned,
    reducer_failed,
    replacement,
    same_reducer,
    since_overwrite,
)
from langgraph_async.channels.base import BaseChannel
from langgraph_async.constants import MISSING, Missing
from langgraph_async.errors import EmptyChannelError, SchemaError
from langgraph_async.types import DeltaSnapshot

Value = TypeVar("Value", default=Any)


class DeltaChannel(BaseChannel[Value, Any, Any]):
    """Folds a superstep's writes into its value all at once, and is stored as those writes.

    The reducer must be deterministic, and must not care how writes are batched:
    ``reducer(reducer(s, a), b) == reducer(s, a + b)``, since loading a thread replays its writes in one batch.
    It may change its first argument in place, if that is a list, a dict or a set: it is given a shallow copy.

    Args:
        reducer: From the value and the list of a superstep's writes to the new value.
        typ: The declared type; ``Annotated[T, DeltaChannel(...)]`` fills it in. None stands for ``list``.
        snapshot_frequency: Updates after which the whole value is stored. Less often means less storage and a
            longer replay when a thread is loaded.
        default: A first value; a list, dict or set is copied for each thread. None counts as no default.
        default_factory: Makes a first value for each thread.

    Attributes:
        value: The value, or `MISSING`. Replaced by each update, so copies may share it.

    Raises:
        ValueError: `snapshot_frequency` is not positive.
        SchemaError: There is no default, and no empty value of the type.
    """

    __slots__ = ("default_factory", "reducer", "snapshot_frequency", "value")
    __hash__ = None  # type: ignore[assignment]
    reacts_to_empty: ClassVar[bool] = False

    def __init__(
        self,
        reducer: Callable[[Value, list[Any]], Value],
        typ: Any = None,
        *,
        snapshot_frequency: int = 100,
        default: Any = MISSING,
        default_factory: Callable[[], Any] | None = None,
        key: str = "",
    ) -> None:
        super().__init__(list if typ is None else typ, key)
        if snapshot_frequency <= 0:
            raise ValueError(f"snapshot_frequency must be greater than 0, got {snapshot_frequency!r}")
        self.reducer = reducer
        self.snapshot_frequency = snapshot_frequency
        self.default_factory = factory_of(default, default_factory)
        self.value: Any = MISSING
        if self.default_factory is None and empty_value(self.typ) is MISSING:
            raise SchemaError(
                f"At key '{key}': DeltaChannel needs a type that can be made empty, such as list or dict, or a "
                f"default; got {self.typ!r}"
            )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DeltaChannel)
            and other.snapshot_frequency == self.snapshot_frequency
            and same_reducer(self.reducer, other.reducer)
        )

    def declared(
        self, typ: Any, *, key: str, default: Any = MISSING, default_factory: Callable[[], Any] | None = None
    ) -> Self:
        """Return a channel like this one for the state key `key` of type `typ`, without a value.

        A default given here takes the place of its own.
        """
        factory = factory_of(default, default_factory)
        return self.__class__(
            self.reducer,
            typ,
            snapshot_frequency=self.snapshot_frequency,
            default_factory=self.default_factory if factory is None else factory,
            key=key,
        )

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
        """Fold `values` into the value, or replace it with the overwrite among them.

        Raises:
            ReducerError: The reducer raised; the value is as before.
            InvalidUpdateError: Several overwrites were written.
        """
        if not values:
            return False
        payload = replacement(values, self.key)
        self.value = self._reduce(self.value, list(values)) if payload is MISSING else self._replaced(payload)
        return True

    def replay_writes(self, writes: Sequence[tuple[str, str, Any]]) -> None:
        """Rebuild the value from stored writes to this channel, oldest first, on top of the one it has.

        The last overwrite counts, and what came after it.

        Raises:
            ReducerError: The reducer raised.
        """
        if not writes:
            return
        payload, rest = since_overwrite([value for _, _, value in writes])
        base = self.value if payload is MISSING else self._replaced(payload)
        self.value = self._reduce(base, rest) if rest else base

    def checkpoint(self) -> Missing:
        """Return `MISSING`: the engine stores writes, and a snapshot when one is due."""
        return MISSING

    def snapshot(self) -> DeltaSnapshot | Missing:
        """Return the whole value as it is stored, or `MISSING` when there is none."""
        return MISSING if self.value is MISSING else DeltaSnapshot(self.value)

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel declared like this one that holds what was stored.

        That is a `DeltaSnapshot`, or the bare value of a thread from before the key was a delta channel, where
        None stands for nothing. With `MISSING` it holds the first value, ready for `replay_writes`.
        """
        fresh = self._blank()
        if isinstance(checkpoint, DeltaSnapshot):
            fresh.value = checkpoint.value
        else:
            fresh.value = self._first() if checkpoint is MISSING or checkpoint is None else checkpoint
        return fresh

    def copy(self) -> Self:
        """Return an independent channel with the same value."""
        fresh = self._blank()
        fresh.value = self.value
        return fresh

    def _blank(self) -> Self:
        return self.declared(self.typ, key=self.key)

    def _first(self) -> Any:
        return empty_value(self.typ) if self.default_factory is None else self.default_factory()

    def _replaced(self, payload: Any) -> Any:
        return empty_value(self.typ) if payload is None else owned(payload)

    def _reduce(self, value: Any, batch: list[Any]) -> Any:
        base = self._first() if value is MISSING else owned(value)
        try:
            return self.reducer(base, batch)
        except Exception as exc:
            raise reducer_failed(self.key, self.reducer, exc) from exc
