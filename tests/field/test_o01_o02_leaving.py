"""O1 Cancel under AnyIO, O2 Closing a stream."""

from __future__ import annotations

import asyncio
import gc
import time

import anyio
from places import S

from langgraph_async import START, StateGraph


async def test_o1_an_anyio_cancel_ends_all_descendants():
    started, cancelled = [], []

    async def node(state):
        started.append(time.monotonic())
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return {"x": (state.get("x") or 0) + 1}

    inner = (
        StateGraph(S)
        .add_node("node", node)
        .add_edge(START, "node")
        .add_conditional_edges("node", lambda s: "node" if s["x"] < 20 else "__end__")
        .compile()
    )

    async def call(state):
        return await inner.ainvoke({"x": 0})

    outer = StateGraph(S).add_node("call", call).add_edge(START, "call").compile()
    before = len(asyncio.all_tasks())

    with anyio.move_on_after(0.25) as scope:
        async for _ in outer.astream({}, stream_mode="updates", subgraphs=True):
            pass
    left = time.monotonic()
    count = len(started)

    assert scope.cancelled_caught
    assert len(asyncio.all_tasks()) == before
    assert len(started) == count
    assert all(at <= left for at in started)
    assert cancelled == [True]


def two_nodes(cleaned, ended=None):
    async def a(state):
        return {"log": ["a"]}

    async def b(state):
        try:
            await asyncio.sleep(5)
        finally:
            await asyncio.sleep(0.05)
            cleaned.append("b")
            if ended is not None:
                ended.set()

    return StateGraph(S).add_node("a", a).add_node("b", b).add_edge(START, "a").add_edge(START, "b").compile()


async def test_o2_closing_a_stream_waits_for_clean_up():
    cleaned: list[str] = []
    before = len(asyncio.all_tasks())
    stream = two_nodes(cleaned).astream({}, stream_mode="updates")

    first = await anext(stream)
    start = time.monotonic()
    await stream.aclose()

    assert first == {"a": {"log": ["a"]}}
    assert time.monotonic() - start < 1
    assert cleaned == ["b"]
    assert len(asyncio.all_tasks()) == before


async def test_o2_breaking_off_a_stream_and_collecting_it_cleans_up():
    cleaned: list[str] = []
    ended = asyncio.Event()
    before = asyncio.all_tasks()

    async for _ in two_nodes(cleaned, ended).astream({}, stream_mode="updates"):
        break
    gc.collect()
    async with asyncio.timeout(5):
        await ended.wait()
        if left := asyncio.all_tasks() - before:
            await asyncio.wait(left)

    assert cleaned == ["b"]
