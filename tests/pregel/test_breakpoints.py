"""Static breakpoints: where a run stops, and what it returns there."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async import END, START, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def chain(*names: str) -> StateGraph:
    builder = StateGraph(Log)
    for name in names:
        builder.add_node(name, lambda _, name=name: {"log": [name]})
    for start, end in zip((START, *names), (*names, END), strict=True):
        builder.add_edge(start, end)
    return builder


THREAD: Any = {"configurable": {"thread_id": "t"}}


@pytest.mark.parametrize("saver", [InMemorySaver, type(None)])
async def test_a_run_that_stops_after_a_node_shows_its_writes_once(saver):
    graph = chain("a", "b", "c").compile(checkpointer=saver(), interrupt_after=["b"])

    assert await graph.ainvoke({}, THREAD) == {"log": ["a", "b"]}


async def test_a_stream_that_stops_after_a_node_tells_the_state_once():
    graph = chain("a", "b").compile(checkpointer=InMemorySaver(), interrupt_after=["a"])

    items = [item async for item in graph.astream({}, THREAD, stream_mode="values")]

    assert items == [{"log": ["a"]}]


async def test_a_breakpoint_in_a_nested_graph_is_no_result_of_the_task_around_it():
    inner = chain("i").compile(interrupt_before=["i"])
    outer = StateGraph(Log).add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=InMemorySaver())

    items = [item async for item in outer.astream({}, THREAD, stream_mode="tasks")]

    assert [sorted(item) for item in items] == [["id", "input", "name", "triggers"]]


async def test_a_fork_remembers_which_breakpoint_it_starts_at():
    saver = InMemorySaver()
    graph = chain("a", "b").compile(checkpointer=saver)
    await graph.ainvoke({}, THREAD)
    [before_b] = [row async for row in saver.alist(THREAD, filter={"step": 1})]

    await graph.ainvoke(None, before_b.config)

    [fork] = [row async for row in saver.alist(THREAD, filter={"source": "fork"})]
    assert fork.checkpoint["versions_seen"]["__interrupt__"] == before_b.checkpoint["channel_versions"]
