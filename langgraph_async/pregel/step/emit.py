"""What happens in a run to items for those who listen.

In: the run, its state, and what happened. Out: items put into the sinks that want them. Nothing is built for a
mode that nobody asked for; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from langgraph_async.aio.clock import SYSTEM_CLOCK
from langgraph_async.constants import END
from langgraph_async.pregel.model import RunScope, StepState
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.task import Task
from langgraph_async.pregel.view import detached, output, unshared
from langgraph_async.stream.modes import (
    checkpoint_payload,
    debug_payload,
    interrupt_payload,
    task_result_payload,
    task_start_payload,
    updates_payload,
    values_payload,
    visible_metadata,
)
from langgraph_async.types import Interrupt, PregelTask


def emit_values(run: RunScope, state: StepState) -> None:
    """Tell the state as it is now."""
    if not run.sinks.values:
        return
    for sink in run.sinks.all:
        if sink.wanted.values:
            sink.put((run.ns_levels, "values", output(run.spec, state, run.sinks.keys)))


def emit_updates(run: RunScope, task: Task, writes: Sequence[Write], *, cached: bool = False) -> None:
    """Tell what a task wrote."""
    if not run.sinks.updates or task.node.hidden:
        return
    payload = updates_payload(task.name, _own(writes), run.sinks.keys, cached=cached)
    for sink in run.sinks.all:
        if sink.wanted.updates:
            sink.put((run.ns_levels, "updates", payload))


def emit_interrupts(run: RunScope, state: StepState, questions: Sequence[Interrupt]) -> None:
    """Tell that a task asks something; an empty sequence stands for a static breakpoint.

    A question that a graph inside has already shown to a listener is not shown to it again.
    """
    for sink in run.sinks.all:
        if not (sink.wanted.updates or sink.wanted.values):
            continue
        fresh = tuple(q for q in questions if q.id not in sink.shown)
        if questions and not fresh:
            continue
        sink.shown.update(q.id for q in fresh)
        if sink.wanted.updates:
            sink.put((run.ns_levels, "updates", interrupt_payload(fresh)))
        if sink.wanted.values and fresh:
            # What an entrypoint shows as its output is that of its last finished run, not of this one.
            shown = output(run.spec, state, run.sinks.keys) if run.sinks.keys != END else None
            sink.put((run.ns_levels, "values", values_payload(shown, fresh)))


def emit_task_start(run: RunScope, task: Task) -> None:
    """Tell that a task is about to run."""
    if task.node.hidden:
        return
    given = run.config.given
    metadata = visible_metadata(
        {**(given.get("metadata") or {}), **task.node.metadata}, [*(given.get("tags") or ()), *task.node.tags]
    )
    _put_event(
        run, task.step, "task", task_start_payload(task.id, task.name, unshared(task.input), task.triggers, metadata)
    )


def emit_task_result(
    run: RunScope,
    task: Task,
    *,
    writes: Sequence[Write] = (),
    error: BaseException | None = None,
    questions: Sequence[Interrupt] = (),
) -> None:
    """Tell how a task ended."""
    if not run.sinks.tasks or task.node.hidden:
        return
    payload = task_result_payload(task.id, task.name, error, _own(writes), run.spec.stream_keys, questions)
    _put_event(run, task.step, "task_result", payload)


def emit_checkpoint(
    run: RunScope,
    state: StepState,
    *,
    config: Mapping[str, Any],
    parent_config: Mapping[str, Any] | None,
    tasks: Iterable[PregelTask],
) -> None:
    """Tell which checkpoint the next superstep starts from, and which tasks it has."""
    shown = list(tasks)
    payload = checkpoint_payload(
        config,
        parent_config,
        output(run.spec, state, run.spec.stream_keys),
        state.metadata,
        [task.name for task in shown],
        shown,
    )
    step = state.step - 1
    for sink in run.sinks.all:
        if sink.wanted.checkpoints:
            sink.put((run.ns_levels, "checkpoints", payload))
        if sink.wanted.debug:
            sink.put((run.ns_levels, "debug", _debug(step, "checkpoint", payload)))


def _own(writes: Sequence[Write]) -> list[Write]:
    """Return writes whose containers the reader may change: the run goes on with others."""
    return [(key, detached(value)) for key, value in writes]


def _put_event(run: RunScope, step: int, kind: Literal["task", "task_result"], payload: dict[str, Any]) -> None:
    for sink in run.sinks.all:
        if sink.wanted.tasks:
            sink.put((run.ns_levels, "tasks", payload))
        if sink.wanted.debug:
            sink.put((run.ns_levels, "debug", _debug(step, kind, payload)))


def _debug(step: int, kind: Literal["checkpoint", "task", "task_result"], payload: dict[str, Any]) -> dict[str, Any]:
    return debug_payload(step, kind, payload, now=SYSTEM_CLOCK.now())
