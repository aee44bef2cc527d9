"""Reads checkpoints: one, a page of many, the newest of each thread.

Everything here runs in a connection's thread and returns rows; what they hold is decoded by the one who asked.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

from langgraph_async.checkpoint.rows import Place
from langgraph_async.checkpoint.sqlite.lane import Job
from langgraph_async.checkpoint.sqlite.schema import CHECKPOINT_COLUMNS, fetch, translated

Key: TypeAlias = tuple[str, str, str]
"""Thread, namespace, checkpoint id."""

PAGE_BYTES = 4_000_000
"""Stored size of checkpoints at which a page ends early."""
_PAGE_ROWS = 100
_INT64 = 2**63
_WRITE_COLUMNS = "w.task_id, w.channel, w.type, w.value, w.idx"
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]+")


def read_batch(conn: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    """Do `jobs`, all on the database as it is at one moment."""
    with _one_moment(conn):
        for job in jobs:
            try:
                job.value = job.work(conn)
            except Exception as exc:  # noqa: BLE001 - the one who asked has it
                job.error = translated(exc)


@contextmanager
def _one_moment(conn: sqlite3.Connection) -> Iterator[None]:
    if conn.in_transaction:  # a connection that others use, too
        yield
        return
    conn.execute("BEGIN")
    try:
        yield
    finally:
        if conn.in_transaction:
            conn.execute("COMMIT")


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read this database.

    Attributes:
        path: The column of task paths, or what stands for it where the database lacks it.
    """

    path: str = "w.task_path"

    def one(self, conn: sqlite3.Connection, place: Place) -> tuple[Any, list[Any]] | None:
        """Return the row of the named checkpoint, or the newest, and those of its writes in their order."""
        thread_id, ns, checkpoint_id = place
        sql = f"SELECT {CHECKPOINT_COLUMNS} FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
        if checkpoint_id is None:
            rows = fetch(conn, f"{sql} ORDER BY checkpoint_id DESC LIMIT 1", (thread_id, ns))
        else:
            rows = fetch(conn, f"{sql} AND checkpoint_id = ?", (thread_id, ns, checkpoint_id))
        if not rows:
            return None
        writes = fetch(
            conn,
            f"SELECT {_WRITE_COLUMNS} FROM writes AS w "
            "WHERE w.thread_id = ? AND w.checkpoint_ns = ? AND w.checkpoint_id = ? "
            f"ORDER BY {self.path}, w.task_id, w.idx",
            rows[0][:3],
        )
        return rows[0], writes

    def standing(self, conn: sqlite3.Connection, keys: Sequence[Key]) -> dict[Key, list[Any]]:
        """Return the writes of several checkpoints without what was written: task id, channel, type tag."""
        return self.writes_of(conn, keys, columns="w.task_id, w.channel, w.type")

    def writes_of(
        self,
        conn: sqlite3.Connection,
        keys: Sequence[Key],
        *,
        channels: Sequence[str] | None = None,
        columns: str = _WRITE_COLUMNS,
    ) -> dict[Key, list[Any]]:
        """Return the rows of the writes of several checkpoints, each in their order."""
        found: dict[Key, list[Any]] = {key: [] for key in keys}
        for start in range(0, len(keys), _PAGE_ROWS):
            part = keys[start : start + _PAGE_ROWS]
            parameters = list(chain.from_iterable(part))
            condition = ""
            if channels is not None:
                condition = "WHERE w.channel IN (SELECT value FROM json_each(?)) "
                parameters.append(json.dumps(channels))
            rows = fetch(
                conn,
                f"WITH wanted (t, n, c) AS (VALUES {', '.join(['(?, ?, ?)'] * len(part))}) "
                f"SELECT w.thread_id, w.checkpoint_ns, w.checkpoint_id, {columns} "
                "FROM wanted CROSS JOIN writes AS w "
                f"ON w.thread_id = t AND w.checkpoint_ns = n AND w.checkpoint_id = c {condition}"
                f"ORDER BY {self.path}, w.task_id, w.idx",
                parameters,
            )
            for row in rows:
                found[row[:3]].append(row[3:])
        return found

    def page(self, conn: sqlite3.Connection, selection: Selection, after: Key | None, limit: int) -> list[Any]:
        """Return up to `limit` rows of checkpoints, each with those of its writes, that come behind `after`."""
        conditions, parameters = selection.conditions()
        if after is not None:
            conditions.append("(checkpoint_id < ? OR (checkpoint_id = ? AND (thread_id, checkpoint_ns) > (?, ?)))")
            parameters += [after[2], after[2], after[0], after[1]]
        order = "checkpoint_id DESC, thread_id, checkpoint_ns"
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        columns = ", ".join(f"c.{name}" for name in CHECKPOINT_COLUMNS.split(", "))
        cursor = conn.cursor()
        cursor.row_factory = None
        cursor.execute(
            # Rows are sorted by their keys alone, and only those of the page are read whole.
            f"SELECT {columns} FROM (SELECT rowid AS number FROM checkpoints {where}ORDER BY {order} LIMIT ?) "
            f"JOIN checkpoints AS c ON c.rowid = number ORDER BY {order}",
            [*parameters, min(limit, _PAGE_ROWS)],
        )
        rows: list[Any] = []
        size = 0
        for row in cursor:
            rows.append(row)
            size += len(row[5]) if isinstance(row[5], bytes) else 0
            if size >= PAGE_BYTES:
                break
        cursor.close()
        writes = self.writes_of(conn, [row[:3] for row in rows])
        return [(row, writes[row[:3]]) for row in rows]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which checkpoints are listed.

    Attributes:
        thread_id: Of one thread only.
        checkpoint_ns: Of one namespace only.
        checkpoint_id: Only this one.
        before: Only those with a smaller id.
        filter: Metadata entries that must be equal.
    """

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    filter: Mapping[str, Any] = field(default_factory=dict)

    def conditions(self) -> tuple[list[str], list[Any]]:
        """Return conditions, to be joined by AND, and their parameters.

        They may let through rows whose metadata does not match; see `matches`.
        """
        conditions: list[str] = []
        parameters: list[Any] = []
        for name in ("thread_id", "checkpoint_ns", "checkpoint_id"):
            wanted = getattr(self, name)
            if wanted is not None:
                conditions.append(f"{name} = ?")
                parameters.append(wanted)
        if self.before is not None:
            conditions.append("checkpoint_id < ?")
            parameters.append(self.before)
        for key, value in self.filter.items():
            if _PLAIN_KEY.fullmatch(key) and _comparable(value):
                conditions.append(f"{_entry()} = ?")
                parameters += [f'$."{key}"', value, value]
        return conditions, parameters

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Tell whether metadata has all entries of the filter."""
        return all(metadata.get(key) == value for key, value in self.filter.items())


