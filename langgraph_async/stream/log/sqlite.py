"""A log in a SQLite file, beside the checkpoints: for one machine, any number of processes."""

from __future__ import annotations

import copy
import json
import os
import sqlite3
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from langgraph_async.aio.once import Once
from langgraph_async.checkpoint.rows import check_storable
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.checkpoint.sqlite.database import Database, Options
from langgraph_async.checkpoint.sqlite.schema import fetch
from langgraph_async.serde.base import SerializerProtocol
from langgraph_async.serde.msgpack import JsonPlusSerializer
from langgraph_async.stream.log.base import PAGE, Event, EventLog, Page, RunRecord, check_after, run_exists, unknown_run
from langgraph_async.stream.log.rows import EventRow, event_rows, load_events, status_after

_MIGRATIONS: Final = (
    """
    CREATE TABLE IF NOT EXISTS event_log_runs (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL UNIQUE,
        thread_id TEXT,
        status TEXT NOT NULL DEFAULT 'running',
        owner TEXT NOT NULL,
        first_seq INTEGER NOT NULL DEFAULT 1,
        last_seq INTEGER NOT NULL DEFAULT 0,
        touched_at REAL NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS event_log_runs_thread ON event_log_runs (thread_id, n)",
    """
    CREATE TABLE IF NOT EXISTS event_log_events (
        run_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        mode TEXT NOT NULL,
        ns TEXT NOT NULL,
        type TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (run_id, seq)
    ) WITHOUT ROWID
    """,
)
_COLUMNS: Final = "run_id, thread_id, status, first_seq, last_seq, touched_at, owner"
_SWEEP_EVERY: Final = 64
_SWEPT: Final = 100


class SqliteEventLog(EventLog):
    """Keeps events in the tables ``event_log_runs`` and ``event_log_events`` of a saver's database.

    They are written by the saver's connection, together with its commits, and are as durable as these. The tables are
    made when the log is first used; LangGraph does not mind them::

        async with AsyncSqliteSaver.from_conn_string("checkpoints.db") as saver:
            log = SqliteEventLog(saver)

    All methods raise `StorageError` when the database cannot be used.

    Args:
        saver: Whose database; it must stay open as long as the log is used.
        serde: The serializer for payloads; by default that of the saver of the graph that runs.
        options: See `EventLog`.
    """

    def __init__(
        self, saver: AsyncSqliteSaver | None, *, serde: SerializerProtocol | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._own: Database | None = None
        self._has_serde = serde is not None
        self._serde = serde or (saver.serde if saver is not None else JsonPlusSerializer())
        if saver is not None:
            self._database = saver.database
        self._setup = Once("langgraph_async_event_log_setup")
        self._ready = [False]
        self._begun = 0

    @classmethod
    def from_conn_string(
        cls, conn_string: str | os.PathLike[str], *, serde: SerializerProtocol | None = None, **options: Any
    ) -> Self:
        """Return a log with a database of its own, to be used in ``async with``, or closed with `aclose`."""
        log = cls(None, serde=serde, **options)
        log._own = log._database = Database(os.fspath(conn_string), Options())
        return log

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the database, if it is the log's own."""
        if self._own is not None:
            await self._own.close()

    def for_saver(self, saver: Any) -> Self:
        """Return this log with the serializer of the saver, unless it was given one."""
        serde = getattr(saver, "serde", None)
        if self._has_serde or serde is None or serde is self._serde:
            return self
        other = copy.copy(self)
        other._serde = serde
        return other

    async def setup(self) -> None:
        """Create what is missing of the tables; every other method does so when needed."""
        if not self._ready[0]:
            await self._setup.do(self._create)

    async def _create(self) -> None:
        await self._database.write(_migrate)
        self._ready[0] = True

    def _now(self) -> float:
        return self.clock.now().timestamp()

    async def abegin(self, run_id: str, thread_id: str | None) -> None:
        """Enter a run that is about to start."""
        check_storable(run_id, thread_id, nul=True)
        await self.setup()
        if self._begun % _SWEEP_EVERY == 0:
            await self.asweep()
        self._begun += 1
        row = (run_id, thread_id, self.owner, self._now())
        if not await self._database.write(partial(_enter, row=row)):
            raise run_exists(run_id)

    async def aappend(self, run_id: str, events: Sequence[Event]) -> None:
        """Store events."""
        await self.setup()
        rows = event_rows(self._serde, run_id, events)
        change = partial(
            _append, run_id=run_id, rows=rows, status=status_after(events), now=self._now(), keep=self.max_events
        )
        if not await self._database.write(change):
            raise unknown_run(run_id)

    async def atouch(self, run_id: str) -> None:
        """Note a sign of life of a run."""
        await self.setup()
        await self._database.write(partial(_touch, run_id=run_id, now=self._now()))

    async def aread(self, run_id: str, after: int = 0, limit: int = PAGE) -> Page:
        """Return events after number `after`, at most `limit`, and how the run stands."""
        await self.setup()
        run, rows = await self._database.read(lambda conn, _: _read(conn, run_id, after, limit))
        if run is None:
            raise unknown_run(run_id)
        record = self._record(run)
        check_after(record, after)
        return Page(record, load_events(self._serde, run_id, rows))

    async def arun(self, run_id: str) -> RunRecord:
        """Return how a run stands."""
        await self.setup()
        run, _ = await self._database.read(lambda conn, _: _read(conn, run_id, 0, 0))
        if run is None:
            raise unknown_run(run_id)
        return self._record(run)

    async def aruns(self, thread_id: str | None = None, *, limit: int = 100) -> list[RunRecord]:
        """Return the runs of a thread, or all, the one that began last first."""
        await self.setup()
        where, names = ("", ()) if thread_id is None else ("WHERE thread_id = ?", (thread_id,))
        query = f"SELECT {_COLUMNS} FROM event_log_runs {where} ORDER BY n DESC LIMIT ?"
        rows = await self._database.read(lambda conn, _: fetch(conn, query, (*names, limit)))
        return [self._record(row) for row in rows]

    async def adelete_thread(self, thread_id: str) -> None:
        """Forget the runs of a thread."""
        await self.setup()
        await self._database.write(partial(_forget, where="thread_id = ?", values=(thread_id,)))

    async def asweep(self) -> int:
        """Forget the runs that ended, or fell silent, more than `ttl_s` seconds ago, and return how many."""
        if self.ttl_s is None:
            return 0
        await self.setup()
        now = self._now()
        values = (now - self.ttl_s, now - max(self.ttl_s, self.stale_s), _SWEPT)
        total = 0
        while deleted := await self._database.write(partial(_forget, where=_OLD, values=values)):
            total += deleted
        return total

    def _record(self, row: Any) -> RunRecord:
        run_id, thread_id, status, first, last, touched, owner = row
        return RunRecord(run_id, thread_id, status, first, last, max(0.0, self._now() - touched), owner)


_OLD: Final = (
    "n IN (SELECT n FROM event_log_runs WHERE (status <> 'running' AND touched_at < ?) OR touched_at < ? LIMIT ?)"
)


def _migrate(conn: sqlite3.Connection) -> None:
    conn.execute("CREATE TABLE IF NOT EXISTS event_log_migrations (v INTEGER PRIMARY KEY)")
    ((done,),) = fetch(conn, "SELECT coalesce(max(v), -1) FROM event_log_migrations")
    for number, step in enumerate(_MIGRATIONS):
        if number > done:
            conn.execute(step)
            conn.execute("INSERT INTO event_log_migrations (v) VALUES (?)", (number,))


def _enter(conn: sqlite3.Connection, *, row: tuple[Any, ...]) -> bool:
    columns = "run_id, thread_id, owner, touched_at"
    done = conn.execute(f"INSERT OR IGNORE INTO event_log_runs ({columns}) VALUES (?, ?, ?, ?)", row)
    return done.rowcount == 1


def _append(
    conn: sqlite3.Connection, *, run_id: str, rows: Sequence[EventRow], status: str | None, now: float, keep: int
) -> bool:
    last = rows[-1][0]
    done = conn.execute(
        "UPDATE event_log_runs SET last_seq = max(last_seq, ?), status = coalesce(?, status), touched_at = ? "
        "WHERE run_id = ?",
        (last, status, now, run_id),
    )
    if done.rowcount != 1:
        return False
    # One statement with one parameter: each row would take a turn of its own in this thread.
    conn.executemany(
        "INSERT OR IGNORE INTO event_log_events (run_id, seq, mode, ns, type, value) VALUES (?, ?, ?, ?, ?, ?)",
        [(run_id, *row) for row in rows],
    )
    ((first,),) = fetch(conn, "SELECT first_seq FROM event_log_runs WHERE run_id = ?", (run_id,))
    if last - first + 1 > keep + keep // 8:
        conn.execute("DELETE FROM event_log_events WHERE run_id = ? AND seq <= ?", (run_id, last - keep))
        conn.execute("UPDATE event_log_runs SET first_seq = ? WHERE run_id = ?", (last - keep + 1, run_id))
    return True


def _touch(conn: sqlite3.Connection, *, run_id: str, now: float) -> None:
    conn.execute("UPDATE event_log_runs SET touched_at = ? WHERE run_id = ?", (now, run_id))


def _read(conn: sqlite3.Connection, run_id: str, after: int, limit: int) -> tuple[Any, list[Any]]:
    runs = fetch(conn, f"SELECT {_COLUMNS} FROM event_log_runs WHERE run_id = ?", (run_id,))
    if not runs or not limit:
        return (runs[0] if runs else None), []
    rows = fetch(
        conn,
        "SELECT seq, mode, ns, type, value FROM event_log_events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?",
        (run_id, after, limit),
    )
    return runs[0], rows


def _forget(conn: sqlite3.Connection, *, where: str, values: tuple[Any, ...]) -> int:
    ids = [run_id for (run_id,) in fetch(conn, f"SELECT run_id FROM event_log_runs WHERE {where}", values)]
    named = (json.dumps(ids),)
    conn.execute("DELETE FROM event_log_events WHERE run_id IN (SELECT value FROM json_each(?))", named)
    conn.execute("DELETE FROM event_log_runs WHERE run_id IN (SELECT value FROM json_each(?))", named)
    return len(ids)


__all__ = ["SqliteEventLog"]
