"""Copies a thread whose rows are good for one place only: each is read, made good for its new place, and written.

Runs inside the transaction of `upkeep.copy_thread`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from langgraph_async.checkpoint.postgres.tables import Tables
from langgraph_async.checkpoint.rows import dump_value, mover, placed
from langgraph_async.serde.base import SerializerProtocol

_BATCH = 200
"""Rows that are held in memory at a time."""


async def copy_placed_rows(conn: Any, tables: Tables, serde: SerializerProtocol, source: str, target: str) -> None:
    """Copy all rows of a thread; the target has none.

    Raises:
        EncryptionError: A row was not written there by the serializer.
    """
    move = mover(serde, target)

    def blob(row: Sequence[Any]) -> tuple[Any, ...]:
        ns, channel, version, kind, data = row
        if kind == "empty":
            return tuple(row)
        return (ns, channel, version, *move((kind, data or b""), channel, (source, ns, ""), ("value", version)))

    def write(row: Sequence[Any]) -> tuple[Any, ...]:
        ns, checkpoint, task, _, idx, channel, kind, data = row
        typed = (kind or "msgpack", data or b"")
        return (*row[:6], *move(typed, channel, (source, ns, checkpoint), ("write", task, idx)))

    await _each(conn, tables.blobs, "checkpoint_ns, channel, version, type, blob", source, target, blob)
    columns = "checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob"
    await _each(conn, tables.writes, columns, source, target, write)
    binding = placed(serde)
    document = "checkpoint"
    if binding is not None and binding.allow_plaintext:
        await _copy_values_inside(conn, tables, serde, source, target)
        document = "jsonb_set(checkpoint, '{channel_values}', '{}'::jsonb)"
    columns = "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type"
    await conn.execute(
        f"INSERT INTO {tables.checkpoints} (thread_id, {columns}, checkpoint, metadata) "
        f"SELECT $2::text, {columns}, {document}, metadata FROM {tables.checkpoints} WHERE thread_id = $1::text",
        source,
        target,
    )


async def _copy_values_inside(conn: Any, tables: Tables, serde: SerializerProtocol, source: str, target: str) -> None:
    """Encrypt the values that stand inside the documents of checkpoints; a value beside them counts first."""
    sql = f"""
        SELECT DISTINCT c.checkpoint_ns, inside.channel, c.checkpoint -> 'channel_versions' ->> inside.channel,
            inside.value::text
        FROM {tables.checkpoints} AS c, jsonb_each(c.checkpoint -> 'channel_values') AS inside (channel, value)
        WHERE c.thread_id = $1::text AND c.checkpoint -> 'channel_versions' ? inside.channel
    """

    async for rows in _batches(conn, sql, source):
        written = [
            (
                target,
                *(ns, channel, version),
                *dump_value(serde, json.loads(text), channel=channel, key=(target, ns, ""), slot=("value", version)),
            )
            for ns, channel, version, text in rows
        ]
        await conn.executemany(
            f"INSERT INTO {tables.blobs} (thread_id, checkpoint_ns, channel, version, type, blob) "
            "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
            written,
        )


async def _each(
    conn: Any, table: str, columns: str, source: str, target: str, moved: Callable[[Sequence[Any]], tuple[Any, ...]]
) -> None:
    slots = ", ".join(f"${number}" for number in range(1, columns.count(",") + 3))
    insert = f"INSERT INTO {table} (thread_id, {columns}) VALUES ({slots}) ON CONFLICT DO NOTHING"
    async for rows in _batches(conn, f"SELECT {columns} FROM {table} WHERE thread_id = $1::text", source):
        await conn.executemany(insert, [(target, *moved(tuple(row))) for row in rows])


async def _batches(conn: Any, sql: str, source: str) -> AsyncIterator[list[Any]]:
    cursor = await conn.cursor(sql, source)
    while rows := await cursor.fetch(_BATCH):
        yield rows


__all__ = ["copy_placed_rows"]
