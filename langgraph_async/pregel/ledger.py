"""Keeps account of what is stored as writes, and decides when whole values are.

A checkpoint without a stored value has the value of its parent, with the writes stored on the parent applied. So that
this holds whatever happens to a superstep, a `DeltaLedger` compares, for each checkpoint, the writes that were applied
with the writes that the saver has on its parent: where they differ (writes of dropped or repeated tasks, writes
that could not be stored there) the whole value is stored.

Two kinds of channels are stored so: declared delta channels always, and lists whose reducer appends while they are
long. A list that is short, or whose writes the saver may not keep, costs nothing here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID, uuid5

from langgraph_async.channels.accumulation import overwritten
from langgraph_async.channels.appending import long_enough, whole_is_due
from langgraph_async.checkpoint.base import (
    COUNTERS,
    ChannelVersions,
    CheckpointMetadata,
    CheckpointTuple,
    TaskWrites,
)
from langgraph_async.constants import CONTROL_WRITES, INPUT, INTERRUPT, MISSING, NO_WRITES, SNAPSHOT_BUMPS
from langgraph_async.errors import ConfigError
from langgraph_async.pregel.model import GraphSpec, StepState
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.task import Task
from langgraph_async.types import DeltaSnapshot

_BOUND_VARIABLE: Final = "LANGGRAPH_DELTA_MAX_SUPERSTEPS_SINCE_SNAPSHOT"
_DEFAULT_BOUND: Final = 5000

_ByChannel: TypeAlias = dict[str, list[Any]]

AnchorRows: TypeAlias = Callable[[], list[TaskWrites]]
"""Gives the writes that a checkpoint of durability "exit" needs on its parent."""


def superstep_bound() -> int:
    """Return the number of supersteps after which the whole value is stored in any case.

    Raises:
        ConfigError: The environment variable holds something else than a positive number.
    """
    text = os.environ.get(_BOUND_VARIABLE)
    if text is None:
        return _DEFAULT_BOUND
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigError(f"{_BOUND_VARIABLE} must be a positive number of supersteps, got {text!r}.")
    return int(text)


def needs_ledger(spec: GraphSpec, loaded: CheckpointTuple | None) -> bool:
    """Tell whether a run or edit that goes on from `loaded` has to keep account."""
    return bool(spec.deltas or spec.appending or (loaded is not None and COUNTERS in loaded.metadata and spec.reducers))


class DeltaLedger:
    """Knows, for the checkpoint that a run stands on, which writes to delta channels are stored there.

    One for each run or edit of a graph with delta channels: `begin`, then for every new checkpoint any of `stored`,
    `applied` and `input_rows`, and `close`.

    Args:
        spec: The graph.
        saver: What stores it.
        at_end: Only the last checkpoint is stored (durability "exit").
        replaces: The saver can forget what it stored for a task (`BaseCheckpointSaver.acommit`).
        ordered: The saver gives writes back in the order of the tasks' paths.
        next_version: From the newest channel version to the next.
    """

    def __init__(
        self,
        spec: GraphSpec,
        saver: Any,
        *,
        at_end: bool,
        replaces: bool,
        ordered: bool,
        next_version: Callable[[Any], Any],
    ) -> None:
        self._spec = spec
        self._declared = frozenset(spec.deltas)
        self._allowed = spec.appending.keys() if spec.delta_storage and keeps_ancestors(saver) else frozenset[str]()
        self._tracked = set(spec.deltas)
        self._guarded = self._declared
        self._at_end = at_end
        self._replaces = replaces
        self._ordered = ordered
        self._next_version = next_version
        self._bound = superstep_bound()
        self._counts: dict[str, tuple[int, int]] = {}
        self._stored: dict[str, _ByChannel] = {}
        self._loose: dict[str, _ByChannel] = {}
        self._whole: set[str] = set()
        self._shared = False
        self._versioned: set[str] = set()
        self._rows: list[TaskWrites] = []
        self._first = True

    def begin(self, loaded: CheckpointTuple | None, *, shared: bool) -> None:
        """Start from a loaded checkpoint.

        Args:
            loaded: It, with all values; None on an empty thread.
            shared: It has other children, or may have: nothing may be stored there any more.
        """
        self._shared = shared
        if loaded is None:
            return
        counts = loaded.metadata.get(COUNTERS) or {}
        spec = self._spec
        counted = {key for key in spec.reducers if key in counts}
        values = loaded.checkpoint["channel_values"]
        versions = loaded.checkpoint["channel_versions"]
        found = {key: _unwrapped(values[key]) for key in spec.appending if key in versions and key in values}
        long = {key for key, value in found.items() if long_enough(value)}
        self._guarded = self._declared | counted | long
        usable = {key for key in long if self._may_track(key, found[key])}
        self._whole.update(counted - usable)
        self._tracked |= counted | usable
        self._counts = {key: (pair[0], pair[1]) for key, pair in counts.items() if key in self._tracked}
        for task_id, key, value in loaded.pending_writes or ():
            if key in CONTROL_WRITES:
                continue
            stored = self._stored.setdefault(task_id, {})
            if key in self._tracked:
                stored.setdefault(key, []).append(value)

    def store_whole(self, state: StepState) -> None:
        """Store every value whole with the next checkpoint, which does not follow the one that was loaded."""
        self._whole.update(key for key in self._tracked if key in state.versions)

    def placeable(self, rows: TaskWrites) -> TaskWrites:
        """Return what may be stored of a task on the loaded checkpoint without changing what its children hold."""
        if not self._shared:
            return rows
        kept = [write for write in rows.writes if write[0] not in self._guarded]
        return TaskWrites(rows.task_id, rows.path, kept or [(NO_WRITES, None)], rows.replace)

    def stored(self, rows: TaskWrites) -> None:
        """Note that writes of a task were given to the saver, for the checkpoint that the run stands on."""
        if self._at_end or not self._tracked:
            return
        new = self._by_channel(rows.writes)
        old = self._stored.get(rows.task_id)
        if old is None or (rows.replace and self._replaces):
            self._stored[rows.task_id] = new
            return
        # Positions that are taken keep what they hold: only a list that goes on where the old one ended is added.
        for key, values in new.items():
            known = old.get(key)
            if known is None or not _same(known, values[: len(known)]):
                self._whole.add(key)
            old[key] = values

    def applied(self, task_id: str, writes: Iterable[Write]) -> None:
        """Note that writes that belong to no task of the superstep were applied, under the id they are stored with."""
        self._loose[task_id] = self._by_channel(writes)

    def input_rows(self, state: StepState, writes: Iterable[Write]) -> TaskWrites | None:
        """Note that an input was applied; return what to store of it on the checkpoint before it, if anything."""
        found = self._by_channel(writes)
        if not found:
            return None
        task_id = str(uuid5(UUID(state.checkpoint_id), INPUT))
        self._loose[task_id] = found
        if self._at_end or self._shared or not state.stored or task_id in self._stored:
            return None
        taken = {key for known in self._stored.values() for key in known}
        rows = [(key, value) for key, values in found.items() if key not in taken for value in values]
        return TaskWrites(task_id, "", rows) if rows else None

    def close(
        self, state: StepState, tasks: Sequence[Task], versions: ChannelVersions, metadata: CheckpointMetadata
    ) -> AnchorRows | None:
        """Complete a checkpoint that is about to be made: the whole values that are due, and the counters.

        Args:
            state: The state that the checkpoint is made of; its stored values, and where a channel needs a new
                version that and the nodes' marks, are brought up to date.
            tasks: The tasks whose writes were applied since the last checkpoint.
            versions: The new versions that are stored with it; completed here.
            metadata: Its metadata; completed here.

        Returns:
            With `at_end`, what the checkpoint needs on its parent if it is the last one.
        """
        if not self._tracked:
            self._stored, self._loose = {}, {}
            self._track(state, versions)
            return None
        applied = self._take_applied(tasks)
        self._compare(applied)
        if self._at_end:
            self._gather(state, tasks, applied)
        if not state.stored:
            self._whole.update(key for key in self._tracked if key in state.versions)
        written = {key for found in applied.values() for key in found}
        snapshots = self._count(state, written)
        for key in self._tracked:
            state.stored_values.pop(key, None)
        for key in snapshots:
            if key not in versions and key not in self._versioned:
                versions[key] = self._bump(state, key)
            channel: Any = state.channels[key]
            state.stored_values[key] = channel.snapshot() if key in self._declared else channel.checkpoint()
        counters = {key: [*pair] for key, pair in sorted(self._counts.items()) if any(pair) and key not in snapshots}
        if counters:
            metadata[COUNTERS] = counters  # type: ignore[typeddict-item]
        return self._moved_on(state, versions, snapshots)

    # -- which lists are stored as writes ---------------------------------------------------------------------

    def _may_track(self, key: str, value: Any) -> bool:
        """Tell whether what is appended to a value from here on may be stored instead of the list."""
        if key not in self._allowed:
            return False
        settled = self._spec.appending[key].settled
        return long_enough(value) and (settled is None or settled(value))

    def _track(self, state: StepState, versions: Iterable[str]) -> None:
        """Track the lists that have become long; all of `versions` are stored whole."""
        if self._at_end or not self._allowed:
            return
        for key in versions:
            if key in self._allowed and key not in self._tracked and self._may_track(key, _value_of(state, key)):
                self._tracked.add(key)

    # -- what is stored against what was applied --------------------------------------------------------------

    def _by_channel(self, writes: Iterable[Write]) -> _ByChannel:
        found: _ByChannel = {}
        for key, value in writes:
            if key in self._tracked:
                found.setdefault(key, []).append(value)
        return found

    def _take_applied(self, tasks: Sequence[Task]) -> dict[str, _ByChannel]:
        applied = {task_id: found for task_id, found in self._loose.items() if found}
        for task in tasks:
            found = self._by_channel(task.writes)
            if found:
                applied[task.id] = found
        return applied

    def _compare(self, applied: Mapping[str, _ByChannel]) -> None:
        """Find the channels that cannot be rebuilt from what is stored on the checkpoint before."""
        writers: dict[str, int] = {}
        for task_id, found in applied.items():
            for key, values in found.items():
                writers[key] = writers.get(key, 0) + 1
                if not self._can_replay(task_id, key, values):
                    self._whole.add(key)
        if not self._ordered:
            self._whole.update(key for key, count in writers.items() if count > 1)
        for task_id, stored in self._stored.items():
            found = applied.get(task_id, {})
            self._whole.update(key for key, values in stored.items() if values and key not in found)

    def _can_replay(self, task_id: str, key: str, values: list[Any]) -> bool:
        """Tell whether what a task wrote to a channel is stored, or will be, and replaying it gives what it gave."""
        if self._shared or any(overwritten(value) is not MISSING for value in values):
            return False
        if key not in self._declared:
            if key not in self._allowed:
                return False
            settled = self._spec.appending[key].settled
            if settled is not None and not all(settled(value) for value in values):
                return False
        stored = self._stored.get(task_id, {})
        return _same(stored[key], values) if key in stored else self._at_end

    def _gather(self, state: StepState, tasks: Sequence[Task], applied: Mapping[str, _ByChannel]) -> None:
        """Keep the writes of a superstep that is not stored itself, for the checkpoint that the run started from."""
        paths = {task.id: task.path_text for task in tasks}
        step = max(state.step - 1, 0)
        for task_id, found in applied.items():
            stored = self._stored.get(task_id, {})
            writes = [(key, value) for key, values in found.items() if key not in stored for value in values]
            if not writes:
                continue
            path = paths.get(task_id, "")
            if self._first:
                self._rows.append(TaskWrites(f"{step:08d}{task_id[8:]}", path, writes))
            else:
                later = f"ffffffff-{step >> 16 & 0xFFFF:04x}-{step & 0xFFFF:04x}{task_id[18:]}"
                self._rows.append(TaskWrites(later, f"~~{step:010d}{path}", writes))

    # -- whole values -----------------------------------------------------------------------------------------

    def _count(self, state: StepState, written: set[str]) -> list[str]:
        """Count the superstep, and return the channels whose whole value is to be stored, sorted."""
        due: list[str] = []
        for key in self._tracked:
            updates, supersteps = self._counts.get(key, (0, 0))
            updates, supersteps = updates + (key in written), supersteps + 1
            self._counts[key] = (updates, supersteps)
            wanted = key in self._whole or self._is_due(state, key, updates, supersteps)
            if wanted and (key in state.versions or key in self._whole) and state.channels[key].is_available():
                due.append(key)
        return sorted(due)

    def _is_due(self, state: StepState, key: str, updates: int, supersteps: int) -> bool:
        if key in self._declared:
            channel: Any = self._spec.channels[key]
            return updates >= int(channel.snapshot_frequency) or supersteps >= self._bound
        if key not in self._allowed:
            return True
        value = _value_of(state, key)
        return not long_enough(value) or whole_is_due(value, updates, supersteps)

    def _bump(self, state: StepState, key: str) -> Any:
        """Give a channel a new version, without making it look changed to the nodes that have seen it.

        Savers store a value by its version, so without a new one the value would not be stored.
        """
        old = state.versions.get(key)
        new = state.versions[key] = state.newest = self._next_version(state.newest)
        bumps: dict[str, Any] = dict(state.seen.get(SNAPSHOT_BUMPS) or {})
        readers = self._spec.triggers.get(key, ())
        for node, mark in list(state.seen.items()):
            if node == SNAPSHOT_BUMPS or mark.get(key) != old or (old is None and node not in (INTERRUPT, *readers)):
                continue
            state.seen[node] = {**mark, key: new}
            if node in (INTERRUPT, INPUT):
                continue
            if bumps.get(f"{node}|{key}") != old:
                bumps[f"{node}:{key}"] = old
            bumps[f"{node}|{key}"] = new
        if bumps:
            state.seen[SNAPSHOT_BUMPS] = bumps
        return new

    def _moved_on(self, state: StepState, versions: ChannelVersions, snapshots: Sequence[str]) -> AnchorRows | None:
        """Stand on the new checkpoint."""
        # Real paths sort among those of the rows that are there already, so only one superstep may use them.
        self._first = self._first and not self._rows and not any(self._stored.values())
        self._stored, self._loose = {}, {}
        if self._at_end:
            self._versioned.update(key for key in self._tracked if key in versions)
            taken = frozenset(snapshots)
            return lambda: self._rows_without(taken)
        self._shared = False
        for key in snapshots:
            del self._counts[key]
        self._whole.clear()
        self._tracked.difference_update(key for key in snapshots if key not in self._declared)
        self._track(state, dict.fromkeys((*versions, *snapshots)))
        return None

    def _rows_without(self, snapshots: frozenset[str]) -> list[TaskWrites]:
        kept = ((row, [write for write in row.writes if write[0] not in snapshots]) for row in self._rows)
        return [TaskWrites(row.task_id, row.path, writes) for row, writes in kept if writes]


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _unwrapped(value: Any) -> Any:
    return value.value if isinstance(value, DeltaSnapshot) else value


def _value_of(state: StepState, key: str) -> Any:
    channel: Any = state.channels[key]
    return channel.value


def keeps_ancestors(saver: Any) -> bool:
    """Tell whether a saver keeps the writes of all ancestors of a checkpoint.

    One that does not say so (LangGraph's have no word for it) does if it offers their history itself.
    """
    said = getattr(saver, "keeps_ancestors", None)
    if isinstance(said, bool):
        return said
    for kind in type(saver).__mro__:
        if "aget_delta_channel_history" in vars(kind):
            return kind.__name__ != "BaseCheckpointSaver"
    return False
