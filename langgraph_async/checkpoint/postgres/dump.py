"""Turns commits into rows of LangGraph's tables, and rows into checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from langgraph_async.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    StepCommit,
    TaskWrites,
    get_serializable_checkpoint_metadata,
)
from langgraph_async.checkpoint.postgres.faithful import encode, json_text, jsonb_keeps
from langgraph_async.checkpoint.rows import (
    CheckpointKey,
    check_storable,
    checked_checkpoint,
    checkpoint_of,
    config_of,
    dump_value,
    load_metadata,
    load_value,
    place_of,
    placed,
    positioned,
    row_place,
)
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import MISSING, TASKS, Missing
from langgraph_async.errors import SerializationError
from langgraph_async.serde.base import SerializerProtocol, plaintext_refused
from langgraph_async.types import DeltaSnapshot

BlobRow: TypeAlias = tuple[str, str, str, bytes]
"""Channel, version, type tag, value."""
WriteRow: TypeAlias = tuple[str, str, str, bytes]
"""Position as text, channel, type tag, value."""


class DumpedTask(NamedTuple):
    """The writes of one task.

    Attributes:
        checkpoint_id: The checkpoint that they belong to.
        task_id: The task.
        path: Its path.
        rows: In the order of their positions.
        overwrite: They replace what stands on their positions.
        replace: They replace whatever was stored of the task.
    """

    checkpoint_id: str
    task_id: str
    path: str
    rows: Sequence[WriteRow]
    overwrite: bool
    replace: bool


class DumpedCheckpoint(NamedTuple):
    """A row of `checkpoints`."""

    checkpoint_id: str
    parent_id: str | None
    checkpoint: str
    metadata: str


class Dumped(NamedTuple):
    """One commit, ready to be stored as a whole."""

    thread_id: str
    checkpoint_ns: str
    expected_head: str | None | Missing
    tasks: Sequence[DumpedTask] = ()
    checkpoint: DumpedCheckpoint | None = None
    blobs: Sequence[BlobRow] = ()

    @property
    def place(self) -> tuple[str, str]:
        """Thread and namespace."""
        return self.thread_id, self.checkpoint_ns

    @property
    def config(self) -> RunnableConfig | None:
        """Config of the checkpoint, if there is one."""
        if self.checkpoint is None:
            return None
        return config_of(self.thread_id, self.checkpoint_ns, self.checkpoint.checkpoint_id)

    def keys(self) -> set[tuple[str, ...]]:
        """Return what distinguishes its rows from those of other commits in the same place."""
        keys: set[tuple[str, ...]] = {(task.checkpoint_id, task.task_id) for task in self.tasks}
        if self.checkpoint is not None:
            keys.add((self.checkpoint.checkpoint_id,))
        return keys


def dump_commit(serde: SerializerProtocol, config: RunnableConfig, commit: StepCommit) -> Dumped:
    """Serialize a commit.

    Raises:
        SerializationError: A value cannot be stored; the message names its channel.
    """
    thread_id, ns, parent_id = place_of(config)
    check_storable(thread_id, ns, parent_id, nul=False)
    tasks: list[DumpedTask] = []
    if commit.writes:
        key = checkpoint_of(config)
        tasks = _apart([_dump_task(serde, key, task) for task in commit.writes])
    if commit.checkpoint is None:
        return Dumped(thread_id, ns, commit.expected_head, tasks)
    document, blobs = _dump_checkpoint(serde, commit.checkpoint, commit.new_versions, (thread_id, ns))
    metadata = _dump_metadata(config, commit.metadata or {}, thread_id)
    row = DumpedCheckpoint(commit.checkpoint["id"], parent_id, document, metadata)
    return Dumped(thread_id, ns, commit.expected_head, tasks, row, blobs)


def _apart(tasks: Sequence[DumpedTask]) -> list[DumpedTask]:
    """Return the same writes with no position of a task in them twice: one statement stores each row once.

    Writes of one task count as stored one after the other: those on fixed positions alone replace what came before
    on these, others leave it as it is, and `replace` forgets all that came before.
    """
    if len({task.task_id for task in tasks}) == len(tasks):
        return list(tasks)
    found: list[DumpedTask] = []
    for task in tasks:
        same = [each for each in found if each.task_id == task.task_id]
        if not same:
            found.append(task)
            continue
        found = [each for each in found if each.task_id != task.task_id]
        if task.replace:
            found.append(task)
            continue
        rows = task.rows
        if task.overwrite:
            own = {row[0] for row in rows}
            same = [each._replace(rows=[row for row in each.rows if row[0] not in own]) for each in same]
        else:
            taken = {row[0] for each in same for row in each.rows}
            rows = [row for row in rows if row[0] not in taken]
        if same[0].replace:
            found.append(same[0]._replace(rows=[*(row for each in same for row in each.rows), *rows]))
        else:
            found += [*same, task._replace(rows=rows)]
    return found


def _dump_task(serde: SerializerProtocol, key: CheckpointKey, task: TaskWrites) -> DumpedTask:
    positions, overwrite = positioned(task.writes)
    label = f"{task.task_id} ({task.path})" if task.path else task.task_id
    rows = [
        (
            str(idx),
            channel,
            *dump_value(serde, value, channel=channel, key=key, slot=("write", task.task_id, idx), task=label),
        )
        for idx, (channel, value) in positions.items()
    ]
    return DumpedTask(key[2], task.task_id, task.path, rows, overwrite, task.replace)


def _dump_checkpoint(
    serde: SerializerProtocol,
    checkpoint: Checkpoint,
    new_versions: ChannelVersions | None,
    place: tuple[str, str],
) -> tuple[str, list[BlobRow]]:
    key = (*place, checkpoint["id"])
    binding = placed(serde)
    inline: dict[str, Any] = {}
    blobs: list[BlobRow] = []
    versions = checkpoint["channel_versions"]
    changed = versions if new_versions is None else new_versions
    for channel, value in checkpoint["channel_values"].items():
        if binding is None and jsonb_keeps(value):
            inline[channel] = value
            continue
        if binding is None and isinstance(value, DeltaSnapshot):
            inline[channel] = True  # LangGraph finds snapshots by this
        version = changed.get(channel, MISSING)
        if version is MISSING and (binding is None or binding.allow_plaintext) and _may_be_inside(value):
            # Nobody tells whether an older checkpoint of LangGraph had it inside. Storing it twice does nothing.
            version = versions.get(channel, MISSING)
        if version is not MISSING:
            typed = dump_value(serde, value, channel=channel, key=key, slot=("value", str(version)))
            blobs.append((channel, str(version), *typed))
    document = {**checkpoint, "channel_values": inline}
    try:
        return encode(document), blobs
    except (TypeError, ValueError, RecursionError) as exc:
        raise SerializationError(
            f"Cannot store the versions of a checkpoint on thread {key[0]!r} as JSON, so nothing of this step was "
            f"stored: {exc}",
            path=("checkpoint",),
        ) from exc


def _may_be_inside(value: Any) -> bool:
    """Tell whether LangGraph, or this saver without encryption, may keep the value inside the document."""
    return value is None or isinstance(value, (str, int, float))


def _dump_metadata(config: RunnableConfig, metadata: CheckpointMetadata, thread_id: str) -> str:
    merged = get_serializable_checkpoint_metadata(config, metadata)
    try:
        return json_text(merged)
    except (TypeError, ValueError, RecursionError) as exc:
        key = next((k for k, v in merged.items() if not _is_json(v)), "metadata")
        raise SerializationError(
            f"Cannot store the metadata entry {key!r} on thread {thread_id!r}, so nothing of this step was stored: "
            f"metadata is kept as JSON, and {exc}",
            path=("metadata", key),
        ) from exc


def _is_json(value: Any) -> bool:
    try:
        json_text(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


# -- reading ------------------------------------------------------------------------------------------------------


class CheckpointRow(NamedTuple):
    """A checkpoint with its values and writes, as one row; lists are None where they are empty.

    Attributes:
        thread_id: Its thread.
        checkpoint_ns: Its namespace.
        checkpoint_id: Its id.
        parent_id: Id of the parent.
        checkpoint: The document.
        metadata: The metadata, as JSON.
        channels: Names of stored values.
        kinds: Their type tags.
        values: Their bytes.
        tasks: Tasks of the writes, in their order.
        targets: The channels they wrote to.
        write_kinds: Type tags of what they wrote.
        written: What they wrote.
        positions: Their positions, as texts: the driver would look up each time how to read arrays of numbers.
        versions: Versions of the stored values.
    """

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    checkpoint: str
    metadata: str
    channels: Sequence[str] | None
    kinds: Sequence[str] | None
    values: Sequence[bytes | None] | None
    tasks: Sequence[str] | None
    targets: Sequence[str] | None
    write_kinds: Sequence[str | None] | None
    written: Sequence[bytes] | None
    positions: Sequence[str] | None
    versions: Sequence[str] | None

    @property
    def key(self) -> tuple[str, str, str]:
        """Thread, namespace and id."""
        return self.thread_id, self.checkpoint_ns, self.checkpoint_id


def load_tuple(serde: SerializerProtocol, row: CheckpointRow, sends: Sequence[Any] = ()) -> CheckpointTuple:
    """Return the checkpoint of a row.

    Args:
        serde: The serializer.
        row: The row.
        sends: For a checkpoint of an old format, the sends that its parent's tasks left.

    Raises:
        SerializationError: A value cannot be read; the message names its channel.
    """
    thread_id, ns = row.thread_id, row.checkpoint_ns
    stored = zip(row.channels or (), row.versions or (), row.kinds or (), row.values or (), strict=True)
    written = (row.tasks, row.targets, row.write_kinds, row.written, row.positions)
    writes = zip(*(column or () for column in written), strict=True)
    return CheckpointTuple(
        config=config_of(*row.key),
        checkpoint=_load_checkpoint(serde, row.checkpoint, stored, sends, row.key),
        metadata=load_metadata(row.metadata, key=row.key),  # type: ignore[arg-type]
        parent_config=config_of(thread_id, ns, row.parent_id) if row.parent_id else None,
        pending_writes=load_writes(serde, writes, key=row.key),
    )


def _load_checkpoint(
    serde: SerializerProtocol,
    text: str,
    stored: Iterable[tuple[str, str, str, bytes | None]],
    sends: Sequence[Any],
    key: CheckpointKey,
) -> Checkpoint:
    checkpoint: Any = checked_checkpoint(json.loads(text), key=key)
    values = checkpoint.get("channel_values") or {}
    inside = set(values)
    for channel, version, kind, value in stored:
        if kind != "empty":
            typed = (kind, value or b"")
            values[channel] = load_value(serde, typed, channel=channel, key=key, slot=("value", version))
            inside.discard(channel)
    for channel in inside:
        check_inside(serde, channel, key, checkpoint["channel_versions"].get(channel))
    checkpoint["channel_values"] = values
    checkpoint.setdefault("updated_channels", None)
    checkpoint.pop("pending_sends", None)
    if sends:
        versions = checkpoint["channel_versions"]
        values[TASKS] = list(sends)
        versions[TASKS] = max(versions.values(), default=1)
    return checkpoint  # type: ignore[no-any-return]


def check_inside(serde: SerializerProtocol, channel: str, key: CheckpointKey, version: Any) -> None:
    """Check that a value may lie inside the document of a checkpoint, where it is not encrypted.

    Raises:
        EncryptionError: The serializer encrypts, and does not let in what it did not write.
    """
    binding = placed(serde)
    if binding is not None and not binding.allow_plaintext:
        raise plaintext_refused(row_place(channel, key, ("value", version)))


def waits_for_sends(row: CheckpointRow) -> bool:
    """Tell whether the checkpoint has an old format, in which sends stand among the writes on the parent."""
    if row.parent_id is None or '"v": 4' in row.checkpoint:
        return False
    version: int = checked_checkpoint(json.loads(row.checkpoint), key=row.key).get("v", 1)
    return version < 4


def load_writes(
    serde: SerializerProtocol,
    rows: Iterable[tuple[str, str, str | None, bytes | None, int | str]],
    *,
    key: CheckpointKey,
) -> list[PendingWrite]:
    """Return the writes of rows of task id, channel, type tag, value and position.

    Raises:
        SerializationError: One cannot be read; the message names its channel.
    """
    return [
        (
            task,
            channel,
            load_value(serde, (kind or "msgpack", value or b""), channel=channel, key=key, slot=("write", task, idx)),
        )
        for task, channel, kind, value, idx in rows
    ]


def matches(metadata: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Tell whether metadata has all entries of the filter."""
    return all(metadata.get(key) == value for key, value in filter.items())


__all__ = [
    "BlobRow",
    "CheckpointRow",
    "Dumped",
    "DumpedCheckpoint",
    "DumpedTask",
    "check_inside",
    "dump_commit",
    "load_tuple",
    "load_writes",
    "matches",
    "waits_for_sends",
]
