"""The rows of a thread, in a SQLite file or a PostgreSQL database, and savers of either library on them."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import sqlite3
import uuid
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal

import asyncpg
from postgres import database

Rows = dict[str, list[dict[str, Any]]]
"""By table: rows as they are, without the thread's id; bytes are base64 text under ``{"b64": ...}``."""

_TABLES = {
    "sqlite": {"checkpoints": "checkpoints", "writes": "writes"},
    "postgres": {"checkpoints": "checkpoints", "blobs": "checkpoint_blobs", "writes": "checkpoint_writes"},
}
_JSON = ("checkpoint", "metadata")


@dataclass(frozen=True)
class Database:
    """A database that both libraries can use.

    Attributes:
        layout: Which one.
        address: The file, or the connection string.
    """

    layout: Literal["sqlite", "postgres"]
    address: str

    def saver(self, package: str) -> AbstractAsyncContextManager[Any]:
        """Return a saver of a library, which opens in ``async with``."""
        module = importlib.import_module(f"{package}.checkpoint.{self.layout}.aio")
        names = {"sqlite": "AsyncSqliteSaver", "postgres": "AsyncPostgresSaver"}
        opened: AbstractAsyncContextManager[Any] = getattr(module, names[self.layout]).from_conn_string(self.address)
        return opened

    async def dump(self, thread: str) -> Rows:
        """Return the rows of a thread, sorted."""
        if self.layout == "sqlite":
            found = await asyncio.to_thread(self._read_sqlite, thread)
        else:
            found = await self._read_postgres(thread)
        return {name: sorted((_text(row) for row in rows), key=_place) for name, rows in found.items()}

    async def load(self, thread: str, rows: Rows) -> None:
        """Insert rows as a thread's."""
        raw = {
            name: [{"thread_id": thread, **{k: _raw(v) for k, v in row.items()}} for row in rows[name]] for name in rows
        }
        if self.layout == "sqlite":
            await asyncio.to_thread(self._write_sqlite, raw)
        else:
            await self._write_postgres(raw)

    def _read_sqlite(self, thread: str) -> dict[str, list[dict[str, Any]]]:
        conn = sqlite3.connect(self.address)
        conn.row_factory = sqlite3.Row
        try:
            return {
                name: [dict(row) for row in conn.execute(f"SELECT * FROM {table} WHERE thread_id = ?", (thread,))]
                for name, table in _TABLES["sqlite"].items()
            }
        except sqlite3.OperationalError:  # no tables yet
            return {name: [] for name in _TABLES["sqlite"]}
        finally:
            conn.close()

    async def _read_postgres(self, thread: str) -> dict[str, list[dict[str, Any]]]:
        conn = await asyncpg.connect(self.address)
        try:
            return {
                name: [dict(row) for row in await conn.fetch(f"SELECT * FROM {table} WHERE thread_id = $1", thread)]
                for name, table in _TABLES["postgres"].items()
            }
        finally:
            await conn.close()

    def _write_sqlite(self, rows: Rows) -> None:
        conn = sqlite3.connect(self.address, timeout=30)
        with conn:
            for name, table in _TABLES["sqlite"].items():
                for row in rows[name]:
                    places = ", ".join("?" * len(row))
                    conn.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", list(row.values()))
        conn.close()

    async def _write_postgres(self, rows: Rows) -> None:
        conn = await asyncpg.connect(self.address)
        try:
            for name, table in _TABLES["postgres"].items():
                for row in rows[name]:
                    places = ", ".join(f"${i}" for i in range(1, len(row) + 1))
                    values = [json.dumps(value) if isinstance(value, dict) else value for value in row.values()]
                    await conn.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", *values)
        finally:
            await conn.close()


def new_database(dsn: str) -> Database:
    """Make a PostgreSQL database on a server. For code without an event loop."""
    name = f"made_{uuid.uuid4().hex}"

    async def make() -> None:
        conn = await asyncpg.connect(dsn)
        try:
            await conn.execute(f'CREATE DATABASE "{name}"')
        finally:
            await conn.close()

    asyncio.run(make())
    return Database("postgres", database(dsn, name))


def set_up(place: Database, package: str) -> Database:
    """Let a library make its tables in a database, and return it. For code without an event loop."""

    async def make() -> None:
        async with place.saver(package) as saver:
            await saver.setup()

    asyncio.run(make())
    return place


def _text(row: dict[str, Any]) -> dict[str, Any]:
    found = {key: _bytes(value) for key, value in row.items() if key != "thread_id"}
    return {k: json.loads(v) if k in _JSON and isinstance(v, str) else v for k, v in found.items()}


def _bytes(value: Any) -> Any:
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _raw(value: Any) -> Any:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) and set(value) == {"b64"} else value


def _place(row: dict[str, Any]) -> Any:
    keys = ("checkpoint_ns", "checkpoint_id", "task_path", "task_id", "idx", "channel", "version")
    return [(row[key] if key != "idx" else f"{row[key] + 9:06}") for key in keys if key in row]
