"""Tasks as users see them, in state reads and in streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langgraph_async.constants import CHECKPOINT_NS, CONF, NO_WRITES, THREAD_ID
from langgraph_async.pregel.model import GraphSpec
from langgraph_async.pregel.task import Task
from langgraph_async.stream.modes import snapshot_result
from langgraph_async.types import PregelTask


def task_states(spec: GraphSpec, tasks: Iterable[Task], thread_id: str | None) -> tuple[PregelTask, ...]:
    """Return tasks with what is known of them: error, questions, result, and where their subgraph's state is."""
    return tuple(
        PregelTask(
            id=task.id,
            name=task.name,
            path=task.path,
            error=None if task.finished else task.error,
            interrupts=task.asked,
            state=_subgraph_config(task, thread_id),
            result=snapshot_result(visible(task), spec.stream_keys) if task.finished else None,
        )
        for task in tasks
    )


def visible(task: Task) -> list[tuple[str, Any]]:
    """Return the writes of a finished task without the marker for "none"."""
    return [write for write in task.writes if write[0] != NO_WRITES]


def _subgraph_config(task: Task, thread_id: str | None) -> dict[str, Any] | None:
    if not any(graph.checkpointer is not False for graph in task.node.subgraphs):
        return None
    return {CONF: {THREAD_ID: thread_id, CHECKPOINT_NS: task.ns}}
