"""What every cache keeps to."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph
from langgraph_async.cache.base import BaseCache
from langgraph_async.cache.memory import InMemoryCache
from langgraph_async.cache.postgres import PostgresCache
from langgraph_async.cache.redis import RedisCache
from langgraph_async.cache.sqlite import SqliteCache
from langgraph_async.errors import SerializationError
from langgraph_async.types import CachePolicy

A, B = ("results", "a"), ("results", "b")
KINDS = ["memory", "sqlite", "postgres", "redis", "redis of threads"]


@dataclass
class Point:
    x: int


class State(TypedDict, total=False):
    n: int
    point: Point


@pytest.fixture(params=KINDS)
async def cache(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseCache[Any]]:
    if request.param == "memory":
        yield InMemoryCache()
    elif request.param == "sqlite":
        async with SqliteCache(path=tmp_path / "cache.db") as sqlite:
            yield sqlite
    elif request.param == "postgres":
        dsn = request.getfixturevalue("postgres_dsn")
        async with PostgresCache.from_conn_string(dsn) as postgres:
            await postgres.setup()
            await postgres.aclear()
            yield postgres
    elif request.param == "redis":
        prefix = f"{uuid.uuid4().hex}*[:"
        async with RedisCache.from_url(request.getfixturevalue("redis_url"), prefix=prefix) as redis:
            yield redis
    else:
        url = request.getfixturevalue("redis_url")  # skips the test where redis is not installed
        import redis as client

        with client.Redis.from_url(url) as blocking:
            yield RedisCache(blocking, prefix=uuid.uuid4().hex)


async def test_what_is_stored_is_found(cache: BaseCache[Any]) -> None:
    await cache.aset({(A, "k"): ([["out", {"n": 1}]], None), (B, "k"): (None, None), (A, "other"): (b"", 1000)})

    found = await cache.aget([(A, "k"), (B, "k"), (A, "other"), (B, "nothing")])

    assert found == {(A, "k"): [["out", {"n": 1}]], (B, "k"): None, (A, "other"): b""}


async def test_nothing_is_found_in_an_empty_cache_nor_for_no_keys(cache: BaseCache[Any]) -> None:
    assert await cache.aget([(A, "k")]) == {}
    assert await cache.aget([]) == {}
    await cache.aset({})


async def test_the_last_value_counts(cache: BaseCache[Any]) -> None:
    await cache.aset({(A, "k"): (1, 1000)})
    await cache.aset({(A, "k"): (2, None)})

    assert await cache.aget([(A, "k")]) == {(A, "k"): 2}


async def test_a_namespace_is_cleared_and_others_stay(cache: BaseCache[Any]) -> None:
    await cache.aset({(A, "k"): (1, None), (A, "l"): (2, None), (B, "k"): (3, None), (("x",), "k"): (4, None)})

    await cache.aclear([A, ("never",)])

    assert await cache.aget([(A, "k"), (A, "l"), (B, "k"), (("x",), "k")]) == {(B, "k"): 3, (("x",), "k"): 4}


async def test_no_namespaces_are_nothing_to_clear_and_none_is_everything(cache: BaseCache[Any]) -> None:
    await cache.aset({(A, "k"): (1, None), (B, "k"): (2, None)})

    await cache.aclear([])
    assert len(await cache.aget([(A, "k"), (B, "k")])) == 2
    await cache.aclear()
    assert await cache.aget([(A, "k"), (B, "k")]) == {}


async def test_a_lifetime_that_is_over_at_once_leaves_nothing_behind(cache: BaseCache[Any]) -> None:
    if isinstance(cache, RedisCache):
        pytest.skip("Redis has no lifetime of nothing")

    await cache.aset({(A, "k"): (1, 0)})

    assert await cache.aget([(A, "k")]) == {}


async def test_names_may_hold_what_stands_for_something_in_the_store(cache: BaseCache[Any]) -> None:
    odd = ('f.<locals>.g"', "no\\de*", "a [graph]?", "é{,}")
    await cache.aset({(odd, "k"): (1, None), (A, "k"): (2, None)})
    assert await cache.aget([(odd, "k")]) == {(odd, "k"): 1}

    await cache.aclear([odd])

    assert await cache.aget([(odd, "k"), (A, "k")]) == {(A, "k"): 2}


async def test_many_entries_go_at_once(cache: BaseCache[Any]) -> None:
    pairs = {(A, str(i)): (i, None) for i in range(700)}
    await cache.aset(pairs)

    assert await cache.aget(list(pairs)) == {key: value for key, (value, _) in pairs.items()}
    await cache.aclear([A])
    assert await cache.aget(list(pairs)) == {}


async def test_a_value_that_cannot_be_stored_is_refused_with_all_beside_it(cache: BaseCache[Any]) -> None:
    with pytest.raises(SerializationError):
        await cache.aset({(A, "fine"): (1, None), (A, "bad"): (object(), None)})

    assert await cache.aget([(A, "fine")]) == {}


async def test_an_entry_that_cannot_be_read_counts_as_missing(
    cache: BaseCache[Any], caplog: pytest.LogCaptureFixture
) -> None:
    await cache.with_allowlist([Point]).aset({(A, "point"): (Point(1), None), (A, "k"): (1, None)})

    with caplog.at_level(logging.WARNING, "langgraph_async"):
        found = await cache.aget([(A, "point"), (A, "k")])

    assert found == {(A, "k"): 1}
    assert "cannot be read" in caplog.text


async def test_a_cache_with_more_types_has_the_same_entries(cache: BaseCache[Any]) -> None:
    more = cache.with_allowlist([Point])
    await more.aset({(A, "k"): (Point(1), None)})

    assert await cache.with_allowlist([Point]).aget([(A, "k")]) == {(A, "k"): Point(1)}
    assert cache.with_allowlist([]) is cache


async def test_blocking_methods_do_the_same_or_name_the_async_one(cache: BaseCache[Any]) -> None:
    if isinstance(cache, PostgresCache) or (isinstance(cache, RedisCache) and cache._is_async):
        for call in (lambda: cache.get([]), lambda: cache.set({}), lambda: cache.clear()):
            with pytest.raises(NotImplementedError, match="await cache.a"):
                call()
        return

    cache.set({(A, "k"): (1, None), (B, "k"): (2, 1000)})
    assert cache.get([(A, "k"), (B, "k"), (B, "l")]) == {(A, "k"): 1, (B, "k"): 2}
    cache.clear([A])
    assert await cache.aget([(A, "k"), (B, "k")]) == {(B, "k"): 2}


async def test_a_graph_keeps_its_results_there(cache: BaseCache[Any]) -> None:
    runs = []

    async def work(state: dict[str, Any]) -> dict[str, Any]:
        runs.append(state["n"])
        return {"point": Point(state["n"])}

    builder = StateGraph(State)
    builder.add_node("work", work, cache_policy=CachePolicy(ttl=1000))
    builder.add_edge(START, "work")
    graph = builder.compile(cache=cache)

    outputs = [await graph.ainvoke({"n": n}) for n in (1, 1, 2)]
    await graph.aclear_cache()
    await graph.ainvoke({"n": 2})

    assert outputs == [{"n": n, "point": Point(n)} for n in (1, 1, 2)]
    assert runs == [1, 2, 2]
