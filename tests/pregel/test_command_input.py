"""Commands as the input of a run."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async import END, START, Command, EmptyInputError, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    x: int


@dataclass
class Change:
    x: int


THREAD: Any = {"configurable": {"thread_id": "t"}}


async def finished_thread() -> Any:
    graph = (
        StateGraph(Log)
        .add_node("a", lambda _: {"log": ["a"]})
        .add_edge(START, "a")
        .compile(checkpointer=InMemorySaver())
    )
    await graph.ainvoke({"x": 0}, THREAD)
    return graph


async def test_going_to_the_end_does_nothing():
    graph = await finished_thread()

    assert await graph.ainvoke(Command(goto=END), THREAD) == {"log": ["a"], "x": 0}


async def test_an_update_may_be_an_instance_of_a_class_with_fields():
    graph = await finished_thread()

    assert await graph.ainvoke(Command(update=Change(7)), THREAD) == {"log": ["a"], "x": 7}


async def test_an_update_may_be_pairs():
    graph = await finished_thread()
    command = Command(update=[("log", ["b"]), ("log", ["c"])])

    assert await graph.ainvoke(command, THREAD) == {"log": ["a", "b", "c"], "x": 0}


async def test_an_update_may_be_the_value_of_a_root_state():
    root = StateGraph(Annotated[list[str], operator.add])
    root.add_node("a", lambda _: ["a"]).add_edge(START, "a")
    graph = root.compile(checkpointer=InMemorySaver())
    await graph.ainvoke(["in"], THREAD)

    assert await graph.ainvoke(Command(update=["more"]), THREAD) == ["in", "a", "more"]


async def test_a_command_without_anything_is_no_input():
    graph = await finished_thread()

    with pytest.raises(EmptyInputError, match="Received empty Command input"):
        await graph.ainvoke(Command(), THREAD)
