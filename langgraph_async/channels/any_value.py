"""A channel for several writers of one and the same value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypeVar

from langgraph_async.channels.single import SingleValueChannel
from langgraph_async.constants import MISSING

Value = TypeVar("Value", default=Any)


class AnyValue(SingleValueChannel[Value]):
    """Keeps the last value of a superstep, taking all of them to be equal, and drops it in a step without any."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyValue)

    def update(self, values: Sequence[Value]) -> bool:
        """Take the last of `values`; without any, drop the value."""
        if values:
            self.value = values[-1]
            return True
        if self.value is MISSING:
            return False
        self.value = MISSING
        return True
