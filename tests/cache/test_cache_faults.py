"""Caches whose store is away, foreign or closed."""

from __future__ import annotations

import logging
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from langgraph_async.cache.postgres import PostgresCache
from langgraph_async.cache.redis import RedisCache
from langgraph_async.cache.sqlite import SqliteCache
from langgraph_async.errors import StorageError

KEY = (("results", "a"), "k")


async def test_two_sqlite_caches_share_a_file(tmp_path: Path) -> None:
    async with SqliteCache[Any](path=tmp_path / "c.db") as one, SqliteCache[Any](path=tmp_path / "c.db") as two:
        await one.aset({KEY: (1, None)})

        assert await two.aget([KEY]) == {KEY: 1}


async def test_a_sqlite_cache_survives_its_process(tmp_path: Path) -> None:
    async with SqliteCache[Any](path=tmp_path / "c.db") as cache:
        await cache.aset({KEY: (1, None)})

    assert SqliteCache[Any](path=tmp_path / "c.db").get([KEY]) == {KEY: 1}


async def test_a_sqlite_cache_has_the_table_and_the_bytes_of_langgraph(tmp_path: Path) -> None:
    async with SqliteCache[Any](path=tmp_path / "c.db") as cache:
        await cache.aset({KEY: ([["x", 1]], None)})

    conn = sqlite3.connect(tmp_path / "c.db")
    rows = conn.execute("SELECT ns, key, expiry, encoding, hex(val) FROM cache").fetchall()
    mode = conn.execute("PRAGMA journal_mode").fetchone()
    conn.close()
    assert rows == [("results,a", "k", None, "msgpack", "9192A17801")]
    assert mode == ("wal",)


async def test_a_sqlite_cache_that_was_closed_opens_again(tmp_path: Path) -> None:
    cache: SqliteCache[Any] = SqliteCache(path=tmp_path / "c.db")
    await cache.aset({KEY: (1, None)})
    await cache.aclose()

    assert await cache.aget([KEY]) == {KEY: 1}
    await cache.aclose()


async def test_a_postgres_cache_that_was_closed_connects_again(empty_postgres_database: str) -> None:
    cache: PostgresCache[Any] = PostgresCache.from_conn_string(empty_postgres_database)
    await cache.setup()
    await cache.aset({KEY: (1, None)})
    await cache.aclose()

    assert await cache.aget([KEY]) == {KEY: 1}
    await cache.aclose()


async def test_a_file_that_is_no_database_is_a_storage_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_text("no database, but longer than a header would be" * 5)
    cache: SqliteCache[Any] = SqliteCache(path=tmp_path / "c.db")

    with pytest.raises(StorageError, match=r"c\.db"):
        await cache.aget([KEY])
    with pytest.raises(StorageError, match=r"c\.db"):
        cache.get([KEY])


async def test_a_postgres_cache_without_its_table_says_how_to_make_it(empty_postgres_database: str) -> None:
    async with PostgresCache[Any].from_conn_string(empty_postgres_database) as cache:
        with pytest.raises(StorageError, match="setup"):
            await cache.aget([KEY])


async def test_a_postgres_cache_takes_a_pool_and_leaves_it_open(empty_postgres_database: str) -> None:
    import asyncpg

    async with asyncpg.create_pool(empty_postgres_database, min_size=1, max_size=2) as pool:
        async with PostgresCache[Any](pool) as cache:
            await cache.setup()
            await cache.aset({KEY: (1, 0), (KEY[0], "l"): (2, None)})
            await cache.asweep()

        assert await pool.fetchval("SELECT count(*) FROM langgraph_cache") == 1


async def test_a_postgres_server_that_is_away_is_a_storage_error() -> None:
    async with PostgresCache[Any].from_conn_string("postgresql://nobody@/x?host=/nowhere") as cache:
        with pytest.raises(StorageError, match="cannot be used"):
            await cache.aget([KEY])


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_redis_server_that_is_away_finds_and_keeps_nothing(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client: Any = pytest.importorskip("redis.asyncio" if kind == "async" else "redis").Redis
    cache: RedisCache[Any] = RedisCache(client(unix_socket_path=str(tmp_path / "nobody")))

    with caplog.at_level(logging.WARNING, "langgraph_async"):
        await cache.aset({KEY: (1, None)})
        await cache.aclear()
        assert await cache.aget([KEY]) == {}

    assert sum("cannot be reached" in record.message for record in caplog.records) == 3


async def test_redis_holds_the_layout_of_langgraph_with_lifetimes(redis_url: str) -> None:
    async with RedisCache[Any].from_url(redis_url, prefix="layout:") as cache:
        await cache.aset({KEY: ([["x", 1]], 100), (KEY[0], "l"): (1, None)})

        assert await cache.redis.get("layout:results:a:k") == b"msgpack:" + bytes.fromhex("9192a17801")
        assert 0 < await cache.redis.ttl("layout:results:a:k") <= 100
        assert await cache.redis.ttl("layout:results:a:l") == -1


async def test_a_redis_entry_that_is_no_entry_counts_as_missing(redis_url: str) -> None:
    async with RedisCache[Any].from_url(redis_url, prefix="junk:") as cache:
        await cache.redis.set("junk:results:a:k", b"no colon")
        await cache.redis.set("junk:results:a:l", b"unknown:bytes")

        assert await cache.aget([KEY, (KEY[0], "l")]) == {}


def test_a_missing_redis_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)

    with pytest.raises(ImportError, match=r"langgraph-async\[redis\]"):
        RedisCache.from_url("redis://localhost")
