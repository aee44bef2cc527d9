"""Brings checkpoints of older format versions into today's shape when they are loaded; nothing is rewritten.

- Before version 4, the sends that wait to be run were kept apart: in the checkpoint, or on its parent as writes.
- Before version 3, a compiled `StateGraph` had a channel for each edge; today each node has one.
- Version 1 computed task ids with another hash, which `ids.task_id` still knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph_async.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph_async.constants import BRANCH_PREFIX, START, TASKS
from langgraph_async.pregel.model import GraphSpec

_SENDS = "pending_sends"


async def migrated(spec: GraphSpec, saver: BaseCheckpointSaver[Any], loaded: CheckpointTuple) -> CheckpointTuple:
    """Return a checkpoint of an older format version in today's shape; its `v` stays, since task ids depend on it.

    Args:
        spec: The graph.
        saver: Asked for the checkpoint's parent when the sends may be stored there.
        loaded: The checkpoint.
    """
    checkpoint: dict[str, Any] = {**loaded.checkpoint}
    checkpoint["channel_values"] = dict(checkpoint["channel_values"])
    checkpoint["channel_versions"] = dict(checkpoint["channel_versions"])
    checkpoint.setdefault("updated_channels", None)
    if checkpoint["v"] < 4:
        _take_sends(checkpoint, await _waiting_sends(saver, loaded))
    if checkpoint["v"] < 3:
        _take_channels(spec, checkpoint)
    return loaded._replace(checkpoint=checkpoint)  # type: ignore[arg-type]


async def _waiting_sends(saver: BaseCheckpointSaver[Any], loaded: CheckpointTuple) -> list[Any]:
    kept: Any = loaded.checkpoint.get(_SENDS)
    if kept is not None or TASKS in loaded.checkpoint["channel_versions"] or loaded.parent_config is None:
        return list(kept or ())
    parent = await saver.aget_tuple(loaded.parent_config)
    if parent is None:
        return []
    return [value for _, channel, value in parent.pending_writes or () if channel == TASKS]


def _take_sends(checkpoint: dict[str, Any], sends: list[Any]) -> None:
    checkpoint.pop(_SENDS, None)
    versions = checkpoint["channel_versions"]
    if not sends or not versions:
        return
    checkpoint["channel_values"][TASKS] = sends
    versions[TASKS] = max(versions.values())
    checkpoint["updated_channels"] = None


def _take_channels(spec: GraphSpec, checkpoint: dict[str, Any]) -> None:
    """Rename the channels of edges; of several that become one, the greatest version counts."""
    known = {*spec.nodes, *spec.renamed} - {START}
    versions, values, seen = checkpoint["channel_versions"], checkpoint["channel_values"], checkpoint["versions_seen"]
    names = {*versions, *values, *(key for mark in seen.values() for key in mark)}
    moved = {key: targets for key in names if (targets := _targets(spec, known, key)) is not None}
    if not moved:
        return
    checkpoint["channel_versions"] = _merged(versions, moved)
    checkpoint["versions_seen"] = {node: _merged(mark, moved) for node, mark in seen.items()}
    renamed: dict[str, Any] = {}
    for key, value in values.items():
        renamed.update(dict.fromkeys(moved.get(key, (key,)), value))
    checkpoint["channel_values"] = renamed
    checkpoint["updated_channels"] = None


def _targets(spec: GraphSpec, known: set[str], key: str) -> tuple[str, ...] | None:
    """Return the channels that today stand for an old channel of an edge; None for any other channel."""
    if key in spec.channels:
        return None
    if key.startswith("start:"):
        return _triggers(known, [key[len("start:") :]])
    if key.startswith("branch:") and key.count(":") == 3:
        return _triggers(known, [key.rpartition(":")[2]])
    if key in known:
        node = spec.nodes.get(spec.renamed.get(key, key))
        edges = node.edges if node is not None else ()
        return tuple(channel for channel, _ in edges if channel.startswith(BRANCH_PREFIX))
    return None


def _triggers(known: set[str], nodes: Iterable[str]) -> tuple[str, ...] | None:
    found = tuple(f"{BRANCH_PREFIX}{node}" for node in nodes if node in known)
    return found or None


def _merged(versions: Mapping[str, Any], moved: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key, version in versions.items():
        for name in moved.get(key, (key,)):
            merged[name] = max(merged[name], version) if name in merged else version
    return merged
