"""What the channels that hold one value, as it was written, have in common."""

from __future__ import annotations

from typing import Any, Self, TypeAlias

from typing_extensions import TypeVar

from langgraph_async.channels.base import BaseChannel
from langgraph_async.constants import MISSING, Missing
from langgraph_async.errors import EmptyChannelError

Value = TypeVar("Value", default=Any)
Held: TypeAlias = Value | Missing


class SingleValueChannel(BaseChannel[Value, Value, Value]):
    """Holds one value as it was written; how long, and from how many writers, is up to the subclass.

    Attributes:
        value: The value, or `MISSING`.
    """

    __slots__ = ("value",)

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.value: Held[Value] = MISSING

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
            EmptyChannelError: Nothing was written.
        """
        value = self.value
        if value is MISSING:
            raise EmptyChannelError(f"Channel '{self.key}' has no value")
        return value

    def is_available(self) -> bool:
        """Tell whether there is a value."""
        return self.value is not MISSING

    def checkpoint(self) -> Held[Value]:
        """Return the value, or `MISSING`."""
        return self.value

    def blank(self) -> Self:
        """Return a channel declared like this one, without a value."""
        return self.__class__(self.typ, self.key)

    def from_checkpoint(self, checkpoint: Held[Value]) -> Self:
        """Return a channel declared like this one that holds `checkpoint`."""
        fresh = self.blank()
        fresh.value = checkpoint
        return fresh

    def copy(self) -> Self:
        """Return an independent channel with the same value."""
        fresh = self.blank()
        fresh.value = self.value
        return fresh
