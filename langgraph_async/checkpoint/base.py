"""The saver port: what a checkpoint is, and what the engine expects of whatever stores it."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, Protocol, Self, TypeAlias

from typing_extensions import TypedDict, TypeVar

from langgraph_async.config import RunnableConfig
from langgraph_async.constants import CONF, ERROR, INTERRUPT, MISSING, RESUME, SCHEDULED, Missing
from langgraph_async.errors import EmptyChannelError
from langgraph_async.ids import checkpoint_id, time_text
from langgraph_async.serde.base import SerializerProtocol
from langgraph_async.serde.msgpack import JsonPlusSerializer

V = TypeVar("V", bound="int | float | str", default=Any)

ChannelVersions: TypeAlias = dict[str, Any]
PendingWrite: TypeAlias = tuple[str, str, Any]
"""Task id, channel, value."""

LATEST_VERSION: Final = 2
"""Format version of checkpoints that are made by hand; the engine writes later ones."""

WRITES_IDX_MAP: dict[str, int] = {ERROR: -1, SCHEDULED: -2, INTERRUPT: -3, RESUME: -4}
"""Fixed positions of the writes that say how a task stands; ordinary writes use their place in the list."""


class Checkpoint(TypedDict):
    """The state of one graph after one superstep.

    `id` sorts like time. `versions_seen` maps nodes to the channel versions they last ran on; `updated_channels`
    names what the superstep changed, sorted, or is None when that is not known.
    """

    v: int
    id: str
    ts: str
    channel_values: dict[str, Any]
    channel_versions: ChannelVersions
    versions_seen: dict[str, ChannelVersions]
    updated_channels: list[str] | None


class CheckpointMetadata(TypedDict, total=False):
    """What is known about a checkpoint besides the state; savers add the run's own metadata."""

    source: Literal["input", "loop", "update", "fork"]
    step: int
    parents: dict[str, str]
    run_id: str
    counters_since_delta_snapshot: dict[str, tuple[int, int]]


class CheckpointTuple(NamedTuple):
    """A stored checkpoint with its coordinates and the writes of tasks that started from it."""

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_config: RunnableConfig | None = None
    pending_writes: list[PendingWrite] | None = None


class DeltaChannelHistory(TypedDict, total=False):
    """What a delta channel is rebuilt from: an optional stored value and the later writes, oldest first.

    `cut` is there, and True, when there is no stored value although the channel has a version at the oldest checkpoint
    that is left, and that one has a parent or its metadata (`counters_since_delta_snapshot`) says that the channel is
    rebuilt from ancestors: what was written before is gone.
    """

    seed: Any
    writes: list[PendingWrite]
    cut: bool


@dataclass(frozen=True, slots=True)
class TaskWrites:
    """The writes of one task, in order.

    Attributes:
        task_id: The task.
        path: Its path as text; writes are read back sorted by it.
        writes: (channel, value) pairs; their places are their positions.
        replace: Forget what was stored for this task on this checkpoint before; otherwise the rules of
            `BaseCheckpointSaver.aput_writes` hold.
    """

    task_id: str
    path: str
    writes: Sequence[tuple[str, Any]]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class StepCommit:
    """What a saver is to store at once: all of it or nothing.

    Attributes:
        writes: Task writes for the checkpoint that the config names.
        checkpoint: The next checkpoint, a child of the one that the config names; or None.
        metadata: Belongs to `checkpoint`.
        new_versions: Channels whose value changed since the parent, with their versions; None for all of them.
        expected_head: Id of the checkpoint that must be the newest of the thread's namespace, None for "there is
            none yet", or `MISSING` to store unconditionally.
    """

    writes: Sequence[TaskWrites] = ()
    checkpoint: Checkpoint | None = None
    metadata: CheckpointMetadata | None = None
    new_versions: ChannelVersions | None = None
    expected_head: str | None | Missing = MISSING


class Claim(Protocol):
    """A hold on a thread that other savers, of this process and of others, respect."""

    async def arelease(self) -> None:
        """Give the thread back; others can claim it when this returns, also with a cancellation.

        A second call does nothing. Never fails: a claim that was lost is over, and what it was lost with is told to
        whoever uses the saver next.
        """
        ...


