"""Creates LangGraph's tables, by the same numbered steps, from any number of processes at once.

Source: LangGraph's tables, as ``langgraph-checkpoint-postgres`` creates them.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph_async.checkpoint.postgres.tables import Tables, quoted
from langgraph_async.errors import StorageError

_INDEXES = (
    ("checkpoints", "checkpoints_thread_id_idx"),
    ("checkpoint_blobs", "checkpoint_blobs_thread_id_idx"),
    ("checkpoint_writes", "checkpoint_writes_thread_id_idx"),
)
_POLL_S = 0.05


def migrations(tables: Tables) -> tuple[str, ...]:
    """Return the steps; the place of each is its number in `checkpoint_migrations`."""
    indexed = [
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {index} ON {table} (thread_id)"
        for (_, index), table in zip(_INDEXES, (tables.checkpoints, tables.blobs, tables.writes), strict=True)
    ]
    return (
        f"CREATE TABLE IF NOT EXISTS {tables.migrations} (v INTEGER PRIMARY KEY)",
        f"""
        CREATE TABLE IF NOT EXISTS {tables.checkpoints} (
            thread_id TEXT NOT NULL,
            checkpoint_ns TEXT NOT NULL DEFAULT '',
            checkpoint_id TEXT NOT NULL,
            parent_checkpoint_id TEXT,
            type TEXT,
            checkpoint JSONB NOT NULL,
            metadata JSONB NOT NULL DEFAULT '{{}}',
            PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
        )
        """,
        f"""
        CREATE TABLE IF NOT EXISTS {tables.blobs} (
            thread_id TEXT NOT NULL,
            checkpoint_ns TEXT NOT NULL DEFAULT '',
            channel TEXT NOT NULL,
            version TEXT NOT NULL,
            type TEXT NOT NULL,
            blob BYTEA,
            PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
        )
        """,
        f"""
        CREATE TABLE IF NOT EXISTS {tables.writes} (
            thread_id TEXT NOT NULL,
            checkpoint_ns TEXT NOT NULL DEFAULT '',
            checkpoint_id TEXT NOT NULL,
            task_id TEXT NOT NULL,
            idx INTEGER NOT NULL,
            channel TEXT NOT NULL,
            type TEXT,
            blob BYTEA NOT NULL,
            PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
        )
        """,
        f"ALTER TABLE {tables.blobs} ALTER COLUMN blob DROP NOT NULL",
        "SELECT 1",  # a number that LangGraph keeps free
        *indexed,
        f"ALTER TABLE {tables.writes} ADD COLUMN IF NOT EXISTS task_path TEXT NOT NULL DEFAULT ''",
    )


async def create(conn: Any, tables: Tables) -> None:
    """Create what is missing.

    Raises:
        StorageError: The tables are those of LangGraph's shallow saver, which have other keys.
    """
    steps = migrations(tables)
    if await _done(conn, tables) == len(steps) - 1:
        return
    async with _alone(conn, tables):
        if tables.schema is not None:
            await conn.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(tables.schema)}")
        await _refuse_shallow(conn, tables)
        await conn.execute(steps[0])
        done = await _done(conn, tables)
        for number, step in enumerate(steps):
            if number > done:
                if "CONCURRENTLY" in step:
                    await _drop_broken(conn, step)
                await conn.execute(step)
                await conn.execute(f"INSERT INTO {tables.migrations} (v) VALUES ({number}) ON CONFLICT DO NOTHING")


async def _done(conn: Any, tables: Tables) -> int:
    """Return the number of the last step that was taken, or -1."""
    if await conn.fetchval("SELECT to_regclass($1)", tables.migrations) is None:
        return -1
    newest = await conn.fetchval(f"SELECT max(v) FROM {tables.migrations}")
    return -1 if newest is None else int(newest)


@asynccontextmanager
async def _alone(conn: Any, tables: Tables) -> AsyncIterator[None]:
    """Hold the lock of those who create tables.

    It is asked for again and again instead of waited for: building an index concurrently waits for all statements
    that are running, also for one that would wait for this lock.
    """
    key = zlib.crc32(b"langgraph_async setup " + tables.migrations.encode())
    try:
        while not await conn.fetchval("SELECT pg_try_advisory_lock($1)", key):  # noqa: ASYNC110 - others are processes
            await asyncio.sleep(_POLL_S)
        yield
    except BaseException:
        if not conn.is_closed():  # asked while the answer was lost, it may hold the lock, or not
            await conn.fetchval("SELECT pg_advisory_unlock($1)", key)
        raise
    await conn.fetchval("SELECT pg_advisory_unlock($1)", key)


async def _refuse_shallow(conn: Any, tables: Tables) -> None:
    columns = await conn.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
        tables.checkpoints,
    )
    if columns and "checkpoint_id" not in {name for (name,) in columns}:
        raise StorageError(
            f"The table {tables.checkpoints} belongs to LangGraph's shallow saver, which keeps no history. "
            "Give this saver another database, or a schema of its own: schema='...'."
        )


async def _drop_broken(conn: Any, step: str) -> None:
    """Drop an index whose building was interrupted: it would count as existing, and serve nobody."""
    name = step.split(" ON ")[0].rsplit(" ", 1)[1]
    table = step.split(" ON ")[1].split(" (")[0]
    broken = await conn.fetchval(
        "SELECT i.indexrelid::regclass::text FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid "
        "WHERE i.indrelid = to_regclass($1) AND c.relname = $2 AND NOT i.indisvalid",
        table,
        name,
    )
    if broken is not None:
        await conn.execute(f"DROP INDEX {broken}")
