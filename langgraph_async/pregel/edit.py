"""Changes the state of a thread from outside of a run.

In: supersteps of updates, each as if a node had returned it. Out: one checkpoint for each superstep. No node runs,
only what turns its output into writes: its writer, its edges, its routers. The thread is held meanwhile, and a
checkpoint is stored only if nobody else has stored one since the state was read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from langgraph_async import ambient
from langgraph_async.checkpoint.base import CheckpointTuple, TaskWrites
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import COPY, END, INPUT, INTERRUPT, NULL_TASK_ID, SNAPSHOT_BUMPS, START
from langgraph_async.errors import ConfigError, GraphInterrupt, InvalidUpdateError, ParentCommand
from langgraph_async.pregel.address import Address, locate
from langgraph_async.pregel.begin import RunOptions, held_around, make_run
from langgraph_async.pregel.carry import carried_writes
from langgraph_async.pregel.deltas import really_seen
from langgraph_async.pregel.entry import completed
from langgraph_async.pregel.lease import holding, rolled_back
from langgraph_async.pregel.ledger import DeltaLedger, needs_ledger
from langgraph_async.pregel.message_ids import identified, settled
from langgraph_async.pregel.model import GraphSpec, RunScope, StepState
from langgraph_async.pregel.namespace import levels
from langgraph_async.pregel.node import PregelNode, Write, no_writes
from langgraph_async.pregel.renames import check_nodes_exist
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.step.apply import apply_tasks
from langgraph_async.pregel.step.attempt import run_writers
from langgraph_async.pregel.step.ingest import input_writes, unknown_keys
from langgraph_async.pregel.step.persist import Persister
from langgraph_async.pregel.step.plan import plan
from langgraph_async.pregel.step.rescue import restored
from langgraph_async.pregel.step.snapshot import (
    empty_state,
    make_checkpoint,
    metadata_of,
    restore,
    take_changes,
)
from langgraph_async.pregel.storable import storable
from langgraph_async.pregel.stored import loose_writes, restore_tasks
from langgraph_async.pregel.suggest import did_you_mean
from langgraph_async.pregel.task import Task
from langgraph_async.types import StateUpdate

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel


async def bulk_update(
    graph: Pregel, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
) -> RunnableConfig:
    """Apply supersteps of updates, one checkpoint each, and return the config of the last.

    Args:
        graph: The graph; a namespace in `config` names one of its subgraphs instead.
        config: Names the thread, and optionally the checkpoint to go on from instead of the newest.
        supersteps: Updates that are applied together, superstep by superstep.

    Raises:
        ConfigError: There is no saver, no such subgraph or checkpoint, or nothing to apply.
        InvalidUpdateError: An update cannot be taken; the superstep that it belongs to is not stored.
        ThreadConflictError: The thread is busy, or was changed meanwhile; the superstep is not stored.
    """
    at = locate(graph, config, strict=True)
    if not supersteps:
        raise ConfigError("No supersteps provided: pass at least one superstep of updates.")
    if not all(supersteps):
        raise ConfigError("No updates provided: every superstep needs at least one update.")
    strategy, shown = at.config.multitask_strategy, config
    async with holding(at.saver, at.thread_id, strategy, within=held_around()) as (lease, put_off):
        start = await rolled_back(at.saver, at.thread_id, strategy, put_off)
        if at.checkpoint_id is None and not at.ns:
            at = at.at(start)
        shown = config
        for updates in supersteps:
            base = await _load(at)
            if not at.ns:
                lease.note_head(base.head)
            if _is_unclosed(base) and all(update.as_node != COPY for update in updates):
                base = await _closed(base)
            at, shown = await _superstep(base, updates)
    return shown


@dataclass(slots=True)
class _Base:
    """What a superstep of updates starts from.

    Attributes:
        at: Where it is.
        found: The stored checkpoint, or None for an empty thread.
        head: Newest checkpoint id of the place, or None.
        state: The state; changed by applying the updates.
        tasks: The tasks that wait there, with what is stored of them.
    """

    at: Address
    found: CheckpointTuple | None
    head: str | None
    state: StepState
    tasks: list[Task] = field(default_factory=list)

    @property
    def parents(self) -> dict[str, str]:
        """Enclosing graphs' checkpoints, which the new checkpoint belongs to, too."""
        return dict(self.state.metadata.get("parents") or {})


