"""A pause cannot be swallowed (P1)."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from typing import Any

import anyio
import pytest
from places import (
    S,
    cfg,
    flat,
    guarded_by_except_base_exception,
    guarded_by_except_exception,
)
from slow_savers import SAVERS

from langgraph_async import START, Command, StateGraph, interrupt

# -- P1: a pause cannot be swallowed ------------------------------------------------------------------------


async def guarded_and_replaced(state):
    try:
        return {"log": [interrupt("why")]}
    except BaseException as exc:
        raise ValueError("something else") from exc


async def guarded_by_suppress(state):
    with contextlib.suppress(Exception):
        return {"log": [interrupt("why")]}
    return {"log": ["swallowed"]}


async def guarded_by_suppress_base(state):
    with contextlib.suppress(BaseException):
        return {"log": [interrupt("why")]}
    return {"log": ["swallowed"]}


async def in_gather(state):
    async def ask():
        return interrupt("why")

    return {"log": await asyncio.gather(ask())}


async def in_gather_with_exceptions_returned(state):
    async def ask():
        return interrupt("why")

    return {"log": await asyncio.gather(ask(), return_exceptions=True)}


async def in_a_task_group(state):
    async def ask():
        return interrupt("why")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(ask())
    return {"log": [task.result()]}


async def in_an_anyio_group(state):
    found = []

    async def ask():
        found.append(interrupt("why"))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
    return {"log": found}


async def in_a_thread(state):
    return {"log": [await asyncio.to_thread(interrupt, "why")]}


async def in_an_anyio_thread(state):
    return {"log": [await anyio.to_thread.run_sync(interrupt, "why")]}


async def under_a_timeout(state):
    async with asyncio.timeout(5):
        return {"log": [interrupt("why")]}


async def in_a_cancel_scope_that_ends_itself(state):
    with anyio.CancelScope() as scope:
        try:
            return {"log": [interrupt("why")]}
        finally:
            if interrupt is not None and not state.get("log"):
                scope.cancel()


async def swallowed_and_awaiting_on(state):
    try:
        return {"log": [interrupt("why")]}
    except BaseException:
        await asyncio.sleep(0)
        return {"log": ["swallowed"]}


def sync_guarded_by_except_exception(state):
    try:
        return {"log": [interrupt("why")]}
    except Exception:
        return {"log": ["swallowed"]}


def sync_guarded_by_except_base_exception(state):
    try:
        return {"log": [interrupt("why")]}
    except BaseException:
        return {"log": ["swallowed"]}


def yielding(state):
    yield {"log": [interrupt("why")]}


async def async_yielding(state):
    try:
        yield {"log": [interrupt("why")]}
    except BaseException:
        yield {"log": ["swallowed"]}


_RETURN_IN_FINALLY = """
async def returning_in_finally(state):
    answer = []
    try:
        answer.append(interrupt("why"))
    finally:
        return {"log": answer or ["swallowed"]}

def sync_returning_in_finally(state):
    answer = []
    try:
        answer.append(interrupt("why"))
    finally:
        return {"log": answer or ["swallowed"]}
