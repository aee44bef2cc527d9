"""Payloads of the stream modes: plain facts in, plain data out.

No clock, no engine, no bus: what to build and when is the engine's business, who gets it in which form is that of
`parts`. Interrupts, writes and values are passed through, never copied or changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from langgraph_async.constants import CHECKPOINT_ID, CHECKPOINT_MAP, CHECKPOINT_NS, INTERRUPT, RETURN, THREAD_ID
from langgraph_async.types import Interrupt, PregelTask

_FRAMEWORK_KEYS = frozenset({THREAD_ID, CHECKPOINT_ID, CHECKPOINT_NS, CHECKPOINT_MAP})

REPEATED = "$writes"
"""Key under which several writes of one task to one channel are shown."""


def values_payload(values: Any, interrupts: Sequence[Interrupt] = ()) -> Any:
    """Return an item of ``values``: the output as it is, or with the questions that a paused run asks.

    A paused run whose output is not a dict shows only its questions.
    """
    if not interrupts:
        return values
    shown = values if isinstance(values, dict) else {}
    return {**shown, INTERRUPT: tuple(interrupts)}


def updates_payload(
    node: str, writes: Sequence[tuple[str, Any]], output_keys: str | Collection[str], *, cached: bool = False
) -> dict[str, Any]:
    """Return an item of ``updates``: what one task wrote to the output.

    Args:
        node: Name of the task's node.
        writes: All writes of the task, in order.
        output_keys: Channels of the output; one (text), or several (a frozenset for speed).
        cached: Whether the writes are those of an earlier run, applied again.

    Returns:
        ``{node: update}``. With several output keys the update is a dict of those written, or, if a key was written
        more than once, a list of dicts with one key each, in the order of the writes. With one output key it is the
        value written, or a list of the values if there are several. For a task function it is its return value.
        None if nothing was written to the output.
    """
    payload: dict[str, Any] = {node: _update(writes, output_keys)}
    if cached:
        payload["__metadata__"] = {"cached": True}
    return payload


def _update(writes: Sequence[tuple[str, Any]], output_keys: str | Collection[str]) -> Any:
    for channel, value in writes:
        if channel == RETURN:
            return value
    if isinstance(output_keys, str):
        values = [value for channel, value in writes if channel == output_keys]
        return values if len(values) > 1 else values[0] if values else None
    shown = [write for write in writes if write[0] in output_keys]
    if not shown:
        return None
    update = dict(shown)
    return update if len(update) == len(shown) else [{channel: value} for channel, value in shown]


def interrupt_payload(interrupts: Iterable[Interrupt]) -> dict[str, Any]:
    """Return an item of ``updates`` for a pause; without interrupts it is a static breakpoint."""
    return {INTERRUPT: tuple(interrupts)}


def visible_tags(tags: Iterable[str]) -> list[str]:
    """Return the tags without those that only number the steps of a sequence."""
    return [tag for tag in tags if not tag.startswith("seq:step")]


def visible_metadata(metadata: Mapping[str, Any], tags: Iterable[str] = ()) -> dict[str, Any]:
    """Return what users put into a config: its metadata without the engine's keys, and its tags; a new dict."""
    shown = {
        key: value for key, value in metadata.items() if key not in _FRAMEWORK_KEYS and not key.startswith("langgraph_")
    }
    shown_tags = visible_tags(tags)
    if shown_tags:
        shown["tags"] = shown_tags
    return shown


def task_start_payload(
    id: str, name: str, input: Any, triggers: Sequence[str], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an item of ``tasks`` for a task that is about to run; `metadata` comes from `visible_metadata`."""
    payload = {"id": id, "name": name, "input": input, "triggers": triggers}
    if metadata:
        payload["metadata"] = metadata
    return payload


def task_result_payload(
    id: str,
    name: str,
    error: BaseException | None,
    writes: Sequence[tuple[str, Any]],
    stream_keys: str | Collection[str],
    interrupts: Iterable[Interrupt],
) -> dict[str, Any]:
    """Return an item of ``tasks`` for a task that has ended; `result` is as `result_value` says."""
    return {
        "id": id,
        "name": name,
        "error": error,
        "result": result_value(writes, stream_keys),
        "interrupts": [interrupt_dict(interrupt) for interrupt in interrupts],
    }


def interrupt_dict(interrupt: Interrupt) -> dict[str, Any]:
    """Return an interrupt as plain data."""
    return {"value": interrupt.value, "id": interrupt.id, "response_schema": interrupt.response_schema}


def result_value(writes: Sequence[tuple[str, Any]], stream_keys: str | Collection[str]) -> dict[str, Any]:
    """Return what a task wrote to the channels that can be seen, by channel.

    A channel that was written more than once shows as ``{"$writes": [first, second, ...]}``. For a task function
    the only key is ``__return__``.
    """
    written: dict[str, list[Any]] = {}
    for channel, value in writes:
        if channel == RETURN:
            return {RETURN: value}
        if channel == stream_keys if isinstance(stream_keys, str) else channel in stream_keys:
            written.setdefault(channel, []).append(value)
    return {channel: values[0] if len(values) == 1 else {REPEATED: values} for channel, values in written.items()}


def snapshot_result(writes: Sequence[tuple[str, Any]], stream_keys: str | Collection[str]) -> Any:
    """Return a finished task's result as `PregelTask.result` shows it.

    Like `result_value`, but a task function shows its bare return value, and a graph with one visible channel what
    was written to that, None if nothing was.
    """
    result = result_value(writes, stream_keys)
    if RETURN in result:
        return result[RETURN]
    return result.get(stream_keys) if isinstance(stream_keys, str) else result


def checkpoint_payload(
    config: Mapping[str, Any],
    parent_config: Mapping[str, Any] | None,
    values: Any,
    metadata: Mapping[str, Any],
    next: Iterable[str],
    tasks: Iterable[PregelTask],
) -> dict[str, Any]:
    """Return an item of ``checkpoints``.

    Args:
        config: Coordinates of the checkpoint.
        parent_config: Those of the one before it, or None.
        values: The channels that can be seen, by name, or the value of the only one.
        metadata: The checkpoint's metadata.
        next: Names of the tasks that are about to run.
        tasks: These tasks. One that has failed before shows its error, one that has finished its result.
    """
    return {
        "config": config,
        "parent_config": parent_config,
        "values": values,
        "metadata": metadata,
        "next": list(next),
        "tasks": [_task_dict(task) for task in tasks],
    }


def _task_dict(task: PregelTask) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": task.id, "name": task.name}
    if task.error is not None:
        shown["error"] = task.error
    else:
        if task.result is not None:
            shown["result"] = task.result
        shown["interrupts"] = tuple(interrupt_dict(interrupt) for interrupt in task.interrupts)
    shown["state"] = task.state
    return shown


def debug_payload(
    step: int, kind: Literal["checkpoint", "task", "task_result"], payload: Mapping[str, Any], *, now: datetime
) -> dict[str, Any]:
    """Return an item of ``debug``: a payload of ``checkpoints`` or ``tasks`` with its step and the time.

    Args:
        step: The checkpoint's own step, or the step that the task belongs to.
        kind: What `payload` is.
        payload: The payload itself, not copied.
        now: The time, aware, in UTC.
    """
    return {"step": step, "timestamp": now.isoformat(), "type": kind, "payload": payload}
