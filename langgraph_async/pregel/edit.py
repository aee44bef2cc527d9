"""Changes the state of a thread from outside of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from langgraph_async.config import RunnableConfig
from langgraph_async.types import StateUpdate

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel


async def bulk_update(
    graph: Pregel, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
) -> RunnableConfig:
    """Apply supersteps of updates."""
    raise NotImplementedError
