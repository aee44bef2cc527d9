"""Rows out of values, and values out of rows.

Serialized in the caller, before anything is queued: what the caller changes later does not reach the database, and
what cannot be stored fails where it came from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

from langgraph_async.checkpoint.base import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    StepCommit,
    TaskWrites,
    get_checkpoint_metadata,
)
from langgraph_async.checkpoint.json_text import json_encoder
from langgraph_async.checkpoint.rows import (
    CHECKPOINT_SLOT,
    CheckpointKey,
    TypedBytes,
    check_storable,
    checked_checkpoint,
    checkpoint_of,
    config_of,
    dump_value,
    load_metadata,
    load_value,
    place_of,
    positioned,
    unreadable,
)
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import TASKS, Missing
from langgraph_async.errors import SerializationError
from langgraph_async.serde.base import SerializerProtocol

CheckpointRow: TypeAlias = tuple[str, str, str, str | None, str | None, bytes, bytes | None]
"""Thread, namespace, id, id of the parent, type tag, checkpoint, metadata."""
WriteRow: TypeAlias = tuple[str, str, str, str, str, int, str, str | None, bytes]
"""Thread, namespace, checkpoint id, task id, task path, position, channel, type tag, value."""
TaskKey: TypeAlias = tuple[str, str, str, str]
"""Thread, namespace, checkpoint id, task id."""

_encode = json_encoder(ascii_only=False, allow_nan=True, separators=(", ", ": "))


class DumpedTask(NamedTuple):
    """The writes of one task.

    Attributes:
        key: The task and its checkpoint.
        rows: In the order of their positions.
        overwrite: They replace what stands on their positions.
        replace: What was stored of the task before is forgotten.
    """

    key: TaskKey
    rows: Sequence[WriteRow]
    overwrite: bool
    replace: bool


class Dumped(NamedTuple):
    """One commit, ready to be stored as a whole."""

    thread_id: str
    checkpoint_ns: str
    expected_head: str | None | Missing
    tasks: Sequence[DumpedTask]
    checkpoint: CheckpointRow | None

    @property
    def config(self) -> RunnableConfig | None:
        """Config of the checkpoint, if there is one."""
        return None if self.checkpoint is None else config_of(*self.checkpoint[:3])


def dump_commit(serde: SerializerProtocol, config: RunnableConfig, commit: StepCommit) -> Dumped:
    """Serialize a commit.

    Raises:
        SerializationError: A value cannot be stored; the message names its channel.
    """
    thread_id, ns, parent_id = place_of(config)
    check_storable(thread_id, ns, parent_id, nul=True)
    tasks: list[DumpedTask] = []
    if commit.writes:
        key = (thread_id, ns, parent_id) if parent_id is not None else checkpoint_of(config)
        tasks = [_dump_task(serde, key, task) for task in commit.writes]
    row = None
    if commit.checkpoint is not None:
        row = (
            thread_id,
            ns,
            commit.checkpoint["id"],
            parent_id,
            *_dump_checkpoint(serde, commit.checkpoint, (thread_id, ns, commit.checkpoint["id"])),
            _dump_metadata(config, commit.metadata or {}, thread_id),
        )
    return Dumped(thread_id, ns, commit.expected_head, tasks, row)


def _dump_task(serde: SerializerProtocol, key: CheckpointKey, task: TaskWrites) -> DumpedTask:
    positions, overwrite = positioned(task.writes)
    label = f"{task.task_id} ({task.path})" if task.path else task.task_id
    rows: list[WriteRow] = []
    for idx, (channel, value) in positions.items():
        slot = ("write", task.task_id, idx)
        kind, data = dump_value(serde, value, channel=channel, key=key, slot=slot, task=label)
        rows.append((*key, task.task_id, task.path, idx, channel, kind, data))
    return DumpedTask((*key, task.task_id), rows, overwrite, task.replace)


def _dump_checkpoint(serde: SerializerProtocol, checkpoint: Checkpoint, key: CheckpointKey) -> TypedBytes:
    try:
        return dump_value(serde, checkpoint, channel="checkpoint", key=key, slot=CHECKPOINT_SLOT)
    except SerializationError:
        # All values are in one piece. One by one, the bad one raises an error that names it.
        for channel, value in checkpoint["channel_values"].items():
            dump_value(serde, value, channel=channel, key=key, slot=("value", ""))
        raise


def _dump_metadata(config: RunnableConfig, metadata: CheckpointMetadata, thread_id: str) -> bytes:
    merged = get_checkpoint_metadata(config, metadata)
    try:
        text = _encode(merged)
    except (TypeError, ValueError, RecursionError) as exc:
        key = next((k for k, v in merged.items() if not _is_json(v)), "metadata")
        raise SerializationError(
            f"Cannot store the metadata entry {key!r} on thread {thread_id!r}, so nothing of this step was stored: "
            f"metadata is kept as JSON, and {exc}",
            path=("metadata", key),
        ) from exc
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can escape it
        return json.dumps(merged).encode()


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def load_checkpoint(serde: SerializerProtocol, data: tuple[str | None, bytes], *, key: CheckpointKey) -> Checkpoint:
    """Return the checkpoint of a row, with the parts that old formats lack or kept elsewhere.

    Raises:
        SerializationError: It cannot be read; the message names the channel, when that is known, and the thread.
    """
    try:
        checkpoint: Any = load_value(
            serde, typed(data, "checkpoint", key), channel="checkpoint", key=key, slot=CHECKPOINT_SLOT
        )
    except SerializationError as exc:
        if exc.path[1:2] != ("channel_values",) or len(exc.path) < 3:
            raise
        raise SerializationError(
            f"Cannot read {exc.path[2]!r} on thread {key[0]!r}: {exc.__cause__}", path=exc.path[2:]
        ) from exc.__cause__
    checked_checkpoint(checkpoint, key=key)
    checkpoint.setdefault("channel_values", {})
    checkpoint.setdefault("updated_channels", None)
    sends = checkpoint.pop("pending_sends", None)
    if sends and checkpoint.get("v", 1) < 4:
        versions = checkpoint["channel_versions"]
        checkpoint["channel_values"][TASKS] = list(sends)
        versions[TASKS] = max(versions.values(), default=1)
    return checkpoint  # type: ignore[no-any-return]


def load_writes(serde: SerializerProtocol, rows: Iterable[Sequence[Any]], *, key: CheckpointKey) -> list[PendingWrite]:
    """Return the writes of rows of task id, channel, type tag, value and position.

    Raises:
        SerializationError: One cannot be read; the message names its channel.
    """
    return [
        (
            task,
            channel,
            load_value(serde, typed((kind, value), channel, key), channel=channel, key=key, slot=("write", task, idx)),
        )
        for task, channel, kind, value, idx in rows
    ]


def load_tuple(serde: SerializerProtocol, row: Sequence[Any], writes: Iterable[Sequence[Any]]) -> CheckpointTuple:
    """Return the checkpoint of a whole row together with those of its writes."""
    thread_id, ns, checkpoint_id, parent_id, kind, data, metadata = row
    key = (thread_id, ns, checkpoint_id)
    return CheckpointTuple(
        config=config_of(*key),
        checkpoint=load_checkpoint(serde, (kind, data), key=key),
        metadata=load_metadata(metadata, key=key),  # type: ignore[arg-type]
        parent_config=config_of(thread_id, ns, parent_id) if parent_id else None,
        pending_writes=load_writes(serde, writes, key=key),
    )


def typed(data: tuple[str | None, bytes | None], channel: Any, key: CheckpointKey) -> TypedBytes:
    """Return the tag and the bytes of a row, which may lack either.

    SQLite keeps any kind of value in any column.

    Raises:
        SerializationError: They, or what names the row, are of another kind.
    """
    kind, value = data
    for text in (*key, channel, kind or ""):
        if type(text) is not str:
            raise unreadable(str(channel), key, f"its row has {text!r} where a text belongs")
    if not isinstance(value, (bytes, NoneType)):
        raise unreadable(channel, key, f"its row holds {type(value).__name__} instead of bytes")
    return kind or "msgpack", value or b""


__all__ = [
    "CheckpointRow",
    "Dumped",
    "DumpedTask",
    "WriteRow",
    "dump_commit",
    "load_checkpoint",
    "load_tuple",
    "load_writes",
    "typed",
]
