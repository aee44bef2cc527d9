"""LangGraph reads and continues lists that we store as what was appended, with the plain reducer in its schema.

Runs only where LangGraph and its savers are installed. Each thread is written here, read and continued there, and
read and continued here again.
"""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

pytest.importorskip("langgraph.checkpoint.sqlite")
pytest.importorskip("langgraph.checkpoint.postgres")

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver as PeerPostgres
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver as PeerSqlite
from langgraph.graph import START as PEER_START
from langgraph.graph import StateGraph as PeerGraph
from langgraph.graph.message import add_messages as peer_add_messages

from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.postgres import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite import AsyncSqliteSaver
from langgraph_async.graph.messages import add_messages

pytestmark = pytest.mark.filterwarnings("ignore")
CONFIG: Any = {"configurable": {"thread_id": "1"}}
COUNTERS = "counters_since_delta_snapshot"
Open = Callable[[], AbstractAsyncContextManager[Any]]


class Ours(TypedDict):
    log: Annotated[list[Any], operator.add]
    messages: Annotated[list[Any], add_messages]


class Theirs(TypedDict):
    log: Annotated[list[Any], operator.add]
    messages: Annotated[list[Any], peer_add_messages]


async def node(state: Any) -> dict[str, Any]:
    return {"log": [f"node {len(state['log'])}"]}


def ours(saver: Any, **options: Any) -> Any:
    builder = StateGraph(Ours)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=saver, **options)


def theirs(saver: Any) -> Any:
    builder = PeerGraph(Theirs)
    builder.add_node("node", node)
    builder.add_edge(PEER_START, "node")
    return builder.compile(checkpointer=saver)


async def turns(graph: Any, name: str, count: int) -> None:
    for number in range(count):
        message = {"role": "user", "content": f"{name} {number}", "id": f"{name}{number}"}
        await graph.ainvoke({"log": [f"{name} {number}"], "messages": [message]}, CONFIG)


def plain(values: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the lists, messages as their ids and texts: here they are dicts and there objects."""
    said = [m if isinstance(m, dict) else {"id": m.id, "content": m.content} for m in values.get("messages", [])]
    return values.get("log", []), [(m["id"], m["content"]) for m in said]


async def history(graph: Any) -> list[Any]:
    return [plain(item.values) async for item in graph.aget_state_history(CONFIG)]


async def by_id(graph: Any) -> dict[str, Any]:
    return {
        item.config["configurable"]["checkpoint_id"]: plain(item.values)
        async for item in graph.aget_state_history(CONFIG)
    }


@pytest.fixture(params=["sqlite", "postgres"])
def savers(request: pytest.FixtureRequest, tmp_path: Path, postgres_database: str) -> tuple[Open, Open]:
    """What opens our saver and LangGraph's, on one database."""
    path = str(tmp_path / "a.db")
    if request.param == "sqlite":
        return (lambda: AsyncSqliteSaver.from_conn_string(path)), (lambda: PeerSqlite.from_conn_string(path))
    return (
        lambda: AsyncPostgresSaver.from_conn_string(postgres_database),
        lambda: PeerPostgres.from_conn_string(postgres_database),
    )


@asynccontextmanager
async def graph_on(make: Callable[..., Any], open_saver: Open, **options: Any) -> AsyncIterator[Any]:
    async with open_saver() as saver:
        yield make(saver, **options)


async def test_each_reads_every_checkpoint_of_the_other(savers: tuple[Open, Open]) -> None:
    our_saver, their_saver = savers
    async with graph_on(ours, our_saver) as graph:
        await turns(graph, "a", 15)
        assert COUNTERS in (await graph.checkpointer.aget_tuple(CONFIG)).metadata
        here = await history(graph)
    async with graph_on(theirs, their_saver) as graph:
        assert await history(graph) == here
        await turns(graph, "b", 2)
        there = await history(graph)
    async with graph_on(ours, our_saver) as graph:
        assert await history(graph) == there
        await turns(graph, "c", 2)
        here = await history(graph)
    async with graph_on(theirs, their_saver) as graph:
        assert await history(graph) == here

    assert here[0][0][-2:] == ["c 1", "node 37"]


async def test_what_langgraph_stored_whole_goes_on_as_what_is_appended(savers: tuple[Open, Open]) -> None:
    our_saver, their_saver = savers
    async with graph_on(theirs, their_saver) as graph:
        if hasattr(graph.checkpointer, "conn") and not hasattr(graph.checkpointer, "is_setup"):
            await graph.checkpointer.setup()
        await turns(graph, "a", 10)
        there = await history(graph)
    async with graph_on(ours, our_saver) as graph:
        assert await history(graph) == there
        await turns(graph, "b", 3)
        assert COUNTERS in (await graph.checkpointer.aget_tuple(CONFIG)).metadata
        here = await history(graph)
    async with graph_on(theirs, their_saver) as graph:
        assert await history(graph) == here


async def test_langgraph_edits_the_newest_state(savers: tuple[Open, Open]) -> None:
    our_saver, their_saver = savers
    async with graph_on(ours, our_saver) as graph:
        await turns(graph, "a", 12)
    async with graph_on(theirs, their_saver) as graph:
        await graph.aupdate_state(CONFIG, {"log": ["edited"]}, as_node="node")
        there = await history(graph)
    async with graph_on(ours, our_saver) as graph:
        assert await history(graph) == there

    assert there[0][0][-1] == "edited"


@pytest.mark.parametrize("place", [9, 10, 11])
async def test_langgraph_runs_on_from_a_past_state(savers: tuple[Open, Open], place: int) -> None:
    our_saver, their_saver = savers
    async with graph_on(ours, our_saver) as graph:
        await turns(graph, "a", 12)
        before = {
            item.config["configurable"]["checkpoint_id"]: plain(item.values)
            async for item in graph.aget_state_history(CONFIG)
        }
        past = [item.config async for item in graph.aget_state_history(CONFIG)][place]
    async with graph_on(theirs, their_saver) as graph:
        await graph.ainvoke({"log": ["again"]}, past)
        await graph.ainvoke(None, past)
        there = await history(graph)
    async with graph_on(ours, our_saver) as graph:
        assert await history(graph) == there
        after = {
            item.config["configurable"]["checkpoint_id"]: plain(item.values)
            async for item in graph.aget_state_history(CONFIG)
        }

    assert {key: after[key] for key in before} == before


@pytest.mark.parametrize("place", [9, 10, 11])
async def test_langgraph_edits_a_past_state(savers: tuple[Open, Open], place: int) -> None:
    our_saver, their_saver = savers
    async with graph_on(ours, our_saver) as graph:
        await turns(graph, "a", 12)
        before = {
            item.config["configurable"]["checkpoint_id"]: plain(item.values)
            async for item in graph.aget_state_history(CONFIG)
        }
        past = [item.config async for item in graph.aget_state_history(CONFIG)][place]
    async with graph_on(theirs, their_saver) as graph:
        await graph.aupdate_state(past, {"log": ["edited"]}, as_node="node")
    async with graph_on(ours, our_saver) as graph:
        after = {
            item.config["configurable"]["checkpoint_id"]: plain(item.values)
            async for item in graph.aget_state_history(CONFIG)
        }

    assert {key: after[key] for key in before} == before
