"""O3 One branch fails, O4 Context isolation, O5 Event timing."""

from __future__ import annotations

import asyncio
import contextvars
import time

import pytest
from places import S, cfg
from slow_savers import SAVERS

from langgraph_async import START, StateGraph, get_stream_writer


@pytest.mark.parametrize("kind", SAVERS)
async def test_o3_one_branch_fails(kind):
    calls = {"ok": 0, "bad": 0, "slow": 0}
    cleaned = []

    async def ok(state):
        calls["ok"] += 1
        return {"log": ["ok"]}

    async def bad(state):
        calls["bad"] += 1
        if calls["bad"] == 1:
            await asyncio.sleep(0.05)
            raise ValueError("boom")
        return {"log": ["bad"]}

    async def slow(state):
        calls["slow"] += 1
        if calls["slow"] == 1:
            try:
                await asyncio.sleep(0.4)
            finally:
                cleaned.append("slow")
        return {"log": ["slow"]}

    graph = StateGraph(S)
    for name, node in {"ok": ok, "bad": bad, "slow": slow}.items():
        graph.add_node(name, node).add_edge(START, name)
    graph = graph.compile(checkpointer=SAVERS[kind]())

    start = time.monotonic()
    with pytest.raises(ValueError, match="boom") as caught:
        await graph.ainvoke({}, cfg())
    elapsed = time.monotonic() - start
    state = await graph.aget_state(cfg())
    result = await graph.ainvoke(None, cfg())

    assert elapsed < 0.3
    assert any("'bad'" in note for note in caught.value.__notes__)
    assert cleaned == ["slow"]
    assert set(state.next) == {"bad", "slow"}
    assert calls == {"ok": 1, "bad": 2, "slow": 2}
    assert sorted(result["log"]) == ["bad", "ok", "slow"]


async def test_o4_context_variables_are_isolated():
    var = contextvars.ContextVar("var", default="unset")
    seen = {}

    async def setter(state):
        seen["setter"] = var.get()
        var.set("changed")
        await asyncio.sleep(0)

    async def reader(state):
        await asyncio.sleep(0)
        seen["reader"] = var.get()

    def sync_reader(state):
        seen["sync"] = var.get()

    graph = StateGraph(S)
    for node in (setter, reader, sync_reader):
        graph.add_node(node.__name__, node).add_edge(START, node.__name__)
    var.set("caller")

    await graph.compile().ainvoke({"x": 1})

    assert seen == {"setter": "caller", "reader": "caller", "sync": "caller"}
    assert var.get() == "caller"


async def test_o5_events_come_when_they_happen():
    async def a(state):
        writer = get_stream_writer()
        writer("a1")
        await asyncio.sleep(0.01)
        writer("a2")
        return {"log": ["a"]}

    async def b(state):
        await asyncio.sleep(0.3)
        return {"log": ["b"]}

    graph = StateGraph(S).add_node("a", a).add_node("b", b).add_edge(START, "a").add_edge(START, "b").compile()
    start = time.monotonic()
    got = []
    async for mode, item in graph.astream({}, stream_mode=["custom", "updates"]):
        got.append((mode, item, time.monotonic() - start))

    assert [(mode, item) for mode, item, _ in got] == [
        ("custom", "a1"),
        ("custom", "a2"),
        ("updates", {"a": {"log": ["a"]}}),
        ("updates", {"b": {"log": ["b"]}}),
    ]
    assert got[2][2] < 0.15
    assert got[3][2] >= 0.3
