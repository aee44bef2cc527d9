"""What happens in a run to items for those who listen.

In: the run, its state, and what happened. Out: items put into the sinks that want them. Nothing is built for a
mode that nobody asked for; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langgraph_async.constants import CONF, INTERRUPT
from langgraph_async.pregel.model import RunScope, StepState
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.task import Task
from langgraph_async.pregel.view import output
from langgraph_async.stream.modes import (
    checkpoint_payload,
    debug_payload,
    interrupt_payload,
    task_result_payload,
    task_start_payload,
    updates_payload,
)
from langgraph_async.types import Interrupt

_FRAMEWORK_METADATA = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"})


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
    payload = updates_payload(task.name, writes, run.sinks.keys, cached=cached)
    for sink in run.sinks.all:
        if sink.wanted.updates:
            sink.put((run.ns_levels, "updates", payload))


def emit_interrupts(run: RunScope, questions: Sequence[Interrupt], *, values: Callable[[], Any]) -> None:
    """Tell that a task asks something; an empty sequence stands for a static breakpoint.

    Args:
        run: The run.
        questions: What is asked.
        values: Makes the state to show in ``values`` items.
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
            shown = values()
            base = shown if isinstance(shown, dict) else {}
            sink.put((run.ns_levels, "values", {**base, INTERRUPT: fresh}))


def emit_task_start(run: RunScope, state: StepState, task: Task, metadata: dict[str, Any]) -> None:
    """Tell that a task is about to run."""
    if task.node.hidden:
        return
    payload = task_start_payload(task.id, task.name, task.input, task.triggers, metadata)
    _put_event(run, state.step, "tasks", "task", payload)


def emit_task_result(
    run: RunScope,
    state: StepState,
    task: Task,
    *,
    writes: Sequence[Write] = (),
    error: BaseException | None = None,
    questions: Sequence[Interrupt] = (),
) -> None:
    """Tell how a task ended."""
    if not run.sinks.tasks or task.node.hidden:
        return
    payload = task_result_payload(task.id, task.name, error, writes, run.spec.stream_keys, questions)
    _put_event(run, state.step, "tasks", "task_result", payload)


def emit_checkpoint(
    run: RunScope,
    state: StepState,
    *,
    config: dict[str, Any],
    parent_config: dict[str, Any] | None,
    tasks: Sequence[dict[str, Any]],
) -> None:
    """Tell which checkpoint the next superstep starts from, and which tasks it has."""
    payload = checkpoint_payload(
        {CONF: _public(config)},
        {CONF: _public(parent_config)} if parent_config is not None else None,
        output(run.spec, state, run.spec.stream_keys),
        dict(state.metadata),
        [t["name"] for t in tasks],
        list(tasks),
    )
    _put_event(run, state.step - 1, "checkpoints", "checkpoint", payload)


def _public(configurable: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in configurable.items() if not k.startswith("__pregel_")}


def _put_event(run: RunScope, step: int, mode: str, kind: str, payload: dict[str, Any]) -> None:
    for sink in run.sinks.all:
        if getattr(sink.wanted, mode):
            sink.put((run.ns_levels, mode, payload))
        if sink.wanted.debug:
            sink.put((run.ns_levels, "debug", debug_payload(step, kind, payload)))


def task_metadata(config: dict[str, Any]) -> dict[str, Any]:
    """Return what a task's start shows of its config: the user's metadata and tags."""
    shown: dict[str, Any] = {
        k: v
        for k, v in (config.get("metadata") or {}).items()
        if k not in _FRAMEWORK_METADATA and not k.startswith("langgraph_")
    }
    tags = [t for t in config.get("tags") or () if not t.startswith(("seq:step", "graph:step"))]
    if tags:
        shown["tags"] = tags
    return shown