class BaseCheckpointSaver(Generic[V]):
    """Stores checkpoints and the writes of unfinished supersteps.

    Configs name a place by ``configurable.thread_id``, ``checkpoint_ns`` (default ``""``) and, where one
    checkpoint is meant, ``checkpoint_id``. Everything handed over is copied or serialized before a method
    returns. Methods may be called concurrently.

    A saver must offer `aget_tuple`, `alist`, `aput`, `aput_writes` and `adelete_thread`. One that can store a
    whole superstep at once also offers `acommit`, and then it must check `StepCommit.expected_head`. One whose
    storage is shared with other savers can offer `aclaim`, so that two of them do not run the same nodes. Whether a
    saver keeps this contract is told by `langgraph_async.testing.savers`; what all savers do the same way is in
    `langgraph_async.checkpoint.rows`.

    All methods raise `MissingCoordinateError` when the config lacks a coordinate they need, and
    `SerializationError`, naming the channel, before anything of the call is stored when a value cannot be.

    Attributes:
        serde: The serializer for values.
        leases: Which thread is held by which run of this process; kept by the engine.
    """

    immediate: ClassVar[bool] = False
    """Whether all methods finish without suspending: the engine then awaits them in place, without a queue."""

    can_commit: ClassVar[bool] = False
    """Whether `acommit` is offered."""

    can_claim: bool = False
    """Whether `aclaim` is offered."""

    orders_writes: ClassVar[bool] = True
    """Whether `aget_tuple` gives pending writes in the order of their tasks' paths."""

    text_versions: ClassVar[bool] = False
    """Whether versions that are numbers, which another saver stored, are read as text before a run goes on from them.

    For a saver whose own versions are text and which keeps a checkpoint's values with it, not by their versions.
    """

    keeps_ancestors: ClassVar[bool] = False
    """Whether a checkpoint's ancestors stay stored, with all their writes, as long as it is there.

    Then long lists are stored as what was appended to them (`StateGraph.compile`, ``delta_storage``). False for a
    saver that keeps the newest checkpoint only, for example: they are stored whole with each.
    """

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        self.serde: SerializerProtocol = serde if serde is not None else JsonPlusSerializer()
        self.leases: dict[str, Any] = {}

    async def aget(self, config: RunnableConfig) -> Checkpoint | None:
        """Return the checkpoint that `aget_tuple` finds, or None."""
        found = await self.aget_tuple(config)
        return found.checkpoint if found else None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the named checkpoint, or the newest of the namespace; None when there is none.

        Its pending writes are sorted by task path, task id and position.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer aget_tuple().")

    def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first, those of several namespaces and threads merged by id.

        Args:
            config: A thread, a namespace of it (without one: all namespaces), or one checkpoint; None: everything.
            filter: Metadata entries that must all be equal.
            before: Only checkpoints older than the one that this config names.
            limit: At most so many.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer alist().")

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as a child of the one that `config` names, and return its own config.

        Only the values of channels in `new_versions` need to be stored; the others are found by their version. A
        channel in `new_versions` without a value has none from here on. An id that is stored already is
        overwritten. The metadata is that of `get_checkpoint_metadata`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer aput().")

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store writes of a task on the checkpoint that `config` names.

        Idempotent: a position that is already stored for the task is kept, so that a longer list adds only what is
        new. When all writes are on the fixed positions of `WRITES_IDX_MAP`, they replace what stands there. Of
        several writes of one call on one fixed position the last counts. The checkpoint itself may be stored later.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer aput_writes().")

    async def acommit(self, config: RunnableConfig, commit: StepCommit) -> RunnableConfig:
        """Store `commit` at once and return the config of its checkpoint (or `config` without one).

        Raises:
            ThreadConflictError: The namespace's newest checkpoint is not `commit.expected_head`. Nothing is stored.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer acommit().")

    async def acommit_chain(self, commits: Sequence[tuple[RunnableConfig, StepCommit]]) -> None:
        """Store commits that build on each other, in order: each as a whole, and none after one that failed.

        A saver whose transactions are expensive overrides this to store several in one.

        Raises:
            BaseException: What the first commit that failed raised; those before it are stored.
        """
        for config, commit in commits:
            await self.acommit(config, commit)

    async def aclaim(self, thread_id: str) -> Claim | None:
        """Claim a thread for a run, or return None when it is claimed already, be it with this very saver.

        The engine claims a thread before it loads the newest checkpoint, for runs that would begin with a node:
        other runs are told apart by what they store first. A claim stores nothing that a reader of checkpoints
        could see, and keeps nobody from storing. It ends with `Claim.arelease`, when it is dropped, and when its
        process ends, however that comes about; it may be lost with a connection. Does not wait for others, and when
        it is cancelled, nothing is claimed.

        Raises:
            StorageError: It cannot be told whether the thread is claimed.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer aclaim().")

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread, and nothing of any other."""
        raise NotImplementedError(f"{type(self).__name__} does not offer adelete_thread().")

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints whose metadata names one of these runs, with their writes.

        A checkpoint stays if a surviving one needs it to rebuild a delta channel (`aget_delta_channel_history`).
        What is left without its parent becomes a root.

        Raises:
            TypeError: `run_ids` is a single text.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer adelete_for_runs().")

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all namespaces, checkpoints and writes of a thread; an unknown source copies nothing.

        Raises:
            ConfigError: The target thread has checkpoints already: mixing two histories would leave neither.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer acopy_thread().")

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: Literal["keep_latest", "delete"] = "keep_latest"
    ) -> None:
        """Keep only the newest checkpoint of each namespace of these threads, or nothing at all.

        With ``"keep_latest"`` the ancestors stay, too, from which the newest one's delta channels are rebuilt: those
        named in its metadata's `counters_since_delta_snapshot`, back to the nearest stored value. The oldest one
        that is kept becomes a root.

        Raises:
            TypeError: `thread_ids` is a single text.
            ValueError: Unknown strategy.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer aprune().")

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return, for each channel, the nearest stored value above the named checkpoint and the writes after it.

        Walks from the checkpoint's parent towards the root. The writes stored on the checkpoint itself are not
        included; those on the ancestor that holds the stored value are.
        """
        found: dict[str, DeltaChannelHistory] = {}
        if not channels:
            return found
        collected: dict[str, list[list[PendingWrite]]] = {name: [] for name in channels}
        target = oldest = await self.aget_tuple(config)
        parent = target.parent_config if target else None
        open_channels = set(channels)
        while parent is not None and open_channels:
            item = await self.aget_tuple(parent)
            if item is None:
                break
            oldest = item
            for name in sorted(open_channels):
                collected[name].append([w for w in item.pending_writes or () if w[1] == name])
                if name in item.checkpoint["channel_values"]:
                    found[name] = {"seed": item.checkpoint["channel_values"][name]}
                    open_channels.discard(name)
            parent = item.parent_config
        for name in open_channels:
            if oldest is None or name not in oldest.checkpoint["channel_versions"]:
                continue
            if oldest.parent_config or name in (oldest.metadata.get(COUNTERS) or ()):
                found[name] = {"cut": True}
        return {
            name: {**found.get(name, {}), "writes": [w for part in reversed(collected[name]) for w in part]}
            for name in channels
        }

    def get_next_version(self, current: V | None, channel: None = None) -> V:  # noqa: ARG002
        """Return a version greater than `current`.

        A saver that finds values by their version must not give the same one to two branches of a history: integers
        do for savers that store every checkpoint whole, `langgraph_async.checkpoint.rows.next_version` for all.
        """
        if isinstance(current, str):
            raise NotImplementedError(
                f"{type(self).__name__} counts versions as integers, but the thread has the version {current!r}. "
                "Override get_next_version(), for example with langgraph_async.checkpoint.rows.next_version()."
            )
        following: Any = 1 if current is None else current + 1
        return following  # type: ignore[no-any-return]

    def with_allowlist(self, types: Iterable[type[Any] | tuple[str, str]]) -> Self:
        """Return this saver with more types that its serializer may load; itself when that changes nothing.

        The copy is shallow: it shares everything but the serializer.
        """
        extend = getattr(self.serde, "with_allowlist", None)
        serde = extend(types) if extend is not None else self.serde
        if serde is self.serde:
            return self
        clone = copy.copy(self)
        clone.serde = serde
        return clone


def get_checkpoint_id(config: RunnableConfig) -> str | None:
    """Return the checkpoint id that `config` names, or None."""
    found: str | None = config.get(CONF, {}).get("checkpoint_id")
    return found


COUNTERS: Final = "counters_since_delta_snapshot"
"""Metadata key: channel -> [updates, supersteps] since its whole value was stored; zeros are left out."""
EXCLUDED_METADATA_KEYS: Final = frozenset(
    {
        COUNTERS,
        "thread_id",
        "checkpoint_id",
        "checkpoint_ns",
        "checkpoint_map",
        "langgraph_step",
        "langgraph_node",
        "langgraph_triggers",
        "langgraph_path",
        "langgraph_checkpoint_ns",
    }
)
"""Keys of a config that are not stored as metadata of its checkpoints."""


def get_checkpoint_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> CheckpointMetadata:
    """Return `metadata` with the plain values of the config's metadata and configurable added."""
    merged: dict[str, Any] = dict(metadata)
    for key, value in metadata.items():
        if isinstance(value, str) and "\0" in value:
            merged[key] = value.replace("\0", "")
    for source in (config.get("metadata"), config.get(CONF)):
        for key, value in source.items() if source else ():
            if key in merged or key in EXCLUDED_METADATA_KEYS or key.startswith("__"):
                continue
            if isinstance(value, str):
                merged[key] = value.replace("\0", "") if "\0" in value else value
            elif isinstance(value, (int, float)):
                merged[key] = value
    return merged  # type: ignore[return-value]


