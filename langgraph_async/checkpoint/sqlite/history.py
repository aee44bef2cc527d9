"""Walks from a checkpoint towards its root, to find what delta channels are rebuilt from."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from typing import Any

from langgraph_async.checkpoint.base import Checkpoint, DeltaChannelHistory, PendingWrite
from langgraph_async.checkpoint.peek import stored_channels
from langgraph_async.checkpoint.rows import CheckpointKey, Place, load_metadata, unsnapshotted
from langgraph_async.checkpoint.sqlite.dump import load_checkpoint, load_writes
from langgraph_async.checkpoint.sqlite.queries import Key, Reading
from langgraph_async.checkpoint.sqlite.schema import fetch
from langgraph_async.serde.base import SerializerProtocol

_WHERE = "WHERE thread_id = ?1 AND checkpoint_ns = ?2"
_BEFORE = f"""
    SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint FROM checkpoints
    {_WHERE} AND checkpoint_id < ?3 ORDER BY checkpoint_id DESC
"""
_CHAIN = """
    WITH RECURSIVE ancestor (id, parent, type, checkpoint) AS (
        SELECT checkpoint_id, parent_checkpoint_id, NULL, NULL FROM checkpoints
        WHERE thread_id = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3
        UNION ALL
        SELECT c.checkpoint_id, c.parent_checkpoint_id, c.type, c.checkpoint
        FROM ancestor JOIN checkpoints AS c
        ON c.thread_id = ?1 AND c.checkpoint_ns = ?2 AND c.checkpoint_id = ancestor.parent
    )
    SELECT id, type, checkpoint FROM ancestor
"""
_STRANGERS = 20
"""Checkpoints of other branches that are passed over in a row before ancestors are looked up one by one."""


class Ancestor:
    """A checkpoint further up.

    Attributes:
        checkpoint_id: It.
        stored: Channels that have a value there.
    """

    __slots__ = ("_key", "_row", "_serde", "checkpoint_id", "stored")

    def __init__(self, key: CheckpointKey, row: tuple[str | None, bytes], serde: SerializerProtocol):
        self.checkpoint_id = key[2]
        self._key = key
        self._row = row
        self._serde = serde
        kind, data = row
        stored = None if kind is None else stored_channels((kind, data))
        self.stored: Collection[str] = self.values().keys() if stored is None else stored

    def values(self) -> dict[str, Any]:
        """Return the values, by channel."""
        return self.read()["channel_values"]

    def read(self) -> Checkpoint:
        """Return the checkpoint."""
        return load_checkpoint(self._serde, self._row, key=self._key)


def ancestors(
    conn: sqlite3.Connection, serde: SerializerProtocol, thread_id: str, ns: str, checkpoint_id: str
) -> Iterator[Ancestor]:
    """Yield the stored ancestors of a checkpoint, nearest first, without itself; read one by one as they are taken."""
    visited = {checkpoint_id}
    for ancestor, kind, data in _rows(conn, (thread_id, ns, checkpoint_id)):
        if ancestor in visited:
            return
        visited.add(ancestor)
        yield Ancestor((thread_id, ns, ancestor), (kind, data), serde)


def _rows(conn: sqlite3.Connection, key: CheckpointKey) -> Iterator[tuple[str, str | None, bytes]]:
    """Yield id, type tag and bytes of ancestors.

    Nearly always a parent is the checkpoint that was stored before, so that going through the table backwards meets
    one ancestor after the other. Where it does not, they are looked up.
    """
    last, wanted = key[2], _parent(conn, key)
    with closing(conn.cursor()) as cursor:
        cursor.row_factory = None
        strangers = 0
        for checkpoint_id, parent, kind, data in cursor.execute(_BEFORE, key):
            if checkpoint_id == wanted:
                strangers = 0
                yield checkpoint_id, kind, data
                last, wanted = checkpoint_id, parent
            else:
                strangers += 1
            if wanted is None or strangers > _STRANGERS:
                break
    if wanted is None:
        return
    with closing(conn.cursor()) as cursor:
        cursor.row_factory = None
        cursor.execute(_CHAIN, (*key[:2], last))
        cursor.fetchone()  # itself
        yield from cursor


def _parent(conn: sqlite3.Connection, key: CheckpointKey) -> Any:
    rows = fetch(conn, f"SELECT parent_checkpoint_id FROM checkpoints {_WHERE} AND checkpoint_id = ?3", key)
    return rows[0][0] if rows else None


def _cut(conn: sqlite3.Connection, serde: SerializerProtocol, key: CheckpointKey) -> Collection[str]:
    """Return the channels that had a value before the oldest checkpoint that is left."""
    rows = fetch(
        conn,
        "SELECT type, checkpoint, metadata, parent_checkpoint_id FROM checkpoints "
        "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
        key,
    )
    if not rows:
        return ()
    kind, data, metadata, parent = rows[0]
    versions = load_checkpoint(serde, (kind, data), key=key)["channel_versions"].keys()
    return versions if parent is not None else versions & unsnapshotted(load_metadata(metadata, key=key))


def delta_history(
    conn: sqlite3.Connection, reading: Reading, serde: SerializerProtocol, place: Place, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    """Return, for each channel, the nearest stored value above the checkpoint and the writes after it."""
    thread_id, ns, start = place
    if start is None:
        sql = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
        ((start,),) = fetch(conn, sql, (thread_id, ns))
    later: dict[str, list[PendingWrite]] = {name: [] for name in channels}
    found: dict[str, DeltaChannelHistory] = {name: {"writes": later[name]} for name in channels}
    wanted = set(channels)
    takers: dict[Key, frozenset[str]] = {}  # nearest first; channels without a value until there
    walk = ancestors(conn, serde, thread_id, ns, start or "")
    while wanted and (step := next(walk, None)) is not None:
        takers[thread_id, ns, step.checkpoint_id] = frozenset(wanted)
        stored = wanted.intersection(step.stored)
        if stored:
            values = step.values()
            for name in stored:
                found[name]["seed"] = values[name]
            wanted -= stored
    walk.close()  # type: ignore[attr-defined]
    if wanted:
        oldest = next(reversed(takers), (thread_id, ns, start or ""))
        for name in wanted.intersection(_cut(conn, serde, oldest)):
            found[name]["cut"] = True
    writes = reading.writes_of(conn, list(takers), channels=list(channels))
    for key in reversed(takers):
        rows = writes[key]
        if rows:
            for write in load_writes(serde, [row for row in rows if row[1] in takers[key]], key=key):
                later[write[1]].append(write)
    return found
