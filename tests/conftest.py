"""What all tests share: the settings of property tests, Ctrl-C, and databases on a PostgreSQL server."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from hypothesis import settings
from postgres import database, postgres_server

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver

# A slow machine is no fault of the code; and a gate that is asked the same thing twice gives the same answer.
settings.register_profile("local", deadline=None)
settings.register_profile("gate", deadline=None, derandomize=True)
settings.load_profile("gate" if os.environ.get("CI") else "local")

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """A server, started when the first test needs it and stopped at the end."""
    with postgres_server() as dsn:
        yield dsn


_templates: dict[str, str] = {}


async def _template(dsn: str) -> str:
    """Return the name of a database that has the saver's tables."""
    if dsn not in _templates:
        name = f"template_{uuid.uuid4().hex}"
        conn = await asyncpg.connect(dsn)
        try:
            await conn.execute(f'CREATE DATABASE "{name}"')
        finally:
            await conn.close()
        async with AsyncPostgresSaver.from_conn_string(database(dsn, name), max_size=1) as saver:
            await saver.setup()
        _templates[dsn] = name
    return _templates[dsn]


async def _with_database(dsn: str, template: str) -> AsyncIterator[str]:
    name = f"test_{uuid.uuid4().hex}"
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        yield database(dsn, name)
        await conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await conn.close()


@pytest.fixture
async def postgres_database(postgres_dsn: str) -> AsyncIterator[str]:
    """A database of the test's own, with the saver's tables."""
    async for dsn in _with_database(postgres_dsn, await _template(postgres_dsn)):
        yield dsn


@pytest.fixture
async def empty_postgres_database(postgres_dsn: str) -> AsyncIterator[str]:
    """A database of the test's own, with nothing in it."""
    async for dsn in _with_database(postgres_dsn, "template0"):
        yield dsn
