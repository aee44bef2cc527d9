"""A thread that waits in a node whose name is gone: an error, or a declared rename (P10)."""

from __future__ import annotations

import asyncio

import pytest
from places import S, cfg
from slow_savers import SAVERS, stored_rows

from langgraph_async import START, Command, Send, StateGraph, interrupt
from langgraph_async.errors import MissingNodeError


async def ask(state):
    return {"log": [interrupt("why")]}


async def plain(state):
    await asyncio.sleep(0)
    return {"log": ["plain"]}


def chain(saver, name="q", **kw):
    return (
        StateGraph(S)
        .add_node(name, ask)
        .add_node("after", plain)
        .add_edge(START, name)
        .add_edge(name, "after")
        .compile(checkpointer=saver, **kw)
    )


def sends(saver, name="q", **kw):
    return (
        StateGraph(S)
        .add_node(name, ask)
        .add_conditional_edges(START, lambda s: [Send(name, {"x": 1})], [name])
        .compile(checkpointer=saver, **kw)
    )


def deferred(saver, name="q", **kw):
    return (
        StateGraph(S)
        .add_node("first", plain)
        .add_node(name, ask, defer=True)
        .add_edge(START, "first")
        .add_edge("first", name)
        .compile(checkpointer=saver, **kw)
    )


def joining(saver, name="q", **kw):
    """The paused node is behind a join."""
    return (
        StateGraph(S)
        .add_node("left", plain)
        .add_node("right", plain)
        .add_node(name, ask)
        .add_edge(START, "left")
        .add_edge(START, "right")
        .add_edge(["left", "right"], name)
        .compile(checkpointer=saver, **kw)
    )


def deferred_join(saver, name="q", **kw):
    return (
        StateGraph(S)
        .add_node("left", plain)
        .add_node("right", plain)
        .add_node(name, ask, defer=True)
        .add_edge(START, "left")
        .add_edge(START, "right")
        .add_edge(["left", "right"], name)
        .compile(checkpointer=saver, **kw)
    )


def joined(saver, name="q", **kw):
    """The paused node is one of those that a join waits for."""
    return (
        StateGraph(S)
        .add_node(name, ask)
        .add_node("other", plain)
        .add_node("end", plain)
        .add_edge(START, name)
        .add_edge(START, "other")
        .add_edge([name, "other"], "end")
        .compile(checkpointer=saver, **kw)
    )


def inside(saver, name="q", **kw):
    inner = chain(None, name, **kw)
    return StateGraph(S).add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=saver)


def with_memory(saver, name="q", **kw):
    inner = chain(True, name, **kw)
    return StateGraph(S).add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=saver)


def around(saver, name="q", **kw):
    """The paused node is the one that holds the subgraph."""
    inner = chain(None)
    return StateGraph(S).add_node(name, inner).add_edge(START, name).compile(checkpointer=saver, **kw)


SHAPES = [chain, sends, deferred, joining, deferred_join, joined, inside, with_memory, around]


@pytest.fixture(params=SHAPES, ids=lambda f: f.__name__)
def shape(request):
    return request.param


GO_ON = {"answer": Command(resume="yes"), "no input": None}


@pytest.mark.parametrize("how", GO_ON)
async def test_a_missing_node_is_named_and_nothing_is_written(shape, saver, how, durability):
    await shape(saver).ainvoke({"x": 1}, cfg("thread-7"), durability=durability)
    before = await stored_rows(saver, "thread-7")
    changed = shape(saver, "renamed")

    with pytest.raises(MissingNodeError, match="'q'") as caught:
        await changed.ainvoke(GO_ON[how], cfg("thread-7"), durability=durability)

    assert caught.value.node == "q"
    assert "thread-7" in str(caught.value)
    assert await stored_rows(saver, "thread-7") == before


