"""What all savers do the same way: read coordinates, place writes, count versions, name the place of a bad value."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from langgraph_async.checkpoint.base import COUNTERS, WRITES_IDX_MAP
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import CHECKPOINT_ID, CHECKPOINT_NS, CONF, THREAD_ID
from langgraph_async.errors import (
    ConfigError,
    EncryptionError,
    MissingCoordinateError,
    SerializationError,
    ThreadConflictError,
)
from langgraph_async.ids import random_digits
from langgraph_async.serde.base import PlacedSerializer, RowPlace, SerializerProtocol

TypedBytes = tuple[str, bytes]
"""Type tag and bytes, as a serializer makes them."""
CheckpointKey = tuple[str, str, str]
"""Thread, namespace, checkpoint id."""
CHECKPOINT_SLOT = ("checkpoint",)
METADATA_SLOT = ("metadata",)
_METADATA_KINDS: Final[dict[str, Any]] = {"step": (int, float), "parents": dict, COUNTERS: dict}
_CHECKPOINT_KINDS: Final[dict[str, Any]] = {"id": str, "channel_versions": dict, "versions_seen": dict}


class Place(NamedTuple):
    """A checkpoint, or with None for its id the newest, of one namespace of one thread."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None


def place_of(config: RunnableConfig) -> Place:
    """Return the place that `config` names.

    Raises:
        MissingCoordinateError: It names no thread.
    """
    configurable = config.get(CONF) or {}
    thread_id = configurable.get(THREAD_ID)
    if thread_id is None:
        raise MissingCoordinateError(
            "The config names no thread: 'thread_id' is missing. "
            f"Pass config={{'configurable': {{'thread_id': '...'}}}}; got {dict(config)!r}.",
            name=THREAD_ID,
        )
    return Place(str(thread_id), configurable.get(CHECKPOINT_NS) or "", configurable.get(CHECKPOINT_ID) or None)


def checkpoint_of(config: RunnableConfig) -> tuple[str, str, str]:
    """Return thread, namespace and id of the checkpoint that `config` names.

    Raises:
        MissingCoordinateError: It names no thread or no checkpoint.
    """
    thread_id, ns, checkpoint_id = place_of(config)
    if checkpoint_id is None:
        raise MissingCoordinateError(
            f"Writes on thread {thread_id!r} belong to one checkpoint, but 'checkpoint_id' is missing. Pass the config "
            f"that aput() returned or that aget_tuple() found; got {dict(config)!r}.",
            name=CHECKPOINT_ID,
        )
    return thread_id, ns, checkpoint_id


def config_of(thread_id: str, checkpoint_ns: str, checkpoint_id: str) -> RunnableConfig:
    """Return a config that names one checkpoint."""
    return {CONF: {THREAD_ID: thread_id, CHECKPOINT_NS: checkpoint_ns, CHECKPOINT_ID: checkpoint_id}}


def next_version(current: str | float | None) -> str:
    """Return a version that sorts, as text, after `current`.

    A counter of 32 digits, a dot, and a random tail, by which two branches of a history never give the same version
    to different values. A number counts on from there.
    """
    if isinstance(current, str):
        count = int(current.partition(".")[0]) + 1
    else:
        count = 1 if current is None else int(current) + 1
    return f"{str(count).zfill(32)}.0.{random_digits()}"


def text_version(version: str | float) -> str:
    """Return a version that was stored as a number as text, which sorts among texts as the number did."""
    if isinstance(version, str):
        return version
    return f"{int(version):032}" + (f"{version % 1:.16f}"[1:] if isinstance(version, float) else "")


def positioned(writes: Iterable[tuple[str, Any]]) -> tuple[dict[int, tuple[str, Any]], bool]:
    """Return the writes by position, and whether they replace what is stored there.

    They do if all are on fixed positions. Of several on one fixed position the last counts.
    """
    rows: dict[int, tuple[str, Any]] = {}
    fixed = True
    for index, (channel, value) in enumerate(writes):
        position = WRITES_IDX_MAP.get(channel)
        if position is None:
            fixed = False
            position = index
        rows[position] = (channel, value)
    return rows, fixed