def get_serializable_checkpoint_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> CheckpointMetadata:
    """Return `get_checkpoint_metadata` without the legacy key ``writes``."""
    merged = get_checkpoint_metadata(config, metadata)
    merged.pop("writes", None)  # type: ignore[typeddict-item]
    return merged


def empty_checkpoint() -> Checkpoint:
    """Return a new checkpoint of nothing, for savers that are used without an engine."""
    return _made({}, {}, {}, checkpoint_id(-2))


def create_checkpoint(
    checkpoint: Checkpoint, channels: Mapping[str, Any] | None, step: int, *, id: str | None = None
) -> Checkpoint:
    """Return the checkpoint that follows on `checkpoint`, for savers that are used without an engine.

    Args:
        checkpoint: The one before; not changed.
        channels: Channels whose values it holds, of those that have a version; None keeps the values.
        step: Number of the superstep.
        id: Its id; by default a new one.
    """
    versions = checkpoint["channel_versions"]
    values = dict(checkpoint["channel_values"])
    if channels is not None:
        stored = {key: channel.checkpoint() for key, channel in channels.items() if key in versions}
        values = {key: value for key, value in stored.items() if value is not MISSING}
    seen = {node: dict(seen) for node, seen in checkpoint["versions_seen"].items()}
    return _made(values, dict(versions), seen, checkpoint_id(step) if id is None else id)


