"""From a failed task to the task of its error handler, in the same superstep.

In: the graph, a failed task, and what it failed with. Out: the handler's task, or None. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langgraph_async.checkpoint.base import PendingWrite
from langgraph_async.constants import ERROR_HANDLER_PREFIX
from langgraph_async.errors import NodeError, is_invalid_resume, leaves_thread
from langgraph_async.pregel.model import GraphSpec, StepState
from langgraph_async.pregel.stored import restore_tasks
from langgraph_async.pregel.task import RescueTask, Task
from langgraph_async.pregel.view import fresh_input


def rescue(spec: GraphSpec, state: StepState, task: Task, error: BaseException) -> RescueTask | None:
    """Return the task of the handler that takes over, or None when the failure is not handled.

    Signals and pauses are no failures; a misfit answer can be given again; and no handler mends code that does not
    fit the thread.
    """
    if task.node.error_handler is None or not isinstance(error, Exception):
        return None
    if leaves_thread(error) or is_invalid_resume(error):
        return None
    return _handler(spec, task, error, fresh_input(spec, state, task))


def restored(
    spec: GraphSpec, state: StepState, tasks: Sequence[Task], pending: Iterable[PendingWrite], *, to_run: bool = True
) -> list[Task]:
    """Return the handlers' tasks of those `tasks` that are stored as handled, with what is stored of them.

    Args:
        spec: The graph.
        state: Where it stands.
        tasks: The tasks that were planned, restored.
        pending: The checkpoint's stored writes.
        to_run: Prepare their inputs; without, the tasks are only good to look at.
    """
    found: list[Task] = [
        _handler(spec, task, _raised(task.error), fresh_input(spec, state, task) if to_run else None)
        for task in tasks
        if task.handled
    ]
    if found:
        restore_tasks(found, pending, source=None)
    return found


def _handler(spec: GraphSpec, task: Task, error: BaseException, value: Any) -> RescueTask:
    name = task.node.error_handler
    assert name is not None
    own = name == ERROR_HANDLER_PREFIX + task.name
    known_as = ERROR_HANDLER_PREFIX + task.known_as if own else name
    return RescueTask(name, spec.nodes[name], value, task, NodeError(task.name, error), known_as)


def _raised(error: Any) -> BaseException:
    """Return a stored error as an exception; most are stored as text."""
    return error if isinstance(error, BaseException) else Exception(str(error))
