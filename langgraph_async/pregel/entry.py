"""Which checkpoint a run starts from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from langgraph_async.checkpoint.base import BaseCheckpointSaver, ChannelVersions, CheckpointTuple
from langgraph_async.checkpoint.rows import text_version
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import CHECKPOINT_ID, CHECKPOINT_NS, CONF, THREAD_ID
from langgraph_async.errors import ConfigError
from langgraph_async.pregel.deltas import with_delta_values
from langgraph_async.pregel.migrate import migrated
from langgraph_async.pregel.model import GraphSpec, RunScope
from langgraph_async.pregel.namespace import without_ids
from langgraph_async.pregel.step.snapshot import FORMAT_VERSION


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """Where a run starts.

    Attributes:
        checkpoint: The stored checkpoint, or None for an empty thread.
        head: Id of the newest checkpoint of the namespace, or None.
        addressed: The checkpoint was named, rather than found as the newest.
        foreign: It comes from another namespace: the graph is entered anew from a checkpoint of an earlier call.
    """

    checkpoint: CheckpointTuple | None = None
    head: str | None = None
    addressed: bool = False
    foreign: bool = False

    @property
    def superseded(self) -> bool:
        """Whether a newer checkpoint than the named one exists."""
        return self.addressed and self.checkpoint is not None and self.checkpoint.checkpoint["id"] != self.head

    @property
    def shared(self) -> bool:
        """Whether another run may have gone on from the checkpoint already."""
        return self.addressed or (self.checkpoint is not None and self.checkpoint.checkpoint["id"] != self.head)


def place(run: RunScope, ns: str, checkpoint_id: str | None = None) -> RunnableConfig:
    """Return the config that names a place of the run's thread for a saver."""
    configurable: dict[str, Any] = {
        **run.config.configurable,
        THREAD_ID: run.config.thread_id,
        CHECKPOINT_NS: ns,
    }
    configurable.pop(CHECKPOINT_ID, None)
    configurable.pop("checkpoint_map", None)
    if checkpoint_id is not None:
        configurable[CHECKPOINT_ID] = checkpoint_id
    return {"metadata": run.config.given.get("metadata") or {}, CONF: configurable}


async def load(run: RunScope, start: str | None = None) -> Loaded:
    """Find the checkpoint that the run starts from.

    Args:
        run: The run.
        start: Id to start from, for a run that takes the place of another.

    Raises:
        ConfigError: A checkpoint was named that does not exist.
    """
    saver = run.saver
    if saver is None:
        return Loaded()
    loaded = await (_load_root(run, saver, start) if run.is_root else _load_nested(run, saver))
    if loaded.checkpoint is None:
        return loaded
    return replace(loaded, checkpoint=await completed(run.spec, saver, loaded.checkpoint))


async def completed(spec: GraphSpec, saver: BaseCheckpointSaver[Any], loaded: CheckpointTuple) -> CheckpointTuple:
    """Return a checkpoint as the graph of today reads it, with all values.

    Raises:
        ReducerError: A reducer raised on stored writes.
        StorageError: Checkpoints that a value is rebuilt from are gone.
    """
    if loaded.checkpoint["v"] < FORMAT_VERSION:
        loaded = await migrated(spec, saver, loaded)
    if saver.text_versions:
        loaded = with_text_versions(loaded)
    return await with_delta_values(spec, saver, loaded)


def with_text_versions(loaded: CheckpointTuple) -> CheckpointTuple:
    """Turn versions that other savers stored as numbers into text: those that the saver makes must sort after them."""
    checkpoint = loaded.checkpoint
    if all(isinstance(version, str) for version in checkpoint["channel_versions"].values()):
        return loaded
    seen = {node: _as_text(marks) for node, marks in checkpoint["versions_seen"].items()}
    versions = _as_text(checkpoint["channel_versions"])
    return loaded._replace(checkpoint={**checkpoint, "channel_versions": versions, "versions_seen": seen})


def _as_text(versions: ChannelVersions) -> ChannelVersions:
    return {channel: text_version(version) for channel, version in versions.items()}


async def _load_root(run: RunScope, saver: BaseCheckpointSaver[Any], start: str | None) -> Loaded:
    wanted = run.config.checkpoint_id or start
    if run.config.checkpoint_ns:
        wanted = run.config.checkpoint_map.get("")
    newest = await saver.aget_tuple(place(run, run.ns))
    head = newest.checkpoint["id"] if newest is not None else None
    if wanted is None:
        return Loaded(newest, head)
    found = newest if wanted == head else await saver.aget_tuple(place(run, run.ns, wanted))
    if found is None:
        raise ConfigError(
            f"Thread {run.config.thread_id!r} has no checkpoint {wanted!r} in namespace {run.ns!r}. Take the config "
            "of a StateSnapshot from aget_state_history(), or leave checkpoint_id out to go on with the newest."
        )
    if run.replay is not None:
        run.replay.before = await _below_edits(run, saver, found)
    return Loaded(found, head, addressed=True)


async def _below_edits(run: RunScope, saver: BaseCheckpointSaver[Any], found: CheckpointTuple) -> str:
    """Return the id of the checkpoint that a run made and that `found` was edited or forked from."""
    while found.metadata.get("source") in ("update", "fork"):
        above = ((found.parent_config or {}).get(CONF) or {}).get(CHECKPOINT_ID)
        parent = await saver.aget_tuple(place(run, run.ns, above)) if above is not None else None
        if parent is None:
            break
        found = parent
    return found.checkpoint["id"]


async def _load_nested(run: RunScope, saver: BaseCheckpointSaver[Any]) -> Loaded:
    newest = await saver.aget_tuple(place(run, run.ns))
    head = newest.checkpoint["id"] if newest is not None else None
    replay = run.replay
    if replay is None or not replay.first_visit(run.ns):
        return Loaded(newest, head)
    ns, wanted = replay.addressed.get(without_ids(run.ns), (run.ns, None))
    if wanted is not None and not (replay.before is None and (ns, wanted) == (run.ns, head)):
        found = await saver.aget_tuple(place(run, ns, wanted))
        if found is not None:
            return Loaded(found, head, addressed=True, foreign=ns != run.ns)
    if replay.before is None:
        return Loaded(newest, head)
    older = await _first(saver.alist(place(run, run.ns), before=place(run, run.ns, replay.before), limit=1))
    return Loaded(older, head)


async def _first(items: AsyncIterator[CheckpointTuple]) -> CheckpointTuple | None:
    async for item in items:
        return item
    return None
