"""Rebuilds the values of channels that are stored as their writes.

A checkpoint without a stored value has the value of its parent, with the writes stored on the parent applied.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, Final

from langgraph_async.channels.delta import DeltaChannel
from langgraph_async.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, DeltaChannelHistory, PendingWrite
from langgraph_async.constants import CHECKPOINT_ID, CONF, MISSING, SNAPSHOT_BUMPS
from langgraph_async.errors import StorageError
from langgraph_async.pregel.model import GraphSpec

_PAGE: Final = 64
"""Checkpoints of a history whose values are rebuilt from one another."""
_WALKS: Final = 4
"""Checkpoints of a page without their parents from which on those between are read, too."""
_GAP: Final = 16
"""Checkpoints that are read for each one of a page at most."""


async def with_delta_values(
    spec: GraphSpec, saver: BaseCheckpointSaver[Any], loaded: CheckpointTuple
) -> CheckpointTuple:
    """Return a loaded checkpoint with the values that are stored as writes, rebuilt.

    A reducer key is rebuilt whoever stored its writes: LangGraph does, where the key is declared as a delta channel.

    Raises:
        ReducerError: A reducer raised on the stored writes.
        StorageError: Checkpoints that a value is rebuilt from are gone.
    """
    missing = _missing(spec, loaded)
    if not missing:
        return loaded
    history = await _history(saver, loaded, missing)
    rebuilt = {key: _rebuilt(spec, key, loaded, history.get(key) or {}) for key in missing}
    return _completed(loaded, rebuilt)


def _missing(spec: GraphSpec, loaded: CheckpointTuple) -> list[str]:
    values, versions = loaded.checkpoint["channel_values"], loaded.checkpoint["channel_versions"]
    return [key for keys in (spec.deltas, spec.reducers) for key in keys if key in versions and key not in values]


def _completed(loaded: CheckpointTuple, rebuilt: Mapping[str, Any]) -> CheckpointTuple:
    checkpoint: Any = {
        **loaded.checkpoint,
        "channel_values": {**loaded.checkpoint["channel_values"], **rebuilt},
    }
    return loaded._replace(checkpoint=checkpoint)


async def _history(
    saver: BaseCheckpointSaver[Any], loaded: CheckpointTuple, channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    if hasattr(saver, "aget_delta_channel_history"):
        return await saver.aget_delta_channel_history(config=loaded.config, channels=channels)
    return await BaseCheckpointSaver.aget_delta_channel_history(saver, config=loaded.config, channels=channels)


def _rebuilt(spec: GraphSpec, key: str, loaded: CheckpointTuple, history: DeltaChannelHistory) -> Any:
    if history.get("cut"):
        raise _cut(spec, key, loaded)
    return _replayed(spec, key, history.get("seed", MISSING), history.get("writes") or [])


def _replayed(spec: GraphSpec, key: str, seed: Any, writes: Sequence[PendingWrite]) -> Any:
    channel: Any = spec.channels[key].from_checkpoint(seed)
    channel.key = key
    channel.replay_writes(writes)
    return channel.snapshot() if isinstance(channel, DeltaChannel) else channel.checkpoint()


def _cut(spec: GraphSpec, key: str, loaded: CheckpointTuple) -> StorageError:
    where = loaded.config.get(CONF) or {}
    advice = "" if key in spec.deltas else " Other ways to delete checkpoints need compile(delta_storage=False)."
    return StorageError(
        f"Key {key!r} of graph {spec.name!r} on thread {where.get('thread_id')!r} cannot be read at checkpoint "
        f"{loaded.checkpoint['id']!r}: it is stored as what was appended to it, and older checkpoints that this began "
        "with were deleted. aprune() keeps what the newest checkpoint needs, not what each of those needs that it "
        f"keeps.{advice}",
        reason="incomplete",
    )


async def histories(
    spec: GraphSpec, saver: BaseCheckpointSaver[Any], items: Sequence[CheckpointTuple]
) -> AsyncIterator[CheckpointTuple]:
    """Yield checkpoints of a listing, newest first, like `with_delta_values`, rebuilding them from one another.

    Those that are left only because newer ones are rebuilt from them, and cannot be rebuilt themselves, are left out.
    """
    for start in range(0, len(items), _PAGE):
        for item in await _page(spec, saver, items[start : start + _PAGE]):
            yield item


async def _page(
    spec: GraphSpec, saver: BaseCheckpointSaver[Any], page: Sequence[CheckpointTuple]
) -> list[CheckpointTuple]:
    listed = {_coordinates(item.config) for item in page}
    known: dict[tuple[Any, ...], CheckpointTuple] = {}
    done: list[CheckpointTuple] = []
    for item in reversed(_needed(spec, await _with_gaps_filled(spec, saver, page), listed)):
        parent = known.get(_coordinates(item.parent_config)) if item.parent_config else None
        try:
            if parent is None or parent.pending_writes is None:
                full = await with_delta_values(spec, saver, item)
            else:
                full = _child(spec, parent, item)
        except StorageError as exc:
            if exc.reason != "incomplete":
                raise
            continue
        known[_coordinates(item.config)] = full
        if _coordinates(item.config) in listed:
            done.append(full)
    return done[::-1]


async def _with_gaps_filled(
    spec: GraphSpec, saver: BaseCheckpointSaver[Any], page: Sequence[CheckpointTuple]
) -> Sequence[CheckpointTuple]:
    """Return a page of a listing that leaves checkpoints out, with those between if they are not too many.

    One listing more takes fewer reads than a walk towards the root for each one whose parent is not there.
    """
    own = {_coordinates(item.config): item for item in page}
    walks = [item for item in page if item.parent_config and _coordinates(item.parent_config) not in own]
    if len([item for item in walks if _missing(spec, item)]) < _WALKS:
        return page
    where = {key: value for key, value in (page[0].config.get(CONF) or {}).items() if key != CHECKPOINT_ID}
    oldest = page[-1].checkpoint["id"]
    filled = [page[0]]
    listing: Any = saver.alist({CONF: where}, before=page[0].config, limit=_GAP * len(page))
    try:
        async for item in listing:
            if item.checkpoint["id"] < oldest:
                break
            filled.append(own.get(_coordinates(item.config)) or item)
    finally:
        if hasattr(listing, "aclose"):
            await listing.aclose()
    last = filled[-1].checkpoint["id"]
    return [*filled, *(item for item in page if item.checkpoint["id"] < last)]


def _needed(
    spec: GraphSpec, items: Sequence[CheckpointTuple], listed: Collection[tuple[Any, ...]]
) -> list[CheckpointTuple]:
    """Return those of `items`, newest first, that are `listed` or that others of these are rebuilt from."""
    wanted = set(listed)
    needed: list[CheckpointTuple] = []
    for item in items:
        if _coordinates(item.config) in wanted:
            needed.append(item)
            if item.parent_config and _missing(spec, item):
                wanted.add(_coordinates(item.parent_config))
    return needed


def _child(spec: GraphSpec, parent: CheckpointTuple, item: CheckpointTuple) -> CheckpointTuple:
    """Return a checkpoint with its values, rebuilt from those of its parent."""
    missing = _missing(spec, item)
    if not missing:
        return item
    values = parent.checkpoint["channel_values"]
    return _completed(
        item,
        {
            key: _replayed(spec, key, values.get(key, MISSING), [w for w in parent.pending_writes or () if w[1] == key])
            for key in missing
        },
    )


def _coordinates(config: Any) -> tuple[Any, ...]:
    where = config.get(CONF) or {}
    return where.get("thread_id"), where.get("checkpoint_ns") or "", where.get("checkpoint_id")


def really_seen(seen: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return `versions_seen` with the versions that nodes really ran on.

    Storing a whole value gives its channel a new version and moves the marks of the nodes that had seen the old one
    along; here that is undone. For whoever wants to know which node ran last.
    """
    bumps = seen.get(SNAPSHOT_BUMPS) or {}
    return {
        node: {
            key: version
            for key, marked in mark.items()
            if (version := bumps.get(f"{node}:{key}") if bumps.get(f"{node}|{key}") == marked else marked) is not None
        }
        for node, mark in seen.items()
        if node != SNAPSHOT_BUMPS
    }
