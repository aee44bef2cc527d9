"""The SQLite saver keeps the contract, on a file, in memory and on a connection of the user's."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import aiosqlite
import pytest

from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.testing.savers import SaverContract


class TestFile(SaverContract):
    @pytest.fixture
    async def saver(self, tmp_path: Path) -> AsyncIterator[AsyncSqliteSaver]:
        async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", synchronous="NORMAL") as saver:
            yield saver


@pytest.mark.slow
class TestMemory(SaverContract):
    @pytest.fixture
    async def saver(self) -> AsyncIterator[AsyncSqliteSaver]:
        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            yield saver


class TestOwnConnection(SaverContract):
    @pytest.fixture
    async def saver(self) -> AsyncIterator[AsyncSqliteSaver]:
        async with aiosqlite.connect(":memory:") as conn, AsyncSqliteSaver(conn) as saver:
            yield saver


@pytest.mark.parametrize("kind", [int, float])
async def test_a_thread_whose_versions_are_numbers_goes_on(kind: type) -> None:
    class State(TypedDict):
        log: Annotated[list[str], operator.add]
        kept: str

    async def node(state: State) -> dict[str, list[str]]:
        return {"log": ["ran"]}

    builder = StateGraph(State).add_sequence([("a", node), ("b", node), ("c", node)]).add_edge(START, "a")
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        graph = builder.compile(checkpointer=saver, interrupt_before=["b", "c"])
        config: Any = {"configurable": {"thread_id": "t"}}
        await graph.ainvoke({"log": [], "kept": "in"}, config)
        found = await saver.aget_tuple(config)
        assert found is not None
        checkpoint: Any = found.checkpoint
        for mark in (checkpoint["channel_versions"], *checkpoint["versions_seen"].values()):
            mark |= {key: kind(version.partition(".")[0]) for key, version in mark.items()}
        await saver.aput(found.config, checkpoint, found.metadata, {})

        await graph.ainvoke(None, config)
        state = await graph.aget_state(config)
        result = await graph.ainvoke(None, config)

    assert state.next == ("c",)
    assert result == {"log": ["ran", "ran", "ran"], "kept": "in"}
