"""A channel whose value lives for one superstep: the input of a graph, and the triggers of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from typing_extensions import TypeVar

from langgraph_async.channels.single import SingleValueChannel
from langgraph_async.constants import MISSING
from langgraph_async.errors import ErrorCode, InvalidUpdateError, create_error_message

Value = TypeVar("Value", default=Any)


class EphemeralValue(SingleValueChannel[Value]):
    """Shows a value in the superstep after it was written, and drops it then.

    Attributes:
        guard: Whether several writes in one superstep are an error; otherwise the last one is kept.
    """

    __slots__ = ("guard",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, typ: Any, guard: bool = True, key: str = "") -> None:
        super().__init__(typ, key)
        self.guard = guard

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EphemeralValue) and other.guard == self.guard

    def blank(self) -> Self:
        """Return a channel declared like this one, without a value."""
        return self.__class__(self.typ, self.guard, self.key)

    def update(self, values: Sequence[Value]) -> bool:
        """Take the last of `values`; without any, drop the value.

        Raises:
            InvalidUpdateError: Several values were written to a guarded channel.
        """
        if not values:
            if self.value is MISSING:
                return False
            self.value = MISSING
            return True
        if self.guard and len(values) != 1:
            raise several_values(self.key, "EphemeralValue", len(values))
        self.value = values[-1]
        return True


def several_values(key: str, kind: str, count: int) -> InvalidUpdateError:
    """Return the error for `count` writes to a guarded channel in one superstep."""
    return InvalidUpdateError(
        create_error_message(
            message=(
                f"At key '{key}': {kind}(guard=True) can receive only one value per step, {count} were written. "
                f"Use guard=False to keep any one of them."
            ),
            error_code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
        )
    )
