"""Cached nodes that are graphs, or call some: an edit inside counts, and stays on its thread."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph
from langgraph_async.cache.base import FullKey
from langgraph_async.cache.memory import InMemoryCache
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.func import task
from langgraph_async.types import CachePolicy


class State(TypedDict, total=False):
    n: int
    out: Annotated[list[Any], operator.add]


class WatchedCache(InMemoryCache[Any]):
    """Notes what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Mapping[FullKey, Any]] = []

    async def aset(self, pairs: Mapping[FullKey, Any]) -> None:
        self.given.append(dict(pairs))
        await super().aset(pairs)


def graph_of(node: Any, **compiled: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("work", node, cache_policy=CachePolicy())
    builder.add_edge(START, "work")
    return builder.compile(**compiled)


def outer_of(inner: Any, cache: Any) -> Any:
    """A graph whose only node is a cached graph with memory of its steps."""
    return graph_of(inner, cache=cache, checkpointer=InMemorySaver())


def two_steps(**compiled: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("first", lambda state: {"out": ["first"]}, run_sync="inline")
    builder.add_node("second", lambda state: {"out": ["second"]}, run_sync="inline")
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    return builder.compile(**compiled)


def on(thread: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


async def test_what_a_graph_inside_came_to_after_a_breakpoint_and_an_edit_is_not_kept() -> None:
    cache = WatchedCache()
    graph = outer_of(two_steps(interrupt_before=["second"]), cache)
    await graph.ainvoke({"n": 1}, on("a"))
    inside = (await graph.aget_state(on("a"), subgraphs=True)).tasks[0].state.config
    await graph.aupdate_state(inside, {"out": ["edited"]})

    assert (await graph.ainvoke(None, on("a")))["out"] == ["first", "edited", "second"]
    assert cache.given == []


async def test_what_a_graph_deep_inside_came_to_after_an_edit_is_kept_nowhere() -> None:
    cache = WatchedCache()
    graph = outer_of(graph_of(two_steps(interrupt_before=["second"])), cache)
    await graph.ainvoke({"n": 1}, on("a"))
    middle = (await graph.aget_state(on("a"), subgraphs=True)).tasks[0].state
    await graph.aupdate_state(middle.tasks[0].state.config, {"out": ["edited"]})

    assert (await graph.ainvoke(None, on("a")))["out"] == ["first", "edited", "second"]
    assert cache.given == []


async def test_what_a_graph_called_in_a_cached_task_came_to_after_a_breakpoint_is_kept_nowhere() -> None:
    cache = WatchedCache()
    inner = two_steps(interrupt_before=["second"])

    @task(cache_policy=CachePolicy())
    async def call(n: int) -> list[str]:
        return (await inner.ainvoke({"n": n}))["out"]

    async def work(state: State) -> Any:
        return {"out": await call(state["n"])}

    graph = outer_of(work, cache)
    await graph.ainvoke({"n": 1}, on("a"))
    assert (await graph.ainvoke(None, on("a")))["out"] == ["first", "second"]
    assert cache.given == []


@pytest.mark.parametrize("edited", [False, True])
async def test_a_run_from_a_checkpoint_inside_a_cached_graph_goes_on_there(edited: bool) -> None:
    cache = WatchedCache()
    graph = outer_of(two_steps(), cache)
    await graph.ainvoke({"n": 1}, on("a"))
    inside = [c async for c in graph.checkpointer.alist(on("a")) if c.config["configurable"]["checkpoint_ns"]]
    history = graph.aget_state_history(on("a", checkpoint_ns=inside[0].config["configurable"]["checkpoint_ns"]))
    start = next(state.config for state in [s async for s in history] if state.next == ("second",))
    if edited:
        start = await graph.aupdate_state(start, {"out": ["edited"]})

    steps = [u async for _, u in graph.astream(None, start, stream_mode="updates", subgraphs=True) if "second" in u]

    assert len(steps) == 1
    assert ("edited" in (await graph.aget_state(on("a"))).values["out"]) is edited
    assert len(cache.given) == 1


async def test_a_cached_graph_inside_is_shown_as_one_update() -> None:
    graph = graph_of(two_steps(), cache=InMemoryCache())
    first, second = [
        [item async for item in graph.astream({"n": 1}, stream_mode="updates", subgraphs=True)] for _ in range(2)
    ]

    assert [list(update) for _, update in first] == [["first"], ["second"], ["work"]]
    assert second == [((), {"work": {"n": 1, "out": ["first", "second"]}, "__metadata__": {"cached": True}})]
