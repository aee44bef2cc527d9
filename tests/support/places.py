"""Places in which a node can stand, and ways to run a graph."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph_async import END, START, Send, StateGraph, interrupt


class S(TypedDict, total=False):
    log: Annotated[list, operator.add]
    x: Any


def cfg(thread: str = "t", **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}, **more}


# -- where a node can stand ---------------------------------------------------------------------------------


def flat(node, saver, **kw):
    return StateGraph(S).add_node("q", node).add_edge(START, "q").add_edge("q", END).compile(checkpointer=saver, **kw)


def nested(node, saver, *, memory=None):
    inner = StateGraph(S).add_node("q", node).add_edge(START, "q").compile(checkpointer=memory)

    async def call(state: S):
        return await inner.ainvoke({"x": state.get("x")})

    return StateGraph(S).add_node("sub", call).add_edge(START, "sub").compile(checkpointer=saver)


def as_node(node, saver):
    inner = StateGraph(S).add_node("q", node).add_edge(START, "q").compile()
    return StateGraph(S).add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=saver)


def three_levels(node, saver):
    inner = StateGraph(S).add_node("q", node).add_edge(START, "q").compile()
    middle = StateGraph(S).add_node("inner", inner).add_edge(START, "inner").compile()
    return StateGraph(S).add_node("middle", middle).add_edge(START, "middle").compile(checkpointer=saver)


def after_send(node, saver):
    def fan(state):
        return [Send("q", {"x": "sent"})]

    return (
        StateGraph(S)
        .add_node("q", node)
        .add_node("begin", lambda s: {})
        .add_edge(START, "begin")
        .add_conditional_edges("begin", fan, ["q"])
        .compile(checkpointer=saver)
    )


PLACES = {
    "flat": flat,
    "subgraph": nested,
    "subgraph with memory": lambda node, saver: nested(node, saver, memory=True),
    "subgraph as node": as_node,
    "three levels deep": three_levels,
    "after a send": after_send,
}


# -- ways to run it -----------------------------------------------------------------------------------------


async def invoked(graph, value, config, **kw):
    return await graph.ainvoke(value, config, **kw)


async def streamed(graph, value, config, **kw):
    last = {}
    questions = []
    async for mode, item in graph.astream(value, config, stream_mode=["values", "updates"], **kw):
        if mode == "values":
            last = {k: v for k, v in item.items() if k != "__interrupt__"}
        elif "__interrupt__" in item:
            questions.extend(item["__interrupt__"])
    return {**last, "__interrupt__": questions} if questions else last


# -- nodes that ask -----------------------------------------------------------------------------------------


async def guarded_by_except_exception(state):
    try:
        return {"log": [interrupt("why")]}
    except Exception:
        return {"log": ["swallowed"]}


async def guarded_by_except_base_exception(state):
    try:
        return {"log": [interrupt("why")]}
    except BaseException:
        return {"log": ["swallowed"]}


async def asks_twice(state):
    first = interrupt("one")
    second = interrupt("two")
    return {"log": [first, second]}


def two_parallel(saver, ran, names="ab", *, before=None):
    graph = StateGraph(S)
    for name in names:

        async def node(state, name=name):
            ran.append(name)
            if before is not None:
                await before()
            return {"log": [interrupt(name)]}

        graph.add_node(name, node)
        graph.add_edge(START, name)
    return graph.compile(checkpointer=saver)
