"""Savers that were written for LangGraph, as our saver port.

They are known by what they have, not by their class: `get_tuple`, `put`, `put_writes` and `list`, or the async forms
with an ``a`` before the name. See `langgraph_async.checkpoint.foreign.view` for how they get our serializer.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Literal, Self

from langgraph_async.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    copy_checkpoint,
    get_checkpoint_metadata,
)
from langgraph_async.checkpoint.foreign.calls import SaverCalls
from langgraph_async.checkpoint.foreign.serializer import Use, stand_in
from langgraph_async.checkpoint.foreign.view import view_of
from langgraph_async.checkpoint.foreign.words import to_ours, to_theirs
from langgraph_async.checkpoint.rows import CheckpointKey, checkpoint_of, dump_value, place_of
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import CHECKPOINT_ID, CHECKPOINT_NS, CONF, THREAD_ID
from langgraph_async.errors import SerializationError
from langgraph_async.types import has_saver_methods

_BASE: Final = "BaseCheckpointSaver"
_leases: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def as_saver(checkpointer: Any) -> Any:
    """Return what `compile(checkpointer=...)` was given, as something that the engine can use.

    Our savers, None, True and False are returned as they are.
    """
    if not has_saver_methods(checkpointer) or isinstance(checkpointer, BaseCheckpointSaver):
        return checkpointer
    async_only = not hasattr(checkpointer, "get_tuple")
    if hasattr(checkpointer, "acommit") or (async_only and hasattr(checkpointer, "with_allowlist")):
        return checkpointer  # no subclass of ours, but written for this port
    return ForeignSaver(checkpointer)


class ForeignSaver(BaseCheckpointSaver[Any]):
    """A saver written for LangGraph, as our saver port.

    What is stored is what LangGraph would store, so that it can go on with a thread, and the same saver object can
    serve both at the same time: nothing of it is changed. LangGraph's standard serializer in it is replaced, for
    calls through here, by ours; one that was configured otherwise stays, with what it loses and what it refuses.

    Nothing can keep two processes from storing on one thread at once: before a checkpoint is stored, the newest one
    is looked up, and a conflict is raised if it is newer than what the run went on from. Runs of one process know
    of each other in any case.

    Args:
        wrapped: The saver.
        types: What its serializer may store and read besides the known types.

    Attributes:
        wrapped: The saver.
    """

    orders_writes = False

    def __init__(self, wrapped: Any, types: Iterable[type[Any] | tuple[str, str]] = ()) -> None:
        self.wrapped = wrapped
        self._types = frozenset(types)
        self._use = Use()
        self._view = view_of(wrapped, partial(stand_in, types=self._types, use=self._use))
        own = getattr(wrapped, "serde", None)
        super().__init__(serde=getattr(self._view, "serde", None) or own)
        self.leases = _leases_of(wrapped)
        self._keeps_serde = self.serde is own
        self._calls = SaverCalls(self._view, type(wrapped).__name__)
        self._takes_path = _takes_path(getattr(wrapped, "aput_writes", None)) and _takes_path(
            getattr(wrapped, "put_writes", None)
        )

    @property
    def config_specs(self) -> list[Any]:
        """What the saver says that it reads in `configurable`."""
        return list(getattr(self.wrapped, "config_specs", ()))

    def offers(self, method: str) -> bool:
        """Tell whether the saver has a method of this port, or its blocking form, of its own."""
        return self._calls.offers(method, _BASE)

    # -- reading ----------------------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the named checkpoint, or the newest of the namespace; None when there is none.

        Its pending writes come in the order in which the saver gives them.
        """
        place_of(config)
        found = await self._calls.call("aget_tuple", _with_ns(config))
        return None if found is None else self._tuple(found, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints as the saver gives them; see `BaseCheckpointSaver.alist`."""
        given: Any = None if config is None else _plain(config)
        named: Any = _plain(before) if before is not None and _id_in(before) else None
        found = self._calls.iterate("alist", given, filter=filter, before=named, limit=limit)
        async with aclosing(found) as items:
            async for item in items:
                yield self._tuple(item, config or {})

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what delta channels are rebuilt from, by the saver's own method where it has one."""
        if not channels or not self.offers("aget_delta_channel_history"):
            return await super().aget_delta_channel_history(config=config, channels=channels)
        found = await self._calls.call("aget_delta_channel_history", config=_with_ns(config), channels=list(channels))
        return {name: self._history(found.get(name) or {}) for name in channels}

    def _history(self, found: Mapping[str, Any]) -> DeltaChannelHistory:
        writes = [self._write(write) for write in found.get("writes") or ()]
        return {"seed": self._read(found["seed"]), "writes": writes} if "seed" in found else {"writes": writes}

    # -- writing ----------------------------------------------------------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; see `BaseCheckpointSaver.aput`."""
        thread_id, ns, _ = place_of(config)
        stored = copy_checkpoint(checkpoint)
        values = stored["channel_values"]
        stored["channel_values"] = {key: self._write_out(value) for key, value in values.items()}
        # Not all savers add the run's own metadata.
        merged = dict(get_checkpoint_metadata(config, metadata))
        try:
            await self._calls.call("aput", _with_ns(config), stored, merged, dict(new_versions))
            self._keeps_serde = self._keeps_serde or not self._use.seen
        except SerializationError:
            self._name_culprit(values.items(), (thread_id, ns, checkpoint["id"]))
            raise
        return {CONF: {THREAD_ID: thread_id, CHECKPOINT_NS: ns, CHECKPOINT_ID: checkpoint["id"]}}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store writes of a task; see `BaseCheckpointSaver.aput_writes`."""
        key = checkpoint_of(config)
        given = [(channel, self._write_out(value)) for channel, value in writes]
        path = (task_path,) if self._takes_path else ()
        try:
            await self._calls.call("aput_writes", _with_ns(config), given, task_id, *path)
        except SerializationError:
            self._name_culprit(writes, key, task_id)
            raise

    def _name_culprit(self, values: Iterable[tuple[str, Any]], key: CheckpointKey, task: str = "") -> None:
        """Raise the error that names the channel whose value cannot be stored, if it is found."""
        for channel, value in values:
            dump_value(self.serde, value, channel=channel, key=key, slot=("value",), task=task)

    # -- whole threads ----------------------------------------------------------------------------------------

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread.

        Raises:
            NotImplementedError: The saver cannot.
        """
        await self._calls.call("adelete_thread", thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs, as far as the saver does it.

        Raises:
            NotImplementedError: The saver cannot.
        """
        await self._calls.call("adelete_for_runs", run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread, as the saver does it.

        Raises:
            NotImplementedError: The saver cannot.
        """
        await self._calls.call("acopy_thread", source_thread_id, target_thread_id)

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: Literal["keep_latest", "delete"] = "keep_latest"
    ) -> None:
        """Prune threads, as the saver does it.

        Raises:
            NotImplementedError: The saver cannot.
        """
        await self._calls.call("aprune", thread_ids, strategy=strategy)

    # -- versions and types -----------------------------------------------------------------------------------

    def get_next_version(self, current: Any, channel: None = None) -> Any:
        """Return the version that the saver gives after `current`; an integer when it does not say."""
        own = getattr(self.wrapped, "get_next_version", None)
        return super().get_next_version(current, channel) if own is None else own(current, channel)

    def with_allowlist(self, types: Iterable[type[Any] | tuple[str, str]]) -> Self:
        """Return an adapter of the same saver that may load more types; itself when that changes nothing."""
        more = self._types.union(types)
        return self if more == self._types else type(self)(self.wrapped, more)

    # -- from their form to ours ------------------------------------------------------------------------------

    def _write_out(self, value: Any) -> Any:
        return to_theirs(value, deep=self._keeps_serde)

    def _read(self, value: Any) -> Any:
        return to_ours(value, deep=self._keeps_serde)

    def _write(self, write: Sequence[Any]) -> tuple[str, str, Any]:
        task_id, channel, value = write[:3]
        return str(task_id), str(channel), self._read(value)

    def _tuple(self, found: Any, asked: RunnableConfig) -> CheckpointTuple:
        checkpoint = self._checkpoint(found.checkpoint)
        parent = getattr(found, "parent_config", None)
        pending = getattr(found, "pending_writes", None) or ()
        return CheckpointTuple(
            config=_named(found.config, asked, checkpoint["id"]),
            checkpoint=checkpoint,
            metadata=dict(getattr(found, "metadata", None) or {}),  # type: ignore[arg-type]
            parent_config=_named(parent, asked, None) if parent and _id_in(parent) else None,
            pending_writes=[self._write(write) for write in pending],
        )

    def _checkpoint(self, found: Mapping[str, Any]) -> Checkpoint:
        values = found.get("channel_values") or {}
        whole: Any = {
            "v": 1,
            "ts": "",
            **found,
            "channel_values": {key: self._read(value) for key, value in values.items()},
            "channel_versions": dict(found.get("channel_versions") or {}),
            "versions_seen": {node: dict(seen) for node, seen in (found.get("versions_seen") or {}).items()},
            "updated_channels": found.get("updated_channels"),
        }
        if whole.get("pending_sends"):
            whole["pending_sends"] = [self._read(send) for send in whole["pending_sends"]]
        return whole  # type: ignore[no-any-return]


def _leases_of(saver: Any) -> dict[str, Any]:
    """Return who holds which thread of a saver; the same for all graphs that use it."""
    try:
        return _leases.setdefault(saver, {})
    except TypeError:
        return {}


def _takes_path(method: Any) -> bool:
    if method is None:
        return True
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "task_path" or p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)


