"""Says on an exception of user code where it was raised: one note, however deep graphs and calls are nested."""

from __future__ import annotations

from contextlib import suppress

from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.traceback_trim import trimmed


def locate(exc: BaseException, scope: TaskScope) -> None:
    """Note on an exception which task failed with it, and inside of what; its traceback then begins at user code.

    Does nothing when a task inside this one has noted that already.
    """
    exc.with_traceback(trimmed(exc.__traceback__))
    if not any(scope.task.id in note for note in getattr(exc, "__notes__", ())):
        annotate(exc, f"During {_place(scope)}")


def annotate(exc: BaseException, note: str) -> None:
    """Add a note to an exception, unless it has it, or is of a class that takes none."""
    if note not in getattr(exc, "__notes__", ()):
        with suppress(AttributeError, TypeError):
            exc.add_note(note)


def _place(scope: TaskScope) -> str:
    task, run = scope.task, scope.run
    thread = f", thread {run.config.thread_id!r}" if run.config.thread_id is not None else ""
    text = (
        f"task with name '{task.name}' and id '{task.id}' (graph {run.spec.name!r}, step {task.step}, "
        f"attempt {scope.attempt}{thread})"
    )
    around = scope.around
    while around is not None:
        text += f", inside '{around.task.name}' of graph {around.run.spec.name!r} (id '{around.task.id}')"
        around = around.around
    return text