async def test_a_declared_rename_goes_on_there_with_the_same_question(shape, saver, durability):
    first = await shape(saver).ainvoke({"x": 1}, cfg(), durability=durability)
    changed = shape(saver, "renamed", renamed={"q": "renamed"})

    state = await changed.aget_state(cfg())
    again = await changed.ainvoke(None, cfg(), durability=durability)
    expected = await shape(SAVERS["memory"]()).ainvoke({"x": 1}, cfg())
    done = await changed.ainvoke(Command(resume={first["__interrupt__"][0].id: "yes"}), cfg(), durability=durability)
    final = await changed.aget_state(cfg())

    assert list(state.interrupts) == first["__interrupt__"]
    assert again["__interrupt__"] == first["__interrupt__"]
    assert done["log"].count("yes") == 1
    assert len(done["log"]) >= len(expected["log"]) + 1
    assert final.next == ()
    assert final.values["log"] == done["log"]


async def test_after_a_rename_the_thread_can_be_run_again(shape, saver):
    await shape(saver).ainvoke({"x": 1}, cfg())
    changed = shape(saver, "renamed", renamed={"q": "renamed"})
    await changed.ainvoke(Command(resume="yes"), cfg())

    await changed.ainvoke({"x": 2}, cfg())
    done = await changed.ainvoke(Command(resume="again"), cfg())

    # A graph inside that shares the log is given it, and returns it with what it adds.
    assert {"yes", "again"} <= set(done["log"])
    assert done["log"].count("again") == 1
    assert "__interrupt__" not in done


async def test_a_renamed_start_of_a_join_that_has_run_still_counts(saver):
    def build(name, **kw):
        return (
            StateGraph(S)
            .add_node(name, plain)
            .add_node("q", ask)
            .add_node("end", plain)
            .add_edge(START, name)
            .add_edge(START, "q")
            .add_edge([name, "q"], "end")
            .compile(checkpointer=saver, **kw)
        )

    await build("a").ainvoke({}, cfg())

    done = await build("z", renamed={"a": "z"}).ainvoke(Command(resume="yes"), cfg())

    assert sorted(done["log"]) == ["plain", "plain", "yes"]


async def test_a_renamed_start_of_an_open_join_keeps_the_question_behind_it(saver):
    def build(name, **kw):
        return (
            StateGraph(S)
            .add_node(name, plain)
            .add_node("b", plain)
            .add_node("q", ask)
            .add_edge(START, name)
            .add_edge(START, "b")
            .add_edge([name, "b"], "q")
            .compile(checkpointer=saver, **kw)
        )

    first = await build("a").ainvoke({}, cfg())

    graph = build("z", renamed={"a": "z"})
    again = await graph.ainvoke(None, cfg())
    done = await graph.ainvoke(Command(resume={first["__interrupt__"][0].id: "yes"}), cfg())

    assert again["__interrupt__"] == first["__interrupt__"]
    assert done["log"] == ["plain", "plain", "yes"]


async def test_a_renamed_start_of_a_half_open_join_counts_as_seen(saver):
    """One start ran steps ago, the other is behind a question."""

    def build(name, **kw):
        return (
            StateGraph(S)
            .add_node(name, plain)
            .add_node("q", ask)
            .add_node("b", plain)
            .add_node("end", plain)
            .add_edge(START, name)
            .add_edge(START, "b")
            .add_edge("b", "q")
            .add_edge([name, "q"], "end")
            .compile(checkpointer=saver, **kw)
        )

    await build("a").ainvoke({}, cfg())

    done = await build("z", renamed={"a": "z"}).ainvoke(Command(resume="yes"), cfg())

    assert done["log"] == ["plain", "plain", "yes", "plain"]


async def test_a_new_input_on_a_thread_with_a_missing_node_begins_anew(saver):
    await chain(saver).ainvoke({"x": 1}, cfg())

    result = await chain(saver, "renamed").ainvoke({"x": 2}, cfg())

    assert [q.value for q in result["__interrupt__"]] == ["why"]
