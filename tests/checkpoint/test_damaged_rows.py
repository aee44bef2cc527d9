"""Rows that were damaged, in any column: what reads them raises an error that says so, and other threads go on."""

from __future__ import annotations

import operator
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import asyncpg
import pytest

from langgraph_async import START, Command, StateGraph, interrupt
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.errors import LangGraphError, SerializationError

CONFIG: Any = {"configurable": {"thread_id": "t"}}
OTHER: Any = {"configurable": {"thread_id": "other"}}


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


async def write(state: Log) -> dict[str, Any]:
    return {"log": ["written"] * 5}


async def ask(state: Log) -> dict[str, Any]:
    return {"log": [interrupt("well?")]}


def graph_on(saver: Any) -> Any:
    builder = StateGraph(Log)
    builder.add_node("write", write)
    builder.add_node("ask", ask)
    builder.add_node("beside", write)
    builder.add_edge(START, "write")
    builder.add_edge("write", "ask")
    builder.add_edge("write", "beside")
    return builder.compile(checkpointer=saver)


async def prepare(saver: Any) -> None:
    graph = graph_on(saver)
    for config in (OTHER, CONFIG, CONFIG):
        await graph.ainvoke({"log": ["given"] * 9}, config)


async def failures(saver: Any) -> list[Exception]:
    """Return what was raised when everything that can be done with the thread is done."""
    graph = graph_on(saver)

    async def history() -> None:
        async for _ in graph.aget_state_history(CONFIG):
            pass

    found: list[Exception] = []
    for call in (
        lambda: graph.aget_state(CONFIG),
        history,
        lambda: saver.acopy_thread("t", "u"),
        lambda: graph.ainvoke(Command(resume="x"), CONFIG),
        lambda: graph.ainvoke({"log": ["more"]}, CONFIG),
        lambda: graph.aupdate_state(CONFIG, {"log": ["edited"]}, as_node="write"),
        lambda: saver.adelete_for_runs(["r"]),
        lambda: saver.aprune(["t"]),
        lambda: saver.adelete_thread("t"),
    ):
        try:
            await call()
        except Exception as exc:
            found.append(exc)
    assert (await graph.aget_state(OTHER)).next == ("ask",)
    return found


COLUMNS = [
    *(("checkpoints", name) for name in ("checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata")),
    *(("writes", name) for name in ("task_id", "task_path", "idx", "channel", "type", "value")),
]
DAMAGE = [None, "", b"", 3.5, "null", "garbage", b"\xff\xfe", b"\xc1", b"[]", b"\x80", b"\x81\xa1v\x01"]


@pytest.mark.parametrize("damages", [DAMAGE[::3], pytest.param(DAMAGE, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize(("table", "column"), COLUMNS)
async def test_a_damaged_column_of_an_sqlite_row_is_a_clear_error(
    tmp_path: Path, table: str, column: str, damages: list[Any]
) -> None:
    path = tmp_path / "a.db"
    async with AsyncSqliteSaver.from_conn_string(path, synchronous="NORMAL") as saver:
        await prepare(saver)
    whole = path.read_bytes()
    for damage in damages:
        path.write_bytes(whole)
        with closing(sqlite3.connect(path)) as conn, conn:
            newest = f"SELECT max(rowid) FROM {table} WHERE thread_id = 't'"
            try:
                conn.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ({newest})", (damage,))
            except sqlite3.IntegrityError:
                continue  # a column that the table itself guards
        async with AsyncSqliteSaver.from_conn_string(path, synchronous="NORMAL") as saver:
            found = await failures(saver)
        assert [exc for exc in found if not isinstance(exc, LangGraphError)] == [], damage


METADATA = [
    '{"step": "x"}',
    '{"parents": 5}',
    '{"counters_since_delta_snapshot": 7}',
    '{"counters_since_delta_snapshot": {"log": 3}}',
    '{"counters_since_delta_snapshot": {"log": ["a", "b"]}}',
]


@pytest.mark.parametrize("metadata", ["{", *METADATA])
async def test_metadata_of_another_form_is_an_error_that_names_thread_and_checkpoint(
    tmp_path: Path, metadata: str
) -> None:
    path = tmp_path / "a.db"
    async with AsyncSqliteSaver.from_conn_string(path, synchronous="NORMAL") as saver:
        await prepare(saver)
        newest = (await graph_on(saver).aget_state(CONFIG)).config["configurable"]["checkpoint_id"]
    with sqlite3.connect(path) as conn:
        conn.execute("UPDATE checkpoints SET metadata = ? WHERE checkpoint_id = ?", (metadata, newest))
    conn.close()
    async with AsyncSqliteSaver.from_conn_string(path, synchronous="NORMAL") as saver:
        with pytest.raises(SerializationError, match=rf"'metadata' of checkpoint '{newest}' on thread 't'"):
            await graph_on(saver).aget_state(CONFIG)


@pytest.mark.parametrize(
    ("column", "damage"),
    [*(("metadata", text) for text in METADATA), *(("checkpoint", text) for text in ("[]", "5", "{}", '{"id": 3}'))],
)
async def test_a_damaged_column_of_a_postgres_row_is_a_clear_error(
    postgres_database: str, column: str, damage: str
) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database, max_size=2) as saver:
        await prepare(saver)
        conn = await asyncpg.connect(postgres_database)
        newest = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 't'"
        await conn.execute(
            f"UPDATE checkpoints SET {column} = $1::text::jsonb WHERE checkpoint_id = ({newest})", damage
        )
        await conn.close()
        with pytest.raises(SerializationError, match="on thread 't'"):
            await graph_on(saver).aget_state(CONFIG)
        found = await failures(saver)
    assert [exc for exc in found if not isinstance(exc, LangGraphError)] == []
