"""What happens to a whole graph, as `GraphCallbackHandler` is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from langgraph_async.types import Interrupt


@dataclass(frozen=True, slots=True)
class GraphInterruptEvent:
    """A run has paused.

    Attributes:
        run_id: The run's id, as other callbacks know it.
        status: ``"pending"`` when a node asks something; ``"interrupt_before"`` or ``"interrupt_after"`` at a static
            breakpoint.
        checkpoint_id: The checkpoint at which it stands; None without a saver.
        checkpoint_ns: The levels of the graph's namespace; empty for a root graph.
        interrupts: The questions; none at a static breakpoint.
    """

    run_id: UUID | None
    status: Literal["pending", "interrupt_before", "interrupt_after"]
    checkpoint_id: str | None
    checkpoint_ns: tuple[str, ...]
    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class GraphResumeEvent:
    """A run goes on from a stored checkpoint.

    Attributes:
        run_id: The run's id, as other callbacks know it.
        status: Always ``"pending"``.
        checkpoint_id: The checkpoint from which it goes on.
        checkpoint_ns: The levels of the graph's namespace; empty for a root graph.
    """

    run_id: UUID | None
    status: Literal["pending"]
    checkpoint_id: str | None
    checkpoint_ns: tuple[str, ...]
