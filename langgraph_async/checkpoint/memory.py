"""A saver that keeps everything in this process: for tests, for notebooks, for threads that need not outlive it.

Values are stored as the bytes a database would hold, so that what works here works there: nothing is shared with the
caller, and what cannot be stored fails here, too. Nothing in this file awaits: every method takes effect at once.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeAlias

from langgraph_async.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    StepCommit,
    TaskWrites,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph_async.checkpoint.peek import channel_versions
from langgraph_async.checkpoint.rows import (
    CHECKPOINT_SLOT,
    METADATA_SLOT,
    CheckpointKey,
    Move,
    Place,
    TypedBytes,
    check_strategy,
    checked_ids,
    checkpoint_of,
    config_of,
    conflict,
    dump_value,
    load_value,
    mover,
    next_version,
    place_of,
    positioned,
    unsnapshotted,
)
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import CHECKPOINT_NS, CONF, MISSING
from langgraph_async.errors import ConfigError
from langgraph_async.serde.base import SerializerProtocol

Record: TypeAlias = tuple[TypedBytes, TypedBytes, str | None]
"""Checkpoint without its values, metadata, id of the parent."""
WriteRow: TypeAlias = tuple[str, str, TypedBytes, str]
"""Task id, channel, value, task path."""
WritesKey: TypeAlias = CheckpointKey
"""Thread, namespace, checkpoint id."""
BlobKey: TypeAlias = tuple[str, str, str, Any]
"""Thread, namespace, channel, version."""

_EMPTY: TypedBytes = ("empty", b"")


@dataclass(frozen=True, slots=True)
class _DumpedWrites:
    """One task's writes, serialized and ready to be stored."""

    key: WritesKey
    task_id: str
    rows: dict[int, WriteRow]
    overwrite: bool
    replace: bool = False


@dataclass(frozen=True, slots=True)
class _DumpedCheckpoint:
    """One checkpoint, serialized and ready to be stored."""

    key: WritesKey
    record: Record
    blobs: dict[BlobKey, TypedBytes]