async def _load(at: Address) -> _Base:
    newest = await at.saver.aget_tuple(at.place())
    head = newest.checkpoint["id"] if newest is not None else None
    found = newest
    if at.checkpoint_id is not None and at.checkpoint_id != head:
        found = await at.saver.aget_tuple(at.place(at.checkpoint_id))
        if found is None:
            raise ConfigError(
                f"Thread {at.thread_id!r} has no checkpoint {at.checkpoint_id!r} in namespace {at.ns!r}. Take the "
                "config of a StateSnapshot, or leave checkpoint_id out to update the newest. Nothing was stored."
            )
    spec = at.graph.spec
    if found is None:
        return _Base(at, None, head, empty_state(spec))
    found = await completed(spec, at.saver, found)
    state = restore(spec, found)
    tasks = plan(spec, state, at.ns, to_run=False)
    restore_tasks(tasks, state.pending, source=found.metadata.get("source"))
    tasks.extend(restored(spec, state, tasks, state.pending, to_run=False))
    return _Base(at, found, head, state, tasks)


def _is_unclosed(base: _Base) -> bool:
    """Tell whether the newest superstep only lacks its checkpoint: the process ended in between."""
    return (
        base.found is not None
        and base.found.checkpoint["id"] == base.head
        and bool(base.tasks)
        and all(task.finished for task in base.tasks)
    )


async def _closed(base: _Base) -> _Base:
    """Store the checkpoint that a superstep lacks; one that cannot be applied stays as it is."""
    spec, state, next_version = base.at.graph.spec, base.state, base.at.next_version
    loose = loose_writes(state.pending)
    try:
        if loose:
            apply_tasks(spec, state, [], next_version, loose=loose)
        apply_tasks(spec, state, base.tasks, next_version)
    except InvalidUpdateError:
        return await _load(base.at)
    at, _ = await _store(base, "loop", step=state.step, applied=base.tasks, loose=loose)
    return await _load(at)


async def _superstep(base: _Base, updates: Sequence[StateUpdate]) -> tuple[Address, RunnableConfig]:
    first = updates[0]
    if any(update.values is None and update.as_node == END for update in updates):
        _only_one(updates, "Cannot apply multiple updates when clearing state")
        return await _clear(base)
    if any(update.as_node == INPUT for update in updates):
        _only_one(updates, "Cannot apply multiple updates when updating as input")
        return await _as_input(base, first)
    if any(update.as_node == COPY for update in updates):
        _only_one(updates, "Cannot copy checkpoint with multiple updates")
        return await _copy(base, first.values)
    return await _as_nodes(base, updates)


def _only_one(updates: Sequence[StateUpdate], message: str) -> None:
    if len(updates) > 1:
        raise InvalidUpdateError(f"{message}: give it a superstep of its own, got {len(updates)} updates.")


# -- the special ones -------------------------------------------------------------------------------------------


async def _clear(base: _Base) -> tuple[Address, RunnableConfig]:
    """End the superstep: what finished tasks wrote is kept, the others are given up."""
    state, spec = base.state, base.at.graph.spec
    loose = loose_writes(state.pending)
    if loose:
        apply_tasks(spec, state, [], base.at.next_version, loose=loose)
    for task in base.tasks:
        if not task.finished:
            task.writes = []
    if base.tasks:
        apply_tasks(spec, state, base.tasks, base.at.next_version)
    return await _store(base, "update", step=max(state.step, 0), applied=base.tasks, loose=loose)


async def _as_input(base: _Base, update: StateUpdate) -> tuple[Address, RunnableConfig]:
    """Write a new input beside whatever waits there."""
    state, spec = base.state, base.at.graph.spec
    if base.found is not None:
        check_nodes_exist(spec, base.found, base.at.thread_id)
    _check_keys(spec, update.values)
    writes = input_writes(spec, update.values)
    if not writes:
        keys = spec.input_keys if isinstance(spec.input_keys, str) else ", ".join(spec.input_keys)
        raise InvalidUpdateError(f"Received no input writes for {keys}. Nothing was stored.")
    writes = settled(spec, state, identified(spec, writes))
    apply_tasks(spec, state, [], base.at.next_version, loose=writes)
    state.seen.setdefault(INPUT, {})
    return await _store(base, "input", step=state.step, loose=writes)


def _check_keys(spec: GraphSpec, values: Any) -> None:
    """Refuse an update, as an input, of keys that an input of a run would only warn of."""
    for key in unknown_keys(spec, values):
        raise InvalidUpdateError(
            f"The update of graph {spec.name!r} as its input has the key {key!r}, which no schema declares."
            f"{did_you_mean(key, spec.schemas.state_keys if spec.schemas is not None else ())} Nothing was stored."
        )


async def _copy(base: _Base, items: Any) -> tuple[Address, RunnableConfig]:
    """Store the checkpoint again beside itself, and apply `items` to the copy as one superstep."""
    state = base.state
    if base.found is None:
        raise InvalidUpdateError(
            f"Cannot copy a non-existent checkpoint: thread {base.at.thread_id!r} has none in namespace {base.at.ns!r}."
        )
    check_nodes_exist(base.at.graph.spec, base.found, base.at.thread_id)
    updates = _copied_updates(items)
    state.dirty.update(state.versions)
    base.tasks = []
    at, shown = await _store(base, "fork", step=state.step, parent=state.parent_id)
    if not updates:
        return at, shown
    copied = await _load(at)
    return await _as_nodes(copied, updates)


