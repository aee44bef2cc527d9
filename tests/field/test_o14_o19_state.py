"""O14 No aliasing, O15 Defaults, O16 Fan-out order, O17 Join that cannot fire, O18 Typos, O19 Router fails once."""

from __future__ import annotations

import asyncio
import operator
from dataclasses import dataclass, field
from typing import Annotated

import pytest
from places import S, cfg, flat
from pydantic import BaseModel, Field
from slow_savers import SAVERS

from langgraph_async import START, Command, InvalidUpdateError, Send, StateGraph, UnreachedJoinError


@pytest.mark.parametrize("kind", [None, *SAVERS])
async def test_o14_nobody_shares_a_list(kind):
    seen = {}

    async def mutate(state):
        state["log"].append("mutated")

    async def sibling(state):
        await asyncio.sleep(0.01)
        seen["sibling"] = list(state["log"])

    async def after(state):
        seen["after"] = list(state["log"])

    graph = (
        StateGraph(S)
        .add_node("mutate", mutate)
        .add_node("sibling", sibling)
        .add_node("after", after)
        .add_edge(START, "mutate")
        .add_edge(START, "sibling")
        .add_edge("mutate", "after")
        .compile(checkpointer=SAVERS[kind]() if kind else None)
    )
    given = ["original"]

    await graph.ainvoke({"log": given}, cfg())

    assert given == ["original"]
    assert seen == {"sibling": ["original"], "after": ["original"]}


@dataclass
class Data:
    count: Annotated[int, operator.add] = 10
    items: Annotated[list, operator.add] = field(default_factory=lambda: ["d"])
    text: str = "default"


class Model(BaseModel):
    count: Annotated[int, operator.add] = 10
    items: Annotated[list, operator.add] = Field(default_factory=lambda: ["d"])
    text: str = "default"


@pytest.mark.parametrize("schema", [Data, Model])
async def test_o15_defaults_seed_the_state(schema):
    seen = []

    async def node(state):
        seen.append((state.count, list(state.items), state.text))
        state.items.append("shared?")
        return {"count": 5}

    graph = StateGraph(schema).add_node("node", node).add_edge(START, "node").compile()

    results = [await graph.ainvoke({}) for _ in range(2)]

    assert seen == [(10, ["d"], "default")] * 2
    assert [(r["count"], r["items"]) for r in results] == [(15, ["d"])] * 2


async def test_o16_fan_out_keeps_the_order_of_the_sends():
    async def node(state):
        for _ in range(5 - state["x"]):
            await asyncio.sleep(0)
        return {"log": [state["x"]]}

    graph = (
        StateGraph(S)
        .add_node("node", node)
        .add_conditional_edges(START, lambda s: [Send("node", {"x": n}) for n in range(5)], ["node"])
        .compile()
    )

    results = [await graph.ainvoke({}) for _ in range(50)]

    assert all(r["log"] == [0, 1, 2, 3, 4] for r in results)


def joined(**kw):
    graph = StateGraph(S)
    for name in "abcd":
        graph.add_node(name, lambda s, name=name: {"log": [name]})
    graph.add_conditional_edges(START, lambda s: "a", ["a", "b"])
    graph.add_edge(["a", "b"], "c", **kw)
    graph.add_edge("c", "d")
    return graph.compile()


async def test_o17_a_join_that_cannot_fire_is_an_error_or_declared():
    with pytest.raises(UnreachedJoinError) as caught:
        await joined().ainvoke({})
    skipped = await joined(on_missing="skip").ainvoke({})

    assert caught.value.join == "c"
    assert caught.value.missing == ("b",)
    assert skipped["log"] == ["a"]


TYPOS = {
    "undeclared key": (lambda s: {"nope": 1}, "nope"),
    "unknown goto": (lambda s: Command(goto="nowhere"), "nowhere"),
    "unknown send": (lambda s: Command(goto=Send("nobody", {})), "nobody"),
}


@pytest.mark.parametrize("typo", TYPOS)
@pytest.mark.parametrize("kind", SAVERS)
async def test_o18_a_typo_is_named_and_the_thread_stays_usable(kind, typo):
    wrong, named = TYPOS[typo]

    def node(state):
        return wrong(state) if state["x"] == "bad" else {"log": [state["x"]]}

    graph = flat(node, SAVERS[kind]())
    await graph.ainvoke({"x": "good"}, cfg())

    with pytest.raises(InvalidUpdateError) as caught:
        await graph.ainvoke({"x": "bad"}, cfg())
    state = await graph.aget_state(cfg())
    result = await graph.ainvoke({"x": "better"}, cfg())

    assert named in str(caught.value)
    assert "'q'" in str(caught.value) or "'q'" in str(caught.value.__notes__)
    assert state.values["log"] == ["good"]
    assert result["log"] == ["good", "better"]


@pytest.mark.parametrize("kind", SAVERS)
async def test_o18_an_update_with_an_unknown_key_is_named(kind):
    graph = flat(lambda s: {"log": [s["x"]]}, SAVERS[kind]())
    await graph.ainvoke({"x": 1}, cfg())

    with pytest.raises(InvalidUpdateError, match="nope"):
        await graph.aupdate_state(cfg(), {"nope": 1})

    assert (await graph.ainvoke({"x": 2}, cfg()))["log"] == [1, 2]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", SAVERS)
async def test_o19_a_router_that_failed_once_is_tried_again(kind, durability, beside):
    ran: list[str] = []

    def node(name):
        async def run(state):
            ran.append(name)
            return {"log": [name]}

        return run

    def route(state):
        ran.append("router")
        if ran.count("router") == 1:
            raise ValueError("once")
        return "b"

    graph = StateGraph(S).add_node("a", node("a")).add_node("b", node("b")).add_edge(START, "a")
    graph.add_conditional_edges("a", route, ["b"])
    if beside:
        graph.add_node("z", node("z")).add_edge(START, "z")
    graph = graph.compile(checkpointer=SAVERS[kind]())

    with pytest.raises(ValueError, match="once"):
        await graph.ainvoke({}, cfg(), durability=durability)
    state = await graph.aget_state(cfg())
    result = await graph.ainvoke(None, cfg(), durability=durability)

    assert state.next != ()
    assert (ran.count("a"), ran.count("router"), ran.count("b")) == (1, 2, 1)
    assert ran.count("z") == int(beside)
    assert sorted(result["log"]) == ["a", "b", *(["z"] if beside else [])]
