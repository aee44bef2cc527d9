"""Reads the state of a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from langgraph_async.config import RunnableConfig
from langgraph_async.types import StateSnapshot

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel


async def snapshot(graph: Pregel, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
    """Return the state that `config` names."""
    raise NotImplementedError


async def history(
    graph: Pregel,
    config: RunnableConfig,
    *,
    filter: dict[str, Any] | None = None,
    before: RunnableConfig | None = None,
    limit: int | None = None,
) -> AsyncIterator[StateSnapshot]:
    """Yield states, newest first."""
    raise NotImplementedError
    yield


def subgraphs_of(graph: Pregel, *, namespace: str | None = None, recurse: bool = False) -> Iterable[tuple[str, Pregel]]:
    """Return the graphs that nodes are known to call."""
    raise NotImplementedError
