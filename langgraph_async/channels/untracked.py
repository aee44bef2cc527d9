"""A channel that is never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from typing_extensions import TypeVar

from langgraph_async.channels.ephemeral import several_values
from langgraph_async.channels.single import Held, SingleValueChannel
from langgraph_async.constants import MISSING, Missing

Value = TypeVar("Value", default=Any)


class UntrackedValue(SingleValueChannel[Value]):
    """Keeps the last value for as long as the run lasts; what cannot or must not be stored goes here.

    Attributes:
        guard: Whether several writes in one superstep are an error; otherwise the last one is kept.
    """

    __slots__ = ("guard",)
    __hash__ = None  # type: ignore[assignment]
    reacts_to_empty: ClassVar[bool] = False

    def __init__(self, typ: Any, guard: bool = True, key: str = "") -> None:
        super().__init__(typ, key)
        self.guard = guard

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntrackedValue) and other.guard == self.guard

    def blank(self) -> Self:
        """Return a channel declared like this one, without a value."""
        return self.__class__(self.typ, self.guard, self.key)

    def checkpoint(self) -> Missing:
        """Return `MISSING`: nothing is stored."""
        return MISSING

    def from_checkpoint(self, checkpoint: Held[Value]) -> Self:  # noqa: ARG002
        """Return an empty channel, whatever was stored."""
        return self.blank()

    def update(self, values: Sequence[Value]) -> bool:
        """Take the last of `values`.

        Raises:
            InvalidUpdateError: Several values were written to a guarded channel.
        """
        if not values:
            return False
        if self.guard and len(values) != 1:
            raise several_values(self.key, "UntrackedValue", len(values))
        self.value = values[-1]
        return True