def _entry() -> str:
    # Metadata with a NaN is no JSON to SQLite: such a row is let through.
    text = "CAST(metadata AS TEXT)"
    return f"CASE WHEN json_valid({text}) THEN json_extract({text}, ?) ELSE ? END"


def _comparable(value: Any) -> bool:
    """Tell whether SQLite finds `value` equal exactly where Python does."""
    if isinstance(value, str):
        return value.isprintable()
    return isinstance(value, int) and -_INT64 <= value < _INT64


_THREADS = """
    SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id, c.metadata
    FROM (
        SELECT thread_id AS t, max(checkpoint_id) AS newest FROM checkpoints WHERE checkpoint_ns = '' GROUP BY thread_id
    )
    JOIN checkpoints AS c ON c.thread_id = t AND c.checkpoint_ns = '' AND c.checkpoint_id = newest
    WHERE (newest < ?1 OR (newest = ?1 AND t > ?2))
    ORDER BY newest DESC, t
    LIMIT ?3
"""
_MAX_TEXT = "\U0010ffff"
_THREADS_PAGE = 500


def threads(conn: sqlite3.Connection, reading: Reading, after: tuple[str, str] | None) -> list[Any]:
    """Return rows of the newest checkpoints of threads behind `after`, each with its tasks' writes.

    Args:
        conn: The connection.
        reading: How to read.
        after: Checkpoint id and thread id of the last one before.
    """
    newest, thread_id = after or (_MAX_TEXT, "")
    rows = fetch(conn, _THREADS, (newest, thread_id, _THREADS_PAGE))
    writes = reading.standing(conn, [row[:3] for row in rows])
    return [(row, writes[row[:3]]) for row in rows]
