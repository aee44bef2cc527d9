"""Walks from a checkpoint towards its root, to find what delta channels are rebuilt from."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from langgraph_async.checkpoint.base import DeltaChannelHistory, PendingWrite
from langgraph_async.checkpoint.postgres.dump import check_inside
from langgraph_async.checkpoint.postgres.tables import Tables
from langgraph_async.checkpoint.rows import Place, load_value
from langgraph_async.serde.base import SerializerProtocol

_STRIDE = 100
"""Ancestors that one query lists."""
_STRETCH = 1000
"""Ancestors that one query rebuilds values from."""
BY_KEY = "ORDER BY w.task_id, w.idx OFFSET 0"
"""Ends a subquery for the writes on one checkpoint.

The order is that of the table's key, by which they are then looked up. A plan that was made when the table was empty
would read all writes of the thread: the index on the thread alone costs the same then.
"""


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
    stored = stored_value(tables, "true", channel)
    return f"(c.checkpoint -> 'channel_values' ? {channel} OR coalesce(({stored}), false))"


def stored_value(tables: Tables, columns: str, channel: str) -> str:
    """Return a subquery for the value that a checkpoint `c` has of a channel.

    The limit has it looked up by its whole key. Without it the planner may join all values of the thread, which is
    cheaper as long as there are few, and the plan is kept when there are many.
    """
    return f"""
        SELECT {columns} FROM {tables.blobs} AS b
        WHERE b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns AND b.channel = {channel}
            AND b.version = c.checkpoint -> 'channel_versions' ->> {channel} AND b.type <> 'empty'
        LIMIT 1
    """


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


class _Stretch(NamedTuple):
    """What one statement finds; lists are None where they are empty.

    Attributes:
        ids: Ancestors, nearest first.
        missing: Channels that have no stored value on any of them.
        writers: Where writes were found, as places in `ids`, counted from 1: oldest first, and then in their order.
        tasks: Their tasks.
        targets: The channels they wrote to.
        write_kinds: Type tags of what they wrote.
        written: What they wrote.
        positions: Their positions.
        holders: Where values were found.
        channels: Their channels.
        kinds: Their type tags; None for a value inside the checkpoint.
        values: Their bytes.
        inside: What the checkpoint itself holds, as JSON.
        versions: Their versions.
    """

    ids: Sequence[str] | None
    missing: Sequence[str] | None
    writers: Sequence[str] | None
    tasks: Sequence[str] | None
    targets: Sequence[str] | None
    write_kinds: Sequence[str | None] | None
    written: Sequence[bytes] | None
    positions: Sequence[str] | None
    holders: Sequence[str] | None
    channels: Sequence[str] | None
    kinds: Sequence[str | None] | None
    values: Sequence[bytes | None] | None
    inside: Sequence[str | None] | None
    versions: Sequence[str | None] | None


@functools.cache
def rebuilding(tables: Tables) -> str:
    """Return the statement for a stretch of ancestors, which ends where every wanted channel has had a stored value."""
    mine = "{0}.thread_id = $1 AND {0}.checkpoint_ns = $2"
    checkpoint = f"""
        SELECT * FROM {tables.checkpoints} AS c WHERE {mine.format("c")} AND c.checkpoint_id = {{}} OFFSET 0
    """
    return f"""
        WITH RECURSIVE walk (id, parent, depth, wanted, missing) AS (
            SELECT c.checkpoint_id, c.parent_checkpoint_id, 0, $4::text[], $4::text[] FROM {tables.checkpoints} AS c
            WHERE c.thread_id = $1::text AND c.checkpoint_ns = $2::text AND c.checkpoint_id = $3::text
            UNION ALL
            SELECT c.checkpoint_id, c.parent_checkpoint_id, walk.depth + 1, walk.missing, ARRAY (
                SELECT named.channel FROM unnest(walk.missing) AS named (channel)
                WHERE NOT {_has_value(tables, "named.channel")}
            )
            FROM walk CROSS JOIN LATERAL ({checkpoint.format("walk.parent")}) AS c
            WHERE walk.depth < {_STRETCH} AND walk.missing <> '{{}}'
        )
        SELECT passed.ids, (SELECT missing FROM walk ORDER BY depth DESC LIMIT 1), w.*, v.*
        FROM (SELECT array_agg(walk.id ORDER BY walk.depth) AS ids FROM walk WHERE walk.depth > 0) AS passed
        CROSS JOIN (
            SELECT array_agg(o.depth::text), array_agg(o.task_id), array_agg(o.channel), array_agg(o.type),
                array_agg(o.blob), array_agg(o.idx::text)
            FROM (
                SELECT walk.depth, w.task_id, w.channel, w.type, w.blob, w.idx
                FROM walk CROSS JOIN LATERAL (
                    SELECT * FROM {tables.writes} AS w
                    WHERE {mine.format("w")} AND w.checkpoint_id = walk.id AND w.channel = ANY (walk.wanted)
                    {BY_KEY}
                ) AS w
                WHERE walk.depth > 0
                ORDER BY walk.depth DESC, w.task_path COLLATE "C", w.task_id COLLATE "C", w.idx
            ) AS o
        ) AS w
        CROSS JOIN (
            SELECT array_agg(walk.depth::text), array_agg(named.channel), array_agg(b.type), array_agg(b.blob),
                array_agg((c.checkpoint -> 'channel_values' -> named.channel)::text),
                array_agg(c.checkpoint -> 'channel_versions' ->> named.channel)
            FROM walk CROSS JOIN LATERAL ({checkpoint.format("walk.id")}) AS c
            CROSS JOIN LATERAL unnest(walk.wanted) AS named (channel)
            LEFT JOIN LATERAL ({stored_value(tables, "b.type, b.blob", "named.channel")}) AS b ON true
            WHERE walk.depth > 0 AND walk.wanted <> walk.missing AND named.channel <> ALL (walk.missing)
        ) AS v
    """


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
    at, wanted = start or "", list(channels)
    passed: dict[str, None] = {at: None}
    stretches: list[tuple[_Stretch, int]] = []
    while wanted:
        stretch = _Stretch(*(await conn.fetchrow(rebuilding(tables), *where, at, wanted)))
        ids = stretch.ids or ()
        before = len(passed)
        passed.update(dict.fromkeys(ids))
        count = len(passed) - before
        stretches.append((stretch, count))
        at, wanted = next(reversed(passed)), list(wanted if stretch.missing is None else stretch.missing)
        if count < _STRETCH:  # the root is reached, or a checkpoint that was passed before
            break
    for name in await _cut(conn, tables, where, at, wanted) if wanted else ():
        found[name]["cut"] = True
    for stretch, count in reversed(stretches):
        for name, value in _seeds(serde, where, stretch, count):
            found[name]["seed"] = value
        for write in _writes(serde, where, stretch, count):
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


def _seeds(
    serde: SerializerProtocol, where: tuple[str, str], stretch: _Stretch, count: int
) -> Iterator[tuple[str, Any]]:
    """Yield the values that the first `count` ancestors of a stretch have, by their channels."""
    columns = (stretch.holders, stretch.channels, stretch.kinds, stretch.values, stretch.inside, stretch.versions)
    for depth, channel, kind, value, inside, version in zip(*(column or () for column in columns), strict=True):
        if int(depth) > count:
            continue
        key = (*where, stretch.ids[int(depth) - 1])  # type: ignore[index]
        if kind:
            typed = (kind, value or b"")
            yield channel, load_value(serde, typed, channel=channel, key=key, slot=("value", version))
        else:
            check_inside(serde, channel, key, version)
            yield channel, json.loads(inside)


def _writes(serde: SerializerProtocol, where: tuple[str, str], stretch: _Stretch, count: int) -> Iterator[PendingWrite]:
    """Yield what was written on the first `count` ancestors of a stretch, oldest first."""
    columns = (stretch.writers, stretch.tasks, stretch.targets, stretch.write_kinds, stretch.written, stretch.positions)
    for depth, task, channel, kind, value, idx in zip(*(column or () for column in columns), strict=True):
        if int(depth) <= count:
            key = (*where, stretch.ids[int(depth) - 1])  # type: ignore[index]
            typed = (kind or "msgpack", value or b"")
            yield task, channel, load_value(serde, typed, channel=channel, key=key, slot=("write", task, idx))
