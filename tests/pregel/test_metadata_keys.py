"""What a run's own metadata may be called."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


async def write(state: Log) -> dict[str, Any]:
    return {"log": ["written"]}


async def test_an_entry_of_a_runs_own_metadata_is_not_taken_for_what_the_library_keeps_there() -> None:
    graph = StateGraph(Log).add_node("write", write).add_edge(START, "write").compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}, "metadata": {"counters_since_delta_snapshot": 7}}
    await graph.ainvoke({"log": ["given"]}, config)

    assert (await graph.ainvoke({"log": ["more"]}, config))["log"] == ["given", "written", "more", "written"]
