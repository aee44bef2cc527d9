"""The PostgreSQL saver keeps the contract, with a pool, on one connection, in a schema, without a statement cache."""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgres_queries import counting

from langgraph_async.checkpoint.base import StepCommit, TaskWrites
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.postgres.faithful import clean, jsonb_keeps
from langgraph_async.constants import ERROR, INTERRUPT
from langgraph_async.errors import SerializationError, StorageError
from langgraph_async.ids import checkpoint_id
from langgraph_async.testing.saver_contract.samples import Branch, at, id_of, listed, load, same, values
from langgraph_async.testing.savers import SaverContract, check_saver, contract_points


class Colour(str, Enum):
    RED = "red"


class TestPool(SaverContract):
    @pytest.fixture
    async def saver(self, postgres_database: str) -> AsyncIterator[AsyncPostgresSaver]:
        async with AsyncPostgresSaver.from_conn_string(postgres_database, max_size=4) as saver:
            yield saver


@pytest.fixture
async def saver(postgres_database: str) -> AsyncIterator[AsyncPostgresSaver]:
    async with AsyncPostgresSaver.from_conn_string(postgres_database, max_size=4) as saver:
        yield saver


@pytest.fixture
async def conn(postgres_database: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(postgres_database)
    yield conn
    await conn.close()


@pytest.mark.slow
async def test_the_contract_holds_on_one_connection_of_the_users(conn: Any) -> None:
    report = await check_saver(lambda: AsyncPostgresSaver(conn))

    assert report.passed == contract_points()


@pytest.mark.slow
async def test_the_contract_holds_in_a_pool_of_the_users_and_a_schema(postgres_database: str) -> None:
    async with asyncpg.create_pool(postgres_database, min_size=1, max_size=3) as pool:
        await AsyncPostgresSaver(pool, schema='odd "name"').setup()
        report = await check_saver(lambda: AsyncPostgresSaver(pool, schema='odd "name"'))
        left_alone = await pool.fetchval("SELECT count(*) FROM public.checkpoints")

    assert report.passed == contract_points()
    assert left_alone == 0


@pytest.mark.slow
async def test_the_contract_holds_without_prepared_statements(postgres_database: str) -> None:
    options: Any = {"statement_cache": False, "max_size": 2}
    report = await check_saver(lambda: AsyncPostgresSaver.from_conn_string(postgres_database, **options))

    assert report.passed == contract_points()


@asynccontextmanager
async def on_one_connection(dsn: str) -> AsyncIterator[AsyncPostgresSaver]:
    conn = await asyncpg.connect(dsn)
    yield AsyncPostgresSaver(conn)
    await conn.close()


@asynccontextmanager
async def in_a_pool_and_a_schema(dsn: str) -> AsyncIterator[AsyncPostgresSaver]:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=3) as pool:
        saver = AsyncPostgresSaver(pool, schema='odd "name"')
        await saver.setup()
        yield saver


def unprepared(dsn: str) -> AbstractAsyncContextManager[AsyncPostgresSaver]:
    return AsyncPostgresSaver.from_conn_string(dsn, statement_cache=False)


@pytest.mark.parametrize("opened", [on_one_connection, in_a_pool_and_a_schema, unprepared])
async def test_the_most_used_methods_do_their_work(opened: Any, postgres_database: str) -> None:
    async with opened(postgres_database) as saver:
        branch = Branch(saver)
        await branch.put(a=1, big=["x" * 3000])
        await branch.write(("b", 2), task="task")
        await branch.put(a=3)

        assert await values(saver, branch.head) == {"a": 3, "big": ["x" * 3000]}
        assert [found.pending_writes async for found in saver.alist(None)] == [[], [("task", "b", 2)]]
        assert [info.thread_id async for info in saver.alist_threads()] == [branch.thread_id]


# -- values -------------------------------------------------------------------------------------------------------

_ODD: dict[str, Any] = {
    "enum": "red",
    "nan": math.nan,
    "infinite": -math.inf,
    "nul": "a\0b",
    "surrogate": "a\ud800b",
    "huge": 1e308,
    "exponent": 1e16,
    "tiny": 5e-324,
    "negative_zero": -0.0,
    "wide": 2**70,
    "very_wide": -(10**4000),
    "long": "x" * 5000,
}