"""
_made: dict[str, Any] = {"interrupt": interrupt}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SyntaxWarning)
    exec(_RETURN_IN_FINALLY, _made)

ASKING = [
    guarded_by_except_exception,
    guarded_by_except_base_exception,
    guarded_and_replaced,
    guarded_by_suppress,
    guarded_by_suppress_base,
    _made["returning_in_finally"],
    _made["sync_returning_in_finally"],
    in_gather,
    in_gather_with_exceptions_returned,
    in_a_task_group,
    in_an_anyio_group,
    in_a_thread,
    in_an_anyio_thread,
    under_a_timeout,
    swallowed_and_awaiting_on,
    sync_guarded_by_except_exception,
    sync_guarded_by_except_base_exception,
    yielding,
    async_yielding,
]


@pytest.mark.parametrize("node", ASKING, ids=lambda f: f.__name__)
async def test_a_pause_cannot_be_swallowed(node, place):
    graph = place(node, SAVERS["memory"]())

    first = await graph.ainvoke({"x": 1}, cfg())
    second = await graph.ainvoke(Command(resume="because"), cfg())

    assert [q.value for q in first["__interrupt__"]] == ["why"]
    assert first["log"] == []
    assert second["log"] == ["because"]
    assert "__interrupt__" not in second


@pytest.mark.parametrize("node", [guarded_by_except_base_exception, in_a_task_group], ids=lambda f: f.__name__)
async def test_a_pause_cannot_be_swallowed_whatever_stores_it(node, place, saver, durability, run):
    graph = place(node, saver)

    first = await run(graph, {"x": 1}, cfg(), durability=durability)
    second = await run(graph, Command(resume="because"), cfg(), durability=durability)

    assert [q.value for q in first["__interrupt__"]] == ["why"]
    assert second["log"] == ["because"]


async def test_the_pause_of_a_graph_called_inside_cannot_be_swallowed(saver):
    async def ask(state):
        return {"log": [interrupt("why")]}

    inner = flat(ask, None)

    async def call(state):
        try:
            return await inner.ainvoke({"x": 1})
        except BaseException:
            return {"log": ["swallowed"]}

    graph = flat(call, saver)

    first = await graph.ainvoke({}, cfg())
    second = await graph.ainvoke(Command(resume="because"), cfg())

    assert [q.value for q in first["__interrupt__"]] == ["why"]
    assert second["log"] == ["because"]


async def test_a_breakpoint_in_a_graph_called_inside_cannot_be_swallowed(saver):
    ran = []
    inner = (
        StateGraph(S)
        .add_node("a", lambda s: ran.append("a") or {"log": ["a"]})
        .add_node("b", lambda s: ran.append("b") or {"log": ["b"]})
        .add_edge(START, "a")
        .add_edge("a", "b")
        .compile(interrupt_before=["b"])
    )

    async def call(state):
        try:
            return await inner.ainvoke({"x": 1})
        except BaseException:
            return {"log": ["swallowed"]}

    graph = flat(call, saver)

    await graph.ainvoke({}, cfg())
    result = await graph.ainvoke(None, cfg())

    assert result["log"] == ["a", "b"]
    assert ran == ["a", "b"]


async def test_a_pause_that_a_retrying_loop_swallows_keeps_its_first_question(saver):
    async def node(state):
        for _ in range(3):
            try:
                return {"log": [interrupt("why")]}
            except BaseException:
                continue
        return {"log": ["gave up"]}

    graph = flat(node, saver)

    first = await graph.ainvoke({}, cfg())
    result = await graph.ainvoke(Command(resume={first["__interrupt__"][0].id: "yes"}), cfg())

    assert len({q.id for q in first["__interrupt__"]}) == 3
    assert result["log"] == ["yes"]


async def test_a_question_in_a_router_pauses_the_node(saver):
    def route(state):
        return interrupt("where")

    graph = (
        StateGraph(S)
        .add_node("a", lambda s: {"log": ["a"]})
        .add_node("b", lambda s: {"log": ["b"]})
        .add_edge(START, "a")
        .add_conditional_edges("a", route, ["b"])
        .compile(checkpointer=saver)
    )

    first = await graph.ainvoke({}, cfg())
    second = await graph.ainvoke(Command(resume="b"), cfg())

    assert [q.value for q in first["__interrupt__"]] == ["where"]
    assert second["log"] == ["a", "b"]


async def test_the_sibling_of_a_paused_node_finishes_and_is_not_run_again(saver, durability):
    ran = []

    async def sibling(state):
        await asyncio.sleep(0)
        ran.append("sibling")
        return {"log": ["sibling"]}

    graph = (
        StateGraph(S)
        .add_node("q", guarded_by_except_base_exception)
        .add_node("sibling", sibling)
        .add_edge(START, "q")
        .add_edge(START, "sibling")
        .compile(checkpointer=saver)
    )

    await graph.ainvoke({}, cfg(), durability=durability)
    result = await graph.ainvoke(Command(resume="yes"), cfg(), durability=durability)

    assert result["log"] == ["yes", "sibling"]
    assert ran == ["sibling"]
