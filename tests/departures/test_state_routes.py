"""Joins that cannot fire and routers that failed: departures S2 and S3."""

import asyncio
from typing import Any

import pytest
from drawings import State, chain, logs, says
from threads import on, stored

from langgraph_async import END, START, Command, Send, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import UnreachedJoinError

DURABILITIES = ["sync", "async", "exit"]


# -- S2: a join that cannot fire -----------------------------------------------------------------------------


def joined(saver: Any = None, first: Any = "a", **options: Any) -> Any:
    builder = StateGraph(State)
    for name in "abcd":
        builder.add_node(name, logs(name))
    builder.add_conditional_edges(START, lambda state: state.get("x", first))
    builder.add_edge(["a", "b"], "c", **options)
    builder.add_edge("c", "d")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize(("taken", "missing"), [("a", ("b",)), ("b", ("a",))])
async def test_a_join_that_waits_in_vain_is_an_error_that_names_it(taken, missing):
    with pytest.raises(UnreachedJoinError, match="'c'") as caught:
        await joined().ainvoke({"log": [], "x": taken})

    assert caught.value.join == "c"
    assert caught.value.missing == missing


async def test_a_join_may_be_declared_to_wait_in_vain():
    assert (await joined(on_missing="skip").ainvoke({"log": [], "x": "a"}))["log"] == ["a"]


async def test_a_join_of_which_no_source_ran_is_no_error():
    assert (await joined().ainvoke({"log": [], "x": "d"}))["log"] == ["d"]


async def test_a_join_whose_sources_both_ran_fires_once():
    assert (await joined().ainvoke({"log": [], "x": ["a", "b"]}))["log"] == ["a", "b", "c", "d"]


async def test_a_thread_with_an_unreached_join_is_readable_and_usable():
    graph = joined(InMemorySaver())
    with pytest.raises(UnreachedJoinError):
        await graph.ainvoke({"log": [], "x": "a"}, on())

    kept = await stored(graph, on())
    assert kept.values["log"] == ["a"]
    assert (await graph.ainvoke({"x": "b"}, on()))["log"] == ["a", "b", "c", "d"]


async def test_an_unreached_join_in_a_subgraph_and_of_a_deferred_node_is_found_too():
    with pytest.raises(UnreachedJoinError):
        await chain(sub=joined()).ainvoke({"log": []})

    builder = StateGraph(State)
    for name in "abc":
        builder.add_node(name, logs(name), defer=name == "c")
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: END, ["b", END])
    builder.add_edge(["a", "b"], "c")
    with pytest.raises(UnreachedJoinError, match="'c'"):
        await builder.compile().ainvoke({"log": []})


async def test_a_paused_run_is_not_told_of_joins_that_wait():
    graph = joined(InMemorySaver())

    assert (await graph.ainvoke({"log": [], "x": ["a", "b"]}, on(), interrupt_before=["c"]))["log"] == ["a", "b"]
    assert (await graph.ainvoke(None, on()))["log"] == ["a", "b", "c", "d"]


# -- S3: a router that failed --------------------------------------------------------------------------------


def failing_once(result: Any, kind: str) -> Any:
    calls: list[int] = []

    def routes(state):
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("once")
        return result

    async def aroutes(state):
        await asyncio.sleep(0)
        return routes(state)

    route: Any = aroutes if kind == "async" else routes
    return route, calls


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("sibling", [False, True])
async def test_a_router_that_raised_is_run_again_and_its_node_is_not(durability, kind, sibling):
    ran: list[str] = []
    route, calls = failing_once(["b", Send("s", {"n": 1})], kind)

    def counted(name):
        async def node(state):
            ran.append(name)
            return {"log": [name]}

        return node

    builder = StateGraph(State)
    for name in ("a", "b", "s", "z"):
        builder.add_node(name, counted(name))
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", route)
    if sibling:
        builder.add_edge(START, "z")
    graph = builder.compile(checkpointer=InMemorySaver())

    with pytest.raises(ConnectionError):
        await graph.ainvoke({"log": []}, on(), durability=durability)
    kept = await stored(graph, on())
    assert "a" in kept.next
    out = await graph.ainvoke(None, on(), durability=durability)

    assert out["log"] == ["a", *(["z"] if sibling else []), "b", "s"]
    assert sorted(ran) == sorted(out["log"])
    assert len(calls) == 2


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_router_of_the_start_that_raised_is_run_again(durability):
    route, calls = failing_once("b", "sync")
    builder = StateGraph(State)
    builder.add_node("b", logs("b"))
    builder.add_conditional_edges(START, route)
    graph = builder.compile(checkpointer=InMemorySaver())

    with pytest.raises(ConnectionError):
        await graph.ainvoke({"log": ["in"]}, on(), durability=durability)

    assert await graph.ainvoke(None, on(), durability=durability) == {"log": ["in", "b"]}
    assert len(calls) == 2


async def test_a_second_router_that_raised_is_run_again_with_the_first():
    route, _ = failing_once("c", "sync")
    builder = StateGraph(State)
    for name in "abc":
        builder.add_node(name, logs(name))
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "b")
    builder.add_conditional_edges("a", route)
    graph = builder.compile(checkpointer=InMemorySaver())

    with pytest.raises(ConnectionError):
        await graph.ainvoke({"log": []}, on())

    assert (await graph.ainvoke(None, on()))["log"] == ["a", "b", "c"]


async def test_a_node_that_commanded_is_not_run_again_for_its_router():
    route, _ = failing_once("c", "sync")
    builder = StateGraph(State)
    builder.add_node("a", says(Command(update={"log": ["a"]}, goto="b")))
    builder.add_node("b", logs("b"))
    builder.add_node("c", logs("c"))
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", route)
    graph = builder.compile(checkpointer=InMemorySaver())

    with pytest.raises(ConnectionError):
        await graph.ainvoke({"log": []}, on())

    assert (await graph.ainvoke(None, on()))["log"] == ["a", "b", "c"]


async def test_a_router_in_a_subgraph_that_raised_is_run_again():
    ran: list[str] = []
    route, calls = failing_once(END, "sync")

    async def a(state):
        ran.append("a")
        return {"log": ["a"]}

    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", route)
    outer = chain(saver=InMemorySaver(), sub=builder.compile())

    with pytest.raises(ConnectionError):
        await outer.ainvoke({"log": []}, on())
    out = await outer.ainvoke(None, on())

    assert out["log"] == ["a"]
    assert ran == ["a"]
    assert len(calls) == 2
