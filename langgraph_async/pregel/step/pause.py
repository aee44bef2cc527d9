"""Static breakpoints: whether the run stops before or after the tasks of a superstep.

In: the state and its tasks. Out: yes or no. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from langgraph_async.constants import INTERRUPT
from langgraph_async.pregel.model import StepState
from langgraph_async.pregel.task import Task


def stops_at(state: StepState, names: frozenset[str] | str, tasks: Iterable[Task]) -> bool:
    """Tell whether one of `tasks` is a breakpoint and something has changed since the last stop.

    Args:
        state: The state.
        names: Node names, or ``"*"`` for all nodes that are not hidden.
        tasks: Tasks that are about to run, or have just run.
    """
    if not names:
        return False
    if not any(not task.node.hidden if isinstance(names, str) else task.name in names for task in tasks):
        return False
    seen = state.seen.get(INTERRUPT, {})
    return any(key not in seen or version > seen[key] for key, version in state.versions.items())


def mark_passed(state: StepState) -> None:
    """Note that the run goes on from this state, so that no breakpoint stops it here again."""
    state.seen[INTERRUPT] = state.versions.copy()
