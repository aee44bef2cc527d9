"""What is stored and told of graphs inside graphs."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async import START, Command, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


THREAD: Any = {"configurable": {"thread_id": "t"}}


async def ask(_: Log) -> Log:
    return {"log": [interrupt("?")]}


def around(inner: Any, saver: InMemorySaver) -> Any:
    return StateGraph(Log).add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=saver)


def asking(**options: Any) -> Any:
    return StateGraph(Log).add_node("ask", ask).add_edge(START, "ask").compile(**options)


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("as_node", [False, True])
async def test_an_answer_reaches_a_graph_of_which_nothing_is_stored(by_id, as_node):
    inner = asking(checkpointer=False)

    async def call(_: Log) -> Any:
        return await inner.ainvoke({})

    graph = around(inner if as_node else call, InMemorySaver())
    (question,) = (await graph.ainvoke({}, THREAD))["__interrupt__"]

    result = await graph.ainvoke(Command(resume={question.id: "yes"} if by_id else "yes"), THREAD)

    assert result == {"log": ["yes"]}


@pytest.mark.parametrize(("memory", "levels"), [(None, {""}), (True, {"", "sub"})])
async def test_with_durability_exit_a_finished_graph_inside_is_stored_only_if_it_has_memory(memory, levels):
    async def node(_: Log) -> Log:
        return {"log": ["i"]}

    inner = StateGraph(Log).add_node("i", node).add_edge(START, "i").compile(checkpointer=memory)
    saver = InMemorySaver()

    await around(inner, saver).ainvoke({}, THREAD, durability="exit")

    assert {row.config["configurable"]["checkpoint_ns"] async for row in saver.alist(None)} == levels


async def test_with_durability_exit_a_graph_inside_that_asks_is_stored():
    saver = InMemorySaver()
    graph = around(asking(), saver)
    await graph.ainvoke({}, THREAD, durability="exit")

    result = await graph.ainvoke(Command(resume="yes"), THREAD, durability="exit")

    assert result == {"log": ["yes"]}


async def test_checkpoints_of_a_graph_inside_name_their_parent_with_all_levels():
    graph = around(asking(), InMemorySaver())

    items = [i async for i in graph.astream({}, THREAD, stream_mode="checkpoints", subgraphs=True)]

    nested = [part["parent_config"] for ns, part in items if ns and part["parent_config"]]
    assert nested
    for config in nested:
        where = config["configurable"]
        assert where["checkpoint_map"][where["checkpoint_ns"]] == where["checkpoint_id"]
        assert "" in where["checkpoint_map"]


async def test_with_durability_exit_no_checkpoint_names_a_parent_that_is_never_stored():
    async def node(_: Log) -> Log:
        return {"log": ["i"]}

    graph = around(node, InMemorySaver())

    items = [i async for i in graph.astream({}, THREAD, stream_mode="checkpoints", durability="exit")]

    assert [item["parent_config"] for item in items] == [None, None, None]


async def test_a_run_that_asks_at_once_returns_what_the_state_starts_with():
    result = await asking(checkpointer=InMemorySaver()).ainvoke({}, THREAD)

    assert result["log"] == []
