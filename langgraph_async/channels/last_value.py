"""Channels that keep the last value written: the default for a state key, and the trigger of a deferred node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from typing_extensions import TypeVar

from langgraph_async.channels.base import BaseChannel
from langgraph_async.channels.single import Held, SingleValueChannel
from langgraph_async.constants import MISSING, Missing
from langgraph_async.errors import EmptyChannelError, ErrorCode, InvalidUpdateError, create_error_message

Value = TypeVar("Value", default=Any)


class LastValue(SingleValueChannel[Value]):
    """Keeps the value written last, from step to step. At most one task may write it in a superstep."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    reacts_to_empty: ClassVar[bool] = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LastValue)

    def update(self, values: Sequence[Value]) -> bool:
        """Take the one value written.

        Raises:
            InvalidUpdateError: Several values were written in the same superstep.
        """
        if len(values) == 1:
            self.value = values[0]
            return True
        if not values:
            return False
        raise InvalidUpdateError(
            create_error_message(
                message=(
                    f"At key '{self.key}': Can receive only one value per step. {len(values)} were written; declare "
                    f"how to combine them with a reducer: `{self.key or 'key'}: Annotated[<type>, reducer]`."
                ),
                error_code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )
        )


class LastValueAfterFinish(BaseChannel[Value, Value, Any]):
    """Holds the last value back until the run would otherwise end, then shows it until it has triggered a task.

    What is stored is the pair of the value and whether it is shown.

    Attributes:
        value: The value, or `MISSING`.
        finished: Whether the value is shown.
    """

    __slots__ = ("finished", "value")
    __hash__ = None  # type: ignore[assignment]
    reacts_to_empty: ClassVar[bool] = False

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.value: Held[Value] = MISSING
        self.finished = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LastValueAfterFinish)

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
            EmptyChannelError: There is none, or it is still held back.
        """
        value = self.value
        if value is MISSING or not self.finished:
            raise EmptyChannelError(f"Channel '{self.key}' has no value, or not yet")
        return value

    def is_available(self) -> bool:
        """Tell whether there is a value that is shown."""
        return self.finished and self.value is not MISSING

    def update(self, values: Sequence[Value]) -> bool:
        """Take the last of `values`, and hold it back."""
        if not values:
            return False
        self.value = values[-1]
        self.finished = False
        return True

    def consume(self) -> bool:
        """Drop the value if it was shown."""
        if not self.finished:
            return False
        self.value = MISSING
        self.finished = False
        return True

    def finish(self) -> bool:
        """Show the value; return whether that is new."""
        if self.finished or self.value is MISSING:
            return False
        self.finished = True
        return True

    def checkpoint(self) -> list[Any] | Missing:
        """Return ``[value, finished]``, or `MISSING` when there is no value."""
        return MISSING if self.value is MISSING else [self.value, self.finished]

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel declared like this one from a stored pair, list or tuple."""
        fresh = self.__class__(self.typ, self.key)
        if checkpoint is not MISSING:
            fresh.value, fresh.finished = checkpoint
        return fresh