async def test_what_jsonb_would_change_is_stored_beside_it(saver: AsyncPostgresSaver, conn: Any) -> None:
    config = await Branch(saver).put(**_ODD, plain=1, text="é", none=None, half=0.5, yes=True)
    found = await values(saver, config)
    inline = await conn.fetchval(
        "SELECT array_agg(k) FROM checkpoints, jsonb_object_keys(checkpoint->'channel_values') k"
    )

    assert [name for name, value in _ODD.items() if not (same(found[name], value) or found[name] == value)] == []
    assert sorted(inline) == ["enum", "half", "none", "plain", "text", "wide", "yes"]


async def test_a_text_enum_does_not_become_its_text_inline(saver: AsyncPostgresSaver, conn: Any) -> None:
    await Branch(saver.with_allowlist([Colour])).put(colour=Colour.RED)

    assert await conn.fetchval("SELECT checkpoint->'channel_values' FROM checkpoints") == "{}"
    assert await conn.fetchval("SELECT type FROM checkpoint_blobs WHERE channel = 'colour'") == "msgpack"


async def test_a_long_text_is_stored_once(saver: AsyncPostgresSaver, conn: Any) -> None:
    branch = Branch(saver)
    await branch.put(text="x" * 5000, n=0)
    for n in range(1, 5):
        await branch.put(n=n)

    assert await values(saver, branch.head) == {"text": "x" * 5000, "n": 4}
    assert await conn.fetchval("SELECT count(*) FROM checkpoint_blobs") == 1
    assert await conn.fetchval("SELECT max(length(checkpoint::text)) FROM checkpoints") < 1500


async def test_a_long_text_that_langgraph_kept_inside_is_not_lost(saver: AsyncPostgresSaver, conn: Any) -> None:
    branch = Branch(saver)
    await branch.put(text="x" * 5000)
    await conn.execute("DELETE FROM checkpoint_blobs")
    await conn.execute(
        "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_values,text}', $1)", f'"{"x" * 5000}"'
    )
    await branch.put(n=1)

    assert await values(saver, branch.head) == {"text": "x" * 5000, "n": 1}


@given(st.one_of(st.floats(), st.integers(), st.text(st.characters()), st.none(), st.booleans()))
def test_what_counts_as_faithful_survives_json(value: Any) -> None:
    if jsonb_keeps(value) and isinstance(value, float):
        # JSONB writes numbers without exponents.
        assert math.isfinite(value)
        assert "." in repr(value)
    if jsonb_keeps(value) and isinstance(value, str):
        assert clean(value) == value


async def test_metadata_loses_what_jsonb_cannot_hold_at_any_depth(saver: AsyncPostgresSaver) -> None:
    config = await Branch(saver).put({"a": {"b\0": ["c\0d", "\ud800e", "\\u0000"]}})

    assert dict((await load(saver, config)).metadata)["a"] == {"b": ["cd", "e", "\\u0000"]}


async def test_metadata_that_is_no_json_is_named(saver: AsyncPostgresSaver) -> None:
    with pytest.raises(SerializationError, match="metadata entry 'score'") as caught:
        await Branch(saver).put({"score": math.nan})

    assert caught.value.path == ("metadata", "score")


async def test_a_name_that_postgres_cannot_hold_fails_alone(saver: AsyncPostgresSaver) -> None:
    good, bad = [Branch(saver) for _ in range(5)], Branch(saver)
    results = await asyncio.gather(*(b.put(a=[1]) for b in good), bad.put(**{"nul \0": [1]}), return_exceptions=True)

    assert [type(r) for r in results] == [dict] * 5 + [StorageError]
    assert [await values(saver, b.head) for b in good] == [{"a": [1]}] * 5


async def test_sends_of_old_checkpoints_are_found_on_their_parents(saver: AsyncPostgresSaver, conn: Any) -> None:
    branch = Branch(saver)
    await branch.put(a=1)
    await branch.write(("__pregel_tasks", "send"), task="t")
    await branch.put(a=2)
    await conn.execute("UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{v}', '3')")
    found = await load(saver, branch.head)
    (item, _) = [item async for item in saver.alist(at(branch.thread_id))]

    assert found.checkpoint["channel_values"] == {"a": 2, "__pregel_tasks": ["send"]}
    assert found.checkpoint["channel_versions"]["__pregel_tasks"] == branch.versions["a"]
    assert item == found


# -- statements ---------------------------------------------------------------------------------------------------


def _step(branch: Branch, **changed: Any) -> StepCommit:
    writes = (TaskWrites("t", "~p", [("a", 1), ("x", [2])]), TaskWrites("u", "~q", [], replace=True))
    expected = branch.head.get("configurable", {}).get("checkpoint_id")
    if expected is None:
        writes = ()
    return StepCommit(writes, *branch.next_checkpoint(**changed), expected)