def _copied_updates(items: Any) -> list[StateUpdate]:
    if not isinstance(items, (list, tuple)):
        return []
    for item in items:
        if not isinstance(item, (list, tuple)) or not 2 <= len(item) <= 3:
            raise InvalidUpdateError(
                f"Invalid update item: {item!r} when copying checkpoint. Pass (values, as_node) pairs."
            )
    return [StateUpdate(*item) for item in items]


# -- as nodes ---------------------------------------------------------------------------------------------------


class _Edit(Task):
    """An update, standing for a finished task of the node it is made as."""

    __slots__ = ("_place",)

    def __init__(self, name: str, node: PregelNode, base: _Base, task_id: str, place: int) -> None:
        state = base.state
        super().__init__(name, node, None, (state.checkpoint_id, base.at.ns, state.step, state.version_format))
        self._id = task_id
        self._place = place
        self.finished = True

    @property
    def triggers(self) -> tuple[str, ...]:
        """No channel: what the node has seen stays as it is."""
        return (INTERRUPT,)

    @property
    def path(self) -> tuple[Any, ...]:
        """Its place in the list of updates."""
        return (INTERRUPT, self._place)

    @property
    def order(self) -> tuple[int, str, int]:
        """Updates are applied in the order of the list."""
        return (0, "", self._place)


async def _as_nodes(base: _Base, updates: Sequence[StateUpdate]) -> tuple[Address, RunnableConfig]:
    """Apply updates as if their nodes had returned them."""
    nodes = [_node_of(base, update, alone=len(updates) == 1) for update in updates]
    waiting = _ids_by_name(base.tasks)
    edits: list[_Edit] = []
    for place, (update, name) in enumerate(zip(updates, nodes, strict=True)):
        ids = waiting.get(name)
        task_id = update.task_id or (ids.popleft() if ids else _edit_id(base, place))
        edits.append(_Edit(name, base.at.graph.spec.nodes[name], base, task_id, place))
    run = _run_of(base.at, base.parents)
    for edit, update in zip(edits, updates, strict=True):
        if edit.name == START:
            _check_keys(base.at.graph.spec, update.values)
        edit.writes = settled(run.spec, base.state, await _writes_of(run, base, edit, update.values))
    apply_tasks(base.at.graph.spec, base.state, list(edits), base.at.next_version)
    step = max(base.state.step, 0)
    return await _store(base, "update", step=step, edits=edits)


def _node_of(base: _Base, update: StateUpdate, *, alone: bool) -> str:
    graph = base.at.graph
    name = update.as_node
    if name is None:
        if not alone:
            raise InvalidUpdateError("as_node is required when applying multiple updates.")
        name = _inferred(base)
    node = graph.nodes.get(name)
    if node is None:
        raise InvalidUpdateError(
            f"Node {name} does not exist: graph {graph.name!r} cannot be updated as it."
            f"{did_you_mean(name, graph.nodes)}"
        )
    if node.write is no_writes and not node.edges and not node.routers:
        raise InvalidUpdateError(f"Node {name} has no writers: updating graph {graph.name!r} as it changes nothing.")
    return name


def _inferred(base: _Base) -> str:
    """Return the only node that can be meant: the one that ran last, if there is one.

    Raises:
        InvalidUpdateError: Several can be meant.
    """
    graph, state = base.at.graph, base.state
    if len(graph.nodes) == 1:
        return next(iter(graph.nodes))
    seen = really_seen(state.seen) if SNAPSHOT_BUMPS in state.seen else state.seen
    newest = {name: max(mark.values()) for name, mark in seen.items() if mark and name in graph.nodes}
    if not newest:
        if isinstance(graph.input_channels, str) and graph.input_channels in graph.nodes:
            return graph.input_channels
    else:
        latest = max(newest.values())
        last = [name for name, version in newest.items() if version == latest]
        if len(last) == 1:
            return last[0]
    raise InvalidUpdateError(
        f"Ambiguous update, specify as_node: the state of graph {graph.name!r} on thread {base.at.thread_id!r} could "
        f"have been updated by {', '.join(sorted(n for n in newest or graph.nodes))}. Nothing was stored."
    )


def _ids_by_name(tasks: Iterable[Task]) -> dict[str, deque[str]]:
    found: dict[str, deque[str]] = {}
    for task in tasks:
        found.setdefault(task.name, deque()).append(task.id)
    return found


def _edit_id(base: _Base, place: int) -> str:
    return str(uuid5(UUID(base.state.checkpoint_id), f"{INTERRUPT}:{place}" if place else INTERRUPT))


