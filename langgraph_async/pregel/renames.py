"""Reads a checkpoint under the names that the graph's nodes have now, and finds nodes that are gone.

Node names are part of what is stored: in the channels of edges and joins, in joins' values, in sends, in the marks of
what nodes have seen, and in the writes of tasks that have finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph_async.checkpoint.base import CheckpointTuple, PendingWrite
from langgraph_async.constants import BRANCH_PREFIX, JOIN_PREFIX, TASKS, branch_channel, join_channel
from langgraph_async.errors import MissingNodeError
from langgraph_async.pregel.model import GraphSpec
from langgraph_async.types import Send


@dataclass(slots=True)
class Renamed:
    """What a checkpoint holds, under the names that the graph uses now.

    Attributes:
        values, versions, seen, pending, updated: As in the checkpoint.
        old_nodes: Node to the name that the checkpoint knows it by, where that differs.
        old_channels: Channel to the name that the checkpoint knows it by, likewise.
    """

    values: dict[str, Any]
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    pending: list[PendingWrite]
    updated: set[str] | None
    old_nodes: dict[str, str] = field(default_factory=dict)
    old_channels: dict[str, str] = field(default_factory=dict)


def under_new_names(spec: GraphSpec, loaded: CheckpointTuple) -> Renamed:
    """Return what `loaded` holds, under the names that the graph uses now."""
    checkpoint = loaded.checkpoint
    found = Renamed(
        values=dict(checkpoint["channel_values"]),
        versions=dict(checkpoint["channel_versions"]),
        seen={node: dict(mark) for node, mark in checkpoint["versions_seen"].items()},
        pending=list(loaded.pending_writes or ()),
        updated=set(checkpoint.get("updated_channels") or ()) or None,
    )
    if not spec.renamed:
        return found
    names = _Names(spec.renamed)
    found.values = {names.channel(key): names.value(key, value) for key, value in found.values.items()}
    found.versions = {names.channel(key): version for key, version in found.versions.items()}
    found.seen = {
        spec.renamed.get(node, node): {names.channel(key): version for key, version in mark.items()}
        for node, mark in found.seen.items()
    }
    found.pending = [(task, names.channel(key), names.write(key, value)) for task, key, value in found.pending]
    if found.updated is not None:
        found.updated = {names.channel(key) for key in found.updated}
    found.old_nodes, found.old_channels = names.old_nodes, names.old_channels
    for new, old in found.old_nodes.items():
        # Task ids are computed from all triggers of a node, those too that were never written.
        for trigger in spec.nodes[new].triggers if new in spec.nodes else ():
            if trigger == branch_channel(new):
                found.old_channels[trigger] = branch_channel(old)
            elif trigger.startswith(JOIN_PREFIX) and trigger not in found.versions:
                found.old_channels[trigger] = join_channel(_parts(trigger)[0], old)
    return found


class _Names:
    """Translates, and notes what it came across."""

    def __init__(self, renamed: Mapping[str, str]) -> None:
        self._renamed = renamed
        self.old_nodes: dict[str, str] = {}
        self.old_channels: dict[str, str] = {}

    def node(self, name: str) -> str:
        new = self._renamed.get(name, name)
        if new != name:
            self.old_nodes[new] = name
        return new

    def channel(self, name: str) -> str:
        if name.startswith(BRANCH_PREFIX):
            new = BRANCH_PREFIX + self.node(name[len(BRANCH_PREFIX) :])
        elif name.startswith(JOIN_PREFIX):
            starts, end = _parts(name)
            new = join_channel(tuple(self._renamed.get(start, start) for start in starts), self.node(end))
        else:
            return name
        if new != name:
            self.old_channels[new] = name
        return new

    def value(self, channel: str, stored: Any) -> Any:
        if channel == TASKS and isinstance(stored, (list, tuple)):
            return [self._send(item) for item in stored]
        if channel.startswith(JOIN_PREFIX):
            return self._seen(stored)
        return stored

    def write(self, channel: str, value: Any) -> Any:
        if channel == TASKS:
            return self._send(value)
        if channel.startswith(JOIN_PREFIX) and isinstance(value, str):
            return self._renamed.get(value, value)
        return value

    def _seen(self, stored: Any) -> Any:
        if isinstance(stored, (set, frozenset)):
            return {self._renamed.get(name, name) for name in stored}
        if isinstance(stored, (list, tuple)):
            return [self._seen(part) for part in stored]
        return self._renamed.get(stored, stored) if isinstance(stored, str) else stored

    def _send(self, item: Any) -> Any:
        if isinstance(item, Send) and item.node in self._renamed:
            return Send(self.node(item.node), item.arg, timeout=item.timeout)
        return item


def _parts(join: str) -> tuple[tuple[str, ...], str]:
    starts, _, end = join[len(JOIN_PREFIX) :].rpartition(":")
    return tuple(starts.split("+")), end


def check_nodes_exist(spec: GraphSpec, loaded: CheckpointTuple, thread_id: str | None) -> None:
    """Check that every node that the thread waits in, or is to go to, is still part of the graph.

    Raises:
        MissingNodeError: One is not; the message names it and how to declare a rename.
    """
    values = loaded.checkpoint["channel_values"]
    waiting = [name for key, value in values.items() for name in _waiting(key, value)]
    waiting += [name for _, key, value in loaded.pending_writes or () for name in _waiting(key, [value])]
    for node in waiting:
        if spec.renamed.get(node, node) not in spec.nodes:
            raise MissingNodeError(
                f"Thread {thread_id!r} waits in node {node!r}, which graph {spec.name!r} does not have "
                f"(it has {', '.join(sorted(n for n in spec.nodes if not n.startswith('__')))}). If it was renamed, "
                f"say so: compile(..., renamed={{{node!r}: '<new name>'}}). Nothing was changed.",
                node=node,
                thread_id=thread_id,
            )


def _waiting(channel: str, stored: Any) -> Iterable[str]:
    if channel.startswith(BRANCH_PREFIX):
        return (channel[len(BRANCH_PREFIX) :],)
    if channel == TASKS and isinstance(stored, (list, tuple)):
        return [send.node for send in stored if isinstance(send, Send)]
    if channel.startswith(JOIN_PREFIX):
        starts, end = _parts(channel)
        if _names_in(stored) >= set(starts):
            return (end,)
    return ()


def _names_in(stored: Any) -> set[str]:
    """Return the names that a join has seen, as a plain or a deferred one stores them."""
    if isinstance(stored, Sequence) and len(stored) == 2 and isinstance(stored[1], bool):
        stored = stored[0]
    return set(stored) if isinstance(stored, (set, frozenset, list, tuple)) else set()