def _made(values: dict[str, Any], versions: ChannelVersions, seen: dict[str, ChannelVersions], id: str) -> Checkpoint:
    return Checkpoint(
        v=LATEST_VERSION,
        id=id,
        ts=time_text(),
        channel_values=values,
        channel_versions=versions,
        versions_seen=seen,
        updated_channels=None,
    )


def copy_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """Return a copy that shares values but no containers of its own."""
    updated = checkpoint.get("updated_channels")
    return Checkpoint(
        v=checkpoint["v"],
        id=checkpoint["id"],
        ts=checkpoint["ts"],
        channel_values=checkpoint["channel_values"].copy(),
        channel_versions=checkpoint["channel_versions"].copy(),
        versions_seen={node: seen.copy() for node, seen in checkpoint["versions_seen"].items()},
        updated_channels=None if updated is None else list(updated),
    )


def writes_sort_key(row: tuple[str, str, int]) -> tuple[str, str, int]:
    """Order of stored writes: by task path, task id, position."""
    return row


__all__ = [
    "EXCLUDED_METADATA_KEYS",
    "LATEST_VERSION",
    "WRITES_IDX_MAP",
    "BaseCheckpointSaver",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "Claim",
    "DeltaChannelHistory",
    "EmptyChannelError",
    "JsonPlusSerializer",
    "PendingWrite",
    "SerializerProtocol",
    "StepCommit",
    "TaskWrites",
    "copy_checkpoint",
    "create_checkpoint",
    "empty_checkpoint",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
    "get_serializable_checkpoint_metadata",
    "writes_sort_key",
]
