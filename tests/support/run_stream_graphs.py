"""Graphs for the tests of run streams."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph_async import START, StateGraph


class Trail(TypedDict):
    trail: Annotated[list[str], operator.add]


def leaf(state: Trail) -> Any:
    return {"trail": ["leaf"]}


def chain(*nodes: Any, schema: Any = Trail, **options: Any) -> Any:
    """A graph of `nodes` one after the other: functions, graphs, or pairs of a name and one of these."""
    builder = StateGraph(schema)
    last = START
    for node in nodes:
        name, action = node if isinstance(node, tuple) else (node.__name__, node)
        builder.add_node(name, action)
        builder.add_edge(last, name)
        last = name
    return builder.compile(**options)


def first(state: Trail) -> Any:
    return {"trail": ["first"]}


def nested(action: Any = leaf, **options: Any) -> Any:
    """Node ``first``, then the graph ``inner`` with the one node ``leaf``."""
    return chain(first, ("inner", chain(("leaf", action))), **options)


def simple(**options: Any) -> Any:
    """Nodes ``first`` and ``leaf``."""
    return chain(first, leaf, **options)


def asked(thread_id: str = "t") -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id}}


async def opened(graph: Any, config: Any = None, given: Any = None, **options: Any) -> Any:
    """A run stream of a graph over `Trail`."""
    return await graph.astream_events(
        given if given is not None else {"trail": ["in"]}, config, version="v3", **options
    )


async def read(items: Any) -> list[Any]:
    return [item async for item in items]
