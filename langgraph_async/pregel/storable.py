"""Leaves out of stored values what must never be stored: untracked channels."""

from __future__ import annotations

from typing import Any

from langgraph_async.constants import NO_WRITES
from langgraph_async.pregel.node import Write
from langgraph_async.types import Send


def storable(untracked: frozenset[str], writes: list[Write]) -> list[Write]:
    """Return the writes that may be stored; a marker when none is left, so that the task counts as finished."""
    if not untracked:
        return writes
    kept = [(key, without_untracked(value, untracked)) for key, value in writes if key not in untracked]
    return kept or [(NO_WRITES, None)]


def without_untracked(value: Any, untracked: frozenset[str]) -> Any:
    """Return a send without the keys of untracked channels in its argument; anything else as it is."""
    if isinstance(value, Send) and isinstance(value.arg, dict) and not untracked.isdisjoint(value.arg):
        kept = {k: v for k, v in value.arg.items() if k not in untracked}
        return Send(value.node, kept, timeout=value.timeout)
    return value