def _run_of(at: Address, parents: dict[str, str]) -> RunScope:
    """Return a run for routers to run in: one of a root, moved to where the state is."""
    graph = at.graph.copy({"checkpointer": at.saver})
    options = RunOptions(config=at.place(at.checkpoint_id))
    keys = graph.output_channels
    run = make_run(graph, at.graph.spec, options, parent=None, sinks=(), default_keys=keys, call=0)
    return replace(run, ns=at.ns, ns_levels=levels(at.ns), checkpoint_map=parents)


async def _writes_of(run: RunScope, base: _Base, edit: _Edit, values: Any) -> list[Write]:
    scope = TaskScope(run, edit, base.state)
    token = ambient.current.set(scope)
    try:
        return await run_writers(scope, values)
    except ParentCommand as signal:
        raise InvalidUpdateError(
            f"The update of graph {run.spec.name!r} as node {edit.name!r} holds a command for a graph around it "
            f"({signal.command!r}). Update that graph instead. Nothing was stored."
        ) from None
    except GraphInterrupt:
        raise InvalidUpdateError(
            f"A routing function of node {edit.name!r} of graph {run.spec.name!r} called interrupt() while the state "
            "was updated as that node: nobody can answer it here. Nothing was stored."
        ) from None
    finally:
        ambient.current.reset(token)
        scope.close()


# -- storing ----------------------------------------------------------------------------------------------------


async def _store(
    base: _Base,
    source: str,
    *,
    step: int,
    edits: Sequence[_Edit] = (),
    applied: Sequence[Task] = (),
    loose: Sequence[Write] = (),
    parent: str | None = None,
) -> tuple[Address, RunnableConfig]:
    """Store the changed state as a checkpoint, and what the edits wrote on the one before it.

    Args:
        base: What it starts from, changed.
        source: How it came about; a fork follows `parent` instead of the checkpoint it starts from.
        step: Its number.
        edits: Updates that were applied.
        applied: Stored results of tasks that were applied.
        loose: Writes of no task that were applied.
        parent: For a fork, the checkpoint that it follows.
    """
    at, state, spec = base.at, base.state, base.at.graph.spec
    parents = base.parents
    copied = source == "fork"
    above = parent if copied else state.checkpoint_id if base.found is not None else None
    persister = Persister(at.saver, "sync", at.place())
    persister.head = base.head
    versions = take_changes(state, spec)
    metadata = metadata_of(source, step, parents)
    rows = [] if base.found is None else [_rows(base, edit) for edit in edits if not _has_run(base, edit)]
    if needs_ledger(spec, base.found):
        ledger = _ledger(base, persister, copied=copied)
        if copied:
            ledger.store_whole(state)
        rows = [ledger.placeable(row) for row in rows]
        for row in rows:
            ledger.stored(row)
        ledger.applied(NULL_TASK_ID, loose)
        ledger.close(state, [*edits, *applied], versions, metadata)
    checkpoint = make_checkpoint(state, step=step, updated=None, newest=base.head)
    state.checkpoint_id, state.version_format = checkpoint["id"], checkpoint["v"]
    state.step, state.updated = step + 1, None
    state.old_names = state.old_channels = {}
    carried = _carried(base, {edit.name for edit in edits})
    try:
        for row in rows:
            persister.put_writes(above, row, hold=True)
        persister.put_checkpoint(above, checkpoint, metadata, versions)
        for row in carried:
            persister.put_writes(checkpoint["id"], row, hold=False)
    finally:
        await persister.flush()
    return at.at(checkpoint["id"]), at.shown(checkpoint["id"], parents)


def _ledger(base: _Base, persister: Persister, *, copied: bool) -> DeltaLedger:
    ledger = DeltaLedger(
        base.at.graph.spec,
        base.at.saver,
        at_end=False,
        replaces=persister.replaces,
        ordered=persister.ordered,
        next_version=base.at.next_version,
    )
    found = base.found
    if found is not None and copied:
        found = found._replace(pending_writes=None)  # a copy does not follow what it copies
    ledger.begin(found, shared=found is not None and found.checkpoint["id"] != base.head)
    return ledger


def _rows(base: _Base, edit: _Edit) -> TaskWrites:
    return TaskWrites(edit.id, edit.path_text, storable(base.at.graph.spec.untracked, edit.writes))


def _has_run(base: _Base, edit: _Edit) -> bool:
    """Tell whether a run stored the result of the task that the edit stands for: history keeps that."""
    return any(task.id == edit.id and task.finished for task in base.tasks)


def _carried(base: _Base, edited: set[str]) -> list[TaskWrites]:
    """Return the open questions of tasks that are still to run, which keep their ids."""
    before = [task for task in base.tasks if task.asked and task.name not in edited]
    if not before:
        return []
    return carried_writes(before, plan(base.at.graph.spec, base.state, base.at.ns, to_run=False))