async def test_a_superstep_is_one_statement(postgres_database: str) -> None:
    async with counting(postgres_database) as (saver, queries):
        branch = Branch(saver)
        for n in range(3):
            queries.clear()
            branch.head = await saver.acommit(branch.head, _step(branch, a=[n], b=2))

        assert len(queries) == 1  # the first one makes asyncpg look up types


async def test_a_chain_of_supersteps_is_one_statement(postgres_database: str) -> None:
    async with counting(postgres_database) as (saver, queries):
        branch = Branch(saver)
        branch.head = await saver.acommit(branch.head, _step(branch, a=[]))
        chain: list[Any] = []
        for n in range(4):
            commit = _step(branch, a=[n])
            chain.append((branch.head, commit))
            branch.head = at(branch.thread_id, "", commit.checkpoint["id"])
        queries.clear()
        await saver.acommit_chain(chain)

        assert len(queries) == 1
        assert await values(saver, branch.head) == {"a": [3]}
        assert len(await listed(saver, at(branch.thread_id))) == 5


async def test_supersteps_of_many_runs_share_statements(postgres_database: str) -> None:
    async with counting(postgres_database, max_size=4) as (saver, queries):
        branches = [Branch(saver) for _ in range(200)]
        await asyncio.gather(*(saver.acommit(b.head, _step(b, a=[1])) for b in branches))

        assert len(queries) <= 200 // 16
        assert len(await listed(saver, None)) == 200


async def test_reads_of_many_runs_share_statements(postgres_database: str) -> None:
    async with counting(postgres_database, max_size=4) as (saver, queries):
        branches = [Branch(saver) for _ in range(100)]
        await asyncio.gather(*(b.put(a=[i]) for i, b in enumerate(branches)))
        queries.clear()
        found = await asyncio.gather(*(values(saver, at(b.thread_id)) for b in branches))

        assert found == [{"a": [i]} for i in range(100)]
        assert len(queries) <= 100 // 16


async def test_a_list_takes_one_query_for_each_page(postgres_database: str) -> None:
    async with counting(postgres_database) as (saver, queries):
        branch = Branch(saver)
        for n in range(120):
            await branch.put({"even": n % 2 == 0}, a=[n])
            await branch.write(("a", n))
        queries.clear()
        items = [item async for item in saver.alist(at(branch.thread_id))]
        of_all = len(queries)
        queries.clear()
        few = await listed(saver, at(branch.thread_id), filter={"step": 3}, limit=5)

        assert [item.pending_writes for item in items] == [[("task", "a", n)] for n in reversed(range(120))]
        assert (of_all, len(queries), len(few)) == (2, 1, 1)


async def test_listing_does_not_keep_writers_waiting(saver: AsyncPostgresSaver) -> None:
    branch = Branch(saver)
    for n in range(3):
        await branch.put(a=n)
    async with asyncio.timeout(30):
        async for _ in saver.alist(at(branch.thread_id)):
            await saver.setup()
            await branch.put(a="more")


# -- threads ------------------------------------------------------------------------------------------------------


async def test_threads_are_listed_with_their_status(saver: AsyncPostgresSaver) -> None:
    idle, asked, failed, mended = (Branch(saver, name) for name in ("idle", "asked", "failed", "mended"))
    for branch in (idle, asked, failed, mended):
        await branch.put({"user": "u" if branch is asked else "v"}, a=1)
        await Branch(saver, branch.thread_id, "sub").put(a=1)
    await asked.write((INTERRUPT, ["?"]), task="t")
    await failed.write((ERROR, "e"), task="t")
    await mended.write((ERROR, "e"), task="t")
    await mended.write((ERROR, None), task="t")
    found = [info async for info in saver.alist_threads()]

    assert [(info.thread_id, info.status) for info in found] == [
        ("mended", "idle"),
        ("failed", "error"),
        ("asked", "interrupted"),
        ("idle", "idle"),
    ]
    assert [info.checkpoint_id for info in found] == [id_of(b.head) for b in (mended, failed, asked, idle)]
    assert abs(found[0].updated_at - datetime.now(UTC)) < timedelta(minutes=5)
    assert [i.thread_id async for i in saver.alist_threads(status="error")] == ["failed"]
    assert [i.thread_id async for i in saver.alist_threads(filter={"user": "v"}, limit=1)] == ["mended"]


