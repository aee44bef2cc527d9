"""Claims on threads of a PostgreSQL database: what they cost, what a lost connection means, where there are none."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any, TypedDict

import asyncpg
import pytest
from postgres_queries import counting

from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.errors import StorageError

_TERMINATE = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
LOCKS = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class State(TypedDict, total=False):
    x: int


def cfg(thread: str = "t") -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.fixture
async def saver(postgres_database: str) -> AsyncIterator[AsyncPostgresSaver]:
    async with AsyncPostgresSaver.from_conn_string(postgres_database, max_size=2) as saver:
        yield saver


@pytest.fixture
async def other(postgres_database: str) -> AsyncIterator[AsyncPostgresSaver]:
    async with AsyncPostgresSaver.from_conn_string(postgres_database, max_size=2) as saver:
        yield saver


@pytest.fixture
async def conn(postgres_database: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(postgres_database)
    yield conn
    await conn.close()


def graph_of(saver: AsyncPostgresSaver, node: Any, **options: Any) -> Any:
    return StateGraph(State).add_node("n", node).add_edge(START, "n").compile(checkpointer=saver, **options)


async def plus_one(state: State) -> State:
    return {"x": state["x"] + 1}


def asked(queries: list[str]) -> int:
    return sum("advisory" in query for query in queries)


# -- what it costs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_run_with_an_input_asks_for_nothing_and_opens_nothing(
    postgres_database: str, conn: Any, durability: Any
) -> None:
    async with counting(postgres_database, max_size=1) as (saver, queries):
        await graph_of(saver, plus_one).ainvoke({"x": 1}, cfg(), durability=durability)
        open_now = await conn.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    assert asked(queries) == 0
    assert open_now == 1


async def test_a_run_that_claims_sends_two_statements_more(postgres_database: str) -> None:
    async with counting(postgres_database) as (saver, queries):
        graph = graph_of(saver, plus_one, interrupt_before=["n"])
        for thread in "ab":
            await graph.ainvoke({"x": 1}, cfg(thread))
        await graph.ainvoke(None, cfg("a"))  # opens the session
        queries.clear()
        await graph.ainvoke(None, cfg("b"))

        assert asked(queries) == 2
        assert len(queries) == 4  # with one that reads and one that stores


async def test_runs_at_once_claim_together(postgres_database: str) -> None:
    async with counting(postgres_database) as (saver, queries):
        claim = await saver.aclaim("first")
        assert claim is not None
        queries.clear()
        claims = await asyncio.gather(*(saver.aclaim(f"t{n}") for n in range(100)))
        taking = len(queries)
        await asyncio.gather(*(claim.arelease() for claim in claims if claim is not None))
        giving_back = len(queries) - taking
        await claim.arelease()

    assert None not in claims
    assert [taking, giving_back] == [1, 1]


async def test_nothing_is_locked_or_stored_afterwards(saver: AsyncPostgresSaver, conn: Any) -> None:
    graph = graph_of(saver, plus_one)
    await graph.ainvoke({"x": 1}, cfg(), durability="exit")
    locks = await conn.fetchval(LOCKS)
    rows = [await conn.fetchval(f"SELECT count(*) FROM checkpoint{name}") for name in ("s", "_writes")]

    assert locks == 0
    assert rows == [1, 0]


# -- who sees whom ------------------------------------------------------------------------------------------------


async def test_a_table_has_one_set_of_claims_by_whatever_name(
    postgres_database: str, saver: AsyncPostgresSaver, conn: Any
) -> None:
    async with (
        asyncpg.create_pool(postgres_database, min_size=0, max_size=2) as pool,
        AsyncPostgresSaver.from_conn_string(postgres_database, schema="other") as elsewhere,
    ):
        await elsewhere.setup()
        named = AsyncPostgresSaver(pool, schema="public")
        claim = await named.aclaim("t")
        assert claim is not None

        assert await saver.aclaim("t") is None
        assert await AsyncPostgresSaver(pool).aclaim("t") is None
        assert await AsyncPostgresSaver(conn).aclaim("t") is None
        assert await elsewhere.aclaim("t") is not None
        await claim.arelease()
        again = await saver.aclaim("t")
        assert again is not None
        await again.arelease()


async def test_a_dropped_claim_is_over_for_others_too(saver: AsyncPostgresSaver, other: AsyncPostgresSaver) -> None:
    claim = await saver.aclaim("t")
    assert claim is not None
    del claim
    gc.collect()
    await asyncio.sleep(0)
    await saver.aclaim("u")  # comes after what was dropped

    assert await other.aclaim("t") is not None


async def test_closing_a_saver_ends_its_claims(postgres_database: str, other: AsyncPostgresSaver) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
        claim = await saver.aclaim("t")
        assert await other.aclaim("t") is None

    assert await other.aclaim("t") is not None
    assert claim is not None
    await claim.arelease()
    with pytest.raises(StorageError, match="closed"):
        await saver.aclaim("t")


# -- a connection that is lost --------------------------------------------------------------------------------------


async def test_with_its_connection_a_claim_is_lost_and_the_run_goes_on(
    saver: AsyncPostgresSaver, other: AsyncPostgresSaver, conn: Any
) -> None:
    taken: list[bool] = []

    async def node(state: State) -> State:
        await conn.execute(_TERMINATE)
        claim = await other.aclaim("t")
        taken.append(claim is not None)
        if claim is not None:
            await claim.arelease()
        return {"x": 2}

    result = await graph_of(saver, node).ainvoke({"x": 1}, cfg(), durability="exit")

    assert result == {"x": 2}
    assert taken == [True]


async def test_after_its_connection_was_lost_a_saver_claims_on_a_new_one(
    saver: AsyncPostgresSaver, other: AsyncPostgresSaver, conn: Any
) -> None:
    lost = await saver.aclaim("t")
    assert lost is not None
    await conn.execute(_TERMINATE)
    claim = await saver.aclaim("t")

    assert claim is not None
    await lost.arelease()
    assert await other.aclaim("t") is None
    await claim.arelease()


async def test_a_server_that_cannot_be_reached_is_an_error(
    saver: AsyncPostgresSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: Any, **more: Any) -> Any:
        raise ConnectionRefusedError("nobody there")

    monkeypatch.setattr(asyncpg, "create_pool", refuse)

    with pytest.raises(StorageError, match="nobody there"):
        await graph_of(saver, plus_one).ainvoke({"x": 1}, cfg(), durability="exit")
    assert saver.leases == {}


# -- pools ----------------------------------------------------------------------------------------------------------


async def test_savers_of_one_pool_hold_one_connection_and_give_it_back(postgres_database: str) -> None:
    async with asyncpg.create_pool(postgres_database, min_size=0, max_size=3) as pool:
        savers = [AsyncPostgresSaver(pool) for _ in range(5)]
        claims = [await saver.aclaim(f"t{n}") for n, saver in enumerate(savers)]
        held = pool.get_size() - pool.get_idle_size()
        for claim in claims:
            assert claim is not None
            await claim.arelease()
        await savers[0].aclose()

        assert held == 1
        assert pool.get_idle_size() == pool.get_size()


async def test_a_saver_that_is_closed_leaves_the_claims_of_others_of_its_pool(postgres_database: str) -> None:
    async with asyncpg.create_pool(postgres_database, min_size=0, max_size=3) as pool:
        one, other = AsyncPostgresSaver(pool), AsyncPostgresSaver(pool)
        claim = await one.aclaim("t")
        await other.aclose()

        assert claim is not None
        assert await one.aclaim("t") is None
        await claim.arelease()


async def test_many_runs_on_a_small_pool_come_to_their_ends(postgres_database: str) -> None:
    async with asyncpg.create_pool(postgres_database, min_size=0, max_size=2) as pool:
        graphs = [graph_of(AsyncPostgresSaver(pool), plus_one) for _ in range(3)]
        runs = [graphs[n % 3].ainvoke({"x": n}, cfg(f"t{n}"), durability="exit") for n in range(30)]

        assert [result["x"] for result in await asyncio.gather(*runs)] == list(range(1, 31))


async def test_a_pool_of_one_connection_has_none_to_spare(postgres_database: str) -> None:
    async with asyncpg.create_pool(postgres_database, min_size=0, max_size=1) as pool:
        saver = AsyncPostgresSaver(pool)

        assert not saver.can_claim
        assert await graph_of(saver, plus_one).ainvoke({"x": 1}, cfg(), durability="exit") == {"x": 2}


# -- poolers --------------------------------------------------------------------------------------------------------


class Behind(asyncpg.Connection):  # type: ignore[misc]
    """A connection that a pooler has answered: the session that it names is none of the server's."""

    def get_server_pid(self) -> int:
        return 1


