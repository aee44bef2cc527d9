"""A cache in a SQLite file, in LangGraph's table: for one machine, any number of processes."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, Final, Self

import aiosqlite

from langgraph_async.aio.once import Once
from langgraph_async.cache.base import BaseCache, FullKey, Namespace, ValueT
from langgraph_async.errors import StorageError
from langgraph_async.serde.base import SerializerProtocol

_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS cache (ns TEXT, key TEXT, expiry REAL, encoding TEXT NOT NULL, val BLOB NOT NULL, "
    "PRIMARY KEY (ns, key))"
)
_OPENING: Final = "langgraph_async_cache_open"
_BUSY_S: Final = 10.0
_ROWS: Final = 150
"""Rows of one statement: older SQLite takes 999 parameters."""

_Statement = tuple[str, list[Any]]


class SqliteCache(BaseCache[ValueT]):
    """Keeps values in a SQLite file.

    Use it in ``async with``, or close it with `aclose`; it opens itself when it is first used. Async methods of one
    cache belong to one event loop at a time; the blocking ones open the file anew each time.

    Args:
        path: The file.
        serde: The serializer for values.

    Raises:
        StorageError: By all methods: the database cannot be used.
    """

    def __init__(self, *, path: str | os.PathLike[str], serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._file = _File(os.fspath(path))

    async def __aenter__(self) -> Self:
        await self._file.opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the file; it is opened again when the cache is used again."""
        await self._file.close()

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return the values of those keys that are there and have not expired."""
        return self._found(keys, [row for each in _selects(keys) for row in await self._file.run(*each)])

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """Store values, each with the seconds that it lives."""
        for each in _inserts(self._dumped(pairs)):
            await self._file.run(*each)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget what is in these namespaces, or everything."""
        for each in _deletes(namespaces):
            await self._file.run(*each)

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return what `aget` returns."""
        return self._found(keys, self._file.run_blocking(_selects(keys)))

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """Do what `aset` does."""
        self._file.run_blocking(_inserts(self._dumped(pairs)))

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Do what `aclear` does."""
        self._file.run_blocking(_deletes(namespaces))

    def _found(self, keys: Sequence[FullKey], rows: Sequence[Any]) -> dict[FullKey, ValueT]:
        wanted = {(_text(ns), key): (ns, key) for ns, key in keys}
        return self._loaded([(wanted[ns, key], tag, stored) for ns, key, tag, stored in rows])


class _File:
    """The file, opened when it is first used; shared by caches that differ in their serializers."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._conn: aiosqlite.Connection | None = None
        self._opening = Once(_OPENING)

    def __del__(self) -> None:
        if getattr(self, "_conn", None) is not None:
            warnings.warn(
                f"A SQLite cache for {self._path!r} was dropped open. Close it: 'async with cache:', or "
                "'await cache.aclose()'.",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    async def opened(self) -> aiosqlite.Connection:
        """Return the connection."""
        if self._conn is None:
            await self._opening.do(self._open)
        assert self._conn is not None
        return self._conn

    async def run(self, statement: str, parameters: list[Any]) -> list[Any]:
        """Run one statement, which is a transaction of its own, and return its rows."""
        try:
            conn = await self.opened()
            return list(await conn.execute_fetchall(statement, parameters))
        except (sqlite3.Error, ValueError) as exc:
            raise self._translated(exc) from exc

    def run_blocking(self, statements: Iterator[_Statement]) -> list[Any]:
        """Run statements on a connection of their own."""
        try:
            with closing(sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)) as conn:
                conn.execute("PRAGMA journal_mode = WAL")
                conn.execute(_SCHEMA)
                return [row for each in statements for row in conn.execute(*each)]
        except sqlite3.Error as exc:
            raise self._translated(exc) from exc

    async def close(self) -> None:
        """Close the connection."""
        conn, self._conn = self._conn, None
        if conn is not None:
            self._opening = Once(_OPENING)
            await conn.close()

    async def _open(self) -> None:
        conn = await aiosqlite.connect(self._path, timeout=_BUSY_S, isolation_level=None)
        try:
            # What a cache holds may be lost with the power; it may not be waited for.
            for each in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", _SCHEMA):
                await conn.execute(each)
        except BaseException:
            with suppress(asyncio.CancelledError):
                await conn.close()
            raise
        self._conn = conn

    def _translated(self, exc: Exception) -> StorageError:
        return StorageError(f"The SQLite cache {self._path!r} cannot be used: {exc}.")


def _text(ns: Namespace) -> str:
    return ",".join(ns)


def _selects(keys: Sequence[FullKey]) -> Iterator[_Statement]:
    for part in _parts(keys):
        places = ", ".join(["(?, ?)"] * len(part))
        yield (
            f"SELECT ns, key, encoding, val FROM cache WHERE (ns, key) IN (VALUES {places}) "
            "AND (expiry IS NULL OR expiry > ?)",
            [*(text for ns, key in part for text in (_text(ns), key)), time.time()],
        )


def _inserts(rows: Sequence[tuple[FullKey, float | None, str, bytes]]) -> Iterator[_Statement]:
    now = time.time()
    if rows:
        yield "DELETE FROM cache WHERE expiry <= ?", [now]
    for part in _parts(rows):
        places = ", ".join(["(?, ?, ?, ?, ?)"] * len(part))
        values: list[Any] = []
        for (ns, key), ttl, tag, stored in part:
            values.extend((_text(ns), key, None if ttl is None else now + ttl, tag, stored))
        yield f"INSERT OR REPLACE INTO cache (ns, key, expiry, encoding, val) VALUES {places}", values


def _deletes(namespaces: Sequence[Namespace] | None) -> Iterator[_Statement]:
    if namespaces is None:
        yield "DELETE FROM cache", []
        return
    for part in _parts(namespaces):
        yield f"DELETE FROM cache WHERE ns IN ({', '.join('?' * len(part))})", [_text(ns) for ns in part]


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), _ROWS):
        yield items[start : start + _ROWS]


__all__ = ["SqliteCache"]
