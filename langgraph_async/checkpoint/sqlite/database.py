"""One database that is open: a connection for writing, one for reading, and the event loop they belong to."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import aiosqlite

from langgraph_async.aio.once import Interrupted, Once
from langgraph_async.aio.threads import run_in_loop
from langgraph_async.checkpoint.sqlite.group import store_batch
from langgraph_async.checkpoint.sqlite.lane import Lane
from langgraph_async.checkpoint.sqlite.queries import Reading, read_batch
from langgraph_async.checkpoint.sqlite.schema import prepare, translated
from langgraph_async.errors import StorageError

_STATEMENTS = 512
"""Compiled statements that a connection keeps: those for one to a hundred rows, of each kind."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a database is opened; see `AsyncSqliteSaver.from_conn_string`."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    busy_timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class _Open:
    """What is there once a database is open; `path` is empty for one that is in no file."""

    loop: asyncio.AbstractEventLoop
    writer: Lane
    reader: Lane
    reading: Reading
    path: str
    own: tuple[aiosqlite.Connection, ...]


class Database:
    """A database, opened when it is first used.

    Args:
        source: The file, or a connection that stays its owner's: it is used for everything and never closed.
        options: How to open it.
    """

    def __init__(self, source: str | aiosqlite.Connection, options: Options) -> None:
        self._source = source
        self._options = options
        self._open: _Open | None = None
        self._opening = Once("langgraph_async_sqlite_open")
        self._closing = Once("langgraph_async_sqlite_close")
        self._closed = False

    def __del__(self) -> None:
        opened = getattr(self, "_open", None)
        if opened is not None and opened.own:
            warnings.warn(
                f"A SQLite saver for {self._source!r} was dropped open. Close it: 'async with saver:', or "
                "'await saver.aclose()'.",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    async def opened(self) -> _Open:
        """Return the open database.

        Raises:
            StorageError: It is closed, belongs to another event loop, or cannot be opened.
        """
        opened = self._open
        if opened is None or self._closed:
            return await self._open_once()
        if opened.loop is not asyncio.get_running_loop():
            raise StorageError(
                f"The SQLite saver for {self._source!r} was opened in another event loop. Open one in each event "
                "loop; several may use one file.",
                reason="wrong_loop",
            )
        return opened

    async def write(self, work: Any) -> Any:
        """Do `work`, commits or a function of the connection, inside a transaction."""
        return await self._do((await self.opened()).writer, work)

    async def read(self, work: Any) -> Any:
        """Call `work` with a connection and the way to read it, on the database as it is at one moment."""
        opened = await self.opened()
        return await self._do(opened.reader, lambda conn: work(conn, opened.reading))

    async def _do(self, lane: Lane, work: Any) -> Any:
        try:
            return await lane.do(work)
        except StorageError as exc:
            note = f"The database is {self._name}."
            if self._name and note not in getattr(exc, "__notes__", ()):  # several may have one error
                exc.add_note(note)
            raise

    @property
    def _name(self) -> str:
        return self._source if isinstance(self._source, str) else ""

    async def path(self) -> str:
        """Return the path of the database's file; empty for a database that nobody else can see."""
        return (await self.opened()).path

    async def close(self) -> None:
        """Do what is left to do, and close what was opened here, in its own event loop; a second call does nothing.

        A cancellation is passed on once everything is closed.

        Raises:
            StorageError: Its event loop, another one, does not run.
        """
        opened = self._open
        if opened is not None and opened.loop is not asyncio.get_running_loop():
            if not await run_in_loop(opened.loop, self.close):
                raise StorageError(
                    f"The SQLite saver for {self._source!r} cannot be closed: the event loop that it was opened in "
                    "does not run any more. Close it there: 'async with saver:', or 'await saver.aclose()'.",
                    reason="wrong_loop",
                )
            return
        self._closed = True
        await self._closing.do_whole(self._close)

    async def _close(self) -> None:
        await self._opening.end()
        opened = self._open
        if opened is None:
            return
        try:
            await opened.writer.finish()
            await opened.reader.finish()
        finally:
            self._open = None
            await _close(opened.own)

    async def _open_once(self) -> _Open:
        # In a task of its own: a connection whose opening or closing is cancelled leaves its thread behind.
        if not self._closed:
            with suppress(Interrupted):
                await self._opening.do(self._connect)
        if self._closed or self._open is None:
            raise StorageError(f"The SQLite saver for {self._source!r} is closed.", reason="closed")
        return self._open

    async def _connect(self) -> None:
        own: list[aiosqlite.Connection] = []
        try:
            self._open = await self._opened_with(own)
        except BaseException as exc:
            await _close(own)
            if (error := translated(exc, self._name)) is exc:
                raise
            raise error from exc

    async def _opened_with(self, own: list[aiosqlite.Connection]) -> _Open:
        """Open; `own` gets the connections that were made for it."""
        if isinstance(self._source, str):
            conn = await self._connection(own)
            await conn.execute_fetchall(f"PRAGMA synchronous = {self._options.synchronous}")
        else:
            conn = await _started(self._source)
        has_path = await prepare(conn, busy_timeout_s=self._options.busy_timeout_s)
        second = conn
        path = await _path(conn)
        if own and path:
            second = await self._connection(own)
            await second.execute_fetchall("PRAGMA query_only = ON")
        writer, reader = Lane(conn, "write", store_batch), Lane(second, "read", read_batch)
        await writer.open()
        await reader.open()
        reading = Reading() if has_path else Reading("''")
        return _Open(asyncio.get_running_loop(), writer, reader, reading, path, tuple(own))

    async def _connection(self, own: list[aiosqlite.Connection]) -> aiosqlite.Connection:
        assert isinstance(self._source, str)
        conn = _behind_daemon(
            self._source,
            timeout=self._options.busy_timeout_s,
            isolation_level=None,
            cached_statements=_STATEMENTS,
            uri=self._source.startswith("file:"),
        )
        await conn
        own.append(conn)
        return conn


def _behind_daemon(path: str, **options: Any) -> aiosqlite.Connection:
    """Return a connection, not yet started, whose thread does not keep the interpreter from ending.

    A thread is a daemon if the one that made it is, and aiosqlite leaves it at that.
    """
    made: list[aiosqlite.Connection] = []
    failures: list[sqlite3.Error] = []

    def make() -> None:
        try:
            # aiosqlite leaves its thread behind, about to wake the event loop, when a file cannot be opened.
            sqlite3.connect(path, **options).close()
        except sqlite3.Error as exc:
            failures.append(exc)
        else:
            made.append(aiosqlite.connect(path, **options))

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join()
    for failure in failures:
        raise failure
    return made[0]


async def _started(conn: aiosqlite.Connection) -> aiosqlite.Connection:
    try:
        await conn.execute_fetchall("SELECT 1")
    except ValueError:  # it was made but not awaited yet
        await conn
    return conn


async def _path(conn: aiosqlite.Connection) -> str:
    """Return the path of the database's file; empty if a second connection would not see the same database."""
    rows = await conn.execute_fetchall("SELECT file FROM pragma_database_list WHERE name = 'main'")
    return next((str(file) for (file,) in rows if file), "")


async def _close(connections: tuple[aiosqlite.Connection, ...] | list[aiosqlite.Connection]) -> None:
    failure: sqlite3.Error | None = None
    for conn in reversed(connections):
        try:
            await conn.close()
        except sqlite3.Error as exc:
            failure = exc
    if failure is not None:
        raise translated(failure) from failure