def _plain(config: RunnableConfig) -> dict[str, Any]:
    """Return a config of the caller's own making, without coordinates that name nothing."""
    configurable = {
        key: value
        for key, value in (config.get(CONF) or {}).items()
        if not ((key == CHECKPOINT_ID and not value) or (key == CHECKPOINT_NS and value is None))
    }
    if THREAD_ID in configurable:
        configurable[THREAD_ID] = str(configurable[THREAD_ID])
    return {"tags": [], "metadata": dict(config.get("metadata") or {}), CONF: configurable}


def _with_ns(config: RunnableConfig) -> dict[str, Any]:
    made = _plain(config)
    made[CONF].setdefault(CHECKPOINT_NS, "")
    return made


def _id_in(config: Mapping[str, Any]) -> Any:
    return (config.get(CONF) or {}).get(CHECKPOINT_ID)


def _named(config: Mapping[str, Any] | None, asked: RunnableConfig, checkpoint_id: str | None) -> RunnableConfig:
    """Return a config with the three coordinates, each from what the saver gave or else from what it was asked for."""
    given, wanted = (config or {}).get(CONF) or {}, asked.get(CONF) or {}
    return {
        CONF: {
            THREAD_ID: str(given.get(THREAD_ID, wanted.get(THREAD_ID))),
            CHECKPOINT_NS: given.get(CHECKPOINT_NS, wanted.get(CHECKPOINT_NS)) or "",
            CHECKPOINT_ID: checkpoint_id or given.get(CHECKPOINT_ID),
        }
    }
