"""Reads what stored writes say about a checkpoint's tasks.

A task has finished exactly when it has a write that is no error, error source, interrupt or answer - unless an
error stands beside such writes, and nothing that its routers chose: then routing failed, and only that is left to
do. LangGraph leaves the error of a first attempt in place when a later one succeeds, so the error alone says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph_async.checkpoint.base import PendingWrite
from langgraph_async.constants import (
    BRANCH_PREFIX,
    CONTROL_WRITES,
    ERROR,
    ERROR_SOURCE_NODE,
    INTERRUPT,
    JOIN_PREFIX,
    NULL_TASK_ID,
    PLACEHOLDER_ID,
    RESUME,
    TASKS,
)
from langgraph_async.errors import ReducerError
from langgraph_async.ids import interrupt_id
from langgraph_async.pregel.node import PregelNode, Write
from langgraph_async.pregel.task import HOLE, Task
from langgraph_async.types import Interrupt


@dataclass(slots=True, eq=False)
class Stored:
    """What is stored of one task.

    Attributes:
        writes: Its ordinary writes, in order.
        error: What it failed with (often only as text), or None.
        handled: Its error was handed to an error handler.
        asked: The questions it asked last.
        answers: The answers it has used.
    """

    writes: list[Write] = field(default_factory=list)
    error: Any = None
    handled: bool = False
    asked: tuple[Interrupt, ...] = ()
    answers: list[Any] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether the task has nothing left to do."""
        return self.handled or (bool(self.writes) and self.error is None)

    def unanswered(self, ns: str) -> tuple[Interrupt, ...]:
        """Return the questions that still wait for an answer; `ns` is the task's namespace."""
        if self.finished:
            return ()
        done = {interrupt_id(ns, slot) for slot, answer in enumerate(self.answers) if answer is not HOLE}
        return tuple(q for q in self.asked if q.id not in done)


def by_task(pending: Iterable[PendingWrite]) -> dict[str, Stored]:
    """Return what is stored of each task, by its id."""
    found: dict[str, Stored] = {}
    for task_id, channel, value in pending:
        stored = found.setdefault(task_id, Stored())
        if channel == ERROR:
            stored.error = value
        elif channel == ERROR_SOURCE_NODE:
            stored.handled = True
        elif channel == INTERRUPT:
            stored.asked = _questions(value)
        elif channel == RESUME:
            stored.answers = _answers(value)
        else:
            stored.writes.append((channel, value))
    return found


def loose_writes(pending: Iterable[PendingWrite]) -> list[Write]:
    """Return the stored writes that belong to no task."""
    return [(c, v) for task_id, c, v in pending if task_id == NULL_TASK_ID and c not in CONTROL_WRITES]


def restore_tasks(tasks: Sequence[Task], pending: Iterable[PendingWrite], *, source: str | None) -> None:
    """Give tasks what is stored of them: results, answers and open questions.

    Args:
        tasks: The tasks that were planned from the checkpoint.
        pending: The checkpoint's stored writes.
        source: How the checkpoint came about; one made by an edit or a fork carries the questions of the
            checkpoint before it, whose ids are not those that its own tasks would give.
    """
    stored = by_task(pending)
    if not stored:
        return
    for task in tasks:
        found = stored.get(task.id)
        if found is None:
            continue
        task.answers = list(found.answers)
        task.asked = found.unanswered(task.ns)
        task.error = found.error
        if found.handled and task.node.error_handler is not None:
            task.finished = task.handled = True
            task.writes = found.writes
        elif found.finished and not found.handled:
            task.finished = task.cached = True
            task.writes = found.writes
        elif found.writes and not _reducer_failed(found.error):
            if _routing_left(task.node, found):
                task.routing_only = True
                task.writes = _without_edges(task.node, found.writes)
            else:
                task.finished = task.cached = True
                task.writes, task.asked = found.writes, ()
        if source in ("update", "fork"):
            task.carried = tuple(q for q in task.asked if not _own(task, q))


def reopened(tasks: Iterable[Task], pending: Sequence[PendingWrite]) -> list[PendingWrite]:
    """Return stored writes as they were when the last questions of their tasks were open.

    For going back to a question that was answered since: earlier answers stay, whatever came after it goes.
    """
    stored = by_task(pending)
    rows: list[PendingWrite] = [row for row in pending if row[0] == NULL_TASK_ID]
    for task in tasks:
        found = stored.get(task.id)
        if found is None or not found.asked:
            continue
        rows.append((task.id, INTERRUPT, list(found.asked)))
        answers = _before(found, task.ns)
        if answers:
            rows.append((task.id, RESUME, [Interrupt(None) if a is HOLE else a for a in answers]))
    return rows


def _before(found: Stored, ns: str) -> list[Any]:
    ids = {q.id for q in found.asked}
    count = len(found.answers)
    slots = {slot for slot in range(count) if interrupt_id(ns, slot) in ids}
    if not slots and found.finished:
        # Their ids come from an older checkpoint; the task has finished, so they were the last it asked.
        slots = set(range(max(0, count - len(ids)), count))
    return [HOLE if slot in slots else answer for slot, answer in enumerate(found.answers)]


def _routing_left(node: PregelNode, found: Stored) -> bool:
    """Tell whether the error beside a node's writes is that of a router, rather than of an earlier attempt.

    This library stores no edges beside an error, and an error of a known class as that; LangGraph stores the text.
    """
    if not node.routers:
        return False
    if isinstance(found.error, BaseException):
        return True
    return sum(map(_routes, found.writes)) <= len(node.edges)


def _routes(write: Write) -> bool:
    channel = write[0]
    return channel == TASKS or channel.startswith((BRANCH_PREFIX, JOIN_PREFIX))


def _without_edges(node: PregelNode, writes: list[Write]) -> list[Write]:
    """Return writes without those of the node's edges, which follow again from its routing."""
    count = len(node.edges)
    if not count or [key for key, _ in writes[-count:]] != [key for key, _ in node.edges]:
        return writes
    return writes[:-count]


def _own(task: Task, question: Interrupt) -> bool:
    count = len(task.answers) + len(task.asked)
    return any(question.id == interrupt_id(task.ns, slot) for slot in range(count + 1))


def _reducer_failed(error: Any) -> bool:
    return isinstance(error, ReducerError) or (isinstance(error, str) and error.startswith("ReducerError("))


def _questions(value: Any) -> tuple[Interrupt, ...]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple(item for item in items if isinstance(item, Interrupt))


def _answers(value: Any) -> list[Any]:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    return [HOLE if isinstance(v, Interrupt) and v.id == PLACEHOLDER_ID else v for v in items]
