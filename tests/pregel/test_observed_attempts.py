"""What an observer of timed attempts is told."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from typing_extensions import TypedDict

from langgraph_async import START, Runtime, StateGraph, interrupt
from langgraph_async.aio.clock import FakeClock
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import NodeTimeoutError
from langgraph_async.pregel.observed import AttemptEvent
from langgraph_async.types import RetryPolicy, TimeoutPolicy


class State(TypedDict, total=False):
    x: Any


async def observed(node: Any, *, clock: FakeClock | None = None, **options: Any) -> tuple[Any, list[AttemptEvent]]:
    builder = StateGraph(State).add_node("node", node, **options).add_edge(START, "node")
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.clock = clock or FakeClock()
    events: list[AttemptEvent] = []
    config: Any = {"configurable": {"thread_id": "1", "__pregel_timed_attempt_observer": events.append}}
    run = asyncio.ensure_future(graph.ainvoke({"x": 0}, config))
    while not run.done():
        await graph.clock.advance(0.25)
    return (run.exception() or run.result()), events


async def test_an_attempt_starts_and_finishes():
    async def node(state: State) -> State:
        await asyncio.sleep(0)
        return {"x": 1}

    result, (start, finish) = await observed(node, timeout=60)

    assert result == {"x": 1}
    assert (start.event, finish.event, finish.status) == ("start", "finish", "success")
    context = start.context
    assert (context.task_name, context.attempt, context.thread_id) == ("node", 1, "1")
    assert (context.run_timeout_secs, context.idle_timeout_secs) == (60, None)
    assert context.checkpoint_ns == f"node:{context.task_id}"
    assert finish.context == context


async def test_each_attempt_is_told_with_its_error():
    async def node(state: State, runtime: Runtime) -> State:
        if runtime.execution_info.node_attempt == 1:
            raise ConnectionError("lost")
        return {"x": 1}

    _, events = await observed(node, timeout=60, retry_policy=RetryPolicy(jitter=False))

    assert [(event.event, event.context.attempt, event.status) for event in events] == [
        ("start", 1, None),
        ("finish", 1, "error"),
        ("start", 2, None),
        ("finish", 2, "success"),
    ]
    assert (events[1].error_type, events[1].error_message) == ("ConnectionError", "lost")


async def test_a_timeout_is_an_error():
    async def node(state: State) -> None:
        await asyncio.Event().wait()

    result, events = await observed(node, timeout=1)

    assert isinstance(result, NodeTimeoutError)
    assert [event.event for event in events] == ["start", "finish"]
    assert events[-1].error_type == "NodeTimeoutError"


async def test_a_pause_is_a_success():
    async def node(state: State) -> State:
        return {"x": interrupt("q")}

    _, events = await observed(node, timeout=60)

    assert events[-1].status == "success"


async def test_signs_of_life_are_told_four_times_per_idle_limit_at_most():
    clock = FakeClock()

    async def node(state: State, runtime: Runtime) -> State:
        for _ in range(16):
            await clock.sleep(0.25)
            runtime.heartbeat()
        return {"x": 1}

    _, events = await observed(node, clock=clock, timeout=TimeoutPolicy(idle_timeout=4))

    assert [event.event for event in events].count("progress") == 4


async def test_what_an_observer_raises_is_logged(caplog):
    async def node(state: State) -> State:
        return {"x": 1}

    def broken(event: AttemptEvent) -> None:
        raise OSError("broken observer")

    graph = StateGraph(State).add_node("node", node, timeout=60).add_edge(START, "node").compile()
    with caplog.at_level(logging.WARNING):
        found = await graph.ainvoke({"x": 0}, {"configurable": {"__pregel_timed_attempt_observer": broken}})

    assert found == {"x": 1}
    assert "broken observer" in caplog.text


@pytest.mark.parametrize("observer", [None, print])
async def test_attempts_without_a_limit_are_not_told(observer, capsys):
    async def node(state: State) -> State:
        return {"x": 1}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
    await graph.ainvoke({"x": 0}, {"configurable": {"__pregel_timed_attempt_observer": observer}})

    assert capsys.readouterr().out == ""
