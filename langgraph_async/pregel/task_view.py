"""Tasks as users see them, in state reads and in streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph_async.constants import CHECKPOINT_NS, CONF, NO_WRITES, NS_END, THREAD_ID
from langgraph_async.pregel.model import GraphSpec
from langgraph_async.pregel.namespace import memory_namespace
from langgraph_async.pregel.task import Task
from langgraph_async.stream.modes import snapshot_result
from langgraph_async.types import Interrupt, PregelTask, StateSnapshot


def task_states(
    spec: GraphSpec,
    tasks: Iterable[Task],
    thread_id: str | None,
    *,
    asked: Mapping[str, tuple[Interrupt, ...]] | None = None,
    nested: Mapping[str, StateSnapshot] | None = None,
    path: str = "",
) -> tuple[PregelTask, ...]:
    """Return tasks with what is known of them: error, questions, result, and where their subgraph's state is.

    Args:
        spec: The graph.
        tasks: Its tasks.
        thread_id: The thread.
        asked: Questions to show instead of the open ones, by task id.
        nested: States of subgraphs to show instead of where they are, by task id.
        path: Memory namespace of the graph.
    """
    return tuple(
        PregelTask(
            id=task.id,
            name=task.name,
            path=task.path,
            error=None if task.finished else task.error,
            interrupts=task.asked if asked is None else asked.get(task.id, ()),
            state=_subgraph_config(task, thread_id, path) if nested is None else nested.get(task.id),
            result=snapshot_result(visible(task), spec.stream_keys) if task.finished else None,
        )
        for task in tasks
    )


def visible(task: Task) -> list[tuple[str, Any]]:
    """Return the writes of a finished task without the marker for "none"."""
    return [write for write in task.writes if write[0] != NO_WRITES]


def subgraph_namespace(task: Task, path: str) -> str | None:
    """Return the namespace of the graph that a task is known to call first; None when it calls none with state.

    Args:
        task: The task.
        path: Memory namespace of the task's graph.
    """
    inner = next((graph for graph in task.node.subgraphs if graph.checkpointer is not False), None)
    if inner is None:
        return None
    memory = memory_namespace(path, task.known_as, task.instance)
    # Without parallel sends the namespace with ids leads there, too, and is what LangGraph shows.
    return memory if inner.checkpointer is True and NS_END in memory else task.ns


def _subgraph_config(task: Task, thread_id: str | None, path: str) -> dict[str, Any] | None:
    ns = subgraph_namespace(task, path)
    return None if ns is None else {CONF: {THREAD_ID: thread_id, CHECKPOINT_NS: ns}}
