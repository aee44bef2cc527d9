"""What a stream yields when it does not say."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from langgraph_async import START, StateGraph


class State(TypedDict, total=False):
    x: int


async def set_x(_: State) -> State:
    return {"x": 2}


INNER = StateGraph(State).add_node("inner", set_x).add_edge(START, "inner").compile()


async def streamed_in_a_node(*, passes_config: bool) -> list[Any]:
    items: list[Any] = []

    async def call(state: State, config) -> None:
        given = config if passes_config else None
        items.extend([item async for item in INNER.astream(state, given)])

    await StateGraph(State).add_node("call", call).add_edge(START, "call").compile().ainvoke({"x": 1})
    return items


async def test_a_graph_streams_its_own_mode():
    assert [item async for item in INNER.astream({"x": 1})] == [{"inner": {"x": 2}}]


async def test_a_graph_called_in_a_node_streams_its_own_mode():
    assert await streamed_in_a_node(passes_config=False) == [{"inner": {"x": 2}}]


async def test_a_graph_called_with_the_config_of_the_node_streams_values():
    assert await streamed_in_a_node(passes_config=True) == [{"x": 1}, {"x": 2}]
