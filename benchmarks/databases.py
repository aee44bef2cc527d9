"""A database for each library and case, with the saver of that library on it.

SQLite is a file in a temporary folder. PostgreSQL is the server that the tests use: that of the environment variable
LANGGRAPH_ASYNC_TEST_DSN, else one that is started here (without fsync, which favours neither library: it makes waiting
for the disk, which both would do, as short as it can be). The peer gets a pool of as many connections as ours opens.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import asyncpg

from benchmarks.measure import OURS, Library, UnavailableError, at_end, wait_for
from tests.support.postgres import database, postgres_server

Kind: TypeAlias = Literal["SQLite", "PostgreSQL"]
KINDS: tuple[Kind, ...] = ("SQLite", "PostgreSQL")

_POOL = 10
_BYTES = {
    "SQLite": """
        SELECT (SELECT coalesce(sum(length(checkpoint) + length(metadata)), 0) FROM checkpoints WHERE thread_id = ?1)
            + (SELECT coalesce(sum(length(value)), 0) FROM writes WHERE thread_id = ?1)
    """,
    "PostgreSQL": """
        SELECT (SELECT coalesce(sum(octet_length(checkpoint::text) + octet_length(metadata::text)), 0)
                FROM checkpoints WHERE thread_id = $1)
            + (SELECT coalesce(sum(octet_length(blob)), 0) FROM checkpoint_blobs WHERE thread_id = $1)
            + (SELECT coalesce(sum(octet_length(blob)), 0) FROM checkpoint_writes WHERE thread_id = $1)
    """,
}
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Opened:
    """A saver on an empty database.

    Attributes:
        saver: The saver, ready for use until the case ends.
        stored_bytes: From a thread id to the bytes of all values that are stored for it, before any compression.
    """

    saver: Any
    stored_bytes: Callable[[str], int]


def opened(library: Library, kind: Kind) -> Opened:
    """Return the library's saver on a new database, which is gone when the case ends.

    Raises:
        UnavailableError: The saver, or the server, is not installed.
    """
    stack = AsyncExitStack()
    at_end(lambda: wait_for(stack.aclose()))
    return wait_for(_sqlite(library, stack) if kind == "SQLite" else _postgres(library, stack))


async def _sqlite(library: Library, stack: AsyncExitStack) -> Opened:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="langgraph-async-benchmark-"))
    path = str(Path(folder) / "checkpoints.db")
    saver = await stack.enter_async_context(library.AsyncSqliteSaver.from_conn_string(path))
    await saver.setup()

    def stored_bytes(thread_id: str) -> int:
        conn = sqlite3.connect(path)
        try:
            ((size,),) = conn.execute(_BYTES["SQLite"], (thread_id,))
        finally:
            conn.close()
        return int(size)

    return Opened(saver, stored_bytes)


async def _postgres(library: Library, stack: AsyncExitStack) -> Opened:
    saver_class = library.AsyncPostgresSaver
    server = _server()
    name = f"benchmark_{next(_numbers)}"
    admin = await asyncpg.connect(server)
    stack.push_async_callback(admin.close)
    await admin.execute(f'DROP DATABASE IF EXISTS "{name}"')
    await admin.execute(f'CREATE DATABASE "{name}"')
    stack.push_async_callback(admin.execute, f'DROP DATABASE "{name}" WITH (FORCE)')
    dsn = database(server, name)
    if library is OURS:
        saver = await stack.enter_async_context(saver_class.from_conn_string(dsn, max_size=_POOL))
    else:
        saver = saver_class(await _peers_pool(dsn, stack))
    await saver.setup()

    async def size_of(thread_id: str) -> int:
        conn = await asyncpg.connect(dsn)
        try:
            return int(await conn.fetchval(_BYTES["PostgreSQL"], thread_id))
        finally:
            await conn.close()

    return Opened(saver, lambda thread_id: wait_for(size_of(thread_id)))


async def _peers_pool(dsn: str, stack: AsyncExitStack) -> Any:
    from psycopg.rows import dict_row  # noqa: PLC0415 - only the peer needs it
    from psycopg_pool import AsyncConnectionPool  # noqa: PLC0415 - likewise

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool = AsyncConnectionPool(dsn, min_size=1, max_size=_POOL, kwargs=options, open=False)
    return await stack.enter_async_context(pool)


@functools.cache
def _server() -> str:
    stack = ExitStack()
    try:
        dsn = stack.enter_context(postgres_server())
    except RuntimeError as exc:
        raise UnavailableError(str(exc)) from exc
    atexit.register(stack.close)
    return dsn
