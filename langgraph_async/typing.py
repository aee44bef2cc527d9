"""Type variables that the generic classes share."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypeVar

StateT = TypeVar("StateT", default=Any)
"""Type of the state."""
ContextT = TypeVar("ContextT", default=Any)
"""Type of the run's context."""
InputT = TypeVar("InputT", default=Any)
"""Type of the input."""
OutputT = TypeVar("OutputT", default=StateT)
"""Type of the output; the state's where a graph has no other."""

__all__ = ["ContextT", "InputT", "OutputT", "StateT"]
