"""What one read asks of PostgreSQL: how many queries, and whether they find rows by their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
from postgres_queries import counting

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.postgres.history import rebuilding
from langgraph_async.checkpoint.postgres.queries import one_each
from langgraph_async.checkpoint.postgres.tables import Tables
from langgraph_async.constants import MISSING
from langgraph_async.testing.saver_contract.samples import Branch, at, id_of

ONE_EACH = "ARRAY['t'], ARRAY[''], ARRAY[NULL]"
REBUILDING = "'t', '', '1', ARRAY['log']"


@pytest.mark.parametrize(("statement", "arguments"), [(one_each, ONE_EACH), (rebuilding, REBUILDING)])
async def test_a_plan_that_is_made_when_nothing_is_stored_finds_rows_by_their_keys(
    empty_postgres_database: str, statement: Callable[[Tables], str], arguments: str
) -> None:
    async with AsyncPostgresSaver.from_conn_string(empty_postgres_database) as saver:
        await saver.setup()
    conn = await asyncpg.connect(empty_postgres_database)
    try:
        await conn.execute("SET plan_cache_mode = force_generic_plan")
        await conn.execute(f"PREPARE reading AS {statement(Tables())}")
        plan = await conn.fetch(f"EXPLAIN EXECUTE reading ({arguments})")
    finally:
        await conn.close()
    used = {line.partition(" using ")[2].split()[0] for (line,) in plan if " using " in line}

    assert used == {"checkpoints_pkey", "checkpoint_blobs_pkey", "checkpoint_writes_pkey"}
    assert not [line for (line,) in plan if "Seq Scan" in line or "hashed SubPlan" in line]


async def written(saver: Any, count: int) -> Branch:
    branch = Branch(saver)
    await branch.put(log=["seed"], other=0)
    for n in range(count):
        await branch.write(("log", n), ("other", n), task="t")
        await branch.put(n=n, log=MISSING, other=MISSING)
    return branch


async def test_a_delta_history_takes_one_query(postgres_database: str) -> None:
    async with counting(postgres_database) as (saver, queries):
        branch = await written(saver, 150)
        queries.clear()
        history = await saver.aget_delta_channel_history(config=branch.head, channels=["log"])

        assert history["log"]["seed"] == ["seed"]
        assert [write[2] for write in history["log"]["writes"]] == list(range(150))
        assert len(queries) == 1


async def test_a_delta_history_goes_on_where_one_query_ends(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langgraph_async.checkpoint.postgres.history._STRETCH", 4)
    rebuilding.cache_clear()
    try:
        async with counting(postgres_database) as (saver, queries):
            branch = await written(saver, 10)
            await branch.put(log=["later"], other=MISSING)
            await branch.put(log=MISSING, other=MISSING)
            queries.clear()
            history = await saver.aget_delta_channel_history(config=branch.head, channels=["log", "other"])
    finally:
        rebuilding.cache_clear()

    assert history["log"] == {"seed": ["later"], "writes": []}
    assert history["other"] == {"seed": 0, "writes": [("t", "other", n) for n in range(10)]}
    assert len(queries) == 3


@pytest.mark.parametrize("length", [1, 3])
async def test_a_loop_of_parents_ends(postgres_database: str, length: int) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
        branch = Branch(saver)
        ids = [id_of(await branch.put(a=n)) for n in range(length)]
        for n in range(length):
            await saver.aput_writes(at(branch.thread_id, "", ids[n]), [("log", n)], "t")
    conn = await asyncpg.connect(postgres_database)
    await conn.execute(
        "UPDATE checkpoints SET parent_checkpoint_id = $1 WHERE thread_id = $2 AND checkpoint_id = $3",
        ids[-1],
        branch.thread_id,
        ids[0],
    )
    await conn.close()
    async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
        found = await saver.aget_delta_channel_history(config=branch.head, channels=["log"])

    assert found == {"log": {"writes": [("t", "log", n) for n in range(length - 1)]}}
