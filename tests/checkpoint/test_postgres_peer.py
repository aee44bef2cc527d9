"""LangGraph goes on with threads of our PostgreSQL saver, and we with its.

Runs only where ``LANGGRAPH_ASYNC_PEER_PYTHON`` names a Python that has LangGraph and its PostgreSQL saver.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import asyncpg
import pytest

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.testing.saver_contract.samples import at, load

PEER = os.environ.get("LANGGRAPH_ASYNC_PEER_PYTHON", "")
pytestmark = pytest.mark.skipif(not PEER, reason="LANGGRAPH_ASYNC_PEER_PYTHON is not set")

_GRAPH = """
import operator
from typing import Annotated, Any, TypedDict
from {package}.graph{module} import StateGraph
from {package}.types import Command, Send, interrupt

class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    text: str
    long: str
    odd: Any
    number: float

async def first(state):
    return {{"log": ["first"], "text": "t", "long": "x" * 3000, "odd": 1e16 if {odd} else 1, "number": 0.5}}

async def ask(state):
    return {{"log": [interrupt("?")]}}

async def last(state):
    return {{"log": [len(state["long"]), state["text"], state["number"], str(state["odd"])]}}

builder = StateGraph(State)
for node in (first, ask, last):
    builder.add_node(node.__name__, node)
builder.add_edge("__start__", "first")
builder.add_edge("first", "ask")
builder.add_edge("ask", "last")
"""

_PEER = """
import asyncio, json, sys
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

async def main():
    async with AsyncPostgresSaver.from_conn_string(sys.argv[1]) as saver:
        await saver.setup()
        graph = builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "t"}}
        given = {"log": ["in"]} if sys.argv[2] == "start" else Command(resume="answer")
        await graph.ainvoke(given, config)
        state = await graph.aget_state(config)
        history = [item async for item in graph.aget_state_history(config)]
        print(json.dumps([state.values["log"], list(state.next), len(history)]))

asyncio.run(main())
"""


def _ours(*, odd: bool) -> dict[str, Any]:
    names: dict[str, Any] = {}
    source = _GRAPH.format(package="langgraph_async", module=".state", odd=odd)
    exec(compile(source, "graph", "exec", dont_inherit=True), names)
    return names


def _peer(dsn: str, action: str) -> Any:
    source = _GRAPH.format(package="langgraph", module="", odd=False) + _PEER
    done = subprocess.run([PEER, "-c", source, dsn, action], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("odd", [False, True])
async def test_langgraph_goes_on_with_our_thread(postgres_database: str, odd: bool) -> None:
    names = _ours(odd=odd)
    async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
        graph = names["builder"].compile(checkpointer=saver)
        await graph.ainvoke({"log": ["in"]}, at("t", None))
        values, following, count = _peer(postgres_database, "resume")
        found = await load(saver, at("t"))

    assert values == ["in", "first", "answer", 3000, "t", 0.5, "1e+16" if odd else "1"]
    assert (following, count) == ([], 5)
    assert found.checkpoint["channel_values"]["log"] == values


async def test_we_go_on_with_a_thread_of_langgraph(empty_postgres_database: str) -> None:
    values, following, _ = _peer(empty_postgres_database, "start")
    names = _ours(odd=False)
    async with AsyncPostgresSaver.from_conn_string(empty_postgres_database) as saver:
        await saver.setup()
        graph = names["builder"].compile(checkpointer=saver)
        result = await graph.ainvoke(names["Command"](resume="ours"), at("t", None))
        threads = [info.status async for info in saver.alist_threads()]

    assert (values, following) == (["in", "first"], ["ask"])
    assert result["log"] == ["in", "first", "ours", 3000, "t", 0.5, "1"]
    assert threads == ["idle"]


async def test_langgraph_finds_our_tables_complete(postgres_database: str, empty_postgres_database: str) -> None:
    _peer(empty_postgres_database, "start")
    found = [await _described(dsn) for dsn in (postgres_database, empty_postgres_database)]

    assert found[0] == found[1]


async def _described(dsn: str) -> Any:
    conn = await asyncpg.connect(dsn)
    columns = await conn.fetch(
        "SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default "
        "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 3"
    )
    indexes = await conn.fetch("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1")
    versions = await conn.fetch("SELECT v FROM checkpoint_migrations ORDER BY 1")
    await conn.close()
    return [[tuple(row) for row in rows] for rows in (columns, indexes, versions)]
