"""Changes that concern whole threads: delete, copy, prune, and delete by run.

All functions run in a transaction of their own, and may be run a second time when it failed. Each first takes the
gates of the threads that it changes (see `statement`), and reads them after that: a commit under way is either waited
for, or waits and then finds what was left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from langgraph_async.checkpoint.postgres.history import ancestors, stored_there
from langgraph_async.checkpoint.postgres.moved import copy_placed_rows
from langgraph_async.checkpoint.postgres.source import transaction
from langgraph_async.checkpoint.postgres.tables import GATE, Tables
from langgraph_async.checkpoint.rows import load_metadata, placed, unsnapshotted
from langgraph_async.errors import ConfigError
from langgraph_async.serde.base import SerializerProtocol

_SWEPT = 100
"""Threads that one transaction deletes: others are not to wait long."""


async def _take_gates(conn: Any, tables: Tables, threads: Iterable[str], *, head_moves: bool) -> None:
    """Wait for the commits under way, and keep others waiting; with `head_moves` they are refused afterwards."""
    ordered = (
        f"SELECT ctid FROM {tables.blobs} WHERE thread_id = ANY ($1::text[]) AND channel = '{GATE}' "
        "ORDER BY thread_id, checkpoint_ns FOR UPDATE"
    )
    await conn.fetch(ordered, sorted(threads))
    if head_moves:
        await conn.execute(
            f"UPDATE {tables.blobs} SET blob = NULL WHERE thread_id = ANY ($1::text[]) AND channel = '{GATE}'",
            sorted(threads),
        )


async def delete_threads(conn: Any, tables: Tables, threads: Collection[str]) -> None:
    """Delete everything of some threads."""
    async with transaction(conn):
        await _take_gates(conn, tables, threads, head_moves=False)
        for table in (tables.checkpoints, tables.writes, tables.blobs):
            await conn.execute(f"DELETE FROM {table} WHERE thread_id = ANY ($1::text[])", list(threads))


async def delete_untouched(conn: Any, tables: Tables, before: str) -> int:
    """Delete threads whose newest checkpoint has a smaller id than `before`, and return how many.

    One call deletes a limited number: call it until it returns 0. Threads with ids that tell no time are left alone.
    """
    untouched = f"""
        SELECT thread_id FROM {tables.checkpoints} {{where}}
        GROUP BY thread_id HAVING max(checkpoint_id) < $1
            AND max(checkpoint_id) LIKE '________-____-6___-____-____________'
        LIMIT {_SWEPT}
    """
    async with transaction(conn):
        rows = await conn.fetch(untouched.format(where=""), before)
        threads = [thread_id for (thread_id,) in rows]
        if not threads:
            return 0
        await _take_gates(conn, tables, threads, head_moves=False)
        # A run may have gone on with one of them before its gate was taken.
        rows = await conn.fetch(untouched.format(where="WHERE thread_id = ANY ($2::text[])"), before, threads)
        still = [thread_id for (thread_id,) in rows]
        for table in (tables.checkpoints, tables.writes, tables.blobs):
            await conn.execute(f"DELETE FROM {table} WHERE thread_id = ANY ($1::text[])", still)
        return len(still)


async def copy_thread(conn: Any, tables: Tables, serde: SerializerProtocol, source: str, target: str) -> None:
    """Copy everything of a thread to one that does not exist.

    Raises:
        ConfigError: The target exists.
        EncryptionError: A row cannot be decrypted, to be encrypted for its new place.
    """
    if source == target:
        return
    async with transaction(conn):
        await _take_gates(conn, tables, (source,), head_moves=False)
        if not await _exists(conn, tables, source):
            return
        if await _exists(conn, tables, target):
            raise _in_use(source, target)
        if placed(serde) is None:
            await _copy_rows(conn, tables, source, target)
        else:
            await copy_placed_rows(conn, tables, serde, source, target)


async def _copy_rows(conn: Any, tables: Tables, source: str, target: str) -> None:
    for table, columns in (
        (tables.blobs, "checkpoint_ns, channel, version, type, blob"),
        (tables.writes, "checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob"),
        (tables.checkpoints, "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"),
    ):
        await conn.execute(
            f"INSERT INTO {table} (thread_id, {columns}) SELECT $2::text, {columns} FROM {table} "
            "WHERE thread_id = $1::text ON CONFLICT DO NOTHING",
            source,
            target,
        )


def _in_use(source: str, target: str) -> ConfigError:
    return ConfigError(
        f"Cannot copy thread {source!r} to {target!r}: it has checkpoints already. "
        f"Choose another id, or delete it first with adelete_thread({target!r})."
    )


async def _exists(conn: Any, tables: Tables, thread_id: str) -> bool:
    sql = f"SELECT EXISTS (SELECT 1 FROM {tables.checkpoints} WHERE thread_id = $1)"
    return bool(await conn.fetchval(sql, thread_id))


async def keep_latest(conn: Any, tables: Tables, thread_id: str) -> None:
    """Keep the newest checkpoint of each namespace, and the ancestors that it is rebuilt from."""
    async with transaction(conn):
        await _take_gates(conn, tables, (thread_id,), head_moves=False)
        heads = await conn.fetch(
            f"SELECT checkpoint_ns, max(checkpoint_id) FROM {tables.checkpoints} WHERE thread_id = $1 GROUP BY 1",
            thread_id,
        )
        for ns, head in heads:
            place = (thread_id, ns)
            kept = {head} | await _needed(conn, tables, place, head)
            gone = await conn.fetch(
                f"SELECT checkpoint_id FROM {tables.checkpoints} "
                "WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id <> ALL ($3::text[])",
                *place,
                list(kept),
            )
            await _delete(conn, tables, place, {checkpoint_id for (checkpoint_id,) in gone})


async def delete_runs(conn: Any, tables: Tables, run_ids: Collection[str]) -> None:
    """Delete the checkpoints of these runs, except those that surviving ones are rebuilt from."""
    of_runs = f"FROM {tables.checkpoints} WHERE metadata ->> 'run_id' = ANY ($1::text[])"
    async with transaction(conn):
        threads = await conn.fetch(f"SELECT DISTINCT thread_id {of_runs}", list(run_ids))
        await _take_gates(conn, tables, [thread_id for (thread_id,) in threads], head_moves=True)
        rows = await conn.fetch(f"SELECT thread_id, checkpoint_ns, checkpoint_id {of_runs}", list(run_ids))
        places: dict[tuple[str, str], set[str]] = {}
        for thread_id, ns, checkpoint_id in rows:
            places.setdefault((thread_id, ns), set()).add(checkpoint_id)
        for place, gone in places.items():
            orphans = await conn.fetch(
                f"SELECT checkpoint_id FROM {tables.checkpoints} WHERE thread_id = $1 AND checkpoint_ns = $2 "
                "AND parent_checkpoint_id = ANY ($3::text[]) AND checkpoint_id <> ALL ($3::text[])",
                *place,
                list(gone),
            )
            needed = [await _needed(conn, tables, place, orphan) for (orphan,) in orphans]
            await _delete(conn, tables, place, gone.difference(*needed))


async def _delete(conn: Any, tables: Tables, place: tuple[str, str], ids: Collection[str]) -> None:
    """Delete checkpoints with their writes and values, and make roots of those that they leave without a parent."""
    if not ids:
        return
    where = "thread_id = $1 AND checkpoint_ns = $2"
    listed = "= ANY ($3::text[])"
    await conn.execute(f"DELETE FROM {tables.writes} WHERE {where} AND checkpoint_id {listed}", *place, list(ids))
    await conn.execute(f"DELETE FROM {tables.checkpoints} WHERE {where} AND checkpoint_id {listed}", *place, list(ids))
    await conn.execute(
        f"UPDATE {tables.checkpoints} SET parent_checkpoint_id = NULL WHERE {where} AND parent_checkpoint_id {listed}",
        *place,
        list(ids),
    )
    await conn.execute(
        f"""
        DELETE FROM {tables.blobs} AS b WHERE b.thread_id = $1 AND b.checkpoint_ns = $2 AND NOT EXISTS (
            SELECT 1 FROM {tables.checkpoints} AS c
            WHERE c.thread_id = $1 AND c.checkpoint_ns = $2
                AND (b.channel = '{GATE}' OR c.checkpoint -> 'channel_versions' ->> b.channel = b.version)
        )
        """,
        *place,
    )


async def _needed(conn: Any, tables: Tables, place: tuple[str, str], checkpoint_id: str) -> set[str]:
    """Return the ancestors without which the delta channels of a checkpoint cannot be rebuilt."""
    metadata = await conn.fetchval(
        f"SELECT metadata::text FROM {tables.checkpoints} "
        "WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3",
        *place,
        checkpoint_id,
    )
    wanted = set(unsnapshotted(load_metadata(metadata, key=(*place, checkpoint_id))))
    if wanted:
        wanted -= await stored_there(conn, tables, place, checkpoint_id, wanted)
    needed: set[str] = set()
    if wanted:
        async for ancestor in ancestors(conn, tables, place, checkpoint_id, wanted):
            needed.add(ancestor.checkpoint_id)
            wanted -= ancestor.stored
            if not wanted:
                break
    return needed
