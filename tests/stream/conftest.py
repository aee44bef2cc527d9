"""Event logs of every kind."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from postgres import database

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.stream.log import EventLog, InMemoryEventLog
from langgraph_async.stream.log.postgres import PostgresEventLog
from langgraph_async.stream.log.sqlite import SqliteEventLog

KINDS = ["memory", "sqlite", "postgres"]
DATABASES = ["sqlite", "postgres"]


@pytest.fixture
async def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Opens another log on the same database, as another process would: of the kind, with the options."""
    dsns: list[str] = []
    async with AsyncExitStack() as stack:

        async def opened(kind: str, *, place: str | None = None, **options: Any) -> EventLog:
            if kind == "memory":
                return InMemoryEventLog(**options)
            if kind == "sqlite":
                path = tmp_path / "log.db"
                return SqliteEventLog(
                    await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(path)), **options
                )
            if place is not None:
                dsns.append(place)
            if not dsns:
                dsns.append(await _new_database(request.getfixturevalue("postgres_dsn"), stack))
            dsn = dsns[0]
            saver = await stack.enter_async_context(AsyncPostgresSaver.from_conn_string(dsn, max_size=4))
            log = PostgresEventLog(saver, **options)
            await log.setup()
            return log

        yield opened


async def _new_database(server: str, stack: AsyncExitStack) -> str:
    name = f"log_{uuid.uuid4().hex}"

    async def drop() -> None:
        await conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await conn.close()

    conn = await asyncpg.connect(server)
    stack.push_async_callback(drop)
    await conn.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    return database(server, name)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=DATABASES)
def database_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
