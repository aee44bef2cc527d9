"""Carries open questions over to a checkpoint that an edit or a fork makes, so that they keep their ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langgraph_async.checkpoint.base import PendingWrite, TaskWrites
from langgraph_async.constants import INTERRUPT, RESUME
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.task import HOLE, Task
from langgraph_async.types import Interrupt


def carried_writes(before: Iterable[Task], after: Sequence[Task]) -> list[TaskWrites]:
    """Return what to store on the new checkpoint: the open questions of tasks that are still to run there.

    Args:
        before: Tasks of the old checkpoint, with what is stored of them.
        after: Tasks of the new one.
    """
    open_tasks: dict[tuple[str, int], Task] = {}
    for task in before:
        if task.asked and not task.finished:
            open_tasks[task.name, task.instance if task.index >= 0 else -1] = task
    found: list[TaskWrites] = []
    for task in after:
        old = open_tasks.get((task.name, task.instance if task.index >= 0 else -1))
        if old is None:
            continue
        rows: list[Write] = [(INTERRUPT, list(old.asked))]
        if old.answers:
            rows.append((RESUME, [Interrupt(None) if a is HOLE else a for a in old.answers]))
        found.append(TaskWrites(task.id, task.path_text, rows))
    return found


def as_pending(writes: Iterable[TaskWrites]) -> list[PendingWrite]:
    """Return task writes as a saver would read them back."""
    return [(task.task_id, channel, value) for task in writes for channel, value in task.writes]
