"""Walks from a checkpoint towards its root, to find what delta channels are rebuilt from."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from langgraph_async.checkpoint.base import Checkpoint, DeltaChannelHistory, PendingWrite
from langgraph_async.checkpoint.rows import Place
from langgraph_async.checkpoint.sqlite.dump import load_checkpoint, load_writes
from langgraph_async.checkpoint.sqlite.queries import Key, Reading
from langgraph_async.checkpoint.sqlite.schema import fetch
from langgraph_async.serde.base import SerializerProtocol

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


def ancestors(
    conn: sqlite3.Connection, serde: SerializerProtocol, thread_id: str, ns: str, checkpoint_id: str
) -> Iterator[tuple[str, Checkpoint]]:
    """Yield the stored ancestors of a checkpoint, nearest first, without itself; read one by one as they are taken."""
    cursor = conn.cursor()
    cursor.row_factory = None
    visited = {checkpoint_id}
    try:
        cursor.execute(_CHAIN, (thread_id, ns, checkpoint_id))
        cursor.fetchone()  # itself
        for ancestor, kind, data in cursor:
            if ancestor in visited:
                return
            visited.add(ancestor)
            yield ancestor, load_checkpoint(serde, (kind, data), key=(thread_id, ns, ancestor))
    finally:
        cursor.close()


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
        takers[thread_id, ns, step[0]] = frozenset(wanted)
        values: dict[str, Any] = step[1]["channel_values"]
        for name in wanted & values.keys():
            found[name]["seed"] = values[name]
        wanted -= values.keys()
    walk.close()  # type: ignore[attr-defined]
    writes = reading.writes_of(conn, list(takers), channels=list(channels))
    for key in reversed(takers):
        for write in load_writes(serde, [row for row in writes[key] if row[1] in takers[key]], key=key):
            later[write[1]].append(write)
    return found
