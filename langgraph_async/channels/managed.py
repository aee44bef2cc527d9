"""Managed values: keys that a node can read and that nobody stores."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Annotated, Any, Generic, Protocol, TypeGuard

from typing_extensions import TypeVar

Value = TypeVar("Value", default=Any)


class Scratchpad(Protocol):
    """What a managed value may ask about the task that reads it."""

    @property
    def remaining_steps(self) -> int:
        """Supersteps that the run may still take, the current one included."""
        ...


class ManagedValue(ABC, Generic[Value]):
    """A value that is worked out when a task is prepared. Declared as ``Annotated[T, TheManagedValue]``."""

    @staticmethod
    @abstractmethod
    def get(scratchpad: Scratchpad) -> Any:
        """Return the value for the task that `scratchpad` belongs to."""


class IsLastStepManager(ManagedValue[bool]):
    """Tells whether this is the last superstep that the run may take."""

    @staticmethod
    def get(scratchpad: Scratchpad) -> bool:
        """Return whether no superstep is left after this one."""
        return scratchpad.remaining_steps == 1


class RemainingStepsManager(ManagedValue[int]):
    """Counts the supersteps that the run may still take, the current one included."""

    @staticmethod
    def get(scratchpad: Scratchpad) -> int:
        """Return the number of supersteps left."""
        return scratchpad.remaining_steps


IsLastStep = Annotated[bool, IsLastStepManager]
RemainingSteps = Annotated[int, RemainingStepsManager]


def is_managed_value(value: object) -> TypeGuard[type[ManagedValue[Any]]]:
    """Tell whether `value` is a managed value class."""
    return inspect.isclass(value) and issubclass(value, ManagedValue)
