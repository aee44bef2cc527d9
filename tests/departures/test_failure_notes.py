"""What an exception says of where it was raised."""

from __future__ import annotations

import traceback
from typing import Any, TypedDict

import pytest

from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import GraphRecursionError
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import StateGraph
from langgraph_async.types import RetryPolicy

THREAD: Any = {"configurable": {"thread_id": "letter"}}


class State(TypedDict, total=False):
    x: int


async def bad(state: State) -> State:
    raise ValueError("bad")


def graph_of(name: str, action: Any, **options: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node(name, action, **options)
    builder.set_entry_point(name)
    return builder


def notes_on(exc: BaseException) -> list[str]:
    return [note for note in exc.__notes__ if note.startswith("During task")]


async def test_a_failure_names_graph_node_step_thread_and_attempt() -> None:
    retried = RetryPolicy(initial_interval=0, jitter=False, max_attempts=2, retry_on=ValueError)
    graph = graph_of("node", bad, retry_policy=retried).compile(checkpointer=InMemorySaver(), name="Letters")

    with pytest.raises(ValueError, match="bad") as caught:
        await graph.ainvoke({"x": 1}, THREAD)

    (note,) = notes_on(caught.value)
    for part in ("'node'", "graph 'Letters'", "step 1", "attempt 2", "thread 'letter'"):
        assert part in note


async def test_a_nested_failure_has_one_note_that_names_all_that_it_is_in() -> None:
    inner = graph_of("node", bad).compile(name="Inner")
    middle = graph_of("mid", inner).compile(name="Middle")
    outer = graph_of("out", middle).compile(name="Outer", checkpointer=InMemorySaver())

    with pytest.raises(ValueError, match="bad") as caught:
        await outer.ainvoke({"x": 1}, THREAD)

    (note,) = notes_on(caught.value)
    assert note.index("'node'") < note.index("'mid' of graph 'Middle'") < note.index("'out' of graph 'Outer'")


async def test_a_failed_task_of_a_workflow_has_one_note() -> None:
    @task
    async def work() -> None:
        raise ValueError("bad")

    @entrypoint()
    async def flow(value: int) -> None:
        await work()

    with pytest.raises(ValueError, match="bad") as caught:
        await flow.ainvoke(1)

    (note,) = notes_on(caught.value)
    assert note.index("'work'") < note.index("'flow' of graph 'flow'")


async def test_a_task_may_raise_an_exception_that_takes_no_notes() -> None:
    class Closed(Exception):
        def add_note(self, note: str) -> None:
            raise AttributeError("no notes")

    @task
    async def work() -> None:
        raise Closed("bad")

    @entrypoint()
    async def flow(value: int) -> None:
        await work()

    with pytest.raises(Closed, match="bad"):
        await flow.ainvoke(1)


async def test_the_traceback_of_a_task_shows_no_engine_between_caller_and_task() -> None:
    @task
    async def work() -> None:
        raise ValueError("bad")

    @entrypoint()
    async def flow(value: int) -> None:
        try:
            await work()
        except ValueError as exc:
            frames.extend(frame.name for frame in traceback.extract_tb(exc.__traceback__))
            raise

    frames: list[str] = []
    with pytest.raises(ValueError, match="bad"):
        await flow.ainvoke(1)

    assert frames == ["flow", "work"]


async def test_a_run_that_takes_too_many_steps_shows_the_last_ten() -> None:
    async def step(state: State) -> State:
        return {}

    builder = StateGraph(State)
    for name in ("a", "b", "c"):
        builder.add_node(name, step)
    builder.set_entry_point("a")
    builder.add_edge("a", "b")
    builder.add_edge("a", "c")
    builder.add_edge(["b", "c"], "a")

    with pytest.raises(GraphRecursionError, match="a -> b, c -> a") as caught:
        await builder.compile().ainvoke({"x": 1}, {"recursion_limit": 13})

    assert caught.value.path == (("b", "c"), ("a",)) * 5
    assert caught.value.nodes == ("b", "c")
