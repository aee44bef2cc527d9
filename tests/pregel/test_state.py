"""Reading the state of a thread."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypedDict

import pytest

from langgraph_async import END, START, Command, Send, StateGraph, interrupt
from langgraph_async.checkpoint.base import StepCommit, TaskWrites
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import ConfigError, LangGraphError, MissingCoordinateError, ReducerError
from langgraph_async.types import StateSnapshot

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def add(left: list[str], right: list[str]) -> list[str]:
    if "bad" in right:
        raise ValueError("bad")
    return [*left, *right]


class Strict(TypedDict, total=False):
    log: Annotated[list[str], add]


async def a(state: State) -> State:
    return {"log": ["a"]}


async def b(state: State) -> State:
    return {"log": ["b"]}


async def ask(state: State) -> State:
    return {"log": [f"ask {interrupt('who?')}"]}


def chain(*nodes: Any, saver: Any = None, **options: Any) -> Any:
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node)
    builder.add_edge(START, nodes[0].__name__)
    for node, following in pairwise(nodes):
        builder.add_edge(node.__name__, following.__name__)
    return builder.compile(checkpointer=InMemorySaver() if saver is None else saver, **options)


def fan_out(*nodes: Any, saver: Any = None) -> Any:
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
    return builder.compile(checkpointer=InMemorySaver() if saver is None else saver)


async def test_a_graph_without_a_saver_says_that_it_has_none() -> None:
    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_edge(START, "a")

    with pytest.raises(ConfigError, match="No checkpointer set") as raised:
        await builder.compile().aget_state(CONFIG)

    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, LangGraphError)


async def test_a_graph_that_keeps_memory_of_its_own_is_no_root() -> None:
    graph = chain(a, saver=True)

    with pytest.raises(RuntimeError, match="root"):
        await graph.aget_state(CONFIG)


async def test_a_state_without_a_thread_is_refused() -> None:
    with pytest.raises(MissingCoordinateError, match="thread"):
        await chain(a).aget_state({"configurable": {}})


async def test_an_empty_thread_has_an_empty_state() -> None:
    found = await chain(a).aget_state(CONFIG)

    assert found == StateSnapshot({}, (), CONFIG, None, None, None, (), ())


async def test_a_finished_thread_shows_its_values_and_nothing_to_do() -> None:
    graph = chain(a, b)
    await graph.ainvoke({"log": ["in"]}, CONFIG)

    found = await graph.aget_state(CONFIG)

    assert found.values == {"log": ["in", "a", "b"]}
    assert found.next == ()
    assert found.tasks == ()
    assert found.metadata == {"source": "loop", "step": 2, "parents": {}}
    assert set(found.config["configurable"]) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert found.parent_config["configurable"]["checkpoint_id"] < found.config["configurable"]["checkpoint_id"]
    assert found.created_at is not None


async def test_a_paused_thread_shows_its_task_and_its_question() -> None:
    graph = chain(a, ask)
    await graph.ainvoke({"log": []}, CONFIG)

    found = await graph.aget_state(CONFIG)

    assert found.next == ("ask",)
    assert [question.value for question in found.interrupts] == ["who?"]
    (task,) = found.tasks
    assert task.interrupts == found.interrupts
    assert (task.name, task.path, task.error, task.result, task.state) == (
        "ask",
        ("__pregel_pull", "ask"),
        None,
        None,
        None,
    )


async def test_the_newest_state_includes_what_finished_siblings_wrote() -> None:
    graph = fan_out(a, ask)
    await graph.ainvoke({"log": ["in"]}, CONFIG)

    found = await graph.aget_state(CONFIG)

    assert found.values == {"log": ["in", "a"]}
    assert found.next == ("ask",)
    assert [(task.name, task.result) for task in found.tasks] == [("a", {"log": ["a"]}), ("ask", None)]


async def test_a_state_read_by_id_is_as_it_was_stored() -> None:
    graph = fan_out(a, ask)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    newest = await graph.aget_state(CONFIG)

    found = await graph.aget_state(newest.config)

    assert found.values == {"log": ["in"]}
    assert found.next == ("a", "ask")
    assert [(task.name, task.result) for task in found.tasks] == [("a", {"log": ["a"]}), ("ask", None)]
    assert found.config == newest.config


async def test_an_answered_question_is_shown_by_id_but_not_in_the_newest_state() -> None:
    asked: list[str] = []

    async def first(state: State) -> State:
        return {"log": [interrupt("one")]}

    async def second(state: State) -> State:
        asked.append("second")
        return {"log": [interrupt("two")]}

    graph = fan_out(first, second)
    await graph.ainvoke({"log": []}, CONFIG)
    paused = await graph.aget_state(CONFIG)
    ids = {question.value: question.id for question in paused.interrupts}
    await graph.ainvoke(Command(resume={ids["one"]: "1"}), CONFIG)

    newest = await graph.aget_state(CONFIG)
    by_id = await graph.aget_state(paused.config)

    assert [question.value for question in newest.interrupts] == ["two"]
    assert [question.value for question in by_id.interrupts] == ["one", "two"]
    assert [question.id for question in by_id.interrupts] == [ids["one"], ids["two"]]
    assert newest.next == ("second",)
    assert asked == ["second"]


async def test_a_failed_task_shows_its_error_beside_its_finished_siblings() -> None:
    async def fail(state: State) -> State:
        raise ValueError("no luck")

    graph = fan_out(a, fail)
    with pytest.raises(ValueError, match="no luck"):
        await graph.ainvoke({"log": ["in"]}, CONFIG)

    found = await graph.aget_state(CONFIG)

    assert found.next == ("fail",)
    assert found.values == {"log": ["in", "a"]}
    assert {task.name: task.result for task in found.tasks} == {"a": {"log": ["a"]}, "fail": None}
    assert "no luck" in str(found.tasks[1].error)


async def test_a_task_that_wrote_nothing_has_an_empty_result() -> None:
    async def nothing(state: State) -> None:
        return None

    graph = fan_out(nothing, ask)
    await graph.ainvoke({"log": []}, CONFIG)

    found = await graph.aget_state(CONFIG)

    assert {task.name: task.result for task in found.tasks} == {"ask": None, "nothing": {}}


async def test_sends_come_before_nodes_that_channels_triggered() -> None:
    async def worker(state: Any) -> State:
        return {"log": [interrupt(state["n"])]}

    builder = StateGraph(State)
    for node in (a, b, worker):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_conditional_edges("a", lambda _: [Send("worker", {"n": 1}), Send("worker", {"n": 2})], ["worker"])
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)

    found = await graph.aget_state(CONFIG)

    assert [(task.name, task.path) for task in found.tasks] == [
        ("worker", ("__pregel_push", 0, False)),
        ("worker", ("__pregel_push", 1, False)),
        ("b", ("__pregel_pull", "b")),
    ]
    assert found.next == ("worker", "worker")
    assert [question.value for question in found.interrupts] == [1, 2]


async def test_stored_writes_that_belong_to_no_task_count() -> None:
    saver = InMemorySaver()
    graph = chain(a, ask, b, saver=saver)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    at = (await graph.aget_state(CONFIG)).config
    writes = [("log", ["loose"]), ("branch:to:b", "__start__")]
    await saver.aput_writes(at, writes, "00000000-0000-0000-0000-000000000000")

    newest = await graph.aget_state(CONFIG)
    by_id = await graph.aget_state(at)

    assert newest.values == by_id.values == {"log": ["in", "a", "loose"]}
    assert newest.next == by_id.next == ("ask", "b")


async def test_stored_writes_that_a_reducer_rejects_do_not_keep_the_thread_from_being_read() -> None:
    async def question(state: Any) -> Any:
        return {"log": [interrupt("who?")]}

    async def one(state: Any) -> Any:
        return {"log": ["one"]}

    saver = InMemorySaver()
    builder = StateGraph(Strict)
    builder.add_node("ask", question)
    builder.add_node("a", one)
    builder.add_edge(START, "ask")
    builder.add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    found = await graph.aget_state(CONFIG)
    task = found.tasks[0]
    await saver.acommit(found.config, StepCommit(writes=[TaskWrites(task.id, "", [("log", ["bad"])], replace=True)]))

    again = await graph.aget_state(CONFIG)

    assert again.values == {"log": ["in"]}
    assert again.config == found.config


async def test_a_step_whose_reducer_raised_is_read_as_before_it() -> None:
    async def bad(state: Any) -> Any:
        return {"log": ["bad"]}

    builder = StateGraph(Strict)
    builder.add_node("bad", bad)
    builder.add_edge(START, "bad")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ReducerError, match="log"):
        await graph.ainvoke({"log": ["in"]}, CONFIG)

    found = await graph.aget_state(CONFIG)

    assert found.values == {"log": ["in"]}
    assert found.next == ("bad",)
    assert "log" in str(found.tasks[0].error)


async def test_a_router_that_raised_leaves_its_node_to_do() -> None:
    def route(state: State) -> str:
        raise ValueError("lost")

    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("b", b)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", route, ["b", END])
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="lost"):
        await graph.ainvoke({"log": ["in"]}, CONFIG)

    found = await graph.aget_state(CONFIG)

    assert found.next == ("a",)
    assert "lost" in str(found.tasks[0].error)


async def test_an_error_that_langgraph_left_beside_a_later_success_leaves_nothing_to_do() -> None:
    ran: list[str] = []

    async def work(job: State) -> State:
        ran.append("work")
        return {"log": ["work"]}

    async def ask(state: State) -> State:
        return {"log": [interrupt("?")]}

    builder = StateGraph(State).add_node("a", a).add_node("ask", ask).add_node("work", work)
    builder.add_edge(START, "a").add_edge(START, "ask")
    builder.add_conditional_edges("a", lambda state: [Send("work", {})], ["work"])
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    paused = await graph.aget_state(CONFIG)
    await saver.aput_writes(paused.config, [("__error__", "ValueError('at first')")], paused.tasks[0].id)

    found = await graph.aget_state(CONFIG)
    result = await graph.ainvoke(Command(resume="yes"), CONFIG)

    assert found.next == ("ask",)
    assert (result["log"], ran) == (["in", "a", "yes", "work"], ["work"])


async def test_the_failed_router_of_a_langgraph_thread_is_run_again_without_doubling_edges() -> None:
    lucky: list[bool] = []

    def route(state: State) -> list[Send]:
        if not lucky:
            raise ValueError("lost")
        return [Send("b", {})]

    builder = StateGraph(State).add_node("a", a).add_node("b", b).add_node("c", a)
    builder.add_edge(START, "a").add_edge("a", "c").add_conditional_edges("a", route, ["b"])
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="lost"):
        await graph.ainvoke({"log": ["in"]}, CONFIG)
    failed = await graph.aget_state(CONFIG)
    task, error = (failed.tasks[0].id, "~__pregel_pull, a"), ("__error__", "ValueError('lost')")
    await saver.aput_writes(failed.config, [error], *task)
    await saver.aput_writes(failed.config, [("log", ["a"]), ("branch:to:c", None), error], *task)
    lucky.append(True)

    result = await graph.ainvoke(None, CONFIG)
    stored = [found async for found in saver.alist(CONFIG)][2]

    assert result["log"] == ["in", "a", "a", "b"]
    assert [channel for _, channel, _ in stored.pending_writes or []].count("branch:to:c") == 1


async def test_tasks_are_shown_in_the_order_in_which_the_graph_defines_its_nodes() -> None:
    builder = StateGraph(State)
    for name in "zmaq":
        builder.add_node(name, a)
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=InMemorySaver(), interrupt_before="*")
    await graph.ainvoke({"log": []}, CONFIG)

    found = await graph.aget_state(CONFIG)
    past = [state.next async for state in graph.aget_state_history(CONFIG)]

    assert found.next == tuple(task.name for task in found.tasks) == ("z", "m", "a", "q")
    assert past == [("z", "m", "a", "q"), ("__start__",)]


async def test_reading_builds_no_input_for_nodes() -> None:
    @dataclass
    class Whole:
        made: ClassVar[list[str]] = []
        log: Annotated[list[str], operator.add] = field(default_factory=list)

        def __post_init__(self) -> None:
            self.made.append("made")

    async def look(state: Whole) -> State:
        return {"log": [interrupt("?")]}

    builder = StateGraph(Whole)
    builder.add_node("look", look)
    builder.add_edge(START, "look")
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    Whole.made.clear()

    found = await graph.aget_state(CONFIG)

    assert found.next == ("look",)
    assert Whole.made == []


async def test_what_a_reader_changes_in_a_snapshot_reaches_nobody() -> None:
    graph = chain(a)
    await graph.ainvoke({"log": []}, CONFIG)
    first = await graph.aget_state(CONFIG)
    first.values["log"].append("mine")

    second = await graph.aget_state(CONFIG)

    assert second.values == {"log": ["a"]}


async def test_a_graph_can_be_read_from_inside_a_node_of_another() -> None:
    inner = chain(a)
    await inner.ainvoke({"log": ["in"]}, CONFIG)
    seen: list[Any] = []

    async def look(state: State) -> None:
        seen.append(await inner.aget_state(CONFIG))

    await chain(look).ainvoke({"log": []}, {"configurable": {"thread_id": "2"}})

    assert seen[0].values == {"log": ["in", "a"]}


async def test_a_renamed_node_is_shown_under_its_new_name() -> None:
    saver = InMemorySaver()
    await chain(a, ask, saver=saver).ainvoke({"log": []}, CONFIG)
    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("query", ask)
    builder.add_edge(START, "a")
    builder.add_edge("a", "query")
    graph = builder.compile(checkpointer=saver, renamed={"ask": "query"})

    found = await graph.aget_state(CONFIG)

    assert found.next == ("query",)
    assert [question.value for question in found.interrupts] == ["who?"]
