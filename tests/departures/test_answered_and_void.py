"""A question that was answered stays answered when the superstep's writes cannot be applied."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from foreign_savers import BlockingSaver

from langgraph_async import START, Command, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import InvalidUpdateError

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Single(TypedDict, total=False):
    one: Any


async def ask(state: Single) -> dict[str, Any]:
    return {"one": interrupt("well?")}


async def beside(state: Single) -> dict[str, Any]:
    return {"one": "another value for the key, in the same superstep"}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("make_saver", [InMemorySaver, BlockingSaver])
@pytest.mark.parametrize("nested", [False, True])
async def test_no_question_is_listed_that_was_answered_before_the_writes_could_not_be_applied(
    durability: Any, make_saver: Any, nested: bool
) -> None:
    inner: Any = StateGraph(Single).add_node("ask", ask).add_edge(START, "ask").compile() if nested else ask
    builder = StateGraph(Single)
    builder.add_node("asks", inner)
    builder.add_node("beside", beside)
    builder.add_edge(START, "asks")
    builder.add_edge(START, "beside")
    graph = builder.compile(checkpointer=make_saver())
    await graph.ainvoke({}, CONFIG)
    assert [question.value for question in (await graph.aget_state(CONFIG)).interrupts] == ["well?"]

    with pytest.raises(InvalidUpdateError):
        await graph.ainvoke(Command(resume="so"), CONFIG, durability=durability)

    snapshot = await graph.aget_state(CONFIG)
    assert (snapshot.interrupts, snapshot.next) == ((), ("asks", "beside"))
