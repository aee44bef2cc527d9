"""Keeps the plain dict of values, which readers copy, true to the channels."""

from __future__ import annotations

from langgraph_async.pregel.model import StepState
from langgraph_async.pregel.view import is_container


def refresh_value(state: StepState, key: str, *, available: bool) -> None:
    """Bring the value that readers see into line with the channel."""
    if not available:
        state.values.pop(key, None)
        state.containers.discard(key)
        return
    value = state.channels[key].get()
    state.values[key] = value
    if is_container(value):
        state.containers.add(key)
    else:
        state.containers.discard(key)
