"""A channel that collects what several tasks publish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, Union

from typing_extensions import TypeVar

from langgraph_async.channels.base import BaseChannel
from langgraph_async.constants import MISSING
from langgraph_async.errors import EmptyChannelError

Value = TypeVar("Value", default=Any)


class Topic(BaseChannel[Sequence[Value], Value | list[Value], Any]):
    """Collects values in the order of the writes; a written list counts as its items, one level deep.

    Attributes:
        accumulate: Whether values stay from step to step; otherwise each superstep starts empty.
        values: The values. Replaced, never changed in place, so that what `checkpoint` gave out stays as it was.
    """

    __slots__ = ("accumulate", "values")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, typ: Any, accumulate: bool = False, key: str = "") -> None:
        super().__init__(typ, key)
        self.accumulate = accumulate
        self.values: list[Value] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topic) and other.accumulate == self.accumulate

    @property
    def ValueType(self) -> Any:  # noqa: N802
        """A sequence of the declared type."""
        return Sequence[self.typ]  # type: ignore[name-defined]

    @property
    def UpdateType(self) -> Any:  # noqa: N802
        """The declared type, or a list of it."""
        return Union[self.typ, list[self.typ]]  # type: ignore[name-defined]  # noqa: UP007

    def get(self) -> list[Value]:
        """Return the values in a new list.

        Raises:
            EmptyChannelError: There are none.
        """
        if not self.values:
            raise EmptyChannelError(f"Channel '{self.key}' has no values")
        return self.values.copy()

    def is_available(self) -> bool:
        """Tell whether there are values."""
        return bool(self.values)

    def update(self, values: Sequence[Value | list[Value]]) -> bool:
        """Add `values`, after dropping those of the step before unless they accumulate."""
        before = self.values
        if not values and (self.accumulate or not before):
            return False
        after = before.copy() if self.accumulate else []
        kept = len(after)
        for value in values:
            if isinstance(value, list):
                after.extend(value)
            else:
                after.append(value)
        if len(after) == kept and not (before and not self.accumulate):
            return False  # nothing but empty lists was written, and nothing was dropped
        self.values = after
        return True

    def checkpoint(self) -> list[Value]:
        """Return the list of values; an empty one is stored too."""
        return self.values

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel declared like this one that holds the stored list.

        An old form, a pair whose second item is the list, is understood too.
        """
        fresh = self.__class__(self.typ, self.accumulate, self.key)
        if checkpoint is not MISSING:
            stored = checkpoint[1] if isinstance(checkpoint, tuple) else checkpoint
            fresh.values = list(stored)
        return fresh

    def copy(self) -> Self:
        """Return an independent channel with the same values."""
        fresh = self.__class__(self.typ, self.accumulate, self.key)
        fresh.values = self.values
        return fresh
