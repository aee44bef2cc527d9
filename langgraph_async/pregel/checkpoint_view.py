"""How the checkpoint of a superstep is shown to those who listen to the run."""

from __future__ import annotations

from typing import Any

from langgraph_async.constants import CHECKPOINT_MAP, CONF
from langgraph_async.pregel.entry import place
from langgraph_async.pregel.model import RunScope, StepState
from langgraph_async.pregel.step.emit import emit_checkpoint
from langgraph_async.pregel.task_view import task_states


def show_checkpoint(run: RunScope, state: StepState) -> None:
    """Tell which checkpoint the next superstep starts from, and which tasks it has."""
    # With durability "exit" the checkpoints between are never stored, so none is another's parent.
    parent = state.parent_id if run.durability != "exit" else None
    emit_checkpoint(
        run,
        state,
        config=_coordinates(run, state.checkpoint_id),
        parent_config=_coordinates(run, parent) if parent is not None else None,
        tasks=task_states(
            run.spec,
            state.tasks,
            run.config.thread_id,
            path=run.parent.memory_path if run.parent is not None else "",
        ),
    )


def _coordinates(run: RunScope, checkpoint_id: str) -> dict[str, Any]:
    found: dict[str, Any] = dict(place(run, run.ns, checkpoint_id).get(CONF) or {})
    if run.ns:
        found[CHECKPOINT_MAP] = {**run.checkpoint_map, run.ns: checkpoint_id}
    return {CONF: found}