def dump_value(
    serde: SerializerProtocol, value: Any, *, channel: str, key: CheckpointKey, slot: tuple[Any, ...], task: str = ""
) -> TypedBytes:
    """Serialize the value of a channel, or what `task` wrote to it.

    Args:
        serde: The serializer.
        value: What is serialized.
        channel: The channel.
        key: The checkpoint.
        slot: What kind of row it is for, and what tells it from others of the checkpoint: see `RowPlace`.
        task: How a message calls the task.

    Raises:
        SerializationError: It cannot be stored; the message names channel, thread and task.
    """
    try:
        dumps_at = getattr(serde, "dumps_at", None)
        if dumps_at is None:
            return serde.dumps_typed(value)
        placed: TypedBytes = dumps_at(value, row_place(channel, key, slot))
        return placed
    except Exception as exc:
        what = f"what task {task} wrote to {channel!r}" if task else f"the value of {channel!r}"
        raise SerializationError(
            f"Cannot store {what} on thread {key[0]!r}, so nothing of this step was stored: {exc}",
            path=(channel, *getattr(exc, "path", ())),
        ) from exc


def load_value(
    serde: SerializerProtocol, data: TypedBytes, *, channel: str, key: CheckpointKey, slot: tuple[Any, ...]
) -> Any:
    """Return the value of a channel, or of a write to it; the arguments are those of `dump_value`.

    Raises:
        EncryptionError: The row was not written there by an encrypting serializer; the message names the row.
        SerializationError: It cannot be read; the message names channel and thread.
    """
    try:
        loads_at = getattr(serde, "loads_at", None)
        return serde.loads_typed(data) if loads_at is None else loads_at(data, row_place(channel, key, slot))
    except EncryptionError:
        raise
    except SerializationError as exc:
        raise SerializationError(
            f"Cannot read {channel!r} on thread {key[0]!r}: {exc}", path=(channel, *exc.path)
        ) from exc


def load_metadata(data: Any, *, key: CheckpointKey) -> dict[str, Any]:
    """Return the metadata of a row, which is kept as JSON; rows may lack it.

    Raises:
        SerializationError: It is no JSON, or what the engine needs of it has another form.
    """
    if not data:
        return {}
    try:
        found = json.loads(data)
    except (ValueError, TypeError, RecursionError) as exc:
        raise unreadable("metadata", key, f"it is no JSON: {exc}") from exc
    if not isinstance(found, dict):
        return {}
    for name, kind in _METADATA_KINDS.items():
        if found.get(name) is not None and not isinstance(found[name], kind):
            raise unreadable("metadata", key, f"its {name!r} is {found[name]!r}")
    for channel, pair in (found.get(COUNTERS) or {}).items():
        if type(pair) is not list or [type(count) for count in pair] != [int, int]:
            raise unreadable("metadata", key, f"its {COUNTERS!r} has {pair!r} for {channel!r}")
    return found


def checked_checkpoint(found: Any, *, key: CheckpointKey) -> dict[str, Any]:
    """Return what was read of a row, if it has the form of a checkpoint.

    Raises:
        SerializationError: It has not.
    """
    if type(found) is not dict:
        raise unreadable("checkpoint", key, f"its row holds {type(found).__name__}, not a checkpoint")
    for name, kind in _CHECKPOINT_KINDS.items():
        if not isinstance(found.get(name), kind):
            raise unreadable("checkpoint", key, f"its {name!r} is {found.get(name)!r}")
    return found


def unreadable(what: str, key: CheckpointKey, why: str) -> SerializationError:
    """Return the error for a row that was damaged, or that something else has written."""
    ns = f", namespace {key[1]!r}" if key[1] else ""
    return SerializationError(
        f"Cannot read {what!r} of checkpoint {key[2]!r} on thread {key[0]!r}{ns}: {why}. The row is damaged, or "
        "another program wrote it. Restore it, go on from another checkpoint, or delete the thread.",
        path=(what,),
    )


