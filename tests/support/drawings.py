"""Small states, nodes and chains of nodes that many tests share."""

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from langgraph_async import START, StateGraph


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    x: Any


def chain(schema: Any = State, saver: Any = None, **nodes: Any) -> Any:
    builder = StateGraph(schema)
    before = START
    for name, action in nodes.items():
        builder.add_node(name, action)
        builder.add_edge(before, name)
        before = name
    return builder.compile(checkpointer=saver, name="G")


def says(value: Any) -> Any:
    async def node(state):
        return value

    return node


def logs(name: str) -> Any:
    return says({"log": [name]})
