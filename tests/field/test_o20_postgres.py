"""O20 Postgres basics: setting up at once, a pool that is used, and deleting exactly one thread."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from drawings import chain, logs

from langgraph_async import Command, interrupt
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.testing.saver_contract.samples import Branch, at, listed


def _config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.mark.parametrize("savers", [1, 8])
async def test_o20_eight_tasks_set_up_an_empty_database_at_once_three_times(
    empty_postgres_database: str, savers: int
) -> None:
    for n in range(3):
        ours = [
            AsyncPostgresSaver.from_conn_string(empty_postgres_database, schema=f"empty{n}", max_size=8 // savers)
            for _ in range(savers)
        ]
        await asyncio.gather(*(ours[task % savers].setup() for task in range(8)))
        await Branch(ours[0], "t").put(a=1)
        assert len(await listed(ours[-1], at("t"))) == 1
        await asyncio.gather(*(saver.aclose() for saver in ours))


async def test_o20_two_hundred_runs_keep_half_of_the_pool_busy(postgres_database: str) -> None:
    fetch, busy, busiest = asyncpg.Connection.fetch, 0, 0

    async def watched(self: Any, *args: Any) -> Any:
        nonlocal busy, busiest
        busy += 1
        busiest = max(busiest, busy)
        try:
            return await fetch(self, *args)
        finally:
            busy -= 1

    async with AsyncPostgresSaver.from_conn_string(postgres_database, max_size=10) as saver:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncpg.Connection, "fetch", watched)
            graph = chain(saver=saver, a=logs("a"), b=logs("b"), c=logs("c"))
            results = await asyncio.gather(*(graph.ainvoke({"log": []}, _config(f"t{n}")) for n in range(200)))

    assert results == [{"log": ["a", "b", "c"]}] * 200
    assert busiest >= 5


async def test_o20_deleting_a_paused_thread_leaves_those_alone_whose_ids_look_alike(postgres_database: str) -> None:
    async def ask(state: Any) -> dict[str, Any]:
        return {"log": [interrupt("?")]}

    async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
        graph = chain(saver=saver, inner=chain(ask=ask))
        before = {}
        for thread in ("a", "a_b", "a%", "ab"):
            await graph.ainvoke({"log": []}, _config(thread))
            before[thread] = sorted(await listed(saver, at(thread, None)))
        await saver.adelete_thread("a")

        assert await listed(saver, at("a", None)) == []
        for thread in ("a_b", "a%", "ab"):
            assert sorted(await listed(saver, at(thread, None))) == before[thread]
            assert len(before[thread]) > len(await listed(saver, at(thread))) > 0
            assert (await graph.ainvoke(Command(resume=thread), _config(thread)))["log"] == [thread]
