"""What all tests share: the settings of property tests, Ctrl-C, and databases on a PostgreSQL server."""

from __future__ import annotations

import asyncio
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


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let child processes share what they compile where nothing may be written beside the source."""
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("PYTHONDONTWRITEBYTECODE") and "PYTHONPYCACHEPREFIX" not in os.environ:
            patch.delenv("PYTHONDONTWRITEBYTECODE")
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("compiled")))
        yield


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """A server, started when the first test needs it and stopped at the end."""
    with postgres_server() as dsn:
        yield dsn
        for name in _spare.pop(dsn, []):
            asyncio.run(_drop(dsn, name))


_spare: dict[str, list[str]] = {}
"""Server to the names of databases of it that have the saver's tables, and nothing in them."""

_END_OTHERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
_SHAPE = """
SELECT md5(concat(
    (SELECT string_agg(nspname, ',' ORDER BY oid) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'),
    (SELECT string_agg(concat(oid, relname, relnamespace, relkind, reloptions, relchecks), ',' ORDER BY oid)
        FROM pg_class WHERE oid >= 16384),
    (SELECT string_agg(concat(attrelid, attname, atttypid, attnotnull, atthasdef), ',' ORDER BY attrelid, attnum)
        FROM pg_attribute WHERE attrelid >= 16384),
    (SELECT string_agg(concat(oid, proname), ',' ORDER BY oid) FROM pg_proc WHERE oid >= 16384),
    (SELECT string_agg(concat(oid, tgname), ',' ORDER BY oid) FROM pg_trigger),
    (SELECT string_agg(concat(oid, conname), ',' ORDER BY oid) FROM pg_constraint WHERE oid >= 16384),
    (SELECT string_agg(setconfig::text, ',') FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
        WHERE datname = current_database()),
    (SELECT count(*) FROM pg_statistic WHERE starelid >= 16384),
    (SELECT string_agg(v::text, ',' ORDER BY v) FROM checkpoint_migrations)
))
"""
_shapes: dict[str, str] = {}
"""Database to what it looked like when it was new."""


async def _new_database(dsn: str) -> str:
    name = f"test_{uuid.uuid4().hex}"
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    finally:
        await conn.close()
    async with AsyncPostgresSaver.from_conn_string(database(dsn, name), max_size=1) as saver:
        await saver.setup()
    conn = await asyncpg.connect(database(dsn, name))
    try:
        _shapes[name] = await conn.fetchval(_SHAPE)
    finally:
        await conn.close()
    return name


async def _emptied(dsn: str, name: str) -> bool:
    """Empty a database that a test has used; False when the test has changed more of it than its rows."""
    try:
        conn = await asyncpg.connect(database(dsn, name))
    except (OSError, asyncpg.PostgresError):
        return False
    try:
        await conn.execute(_END_OTHERS)
        await conn.execute("TRUNCATE checkpoints, checkpoint_blobs, checkpoint_writes")
        return bool(await conn.fetchval(_SHAPE) == _shapes[name])
    except asyncpg.PostgresError:
        return False
    finally:
        await conn.close()


async def _drop(dsn: str, name: str) -> None:
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await conn.close()


@pytest.fixture
async def postgres_database(postgres_dsn: str) -> AsyncIterator[str]:
    """A database of the test's own, with the saver's tables.

    It may be one that an earlier test has left: making one takes far longer than emptying it.
    """
    spare = _spare.setdefault(postgres_dsn, [])
    name = spare.pop() if spare else await _new_database(postgres_dsn)
    yield database(postgres_dsn, name)
    if await _emptied(postgres_dsn, name):
        spare.append(name)
    else:
        await _drop(postgres_dsn, name)


@pytest.fixture
async def empty_postgres_database(postgres_dsn: str) -> AsyncIterator[str]:
    """A database of the test's own, with nothing in it."""
    name = f"test_{uuid.uuid4().hex}"
    conn = await asyncpg.connect(postgres_dsn)
    try:
        await conn.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    finally:
        await conn.close()
    yield database(postgres_dsn, name)
    await _drop(postgres_dsn, name)
