"""Walks from a checkpoint towards its root, to find what delta channels are rebuilt from."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from langgraph_async.checkpoint.base import DeltaChannelHistory
from langgraph_async.checkpoint.postgres.dump import check_inside, load_writes
from langgraph_async.checkpoint.postgres.tables import Tables
from langgraph_async.checkpoint.rows import Place, load_value
from langgraph_async.serde.base import SerializerProtocol

_STRIDE = 100
"""Ancestors that one query looks at."""


class Ancestor(NamedTuple):
    """A checkpoint further up, and which of the wanted channels have a stored value there."""

    checkpoint_id: str
    stored: frozenset[str]


async def ancestors(
    conn: Any, tables: Tables, place: tuple[str, str], checkpoint_id: str, channels: Collection[str]
) -> AsyncIterator[Ancestor]:
    """Yield the stored ancestors of a checkpoint, nearest first, without itself."""
    sql = f"""
        WITH RECURSIVE walk (id, parent, depth) AS (
            SELECT c.checkpoint_id, c.parent_checkpoint_id, 0 FROM {tables.checkpoints} AS c
            WHERE c.thread_id = $1::text AND c.checkpoint_ns = $2::text AND c.checkpoint_id = $3::text
            UNION ALL
            SELECT c.checkpoint_id, c.parent_checkpoint_id, walk.depth + 1
            FROM walk JOIN {tables.checkpoints} AS c
                ON c.thread_id = $1 AND c.checkpoint_ns = $2 AND c.checkpoint_id = walk.parent
            WHERE walk.depth < {_STRIDE}
        )
        SELECT walk.id, (
            SELECT array_agg(wanted.channel) FROM unnest($4::text[]) AS wanted (channel)
            WHERE {_has_value(tables, "wanted.channel")}
        )
        FROM walk JOIN {tables.checkpoints} AS c
            ON c.thread_id = $1 AND c.checkpoint_ns = $2 AND c.checkpoint_id = walk.id
        WHERE walk.depth > 0
        ORDER BY walk.depth
    """
    visited = {checkpoint_id}
    while True:
        rows = await conn.fetch(sql, *place, checkpoint_id, list(channels))
        for ancestor, stored in rows:
            if ancestor in visited:  # a loop
                return
            visited.add(ancestor)
            yield Ancestor(ancestor, frozenset(stored or ()))
        if len(rows) < _STRIDE:
            return
        checkpoint_id = rows[-1][0]


def _has_value(tables: Tables, channel: str) -> str:
    return f"""(
        c.checkpoint -> 'channel_values' ? {channel} OR EXISTS (
            SELECT 1 FROM {tables.blobs} AS b
            WHERE b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns AND b.channel = {channel}
                AND b.version = c.checkpoint -> 'channel_versions' ->> {channel} AND b.type <> 'empty'
        )
    )"""


async def stored_there(
    conn: Any, tables: Tables, place: tuple[str, str], checkpoint_id: str, channels: Collection[str]
) -> set[str]:
    """Return those of `channels` that have a stored value at the checkpoint itself."""
    rows = await conn.fetch(
        f"SELECT wanted.channel FROM {tables.checkpoints} AS c, unnest($4::text[]) AS wanted (channel) "
        "WHERE c.thread_id = $1::text AND c.checkpoint_ns = $2::text AND c.checkpoint_id = $3::text "
        f"AND {_has_value(tables, 'wanted.channel')}",
        *place,
        checkpoint_id,
        list(channels),
    )
    return {channel for (channel,) in rows}


async def delta_history(
    conn: Any, tables: Tables, serde: SerializerProtocol, place: Place, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    """Return, for each channel, the nearest stored value above the checkpoint and the writes after it."""
    where, start = (place.thread_id, place.checkpoint_ns), place.checkpoint_id
    if start is None:
        start = await conn.fetchval(
            f"SELECT max(checkpoint_id) FROM {tables.checkpoints} WHERE thread_id = $1 AND checkpoint_ns = $2", *where
        )
    found: dict[str, Any] = {name: {"writes": []} for name in channels}
    wanted = set(channels)
    takers: dict[str, frozenset[str]] = {}  # nearest first; channels without a value until there
    seeds: dict[str, str] = {}
    async with aclosing(ancestors(conn, tables, where, start or "", wanted)) as walk:  # type: ignore[type-var]
        async for ancestor in walk:
            takers[ancestor.checkpoint_id] = frozenset(wanted)
            seeds.update(dict.fromkeys(wanted & ancestor.stored, ancestor.checkpoint_id))
            wanted -= ancestor.stored
            if not wanted:
                break
    if wanted:
        for name in await _cut(conn, tables, where, next(reversed(takers), start), wanted):
            found[name]["cut"] = True
    for name, value in (await _seeds(conn, tables, serde, where, seeds)).items():
        found[name]["seed"] = value
    writes = await _writes(conn, tables, where, list(takers), channels)
    for checkpoint_id in reversed(takers):
        taken = [row for row in writes.get(checkpoint_id, ()) if row[1] in takers[checkpoint_id]]
        for write in load_writes(serde, taken, key=(*where, checkpoint_id)):
            found[write[1]]["writes"].append(write)
    return found


async def _cut(
    conn: Any, tables: Tables, where: tuple[str, str], checkpoint_id: str | None, channels: Collection[str]
) -> list[str]:
    """Return those of `channels` that had a value before the oldest checkpoint that is left."""
    rows = await conn.fetch(
        f"SELECT wanted.channel FROM {tables.checkpoints} AS c, unnest($4::text[]) AS wanted (channel) "
        "WHERE c.thread_id = $1::text AND c.checkpoint_ns = $2::text AND c.checkpoint_id = $3::text "
        "AND c.checkpoint -> 'channel_versions' ? wanted.channel AND (c.parent_checkpoint_id IS NOT NULL "
        "OR coalesce(c.metadata -> 'counters_since_delta_snapshot' ? wanted.channel, false))",
        *where,
        checkpoint_id or "",
        list(channels),
    )
    return [channel for (channel,) in rows]


async def _seeds(
    conn: Any, tables: Tables, serde: SerializerProtocol, where: tuple[str, str], seeds: dict[str, str]
) -> dict[str, Any]:
    if not seeds:
        return {}
    rows = await conn.fetch(
        f"""
        SELECT wanted.channel, b.type, b.blob, (c.checkpoint -> 'channel_values' -> wanted.channel)::text,
            c.checkpoint -> 'channel_versions' ->> wanted.channel
        FROM unnest($3::text[], $4::text[]) AS wanted (channel, id)
        JOIN {tables.checkpoints} AS c
            ON c.thread_id = $1::text AND c.checkpoint_ns = $2::text AND c.checkpoint_id = wanted.id
        LEFT JOIN {tables.blobs} AS b
            ON b.thread_id = $1 AND b.checkpoint_ns = $2 AND b.channel = wanted.channel
            AND b.version = c.checkpoint -> 'channel_versions' ->> wanted.channel AND b.type <> 'empty'
        """,
        *where,
        list(seeds),
        list(seeds.values()),
    )
    found: dict[str, Any] = {}
    for channel, kind, value, inside, version in rows:
        key = (*where, seeds[channel])
        if kind:
            typed = (kind, value or b"")
            found[channel] = load_value(serde, typed, channel=channel, key=key, slot=("value", version))
        else:
            check_inside(serde, channel, key, version)
            found[channel] = json.loads(inside)
    return found


async def _writes(
    conn: Any, tables: Tables, where: tuple[str, str], ids: Sequence[str], channels: Sequence[str]
) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    if not ids:
        return found
    rows = await conn.fetch(
        f"""
        SELECT checkpoint_id, task_id, channel, type, blob, idx FROM {tables.writes}
        WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = ANY ($3::text[]) AND channel = ANY ($4::text[])
        ORDER BY task_path COLLATE "C", task_id COLLATE "C", idx
        """,
        *where,
        ids,
        list(channels),
    )
    for row in rows:
        found.setdefault(row[0], []).append(tuple(row)[1:])
    return found
