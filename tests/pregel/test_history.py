"""Listing the states of a thread."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from langgraph_async import START, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import ConfigError

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


async def a(state: State) -> State:
    return {"log": ["a"]}


async def b(state: State) -> State:
    return {"log": ["b"]}


async def ask(state: State) -> State:
    return {"log": [interrupt("who?")]}


def make(*nodes: Any, parallel: bool = False, saver: Any = None) -> Any:
    builder = StateGraph(State)
    before = START
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(before, node.__name__)
        before = START if parallel else node.__name__
    return builder.compile(checkpointer=InMemorySaver() if saver is None else saver)


async def listed(graph: Any, config: Any = CONFIG, **options: Any) -> list[Any]:
    return [state async for state in graph.aget_state_history(config, **options)]


async def test_history_is_newest_first_down_to_the_input() -> None:
    graph = make(a, b)
    await graph.ainvoke({"log": ["in"]}, CONFIG)

    states = await listed(graph)

    assert [(s.values, s.next, s.metadata["source"], s.metadata["step"]) for s in states] == [
        ({"log": ["in", "a", "b"]}, (), "loop", 2),
        ({"log": ["in", "a"]}, ("b",), "loop", 1),
        ({"log": ["in"]}, ("a",), "loop", 0),
        ({"log": []}, ("__start__",), "input", -1),
    ]
    assert states[-1].tasks[0].result == {"log": ["in"]}
    assert states[-1].parent_config is None


async def test_each_state_names_the_one_before_it_as_its_parent() -> None:
    graph = make(a, b)
    await graph.ainvoke({"log": []}, CONFIG)

    states = await listed(graph)

    assert [s.parent_config for s in states[:-1]] == [s.config for s in states[1:]]


async def test_tasks_show_what_the_superstep_came_to() -> None:
    graph = make(a, b)
    await graph.ainvoke({"log": []}, CONFIG)

    states = await listed(graph)

    assert [[(t.name, t.result) for t in s.tasks] for s in states[:3]] == [
        [],
        [("b", {"log": ["b"]})],
        [("a", {"log": ["a"]})],
    ]


async def test_writes_of_finished_siblings_are_not_applied_in_history() -> None:
    graph = make(a, ask, parallel=True)
    await graph.ainvoke({"log": ["in"]}, CONFIG)

    newest = (await listed(graph))[0]

    assert newest.values == {"log": ["in"]}
    assert newest.next == ("a", "ask")
    assert [question.value for question in newest.interrupts] == ["who?"]


async def test_history_can_be_limited() -> None:
    graph = make(a, b)
    await graph.ainvoke({"log": []}, CONFIG)

    assert [s.metadata["step"] for s in await listed(graph, limit=2)] == [2, 1]


async def test_history_before_a_checkpoint_is_strictly_older() -> None:
    graph = make(a, b)
    await graph.ainvoke({"log": []}, CONFIG)
    states = await listed(graph)

    assert await listed(graph, before=states[1].config) == states[2:]


async def test_history_can_be_filtered_by_metadata() -> None:
    graph = make(a, b)
    await graph.ainvoke({"log": []}, CONFIG)

    assert [s.metadata["step"] for s in await listed(graph, filter={"source": "input"})] == [-1]


async def test_everything_is_read_before_the_first_state_is_given() -> None:
    graph = make(a)
    await graph.ainvoke({"log": []}, CONFIG)
    seen: list[int] = []

    async for state in graph.aget_state_history(CONFIG):
        seen.append(state.metadata["step"])
        await graph.aupdate_state(CONFIG, {"log": ["more"]}, "a")

    assert seen == [1, 0, -1]


async def test_an_empty_thread_has_no_history() -> None:
    assert await listed(make(a)) == []


async def test_history_of_another_thread_is_left_out() -> None:
    saver = InMemorySaver()
    graph = make(a, saver=saver)
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke({"log": []}, {"configurable": {"thread_id": "10"}})

    assert len(await listed(graph)) == 3


async def test_history_needs_a_saver() -> None:
    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_edge(START, "a")

    with pytest.raises(ConfigError, match="No checkpointer set"):
        await listed(builder.compile())
