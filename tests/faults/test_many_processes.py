"""Several processes at one database: they set it up at once, and run on one thread at once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from children import Child
from postgres import database

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.testing.saver_contract.samples import Branch, listed

PROCESSES = 4
RUNS = 5

_SETUP = """
import asyncio, sys
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver

async def main():
    print("ready", flush=True)
    while dsn := sys.stdin.readline().strip():
        async with AsyncPostgresSaver.from_conn_string(dsn, max_size=1) as saver:
            await saver.setup()
        print("done", flush=True)

asyncio.run(main())
"""

_RUNS = """
import asyncio, json, operator, sys
from typing import Annotated, TypedDict
from langgraph_async import START, StateGraph, ThreadConflictError
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver

class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    name: str

async def first(state):
    await asyncio.sleep(0)
    return {"log": [state["name"] + " first"]}

async def second(state):
    await asyncio.sleep(0)
    return {"log": [state["name"] + " second"]}

async def run(graph, name):
    config = {"configurable": {"thread_id": "t"}}
    try:
        return name, (await graph.ainvoke({"name": name}, config, durability=sys.argv[4]))["log"]
    except ThreadConflictError as exc:
        return name, None

async def main():
    kind, place, number = sys.argv[1:4]
    saver = {"sqlite": AsyncSqliteSaver, "postgres": AsyncPostgresSaver}[kind].from_conn_string(place)
    builder = StateGraph(State).add_node("first", first).add_node("second", second)
    graph = builder.add_edge(START, "first").add_edge("first", "second").compile(checkpointer=saver)
    async with saver:
        print("ready", flush=True)
        sys.stdin.readline()
        outcomes = await asyncio.gather(*(run(graph, f"{number}.{n}") for n in range(int(sys.argv[5]))))
        print(json.dumps(outcomes), flush=True)

asyncio.run(main())
"""


async def _all_ended(children: list[Child]) -> None:
    assert [await child.end() for child in children] == [(0, "", "")] * len(children)


# -- one thread ---------------------------------------------------------------------------------------------------


def _saver(kind: str, place: str) -> Any:
    return (AsyncSqliteSaver if kind == "sqlite" else AsyncPostgresSaver).from_conn_string(place)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_of_twenty_runs_of_four_processes_on_one_thread_those_accepted_are_kept_once_and_no_others(
    kind: str, durability: str, tmp_path: Path, postgres_database: str
) -> None:
    place = str(tmp_path / "a.db") if kind == "sqlite" else postgres_database
    async with _saver(kind, place) as saver:
        await saver.setup()
        children = await asyncio.gather(
            *(Child.start(_RUNS, kind, place, str(n), durability, str(RUNS)) for n in range(PROCESSES))
        )
        assert [await child.read() for child in children] == ["ready"] * PROCESSES
        await asyncio.gather(*(child.write("go") for child in children))
        outcomes = dict([pair for child in children for pair in json.loads(await child.read())])
        await _all_ended(children)

        accepted = {name for name, log in outcomes.items() if log is not None}
        newest = await saver.aget_tuple({"configurable": {"thread_id": "t"}})
        assert newest is not None
        log = newest.checkpoint["channel_values"]["log"]
        assert len(outcomes) == PROCESSES * RUNS
        assert accepted
        # What an accepted run returned is how the thread began.
        for name in accepted:
            assert outcomes[name] == log[: len(outcomes[name])]
            assert outcomes[name][-1] == f"{name} second"
            assert log.count(f"{name} second") == 1
        assert {entry.removesuffix(" second") for entry in log if entry.endswith("second")} == accepted
        parents = {item.config["configurable"]["checkpoint_id"]: item.parent_config async for item in saver.alist(None)}
        assert sum(parent is None for parent in parents.values()) == 1


# -- setting up ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_eight_processes_set_up_an_empty_database_at_once_again_and_again(
    postgres_dsn: str, empty_postgres_database: str
) -> None:
    children = await asyncio.gather(*(Child.start(_SETUP) for _ in range(8)))
    assert [await child.read() for child in children] == ["ready"] * 8
    conn = await asyncpg.connect(postgres_dsn)
    names = [f"{empty_postgres_database.partition('?')[0].rpartition('/')[2]}_{n}" for n in range(6)]
    for name in names:
        await conn.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        dsn = database(postgres_dsn, name)
        await asyncio.gather(*(child.write(dsn) for child in children))
        assert [await child.read() for child in children] == ["done"] * 8
        one = await asyncpg.connect(dsn)
        versions = await one.fetch("SELECT v FROM checkpoint_migrations ORDER BY v")
        broken = await one.fetchval("SELECT count(*) FROM pg_index WHERE NOT indisvalid")
        await one.close()
        assert ([v for (v,) in versions], broken) == (list(range(10)), 0)
        async with AsyncPostgresSaver.from_conn_string(dsn, max_size=1) as saver:
            await Branch(saver, "t").put(a=1)
            assert len(await listed(saver, None)) == 1
        await conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await conn.close()
    await asyncio.gather(*(child.write("") for child in children))
    await _all_ended(children)
