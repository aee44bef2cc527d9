"""Changes that concern whole threads: delete, copy, prune, and delete by run.

All functions run in a connection's thread, inside a transaction; they may be run a second time when it failed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from langgraph_async.checkpoint.rows import CHECKPOINT_SLOT, TypedBytes, load_metadata, mover, placed, unsnapshotted
from langgraph_async.checkpoint.sqlite.dump import load_checkpoint, typed
from langgraph_async.checkpoint.sqlite.history import ancestors
from langgraph_async.checkpoint.sqlite.schema import fetch
from langgraph_async.errors import ConfigError
from langgraph_async.serde.base import SerializerProtocol

_SWEPT = 100
"""Threads that one transaction deletes: others are not to wait long."""


def delete_thread(conn: sqlite3.Connection, thread_id: str) -> None:
    """Delete everything of a thread."""
    conn.execute("DELETE FROM writes WHERE thread_id = ?", (thread_id,))
    conn.execute("DELETE FROM checkpoints WHERE thread_id = ?", (thread_id,))


def delete_untouched(conn: sqlite3.Connection, before: str) -> int:
    """Delete threads whose newest checkpoint has a smaller id than `before`, and return how many.

    One call deletes a limited number: call it until it returns 0. Threads with ids that tell no time are left alone.
    """
    threads = fetch(
        conn,
        "SELECT thread_id FROM checkpoints GROUP BY thread_id "
        "HAVING max(checkpoint_id) < ? AND max(checkpoint_id) GLOB '????????-????-6???-????-????????????' LIMIT ?",
        (before, _SWEPT),
    )
    for (thread_id,) in threads:
        delete_thread(conn, thread_id)
    return len(threads)


def copy_thread(conn: sqlite3.Connection, serde: SerializerProtocol, source: str, target: str) -> None:
    """Copy everything of a thread to one that does not exist.

    Raises:
        ConfigError: The target exists.
        EncryptionError: A row cannot be decrypted, to be encrypted for its new place.
    """
    if source == target or not _exists(conn, source):
        return
    if _exists(conn, target):
        raise ConfigError(
            f"Cannot copy thread {source!r} to {target!r}: it has checkpoints already. "
            f"Choose another id, or delete it first with adelete_thread({target!r})."
        )
    if placed(serde) is None:
        _copy_rows(conn, source, target)
    else:
        _copy_placed_rows(conn, serde, source, target)


def _copy_rows(conn: sqlite3.Connection, source: str, target: str) -> None:
    conn.execute(
        "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, "
        "metadata) SELECT ?, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata "
        "FROM checkpoints WHERE thread_id = ?",
        (target, source),
    )
    conn.execute(
        "INSERT OR REPLACE INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, "
        "type, value) SELECT ?, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value "
        "FROM writes WHERE thread_id = ?",
        (target, source),
    )


def _copy_placed_rows(conn: sqlite3.Connection, serde: SerializerProtocol, source: str, target: str) -> None:
    """Copy rows one by one, each made good for its new place."""
    move = mover(serde, target)

    def moved_checkpoint(row: Sequence[Any]) -> tuple[Any, ...]:
        ns, id, parent_id, kind, data, metadata = row
        written: TypedBytes = move(
            typed((kind, data), "checkpoint", (source, ns, id)), "checkpoint", (source, ns, id), CHECKPOINT_SLOT
        )
        return (target, ns, id, parent_id, *written, metadata)

    def moved_write(row: Sequence[Any]) -> tuple[Any, ...]:
        ns, id, task, path, idx, channel, kind, data = row
        written = move(typed((kind, data), channel, (source, ns, id)), channel, (source, ns, id), ("write", task, idx))
        return (target, ns, id, task, path, idx, channel, *written)

    columns = "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
    rows = fetch(conn, f"SELECT {columns} FROM checkpoints WHERE thread_id = ?", (source,))
    conn.executemany(
        f"INSERT INTO checkpoints (thread_id, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", map(moved_checkpoint, rows)
    )
    columns = "checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value"
    rows = fetch(conn, f"SELECT {columns} FROM writes WHERE thread_id = ?", (source,))
    conn.executemany(
        f"INSERT OR REPLACE INTO writes (thread_id, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        map(moved_write, rows),
    )


def _exists(conn: sqlite3.Connection, thread_id: str) -> bool:
    return bool(fetch(conn, "SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1", (thread_id,)))


def keep_latest(conn: sqlite3.Connection, serde: SerializerProtocol, thread_id: str) -> None:
    """Keep the newest checkpoint of each namespace, and the ancestors that it is rebuilt from."""
    heads = fetch(
        conn,
        "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns",
        (thread_id,),
    )
    for ns, head in heads:
        kept = {head} | _needed(conn, serde, thread_id, ns, head)
        gone = fetch(
            conn,
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? "
            "AND checkpoint_id NOT IN (SELECT value FROM json_each(?))",
            (thread_id, ns, json.dumps(sorted(kept))),
        )
        _delete(conn, thread_id, ns, [checkpoint_id for (checkpoint_id,) in gone])


def delete_runs(conn: sqlite3.Connection, serde: SerializerProtocol, run_ids: Collection[str]) -> None:
    """Delete the checkpoints of these runs, except those that surviving ones are rebuilt from."""
    rows = fetch(
        conn,
        "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints "
        "WHERE json_valid(CAST(metadata AS TEXT)) AND CAST(json_extract(CAST(metadata AS TEXT), '$.run_id') AS TEXT) "
        "IN (SELECT value FROM json_each(?))",
        (json.dumps(sorted(run_ids)),),
    )
    places: dict[tuple[str, str], set[str]] = {}
    for thread_id, ns, checkpoint_id in rows:
        places.setdefault((thread_id, ns), set()).add(checkpoint_id)
    for (thread_id, ns), gone in places.items():
        orphans = fetch(
            conn,
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ?1 AND checkpoint_ns = ?2 "
            "AND parent_checkpoint_id IN (SELECT value FROM json_each(?3)) "
            "AND checkpoint_id NOT IN (SELECT value FROM json_each(?3))",
            (thread_id, ns, json.dumps(sorted(gone))),
        )
        needed = [_needed(conn, serde, thread_id, ns, orphan) for (orphan,) in orphans]
        _delete(conn, thread_id, ns, gone.difference(*needed))


def _delete(conn: sqlite3.Connection, thread_id: str, ns: str, ids: Iterable[str]) -> None:
    """Delete checkpoints with their writes, and make roots of those that they leave without a parent."""
    where = "thread_id = ?1 AND checkpoint_ns = ?2"
    listed = "IN (SELECT value FROM json_each(?3))"
    parameters = (thread_id, ns, json.dumps(sorted(ids)))
    conn.execute(f"DELETE FROM writes WHERE {where} AND checkpoint_id {listed}", parameters)
    conn.execute(f"DELETE FROM checkpoints WHERE {where} AND checkpoint_id {listed}", parameters)
    conn.execute(
        f"UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE {where} AND parent_checkpoint_id {listed}",
        parameters,
    )


def _needed(conn: sqlite3.Connection, serde: SerializerProtocol, thread_id: str, ns: str, head: str) -> set[str]:
    """Return the ancestors without which the delta channels of a checkpoint cannot be rebuilt."""
    rows = fetch(
        conn,
        "SELECT type, checkpoint, metadata FROM checkpoints "
        "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
        (thread_id, ns, head),
    )
    wanted = set(unsnapshotted(load_metadata(rows[0][2], key=(thread_id, ns, head))))
    if not wanted:
        return set()
    wanted -= load_checkpoint(serde, rows[0][:2], key=(thread_id, ns, head))["channel_values"].keys()
    needed: set[str] = set()
    for ancestor in ancestors(conn, serde, thread_id, ns, head):
        if not wanted:
            break
        needed.add(ancestor.checkpoint_id)
        wanted.difference_update(ancestor.stored)
    return needed
