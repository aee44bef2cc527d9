"""A task's outcome to pending writes, the moment the task is done.

In: a finished attempt, and how it ended. Out: the task's writes, stored and told. Called once for each task, by
whichever worker ran it; it never waits.
"""

from __future__ import annotations

from langgraph_async.checkpoint.base import TaskWrites
from langgraph_async.constants import CONTROL_WRITES, ERROR, ERROR_SOURCE_NODE, INTERRUPT, NO_WRITES, PLACEHOLDER_ID
from langgraph_async.errors import GraphInterrupt, ReducerError
from langgraph_async.ids import interrupt_id
from langgraph_async.pregel.answer import same_value
from langgraph_async.pregel.message_ids import settled
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.storable import storable
from langgraph_async.pregel.task import Task
from langgraph_async.pregel.view import is_container
from langgraph_async.types import Interrupt


def success(scope: TaskScope, writes: list[Write], *, store: bool) -> TaskWrites | None:
    """Record that a task has finished, and return what to store of it (None unless `store`)."""
    task = scope.task
    # A node may keep what it returned, and change it later.
    spec = scope.run.spec
    own = [(key, value.copy()) if is_container(value) else (key, value) for key, value in writes]
    writes = settled(spec, scope.state, own)
    task.writes = writes
    task.finished = True
    error, task.error = task.error, None
    if not store:
        return None
    replaced = error is not None or task.routing_only
    rows = [*scope.rows, *writes] if scope.used and replaced else writes
    if not writes:
        rows = [*rows, (NO_WRITES, None)]
    return TaskWrites(task.id, task.path_text, storable(spec.untracked, rows), replace=replaced)


def answered(scope: TaskScope) -> TaskWrites | None:
    """Return the answers that a finished task has used, to be stored before its writes; None without any.

    By themselves they take the place of those that are stored; among other writes they would not.
    """
    return TaskWrites(scope.task.id, scope.task.path_text, scope.rows) if scope.used else None


def paused(scope: TaskScope, raised: BaseException | None) -> tuple[tuple[Interrupt, ...], TaskWrites | None]:
    """Record that a task waits for answers; return its questions, and what to store of it (None: nothing new)."""
    task = scope.task
    questions = tuple(scope.pauses)
    if not questions and isinstance(raised, GraphInterrupt):
        questions = tuple(_with_id(scope, q) for q in raised.interrupts)
    changed = not _same(task.asked, questions) or bool(scope.run.answers.taken) or task.error is not None
    task.asked = questions
    rows: list[Write] = [(INTERRUPT, list(questions)), *(scope.rows if scope.used else [])]
    if task.error is not None:
        rows.append((ERROR, None))
        task.error = None
    return questions, TaskWrites(task.id, task.path_text, rows) if changed else None


def failure(scope: TaskScope, error: BaseException) -> TaskWrites:
    """Record what a task failed with, and return what to store of it.

    The node's own writes are kept when only its routing failed. Answers that were used are kept, so that the
    next attempt does not ask again.
    """
    task = scope.task
    task.error = error
    scope.reopen_invalid()
    rows: list[Write] = [(ERROR, error), *_answers_kept(scope)]
    body = scope.body if not task.routing_only else None
    kept = [write for write in body or () if write[0] not in CONTROL_WRITES]
    return TaskWrites(task.id, task.path_text, storable(scope.run.spec.untracked, [*kept, *rows]), replace=bool(kept))


def drained(scope: TaskScope) -> TaskWrites | None:
    """Return what to store of a task in which a graph was drained: no failure, only the answers it has used."""
    task = scope.task
    rows = _answers_kept(scope)
    if task.error is not None:
        task.error = None
        rows.append((ERROR, None))
    return TaskWrites(task.id, task.path_text, rows) if rows else None


def _answers_kept(scope: TaskScope) -> list[Write]:
    """Return the rows of the answers that an attempt without a result has used, and of what it still asks."""
    task = scope.task
    rows: list[Write] = []
    if scope.used and task.answers:
        rows.extend(scope.rows)
    left = tuple(q for q in task.asked if q.id not in scope.run.answers.taken)
    if scope.invalid:
        again = (*scope.invalid.values(), *scope.pauses)
        left = (*(q for q in left if all(q.id != other.id for other in again)), *again)
    if not _same(task.asked, left):
        rows.append((INTERRUPT, list(left)))
        task.asked = left
    return rows


def handled(scope: TaskScope, error: BaseException) -> TaskWrites:
    """Record that a task's error handler takes over, and return what to store of the task: nothing of its work."""
    task = scope.task
    task.error = error
    task.writes, task.asked = [], ()
    task.finished = task.handled = True
    rows: list[Write] = [(ERROR, error), (ERROR_SOURCE_NODE, task.name), *(scope.rows if scope.used else [])]
    return TaskWrites(task.id, task.path_text, rows, replace=task.routing_only)


def voided(task: Task, error: ReducerError) -> TaskWrites:
    """Return what to store of a task that had finished, when the superstep's writes could not be applied.

    Its questions were answered, so they are taken back.
    """
    rows: list[Write] = [(ERROR, error)]
    if task.asked:
        rows.append((INTERRUPT, []))
        task.asked = ()
    return TaskWrites(task.id, task.path_text, rows)


def _same(asked: tuple[Interrupt, ...], questions: tuple[Interrupt, ...]) -> bool:
    """Tell whether the stored questions say what is asked now."""
    return len(asked) == len(questions) and all(
        a.id == b.id and a.response_schema == b.response_schema and same_value(a.value, b.value)
        for a, b in zip(asked, questions, strict=True)
    )


def _with_id(scope: TaskScope, question: Interrupt) -> Interrupt:
    if question.id != PLACEHOLDER_ID:
        return question
    slot = len(scope.task.answers)
    return Interrupt(question.value, interrupt_id(scope.task.ns, slot), response_schema=question.response_schema)
