"""Reading, listing and changing the states of graphs inside graphs."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from langgraph_async import START, Command, Send, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import ConfigError
from langgraph_async.types import StateSnapshot

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "1"}}


def add(left: list[str], right: list[str]) -> list[str]:
    return [*left, *right]


class State(TypedDict, total=False):
    log: Annotated[list[str], add]


async def a(state: State) -> Any:
    return {"log": ["a"]}


async def ask(state: State) -> Any:
    return {"log": [f"ask {interrupt('who?')}"]}


async def after(state: State) -> Any:
    return {"log": ["after"]}


def chain(checkpointer: Any = None, **nodes: Any) -> Any:
    builder = StateGraph(State)
    before = START
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    return builder.compile(checkpointer=checkpointer)


def nested(*, memory: Any = None) -> Any:
    inner = chain(ask=ask, after=after)
    middle = chain(memory, inner=inner)
    return chain(InMemorySaver(), a=a, middle=middle)


async def paused(graph: Any) -> StateSnapshot:
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    found: StateSnapshot = await graph.aget_state(CONFIG, subgraphs=True)
    return found


# -- which graphs there are -------------------------------------------------------------------------------------


def test_graphs_are_listed_by_the_path_of_their_nodes() -> None:
    graph = nested()

    assert [name for name, _ in graph.get_subgraphs()] == ["middle"]
    assert [name for name, _ in graph.get_subgraphs(recurse=True)] == ["middle", "middle|inner"]


def test_one_graph_can_be_asked_for_by_its_path() -> None:
    graph = nested()

    assert [name for name, _ in graph.get_subgraphs(namespace="middle")] == ["middle"]
    assert [name for name, _ in graph.get_subgraphs(namespace="middle", recurse=True)] == ["middle"]
    assert [name for name, _ in graph.get_subgraphs(namespace="middle|inner", recurse=True)] == ["middle|inner"]
    assert list(graph.get_subgraphs(namespace="mid", recurse=True)) == []


async def test_graphs_can_be_listed_in_an_async_loop() -> None:
    assert [name async for name, _ in nested().aget_subgraphs(recurse=True)] == ["middle", "middle|inner"]


def test_graphs_that_keep_no_state_are_left_out() -> None:
    graph = chain(InMemorySaver(), inner=chain(False, a=a))

    assert list(graph.get_subgraphs(recurse=True)) == []


# -- reading ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [None, True])
async def test_the_state_includes_those_of_graphs_inside_at_any_depth(memory: Any) -> None:
    found = await paused(nested(memory=memory))

    middle = found.tasks[0].state
    inner = middle.tasks[0].state
    assert (middle.values, middle.next) == ({"log": ["in", "a"]}, ("inner",))
    assert (inner.values, inner.next) == ({"log": ["in", "a"]}, ("ask",))
    assert [q.value for q in inner.interrupts] == ["who?"]
    assert inner.interrupts == middle.interrupts == found.interrupts
    assert inner.tasks[0].state is None


@pytest.mark.parametrize("memory", [None, True])
async def test_configs_of_nested_states_lead_back_to_them(memory: Any) -> None:
    graph = nested(memory=memory)
    found = await paused(graph)
    middle = found.tasks[0].state
    inner = middle.tasks[0].state

    assert set(inner.config["configurable"]["checkpoint_map"]) == {
        "",
        middle.config["configurable"]["checkpoint_ns"],
        inner.config["configurable"]["checkpoint_ns"],
    }
    assert await graph.aget_state(inner.config) == inner
    assert (await graph.aget_state(middle.config)).values == middle.values
    before = await graph.aget_state(inner.parent_config)
    assert before.config == inner.parent_config
    assert before.next == ("__start__",)


async def test_without_the_option_a_task_says_where_the_state_of_its_graph_is() -> None:
    graph = nested()
    await paused(graph)

    (task,) = (await graph.aget_state(CONFIG)).tasks

    assert task.state == {"configurable": {"thread_id": "1", "checkpoint_ns": f"middle:{task.id}"}}
    assert (await graph.aget_state(task.state)).next == ("inner",)


async def test_a_graph_that_has_not_run_has_an_empty_state() -> None:
    graph = chain(InMemorySaver(), a=a, middle=chain(a=a))
    await graph.aupdate_state(CONFIG, {"log": []}, "a")

    (task,) = (await graph.aget_state(CONFIG, subgraphs=True)).tasks

    assert task.state.values == {}
    assert task.state.config == {"configurable": {"thread_id": "1", "checkpoint_ns": f"middle:{task.id}"}}


async def test_a_graph_that_keeps_no_state_shows_none() -> None:
    graph = chain(InMemorySaver(), inner=chain(False, ask=ask))

    found = await paused(graph)

    assert found.tasks[0].state is None
    assert [q.value for q in found.interrupts] == ["who?"]


async def test_an_unknown_namespace_reads_as_empty() -> None:
    config = {"configurable": {"thread_id": "1", "checkpoint_ns": "nope"}}

    found = await nested().aget_state(config)

    assert (found.values, found.config) == ({}, config)


async def test_the_history_of_a_graph_inside_is_its_own() -> None:
    graph = nested()
    found = await paused(graph)
    ns = found.tasks[0].state.tasks[0].state.config["configurable"]["checkpoint_ns"]

    states = [
        state async for state in graph.aget_state_history({"configurable": {"thread_id": "1", "checkpoint_ns": ns}})
    ]

    assert [(s.metadata["source"], s.next) for s in states] == [("loop", ("ask",)), ("input", ("__start__",))]
    assert all(s.config["configurable"]["checkpoint_ns"] == ns for s in states)


async def test_the_history_of_the_root_leaves_out_graphs_inside() -> None:
    graph = nested()
    await paused(graph)

    states = [state async for state in graph.aget_state_history(CONFIG)]

    assert [s.metadata["step"] for s in states] == [1, 0, -1]
    assert {s.config["configurable"]["checkpoint_ns"] for s in states} == {""}


async def test_memory_of_its_own_is_read_with_or_without_task_ids() -> None:
    graph = nested(memory=True)
    found = await paused(graph)
    (task,) = found.tasks

    plain = await graph.aget_state({"configurable": {"thread_id": "1", "checkpoint_ns": "middle"}})
    with_id = await graph.aget_state({"configurable": {"thread_id": "1", "checkpoint_ns": f"middle:{task.id}"}})

    assert plain == with_id
    assert plain.config["configurable"]["checkpoint_ns"] == "middle"
    assert plain.next == ("inner",)


async def test_memories_of_parallel_sends_are_read_apart() -> None:
    async def work(state: Any) -> Any:
        return {"log": [interrupt(state["log"][-1])]}

    inner = chain(True, work=work)
    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("inner", inner)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", lambda _: [Send("inner", {"log": [n]}) for n in "xy"], ["inner"])
    graph = builder.compile(checkpointer=InMemorySaver())

    found = await paused(graph)

    assert [task.state.values for task in found.tasks] == [{"log": ["x"]}, {"log": ["y"]}]
    assert [task.state.interrupts for task in found.tasks] == [task.interrupts for task in found.tasks]
    for task, plain in zip(found.tasks, (await graph.aget_state(CONFIG)).tasks, strict=True):
        assert (await graph.aget_state(plain.state)).values == task.state.values


async def test_states_of_parallel_sends_are_shown_apart() -> None:
    inner = chain(ask=ask)
    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("inner", inner)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", lambda _: [Send("inner", {"log": [n]}) for n in "xy"], ["inner"])
    graph = builder.compile(checkpointer=InMemorySaver())

    found = await paused(graph)

    assert [task.state.values for task in found.tasks] == [{"log": ["x"]}, {"log": ["y"]}]
    assert len({question.id for question in found.interrupts}) == 2


async def test_a_graph_inside_can_read_its_own_state_from_a_node() -> None:
    seen: list[Any] = []
    holder: list[Any] = []

    async def look(state: State) -> None:
        seen.append(await holder[0].aget_state({"configurable": {"thread_id": "1", "checkpoint_ns": "inner"}}))

    inner = chain(True, a=a, look=look)
    holder.append(inner)
    graph = chain(InMemorySaver(), inner=inner)

    await graph.ainvoke({"log": ["in"]}, CONFIG)

    assert seen[0].values == {"log": ["in", "a"]}


# -- changing ---------------------------------------------------------------------------------------------------


async def test_an_update_of_a_graph_inside_goes_on_there() -> None:
    graph = nested()
    found = await paused(graph)
    inner = found.tasks[0].state.tasks[0].state

    config = await graph.aupdate_state(inner.config, {"log": ["mine"]}, "ask")

    changed = await graph.aget_state(config)
    assert changed.values == {"log": ["in", "a", "mine"]}
    assert changed.next == ("after",)
    assert changed.metadata["parents"] == inner.metadata["parents"]
    assert config["configurable"]["checkpoint_ns"] == inner.config["configurable"]["checkpoint_ns"]
    assert config["configurable"]["checkpoint_map"] == {
        **inner.config["configurable"]["checkpoint_map"],
        config["configurable"]["checkpoint_ns"]: config["configurable"]["checkpoint_id"],
    }
    assert (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state.tasks[0].state == changed


async def test_the_run_goes_on_after_what_was_updated_inside() -> None:
    graph = nested()
    found = await paused(graph)
    inner = found.tasks[0].state.tasks[0].state
    await graph.aupdate_state(inner.config, {"log": ["mine"]}, "ask")

    result = await graph.ainvoke(None, CONFIG)

    assert "__interrupt__" not in result
    assert result["log"][-2:] == ["mine", "after"]


async def test_a_question_inside_stays_listed_over_an_update_of_the_root() -> None:
    graph = nested()
    found = await paused(graph)
    (question,) = found.interrupts

    await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "a")

    assert (await graph.aget_state(CONFIG)).interrupts == (question,)
    result = await graph.ainvoke(Command(resume={question.id: "me"}), CONFIG)
    assert result["log"][-2:] == ["ask me", "after"]


async def test_a_question_inside_stays_listed_over_an_update_beside_it() -> None:
    inner = chain(a=a, ask=ask)
    graph = chain(InMemorySaver(), inner=inner)
    found = await paused(graph)
    (question,) = found.interrupts

    await graph.aupdate_state(found.tasks[0].state.config, {"log": ["mine"]}, "a")

    again = await graph.aget_state(CONFIG, subgraphs=True)
    assert again.interrupts == again.tasks[0].state.interrupts == (question,)
    result = await graph.ainvoke(Command(resume={question.id: "me"}), CONFIG)
    assert result["log"][-2:] == ["mine", "ask me"]


async def test_memory_of_its_own_can_be_changed_from_outside() -> None:
    graph = chain(InMemorySaver(), a=a, inner=chain(True, after=after))
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    place = {"configurable": {"thread_id": "1", "checkpoint_ns": "inner"}}

    await graph.aupdate_state(place, {"log": ["mine"]}, "after")

    assert (await graph.aget_state(place)).values["log"][-1] == "mine"


async def test_an_unknown_graph_inside_cannot_be_changed() -> None:
    with pytest.raises(ConfigError, match="Subgraph nope not found"):
        await nested().aupdate_state({"configurable": {"thread_id": "1", "checkpoint_ns": "nope:1"}}, {})


async def test_memories_are_kept_apart_below_parallel_sends_to_a_graph_without_one() -> None:
    async def count(state: State) -> Any:
        return {"log": [str(len(state["log"]))]}

    inner = chain(True, count=count)
    outer = chain(inner=inner)
    builder = StateGraph(State)
    builder.add_node("outer", outer)
    builder.add_conditional_edges(START, lambda _: [Send("outer", {"log": [n]}) for n in "xy"], ["outer"])
    graph = builder.compile(checkpointer=InMemorySaver())

    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke({"log": []}, CONFIG)

    memories = [
        (await graph.aget_state({"configurable": {"thread_id": "1", "checkpoint_ns": ns}})).values["log"]
        for ns in ("outer|inner", "outer:1|inner")
    ]
    assert memories == [["x", "1", "x", "3"], ["y", "1", "y", "3"]]


async def test_states_of_memories_below_parallel_sends_are_shown_apart() -> None:
    inner = chain(True, ask=ask)
    outer = chain(inner=inner)
    builder = StateGraph(State)
    builder.add_node("outer", outer)
    builder.add_conditional_edges(START, lambda _: [Send("outer", {"log": [n]}) for n in "xy"], ["outer"])
    graph = builder.compile(checkpointer=InMemorySaver())

    found = await paused(graph)

    assert [task.state.tasks[0].state.values for task in found.tasks] == [{"log": ["x"]}, {"log": ["y"]}]