class InMemorySaver(BaseCheckpointSaver[str]):
    """Keeps checkpoints in the memory of this process.

    Usable as it is, or as a context manager for symmetry with the database savers; leaving the context keeps the data.

    Attributes:
        storage: Thread -> namespace -> checkpoint id -> (checkpoint, metadata, parent id); ids in ascending order.
        writes: (thread, namespace, checkpoint id) -> (task id, position) -> (task id, channel, value, task path).
        blobs: (thread, namespace, channel, version) -> value; type tag ``"empty"`` where the channel had none.
    """

    immediate: ClassVar[bool] = True
    can_commit: ClassVar[bool] = True
    keeps_ancestors: ClassVar[bool] = True

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self.storage: dict[str, dict[str, dict[str, Record]]] = {}
        self.writes: dict[WritesKey, dict[tuple[str, int], WriteRow]] = {}
        self.blobs: dict[BlobKey, TypedBytes] = {}
        # The keys of each thread, so that deleting one does not search all of them.
        self._write_keys: dict[str, dict[WritesKey, None]] = {}
        self._blob_keys: dict[str, dict[BlobKey, None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    def get_next_version(self, current: str | None, channel: None = None) -> str:  # noqa: ARG002
        """Return a version that sorts, as text, after `current`; integers are counted on."""
        return next_version(current)

    # -- reading --------------------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the named checkpoint, or the newest of the namespace; None when there is none."""
        place = place_of(config)
        checkpoint_id = place.checkpoint_id or self._head(place)
        if checkpoint_id is None or checkpoint_id not in self._records(place):
            return None
        return self._load(place.thread_id, place.checkpoint_ns, checkpoint_id)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first; each is decoded when it is its turn."""
        bound = get_checkpoint_id(before) if before else None
        left = float("inf") if limit is None else limit
        for thread_id, ns, checkpoint_id in self._newest_first(config):
            if left <= 0:
                return
            record = self.storage.get(thread_id, {}).get(ns, {}).get(checkpoint_id)
            # The consumer may have deleted it since the last turn.
            if record is None or (bound is not None and checkpoint_id >= bound):
                continue
            if filter and not _matches(self._metadata((thread_id, ns, checkpoint_id), record), filter):
                continue
            left -= 1
            yield self._load(thread_id, ns, checkpoint_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return, for each channel, the nearest stored value above the named checkpoint and the writes after it."""
        place = place_of(config)
        newest_first: dict[str, list[list[PendingWrite]]] = {name: [] for name in channels}
        seeds: dict[str, Any] = {}
        wanted = set(channels)
        oldest = start = place.checkpoint_id or self._head(place)
        for ancestor in self._ancestors(place, start):
            if not wanted:
                break
            oldest = ancestor
            key = (place.thread_id, place.checkpoint_ns, ancestor)
            for name, writes in _by_channel(self._load_writes(key, wanted)).items():
                newest_first[name].append(writes)
            for name, (version, blob) in self._stored(place, ancestor, wanted).items():
                seeds[name] = load_value(self.serde, blob, channel=name, key=key, slot=("value", version))
                wanted.discard(name)
        found: dict[str, DeltaChannelHistory] = {}
        for name, parts in newest_first.items():
            found[name] = {"writes": [write for part in reversed(parts) for write in part]}
            if name in seeds:
                found[name]["seed"] = seeds[name]
        if wanted and oldest is not None:
            for name in wanted & self._lost_before(place, oldest):
                found[name]["cut"] = True
        return found

    def _lost_before(self, place: Place, oldest: str) -> set[str]:
        """Return the channels that had a value before the oldest checkpoint that is left."""
        record = self._records(place).get(oldest)
        if record is None:
            return set()
        versions = set(self._versions(place, oldest))
        if record[2] is not None:
            return versions
        return versions & unsnapshotted(self._metadata((place.thread_id, place.checkpoint_ns, oldest), record))

    def _records(self, place: Place) -> dict[str, Record]:
        return self.storage.get(place.thread_id, {}).get(place.checkpoint_ns, {})

    def _head(self, place: Place) -> str | None:
        return next(reversed(self._records(place)), None)

    def _newest_first(self, config: RunnableConfig | None) -> Iterator[WritesKey]:
        threads, ns, only = list(self.storage), None, None
        if config is not None:
            thread_id, named_ns, only = place_of(config)
            threads = [thread_id]
            ns = None if config.get(CONF, {}).get(CHECKPOINT_NS) is None else named_ns
        columns: list[list[WritesKey]] = []
        for thread in threads:
            for name, records in self.storage.get(thread, {}).items():
                if ns is None or name == ns:
                    ids: Iterable[str] = reversed(records) if only is None else (i for i in (only,) if i in records)
                    columns.append([(thread, name, i) for i in ids])
        return heapq.merge(*columns, key=lambda key: key[2], reverse=True)

    def _load(self, thread_id: str, ns: str, checkpoint_id: str) -> CheckpointTuple:
        key = (thread_id, ns, checkpoint_id)
        record = self.storage[thread_id][ns][checkpoint_id]
        stored, _, parent_id = record
        checkpoint = load_value(self.serde, stored, channel="checkpoint", key=key, slot=CHECKPOINT_SLOT)
        blobs = self._stored_values(thread_id, ns, checkpoint["channel_versions"].items())
        checkpoint["channel_values"] = {
            name: load_value(self.serde, blob, channel=name, key=key, slot=("value", version))
            for name, version, blob in blobs
        }
        return CheckpointTuple(
            config=config_of(thread_id, ns, checkpoint_id),
            checkpoint=checkpoint,
            metadata=self._metadata(key, record),
            parent_config=config_of(thread_id, ns, parent_id) if parent_id else None,
            pending_writes=self._load_writes(key),
        )

    def _metadata(self, key: CheckpointKey, record: Record) -> CheckpointMetadata:
        found: CheckpointMetadata = load_value(self.serde, record[1], channel="metadata", key=key, slot=METADATA_SLOT)
        return found

    def _load_writes(self, key: WritesKey, channels: set[str] | None = None) -> list[PendingWrite]:
        rows = self.writes.get(key)
        if not rows:
            return []
        ordered = sorted((path, task, idx) for (task, idx), (_, _, _, path) in rows.items())
        picked = ((idx, rows[task, idx]) for _, task, idx in ordered)
        return [
            (task, channel, load_value(self.serde, value, channel=channel, key=key, slot=("write", task, idx)))
            for idx, (task, channel, value, _) in picked
            if channels is None or channel in channels
        ]

    def _stored_values(
        self, thread_id: str, ns: str, versions: Iterable[tuple[str, Any]]
    ) -> Iterator[tuple[str, Any, TypedBytes]]:
        for channel, version in versions:
            blob = self.blobs.get((thread_id, ns, channel, version), _EMPTY)
            if blob[0] != "empty":
                yield channel, version, blob

    def _versions(self, place: Place, checkpoint_id: str) -> ChannelVersions:
        stored = self._records(place)[checkpoint_id][0]
        versions: ChannelVersions | None = channel_versions(stored)
        if versions is not None:
            return versions
        key = (place.thread_id, place.checkpoint_ns, checkpoint_id)
        checkpoint: Checkpoint = load_value(self.serde, stored, channel="checkpoint", key=key, slot=CHECKPOINT_SLOT)
        return checkpoint["channel_versions"]

    def _stored(self, place: Place, checkpoint_id: str, channels: Iterable[str]) -> dict[str, tuple[Any, TypedBytes]]:
        """Return versions and stored values that the checkpoint has for some of `channels`."""
        versions = self._versions(place, checkpoint_id)
        wanted = [(name, versions[name]) for name in channels if name in versions]
        found = self._stored_values(place.thread_id, place.checkpoint_ns, wanted)
        return {name: (version, blob) for name, version, blob in found}

    def _ancestors(self, place: Place, checkpoint_id: str | None) -> Iterator[str]:
        """Yield the stored ancestors of a checkpoint, nearest first, without itself."""
        records = self._records(place)
        visited = {checkpoint_id}
        while checkpoint_id is not None and checkpoint_id in records:
            checkpoint_id = records[checkpoint_id][2]
            if checkpoint_id in visited or checkpoint_id not in records:
                return
            visited.add(checkpoint_id)
            yield checkpoint_id

    # -- writing: serialize everything, then store everything -----------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as a child of the one that `config` names, and return its own config."""
        dumped = self._dump_checkpoint(config, checkpoint, metadata, new_versions)
        self._store_checkpoint(dumped)
        return config_of(*dumped.key)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store writes of a task on the checkpoint that `config` names."""
        self._store_writes(self._dump_writes(checkpoint_of(config), TaskWrites(task_id, task_path, writes)))

    async def acommit(self, config: RunnableConfig, commit: StepCommit) -> RunnableConfig:
        """Store `commit` at once and return the config of its checkpoint (or `config` without one)."""
        place = place_of(config)
        if commit.expected_head is not MISSING:
            head = self._head(place)
            if head != commit.expected_head:
                raise conflict(place.thread_id, place.checkpoint_ns, expected=commit.expected_head, found=head)
        key = checkpoint_of(config) if commit.writes else None
        writes = [self._dump_writes(key, task) for task in commit.writes] if key else []
        dumped = None
        if commit.checkpoint is not None:
            versions = commit.new_versions
            if versions is None:
                versions = commit.checkpoint["channel_versions"]
            dumped = self._dump_checkpoint(config, commit.checkpoint, commit.metadata or {}, versions)
        for task in writes:
            self._store_writes(task)
        if dumped is None:
            return config
        self._store_checkpoint(dumped)
        return config_of(*dumped.key)

    def _dump_checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> _DumpedCheckpoint:
        thread_id, ns, parent_id = place_of(config)
        key = (thread_id, ns, checkpoint["id"])
        values = checkpoint["channel_values"]
        blobs: dict[BlobKey, TypedBytes] = {}
        for channel, version in new_versions.items():
            value = values.get(channel, MISSING)
            blobs[thread_id, ns, channel, version] = (
                _EMPTY
                if value is MISSING
                else dump_value(self.serde, value, channel=channel, key=key, slot=("value", version))
            )
        rest = {name: part for name, part in checkpoint.items() if name != "channel_values"}
        merged = get_checkpoint_metadata(config, metadata)
        record: Record = (
            dump_value(self.serde, rest, channel="checkpoint", key=key, slot=CHECKPOINT_SLOT),
            dump_value(self.serde, merged, channel="metadata", key=key, slot=METADATA_SLOT),
            parent_id,
        )
        return _DumpedCheckpoint(key, record, blobs)

    def _store_checkpoint(self, dumped: _DumpedCheckpoint) -> None:
        thread_id, ns, checkpoint_id = dumped.key
        self.blobs.update(dumped.blobs)
        self._blob_keys.setdefault(thread_id, {}).update(dict.fromkeys(dumped.blobs))
        namespaces = self.storage.setdefault(thread_id, {})
        records = namespaces.setdefault(ns, {})
        newest = next(reversed(records), "")
        late = checkpoint_id < newest and checkpoint_id not in records
        records[checkpoint_id] = dumped.record
        if late:
            namespaces[ns] = dict(sorted(records.items()))

    def _dump_writes(self, key: WritesKey, task: TaskWrites) -> _DumpedWrites:
        positions, overwrite = positioned(task.writes)
        label = f"{task.task_id} ({task.path})" if task.path else task.task_id
        rows: dict[int, WriteRow] = {}
        for idx, (channel, value) in positions.items():
            slot = ("write", task.task_id, idx)
            typed = dump_value(self.serde, value, channel=channel, key=key, slot=slot, task=label)
            rows[idx] = (task.task_id, channel, typed, task.path)
        return _DumpedWrites(key, task.task_id, rows, overwrite, task.replace)

    def _store_writes(self, dumped: _DumpedWrites) -> None:
        stored = self.writes.get(dumped.key, {})
        if dumped.replace:
            stored = {at: row for at, row in stored.items() if at[0] != dumped.task_id}
        for idx, row in dumped.rows.items():
            at = (dumped.task_id, idx)
            if dumped.overwrite or at not in stored:
                stored[at] = row
        if stored:
            self.writes[dumped.key] = stored
            self._write_keys.setdefault(dumped.key[0], {})[dumped.key] = None
        else:
            self._forget_writes(dumped.key)

    # -- whole threads --------------------------------------------------------------------------------------

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread, and nothing of any other."""
        thread_id = str(thread_id)
        self.storage.pop(thread_id, None)
        for writes_key in self._write_keys.pop(thread_id, ()):
            self.writes.pop(writes_key, None)
        for blob_key in self._blob_keys.pop(thread_id, ()):
            self.blobs.pop(blob_key, None)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, except those that delta channels of surviving ones need."""
        runs = checked_ids(run_ids, "run_ids")
        if not runs:
            return

        def kept(place: Place, records: dict[str, Record]) -> set[str]:
            keys = {i: (place.thread_id, place.checkpoint_ns, i) for i in records}
            surviving = {i for i, record in records.items() if self._run_id(keys[i], record) not in runs}
            if len(surviving) == len(records):
                return surviving
            return surviving.union(*(self._needed(place, i) for i in surviving if records[i][2] not in surviving))

        for thread_id in list(self.storage):
            self._cut(thread_id, kept)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all namespaces, checkpoints and writes of a thread; an unknown source copies nothing."""
        source, target = str(source_thread_id), str(target_thread_id)
        if source == target or source not in self.storage:
            return
        if target in self.storage:
            raise ConfigError(
                f"Cannot copy thread {source!r} to {target!r}: it has checkpoints already. "
                f"Choose another id, or delete it first with adelete_thread({target!r})."
            )
        move = mover(self.serde, target)
        # Everything first, and only then anything: a row that cannot be read leaves no half of a copy.
        storage = {
            ns: {i: self._moved_record(move, (source, ns, i), record) for i, record in records.items()}
            for ns, records in self.storage[source].items()
        }
        writes = {
            (target, *key[1:]): {
                at: (task, channel, move(value, channel, key, ("write", *at)), path)
                for at, (task, channel, value, path) in self.writes[key].items()
            }
            for key in self._write_keys.get(source, ())
        }
        blobs = {
            (target, *key[1:]): _EMPTY
            if self.blobs[key] == _EMPTY
            else move(self.blobs[key], key[2], (source, key[1], ""), ("value", key[3]))
            for key in self._blob_keys.get(source, ())
        }
        self.storage[target] = storage
        self.writes.update(writes)
        self.blobs.update(blobs)
        self._write_keys.setdefault(target, {}).update(dict.fromkeys(writes))
        self._blob_keys.setdefault(target, {}).update(dict.fromkeys(blobs))

    @staticmethod
    def _moved_record(move: Move, key: CheckpointKey, record: Record) -> Record:
        checkpoint, metadata, parent_id = record
        return (
            move(checkpoint, "checkpoint", key, CHECKPOINT_SLOT),
            move(metadata, "metadata", key, METADATA_SLOT),
            parent_id,
        )

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: Literal["keep_latest", "delete"] = "keep_latest"
    ) -> None:
        """Keep only the newest checkpoint of each namespace of these threads, or nothing at all."""
        check_strategy(strategy)
        for thread_id in checked_ids(thread_ids, "thread_ids"):
            if strategy == "delete":
                await self.adelete_thread(thread_id)
            else:
                self._cut(thread_id, self._head_and_needed)

    def _head_and_needed(self, place: Place, records: dict[str, Record]) -> set[str]:
        head = next(reversed(records))
        return {head} | self._needed(place, head)

    def _run_id(self, key: CheckpointKey, record: Record) -> str | None:
        run_id = self._metadata(key, record).get("run_id")
        return None if run_id is None else str(run_id)

    def _needed(self, place: Place, checkpoint_id: str) -> set[str]:
        """Return the ancestors without which the checkpoint's delta channels cannot be rebuilt."""
        key = (place.thread_id, place.checkpoint_ns, checkpoint_id)
        wanted = set(unsnapshotted(self._metadata(key, self._records(place)[checkpoint_id])))
        wanted -= self._stored(place, checkpoint_id, wanted).keys()
        needed: set[str] = set()
        for ancestor in self._ancestors(place, checkpoint_id):
            if not wanted:
                break
            needed.add(ancestor)
            wanted -= self._stored(place, ancestor, wanted).keys()
        return needed

    def _cut(self, thread_id: str, keep: Callable[[Place, dict[str, Record]], set[str]]) -> None:
        """Remove from each namespace the checkpoints that `keep` does not name, with their writes and values."""
        namespaces = self.storage.get(thread_id, {})
        for ns, records in list(namespaces.items()):
            place = Place(thread_id, ns, None)
            kept = keep(place, records)
            if len(kept) == len(records):
                continue
            for gone in records.keys() - kept:
                self._forget_writes((thread_id, ns, gone))
            namespaces[ns] = {
                i: (record[0], record[1], record[2] if record[2] in kept else None)
                for i, record in records.items()
                if i in kept
            }
            if not kept:
                del namespaces[ns]
            self._sweep_blobs(place)
        if not namespaces:
            self.storage.pop(thread_id, None)

    def _sweep_blobs(self, place: Place) -> None:
        """Remove the values of a namespace that no checkpoint names any more."""
        live = {pair for i in self._records(place) for pair in self._versions(place, i).items()}
        keys = self._blob_keys.get(place.thread_id, {})
        for key in [key for key in keys if key[1] == place.checkpoint_ns and (key[2], key[3]) not in live]:
            del keys[key]
            self.blobs.pop(key, None)

    def _forget_writes(self, key: WritesKey) -> None:
        self.writes.pop(key, None)
        self._write_keys.get(key[0], {}).pop(key, None)


def _matches(metadata: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    return all(metadata.get(key) == value for key, value in filter.items())


def _by_channel(writes: Iterable[PendingWrite]) -> dict[str, list[PendingWrite]]:
    grouped: dict[str, list[PendingWrite]] = {}
    for write in writes:
        grouped.setdefault(write[1], []).append(write)
    return grouped


MemorySaver = InMemorySaver

__all__ = ["InMemorySaver", "MemorySaver"]