async def test_sweeping_deletes_threads_that_nobody_touched(postgres_database: str, conn: Any) -> None:
    options: Any = {"ttl_s": 3600, "max_size": 2}
    async with AsyncPostgresSaver.from_conn_string(postgres_database, **options) as saver:
        old, new, foreign = Branch(saver, "old"), Branch(saver, "new"), Branch(saver, "foreign")
        for branch in (old, new, foreign):
            await branch.put(a=[1])
            await branch.write(("a", 1))
        for table in ("checkpoints", "checkpoint_writes"):
            await conn.execute(
                f"UPDATE {table} SET checkpoint_id = '1e' || substr(checkpoint_id, 3) WHERE thread_id = 'old'"
            )
            await conn.execute(f"UPDATE {table} SET checkpoint_id = '0-own' WHERE thread_id = 'foreign'")

        assert await saver.asweep() == 1
        assert {info.thread_id async for info in saver.alist_threads()} == {"new", "foreign"}
        assert await conn.fetchval("SELECT count(*) FROM checkpoint_writes WHERE thread_id = 'old'") == 0


async def test_without_a_ttl_nothing_is_swept(saver: AsyncPostgresSaver) -> None:
    await Branch(saver).put(a=1)

    assert await saver.asweep() == 0


async def test_deleting_and_pruning_leave_no_rows_behind(saver: AsyncPostgresSaver, conn: Any) -> None:
    branch = Branch(saver, "thread")
    for n in range(3):
        await saver.acommit(branch.head, _step(branch, a=[n], b=[n]))
        branch.head = (await load(saver, at("thread"))).config
    await saver.aput_writes(at("thread", "", checkpoint_id(9)), [("a", 1)], "later")
    await saver.aprune(["thread"])
    counts = "SELECT count(*) FROM {0} WHERE thread_id = 'thread'"
    left = [await conn.fetchval(counts.format(t)) for t in ("checkpoints", "checkpoint_blobs", "checkpoint_writes")]
    await saver.adelete_thread("thread")
    gone = [await conn.fetchval(counts.format(t)) for t in ("checkpoints", "checkpoint_blobs", "checkpoint_writes")]

    assert left == [1, 3, 1]  # two values and the gate; the writes of what is still to come
    assert gone == [0, 0, 0]


# -- use ----------------------------------------------------------------------------------------------------------


async def test_a_database_without_tables_says_what_to_do(empty_postgres_database: str) -> None:
    async with AsyncPostgresSaver.from_conn_string(empty_postgres_database) as saver:
        with pytest.raises(StorageError, match=r"await saver\.setup\(\)"):
            await saver.aget_tuple(at("t"))


async def test_a_server_that_cannot_be_reached_is_a_storage_error() -> None:
    with pytest.raises(StorageError, match="could not be used"):
        await AsyncPostgresSaver.from_conn_string("postgresql://u@/d?host=/nowhere").setup()


async def test_a_closed_saver_says_so(postgres_database: str) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
        await saver.aget_tuple(at("t"))
    with pytest.raises(StorageError, match="closed") as caught:
        await saver.aget_tuple(at("t"))

    assert caught.value.reason == "closed"


async def test_a_connection_in_a_transaction_of_the_users_is_refused(conn: Any) -> None:
    saver = AsyncPostgresSaver(conn)
    async with conn.transaction():
        with pytest.raises(StorageError) as caught:
            await Branch(saver).put(a=1)

    assert caught.value.reason == "in_use"
    await Branch(saver).put(a=1)


async def test_a_saver_that_is_dropped_open_warns(postgres_database: str) -> None:
    saver: Any = AsyncPostgresSaver.from_conn_string(postgres_database)
    await saver.setup()
    pool = saver._source._pool
    with pytest.warns(ResourceWarning, match="dropped open"):
        del saver
    await pool.close()


@pytest.mark.parametrize("options", [{"max_size": 0}, {"min_size": 5, "max_size": 2}, {"ttl_s": 0}, {"schema": ""}])
def test_options_without_meaning_are_refused(options: Any) -> None:
    with pytest.raises(ValueError), warnings.catch_warnings():
        AsyncPostgresSaver.from_conn_string("postgresql://", **options)


@pytest.mark.parametrize("statement_cache", [True, False])
async def test_a_connection_of_the_savers_own_plans_each_statement_once(
    postgres_database: str, statement_cache: bool
) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database, statement_cache=statement_cache) as saver:
        mode = await saver._source.run(lambda conn: conn.fetchval("SHOW plan_cache_mode"))

    # Behind a pooler nothing is set: the connection may be another client's the next moment.
    assert mode == ("force_generic_plan" if statement_cache else "auto")
