"""Keys of an input that no schema declares: not written, and not passed over in silence."""

import logging

from typing_extensions import TypedDict

from langgraph_async import START, StateGraph


class State(TypedDict, total=False):
    topic: str


class Outer(TypedDict, total=False):
    topic: str
    beside: int


def graph_of(schema, node):
    return StateGraph(schema).add_node("node", node).add_edge(START, "node")


async def keep(state):
    return {"topic": state.get("topic", "none")}


async def test_an_unknown_key_of_the_input_is_logged_with_the_nearest_name(caplog):
    with caplog.at_level(logging.WARNING, logger="langgraph_async"):
        result = await graph_of(State, keep).compile(name="essay").ainvoke({"topci": "tea"})

    assert result == {"topic": "none"}
    assert "Input key 'topci' is not in the state of graph 'essay' and is ignored. Did you mean 'topic'?" in caplog.text


async def test_a_node_may_hand_its_whole_state_to_a_graph_that_has_some_of_it(caplog):
    inner = graph_of(State, keep).compile()

    async def call(state):
        return await inner.ainvoke(state)

    with caplog.at_level(logging.WARNING, logger="langgraph_async"):
        result = await graph_of(Outer, call).compile().ainvoke({"topic": "tea", "beside": 1})

    assert result == {"topic": "tea", "beside": 1}
    assert caplog.text == ""
