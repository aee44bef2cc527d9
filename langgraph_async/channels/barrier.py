"""Channels that open when every one of a set of names was written: the joins of a graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Self

from typing_extensions import TypeVar

from langgraph_async.channels.base import BaseChannel
from langgraph_async.constants import MISSING
from langgraph_async.errors import EmptyChannelError, InvalidUpdateError

Value = TypeVar("Value", default=Any)


class NamedBarrierValue(BaseChannel[None, Value, Any]):
    """Opens when all `names` were written, in whatever steps, and closes again when it has triggered a task.

    Attributes:
        names: The names waited for.
        seen: Those written so far. Replaced, never changed in place, so that what `checkpoint` gave out stays
            as it was.
    """

    __slots__ = ("names", "seen")
    __hash__ = None  # type: ignore[assignment]
    reacts_to_empty: ClassVar[bool] = False

    def __init__(self, typ: Any, names: Collection[Value], key: str = "") -> None:
        super().__init__(typ, key)
        self.names: frozenset[Value] = frozenset(names)
        self.seen: set[Value] = set()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, NamedBarrierValue) and other.names == self.names

    @property
    def ValueType(self) -> Any:  # noqa: N802
        """The declared type."""
        return self.typ

    @property
    def UpdateType(self) -> Any:  # noqa: N802
        """The declared type."""
        return self.typ

    def get(self) -> None:
        """Return None: that the barrier is open is all it says.

        Raises:
            EmptyChannelError: It is not open.
        """
        if not self.is_available():
            raise EmptyChannelError(f"Channel '{self.key}' still waits for {sorted(map(str, self.names - self.seen))}")

    def is_available(self) -> bool:
        """Tell whether the barrier is open."""
        return self.seen == self.names

    def update(self, values: Sequence[Value]) -> bool:
        """Note that `values` were written; return whether any of them is new.

        Raises:
            InvalidUpdateError: A value is none of the names.
        """
        names, seen = self.names, self.seen
        new: set[Value] = set()
        for value in values:
            if value not in names:
                known = sorted(map(str, names))
                raise InvalidUpdateError(f"At key '{self.key}': Value {value!r} not in {known}")
            if value not in seen:
                new.add(value)
        if not new:
            return False
        self.seen = seen | new
        return True

    def consume(self) -> bool:
        """Close the barrier if it was open."""
        if self.seen != self.names:
            return False
        self.seen = set()
        return True

    def checkpoint(self) -> Any:
        """Return the set of the names seen; an empty one is stored too."""
        return self.seen

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel declared like this one that has seen the stored names."""
        fresh = self.__class__(self.typ, self.names, self.key)
        if checkpoint is not MISSING:
            fresh.seen = set(checkpoint)
        return fresh

    def copy(self) -> Self:
        """Return an independent channel that has seen the same names."""
        fresh = self.__class__(self.typ, self.names, self.key)
        fresh.seen = self.seen
        return fresh


class NamedBarrierValueAfterFinish(NamedBarrierValue[Value]):
    """A barrier that, once all names were written, opens only when the run would otherwise end.

    What is stored is the pair of the names seen and whether it is open.

    Attributes:
        finished: Whether the barrier was opened.
    """

    __slots__ = ("finished",)

    def __init__(self, typ: Any, names: Collection[Value], key: str = "") -> None:
        super().__init__(typ, names, key)
        self.finished = False

    def is_available(self) -> bool:
        """Tell whether the barrier is open."""
        return self.finished and self.seen == self.names

    def consume(self) -> bool:
        """Close the barrier if it was open."""
        if not self.is_available():
            return False
        self.seen = set()
        self.finished = False
        return True

    def finish(self) -> bool:
        """Open the barrier if all names were written; return whether that is new."""
        if self.finished or self.seen != self.names:
            return False
        self.finished = True
        return True

    def checkpoint(self) -> Any:
        """Return ``[seen, finished]``."""
        return [self.seen, self.finished]

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel declared like this one from a stored pair, list or tuple."""
        fresh = self.__class__(self.typ, self.names, self.key)
        if checkpoint is not MISSING:
            seen, fresh.finished = checkpoint
            fresh.seen = set(seen)
        return fresh

    def copy(self) -> Self:
        """Return an independent channel in the same state."""
        fresh = super().copy()
        fresh.finished = self.finished
        return fresh
