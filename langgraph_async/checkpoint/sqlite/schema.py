"""The tables, how they come about, and what the database's errors mean.

Any number of processes may prepare a database at once. One that is complete is left as it is, so that it can also be
opened read-only; the only migration is the column `task_path`, which databases of old LangGraph versions lack.

Source: LangGraph's tables, as ``langgraph-checkpoint-sqlite`` creates them.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiosqlite

from langgraph_async.errors import StorageError

T = TypeVar("T")

CHECKPOINT_COLUMNS = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
WRITE_COLUMNS = "thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value"

_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS checkpoints (
        thread_id TEXT NOT NULL,
        checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL,
        parent_checkpoint_id TEXT,
        type TEXT,
        checkpoint BLOB,
        metadata BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS writes (
        thread_id TEXT NOT NULL,
        checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        task_path TEXT NOT NULL DEFAULT '',
        idx INTEGER NOT NULL,
        channel TEXT NOT NULL,
        type TEXT,
        value BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
    )
    """,
)
_ADD_PATH = "ALTER TABLE writes ADD COLUMN task_path TEXT NOT NULL DEFAULT ''"
_RETRY_S = 0.02

_REASONS = {
    sqlite3.SQLITE_BUSY: ("busy", "it is locked by another connection or process; try again, or raise busy_timeout_s"),
    sqlite3.SQLITE_LOCKED: ("busy", "a table is locked by another connection; try again"),
    sqlite3.SQLITE_FULL: ("full", "there is no space left"),
    sqlite3.SQLITE_READONLY: ("read_only", "it cannot be written to; check the permissions of the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: (
        "failed",
        "unable to open database file; check that its folder exists, and the permissions of both",
    ),
    sqlite3.SQLITE_NOTADB: ("failed", "the file is not a database, or is encrypted"),
    sqlite3.SQLITE_CORRUPT: ("failed", "the file is damaged; put a copy of it in its place"),
}


async def prepare(conn: aiosqlite.Connection, *, busy_timeout_s: float) -> bool:
    """Create what is missing of the tables, and switch to write-ahead logging.

    Returns:
        Whether `writes` has the column `task_path`; always true for a database that can be written to.

    Raises:
        StorageError: The tables are missing and cannot be created.
        sqlite3.Error: The database cannot be used.
    """
    deadline = time.monotonic() + busy_timeout_s
    # SQLite does not wait for a lock when it changes the mode, so this does.
    await _where_writable(lambda: conn.execute_fetchall("PRAGMA journal_mode = WAL"), deadline)
    tables = await _tables(conn, deadline)
    if not _complete(tables):
        await _where_writable(lambda: _create(conn), deadline)
        tables = await _tables(conn, deadline)
    if not tables.keys() >= {"checkpoints", "writes"}:
        raise StorageError(
            "The database has no checkpoints, and they cannot be created: it is read-only.", reason="read_only"
        )
    return _complete(tables)


def _complete(tables: dict[str, set[str]]) -> bool:
    return "checkpoints" in tables and "task_path" in tables.get("writes", ())


async def _where_writable(attempt: Callable[[], Awaitable[object]], deadline: float) -> None:
    try:
        await _when_free(attempt, deadline)
    except sqlite3.OperationalError as exc:
        if _code(exc) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise


async def _tables(conn: aiosqlite.Connection, deadline: float) -> dict[str, set[str]]:
    names = await _when_free(
        lambda: conn.execute_fetchall(
            "SELECT m.name, c.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c "
            "WHERE m.type = 'table' AND m.name IN ('checkpoints', 'writes')"
        ),
        deadline,
    )
    tables: dict[str, set[str]] = {}
    for table, column in names:
        tables.setdefault(table, set()).add(column)
    return tables


async def _create(conn: aiosqlite.Connection) -> None:
    await conn.execute_fetchall("BEGIN IMMEDIATE")
    try:
        for table in _TABLES:
            await conn.execute_fetchall(table)
        columns = await conn.execute_fetchall("SELECT name FROM pragma_table_info('writes')")
        if "task_path" not in {name for (name,) in columns}:
            await conn.execute_fetchall(_ADD_PATH)
        await conn.execute_fetchall("COMMIT")
    except BaseException:
        await conn.rollback()
        raise


async def _when_free(attempt: Callable[[], Awaitable[T]], deadline: float) -> T:
    while True:
        try:
            return await attempt()
        except sqlite3.OperationalError as exc:
            if _code(exc) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() >= deadline:
                raise
        await asyncio.sleep(_RETRY_S)


def _code(exc: sqlite3.Error) -> int:
    """Return the primary result code; the extended one says more than anybody asks for here."""
    code = getattr(exc, "sqlite_errorcode", None)
    return -1 if code is None else code & 0xFF


def translated(exc: BaseException, name: str = "") -> BaseException:
    """Return the error to raise for one of the database `name`; any other error is returned as it is."""
    if isinstance(exc, UnicodeEncodeError):
        error = StorageError(
            f"SQLite cannot hold the name {exc.object!r}, which has half a surrogate pair. Nothing was stored.",
        )
        error.__cause__ = exc
        return error
    if not isinstance(exc, sqlite3.Error):
        return exc
    reason, advice = _REASONS.get(_code(exc), ("failed", str(exc)))
    database = f"The SQLite database {name!r}" if name else "The SQLite database"
    error = StorageError(f"{database} could not be used: {advice}. Nothing was stored.", reason=reason)
    error.__cause__ = exc
    return error


def fetch(conn: sqlite3.Connection, sql: str, parameters: Any = ()) -> list[Any]:
    """Return all rows as plain tuples, whatever row factory the connection has."""
    cursor = conn.cursor()
    cursor.row_factory = None
    return cursor.execute(sql, parameters).fetchall()