async def test_a_claim_can_be_cancelled_while_the_pool_has_no_connection(postgres_database: str, conn: Any) -> None:
    async with asyncpg.create_pool(postgres_database, min_size=1, max_size=2) as pool:
        saver = AsyncPostgresSaver(pool)
        busy = [await pool.acquire(), await pool.acquire()]
        claims = [asyncio.create_task(saver.aclaim(str(number))) for number in range(2)]
        for _ in range(10):
            await asyncio.sleep(0)
        claims[0].cancel()
        done, _ = await asyncio.wait(claims, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert done == {claims[0]}
        assert claims[0].cancelled()

        for one in busy:
            await pool.release(one)
        claim = await claims[1]
        assert claim is not None
        again = await saver.aclaim("0")
        assert again is not None
        await claim.arelease()
        await again.arelease()
        assert await conn.fetchval(LOCKS) == 0


async def test_a_saver_is_closed_while_the_pool_has_no_connection(postgres_database: str) -> None:
    async with asyncpg.create_pool(postgres_database, min_size=1, max_size=2) as pool:
        saver = AsyncPostgresSaver(pool)
        busy = [await pool.acquire(), await pool.acquire()]
        claim = asyncio.create_task(saver.aclaim("1"))
        for _ in range(10):
            await asyncio.sleep(0)
        claim.cancel()
        closing = asyncio.create_task(saver.aclose())
        done, _ = await asyncio.wait([claim, closing], timeout=30)
        assert done == {claim, closing}
        for one in busy:
            await pool.release(one)
        assert pool.get_idle_size() == pool.get_size()


async def test_through_a_pooler_nothing_is_locked_and_the_user_is_told_once(postgres_database: str, conn: Any) -> None:
    async with asyncpg.create_pool(postgres_database, min_size=0, max_size=3, connection_class=Behind) as pool:
        saver = AsyncPostgresSaver(pool)
        graph = graph_of(saver, plus_one)
        with pytest.warns(RuntimeWarning, match="claims=False"):
            result = await graph.ainvoke({"x": 1}, cfg(), durability="exit")
        again = await graph.ainvoke({"x": 1}, cfg(), durability="exit")
        claims = [await saver.aclaim("t"), await saver.aclaim("t")]

        assert result == again == {"x": 2}
        assert None not in claims
        assert await conn.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


async def test_claims_can_be_switched_off(postgres_database: str) -> None:
    async with counting(postgres_database, claims=False) as (saver, queries):
        await graph_of(saver, plus_one).ainvoke({"x": 1}, cfg(), durability="exit")

    assert not saver.can_claim
    assert asked(queries) == 0
