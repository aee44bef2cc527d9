"""Reads the state of a thread.

In: a graph and a config. Out: what is stored there, as a snapshot. Nothing is stored, no node runs, and what is
stored of a step that cannot be applied (a reducer raises) never keeps the thread from being read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langgraph_async.checkpoint.base import CheckpointTuple
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import CHECKPOINT_ID, CHECKPOINT_NS, CONF, THREAD_ID
from langgraph_async.errors import InvalidUpdateError
from langgraph_async.pregel.address import Address, locate, subgraph_of
from langgraph_async.pregel.deltas import histories
from langgraph_async.pregel.entry import completed
from langgraph_async.pregel.model import GraphSpec, StepState
from langgraph_async.pregel.step.apply import apply_tasks
from langgraph_async.pregel.step.plan import plan
from langgraph_async.pregel.step.rescue import restored
from langgraph_async.pregel.step.snapshot import is_stub, restore
from langgraph_async.pregel.stored import by_task, loose_writes, restore_tasks
from langgraph_async.pregel.task import Task
from langgraph_async.pregel.task_view import subgraph_namespace, task_states
from langgraph_async.pregel.view import output
from langgraph_async.types import Interrupt, StateSnapshot

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel


async def snapshot(graph: Pregel, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
    """Return the state that `config` names; an empty one when nothing is stored there.

    Without a checkpoint id it is the newest state, with the writes of tasks that have already finished applied and
    the questions that are still open. With one it is the state as it was stored, and its tasks show what the
    superstep came to.

    Args:
        graph: The graph.
        config: Names the thread, and optionally the namespace of a subgraph and a checkpoint.
        subgraphs: Put the states of subgraphs, at any depth, in the place of their configs.

    Raises:
        ConfigError: The graph has no saver.
    """
    at = locate(graph, config, strict=False)
    return await _read(at, config, subgraphs=subgraphs)


async def history(
    graph: Pregel,
    config: RunnableConfig,
    *,
    filter: dict[str, Any] | None = None,
    before: RunnableConfig | None = None,
    limit: int | None = None,
) -> AsyncIterator[StateSnapshot]:
    """Yield the states of the place that `config` names, newest first, as they were stored.

    Everything is read before the first one is yielded, so that the caller may change the thread meanwhile.

    Args:
        graph: The graph.
        config: Names the thread, and optionally the namespace of a subgraph.
        filter: Metadata entries that must be equal.
        before: Only states older than the checkpoint that this config names.
        limit: At most so many.

    Raises:
        ConfigError: The graph has no saver.
    """
    at = locate(graph, config, strict=False)
    items = at.saver.alist(at.place(at.checkpoint_id), filter=filter, before=before, limit=limit)
    found_all = [item async for item in items]
    async for found in histories(at.graph.spec, at.saver, found_all):
        yield await _shown(at, found, latest=False, subgraphs=False)


async def _read(at: Address, config: RunnableConfig, *, subgraphs: bool) -> StateSnapshot:
    found = await at.saver.aget_tuple(at.place(at.checkpoint_id))
    if found is None or (at.checkpoint_id is None and is_stub(found)):
        return StateSnapshot({}, (), config, None, None, None, (), ())
    return await _shown(at, found, latest=at.checkpoint_id is None, subgraphs=subgraphs)


async def _shown(at: Address, found: CheckpointTuple, *, latest: bool, subgraphs: bool) -> StateSnapshot:
    spec = at.graph.spec
    found = await completed(spec, at.saver, found)
    state = _restored(at, found)
    tasks = _as_defined(spec, plan(spec, state, at.ns, to_run=False))
    restore_tasks(tasks, state.pending, source=found.metadata.get("source"))
    tasks.extend(restored(spec, state, tasks, state.pending, to_run=False))
    if latest:
        state = _with_finished(at, found, state, [task for task in tasks if task.finished])
    shown = task_states(
        spec,
        tasks,
        at.thread_id,
        asked=None if latest else _asked(state),
        nested=await _nested(at, tasks) if subgraphs else None,
        path=at.path,
    )
    parents = found.metadata.get("parents") or {}
    parent_id = (found.parent_config or {}).get(CONF, {}).get(CHECKPOINT_ID)
    return StateSnapshot(
        values=output(spec, state, spec.stream_keys),
        next=_next(at, state, tasks, latest=latest),
        config=at.shown(found.checkpoint["id"], parents),
        metadata=found.metadata,
        created_at=found.checkpoint["ts"],
        parent_config=None if parent_id is None else at.shown(parent_id, parents),
        tasks=shown,
        interrupts=tuple(question for task in shown for question in task.interrupts),
    )


def _as_defined(spec: GraphSpec, tasks: list[Task]) -> list[Task]:
    """Return tasks in the order in which they are shown: sends, then nodes as the graph defines them."""
    if len(tasks) < 2:
        return tasks
    places = {name: place for place, name in enumerate(spec.nodes)}
    return sorted(tasks, key=lambda task: -1 if task.index >= 0 else places[task.name])


def _next(at: Address, state: StepState, tasks: Sequence[Task], *, latest: bool) -> tuple[str, ...]:
    """Return the names of what is still to run.

    When the last thing that was stored are the results of a superstep, and not the checkpoint that follows, then what
    follows is to run: a thread whose process ended there does not look finished.
    """
    if latest and tasks and all(task.finished for task in tasks):
        tasks = _as_defined(at.graph.spec, plan(at.graph.spec, state, at.ns, to_run=False))
        return tuple(task.name for task in tasks)
    return tuple(task.name for task in tasks if not (latest and task.finished))


def _restored(at: Address, found: CheckpointTuple) -> StepState:
    """Return the state with the stored writes that belong to no task, as a run that goes on would start from it."""
    spec = at.graph.spec
    state = restore(spec, found)
    loose = loose_writes(state.pending)
    if not loose:
        return state
    before = state.updated
    try:
        changed = apply_tasks(spec, state, [], at.next_version, loose=loose)
    except InvalidUpdateError:
        return restore(spec, found)
    state.updated = before | changed if before is not None else None
    return state


def _with_finished(at: Address, found: CheckpointTuple, state: StepState, done: Sequence[Task]) -> StepState:
    if not done:
        return state
    try:
        apply_tasks(at.graph.spec, state, list(done), at.next_version)
    except InvalidUpdateError:
        return _restored(at, found)
    return state


def _asked(state: StepState) -> Mapping[str, tuple[Interrupt, ...]]:
    return {task_id: stored.asked for task_id, stored in by_task(state.pending).items()}


async def _nested(at: Address, tasks: Iterable[Task]) -> dict[str, StateSnapshot]:
    found: dict[str, StateSnapshot] = {}
    for task in tasks:
        inner, ns = subgraph_of(at.graph, task.name), subgraph_namespace(task, at.path)
        if inner is not None and ns is not None:
            below = at.below(inner, task, ns)
            config: RunnableConfig = {CONF: {THREAD_ID: below.thread_id, CHECKPOINT_NS: below.ns}}
            found[task.id] = await _read(below, config, subgraphs=True)
    return found