def row_place(channel: str, key: CheckpointKey, slot: tuple[Any, ...]) -> RowPlace:
    """Return the place of a row, for a serializer that asks for it."""
    return RowPlace(slot[0], key[0], key[1], channel, key[2], tuple(map(str, slot[1:])))


class Move(Protocol):
    """From what a row of one thread holds to what the same row of another holds."""

    def __call__(self, data: TypedBytes, channel: str, key: CheckpointKey, slot: tuple[Any, ...]) -> TypedBytes:
        """Return it; `key` is that of the row it comes from.

        Raises:
            EncryptionError: It was not stored there by an encrypting serializer.
        """
        ...


def mover(serde: SerializerProtocol, target: str) -> Move:
    """Return how rows of one thread become those of another: as they are, unless they are good for one place only."""
    binding = placed(serde)

    def move(data: TypedBytes, channel: str, key: CheckpointKey, slot: tuple[Any, ...]) -> TypedBytes:
        if binding is None:
            return data
        there = (target, key[1], key[2])
        return binding.moved(data, row_place(channel, key, slot), row_place(channel, there, slot))

    return move


def placed(serde: SerializerProtocol) -> PlacedSerializer | None:
    """Return the serializer if its bytes are good for one row only, else None."""
    return serde if hasattr(serde, "dumps_at") else None  # type: ignore[return-value]


def conflict(thread_id: str, checkpoint_ns: str, *, expected: str | None, found: str | None) -> ThreadConflictError:
    """Return the error for a commit that came too late."""
    where = f" (namespace {checkpoint_ns!r})" if checkpoint_ns else ""
    return ThreadConflictError(
        f"Another run changed thread {thread_id!r}{where} first: its newest checkpoint is {found or 'gone'}, this run "
        f"went on from {expected or 'an empty thread'}. Nothing of this step was stored. Run again on the present "
        "state, or let runs of a thread wait for each other with config={'multitask_strategy': 'enqueue', ...}.",
        thread_id=thread_id,
        expected=expected,
        found=found,
    )


def unsnapshotted(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return the delta channels whose value, as of this checkpoint's metadata, must be rebuilt from its ancestors."""
    return frozenset(metadata.get(COUNTERS) or ())


def checked_ids(ids: Sequence[str], what: str) -> Collection[str]:
    """Return `ids` as a set.

    Raises:
        TypeError: It is a single text, which would count as one id for each of its letters.
    """
    if isinstance(ids, (str, bytes)):
        raise TypeError(f"{what} must be a list of ids, got the single text {ids!r}. Pass [{ids!r}].")
    return frozenset(str(i) for i in ids)


def check_strategy(strategy: str) -> None:
    """Check the `strategy` of `aprune`.

    Raises:
        ValueError: It is unknown.
    """
    if strategy not in ("keep_latest", "delete"):
        raise ValueError(f"strategy must be 'keep_latest' or 'delete', got {strategy!r}.")


def check_storable(*ids: str | None, nul: bool) -> None:
    """Check ids before they get to a database, where they would fail others that are stored together with them.

    Args:
        ids: Of threads, namespaces, checkpoints or runs.
        nul: Whether the database's texts can hold NUL.

    Raises:
        ConfigError: The database cannot hold one of them.
    """
    for text in ids:
        if text is None or (text.isascii() and (nul or "\0" not in text)):
            continue
        try:
            text.encode()
        except UnicodeEncodeError:
            what = "half a surrogate pair"
        else:
            if nul or "\0" not in text:
                continue
            what = "a NUL character"
        raise ConfigError(
            f"The thread id, or another id in its config, {text!r}, has {what}, which the database cannot store. "
            "Choose ids without it."
        )
