"""Whether a run that has nothing left to do has left a join waiting."""

from __future__ import annotations

from typing import Any

from langgraph_async.errors import UnreachedJoinError
from langgraph_async.pregel.model import GraphSpec, StepState


def check_joins(spec: GraphSpec, state: StepState) -> None:
    """Check that every join that was begun was completed, or may be missed.

    Raises:
        UnreachedJoinError: Some of a join's nodes ran and others did not.
    """
    for join in spec.joins:
        barrier: Any = state.channels.get(join.channel)
        if barrier is None or join.on_missing == "skip" or not barrier.seen:
            continue
        missing = [start for start in join.starts if start not in barrier.seen]
        if missing:
            raise UnreachedJoinError(
                f"Graph {spec.name!r} ended, but node {join.end!r} never ran: it joins "
                f"{', '.join(join.starts)}, and {', '.join(missing)} did not run. If that may happen, say so: "
                f"add_edge({list(join.starts)!r}, {join.end!r}, on_missing='skip').",
                join=join.end,
                missing=missing,
            )
