"""Going on from an older checkpoint: replays, forks, and what they leave alone."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from langgraph_async import START, Command, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import ConfigError
from langgraph_async.types import StateSnapshot

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "1"}}


def add(left: list[str], right: list[str]) -> list[str]:
    return [*left, *right]


class State(TypedDict, total=False):
    log: Annotated[list[str], add]


class Traced:
    """Nodes that note when they run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def node(self, name: str, *questions: str) -> Any:
        async def run(state: State) -> Any:
            self.ran.append(name)
            answers = [interrupt(question) for question in questions]
            return {"log": [" ".join([name, *answers])]}

        return run


def chain(checkpointer: Any = None, **nodes: Any) -> Any:
    builder = StateGraph(State)
    before = START
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    return builder.compile(checkpointer=checkpointer)


async def listed(graph: Any, config: Any = CONFIG) -> list[StateSnapshot]:
    return [state async for state in graph.aget_state_history(config)]


async def waiting_for(graph: Any, node: str, config: Any = CONFIG) -> StateSnapshot:
    """Return the newest state that waits for a node."""
    return next(state for state in await listed(graph, config) if state.next == (node,))


# -- replay -----------------------------------------------------------------------------------------------------


async def test_a_replay_runs_what_came_after_and_nothing_before() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), a=trace.node("a"), b=trace.node("b"), c=trace.node("c"))
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    chosen = await waiting_for(graph, "b")
    trace.ran.clear()

    result = await graph.ainvoke(None, chosen.config)

    assert trace.ran == ["b", "c"]
    assert result == {"log": ["in", "a", "b", "c"]}


async def test_a_replay_branches_off_by_a_fork_and_leaves_history_as_it_was() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), a=trace.node("a"), b=trace.node("b"))
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    before = await listed(graph)
    chosen = await waiting_for(graph, "b")

    await graph.ainvoke(None, chosen.config)

    states = await listed(graph)
    assert states[2:] == before
    finished, fork = states[:2]
    assert (fork.metadata["source"], fork.metadata["step"]) == ("fork", chosen.metadata["step"] + 1)
    assert fork.values == chosen.values
    assert fork.parent_config == chosen.config
    assert finished.parent_config == fork.config


async def test_the_new_branch_is_the_newest_state_of_the_thread() -> None:
    count = iter("12")

    async def step(state: State) -> Any:
        return {"log": [next(count)]}

    graph = chain(InMemorySaver(), step=step)
    await graph.ainvoke({"log": []}, CONFIG)

    await graph.ainvoke(None, (await waiting_for(graph, "step")).config)

    assert (await graph.aget_state(CONFIG)).values == {"log": ["2"]}


async def test_a_replay_from_the_input_runs_everything() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), a=trace.node("a"), b=trace.node("b"))
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    trace.ran.clear()

    result = await graph.ainvoke(None, (await waiting_for(graph, "__start__")).config)

    assert trace.ran == ["a", "b"]
    assert result == {"log": ["in", "a", "b"]}


async def test_a_replay_from_a_finished_state_runs_nothing_and_returns_it() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), a=trace.node("a"))
    await graph.ainvoke({"log": []}, CONFIG)
    states = await listed(graph)
    trace.ran.clear()

    assert await graph.ainvoke(None, states[0].config) == {"log": ["a"]}

    assert trace.ran == []
    assert await listed(graph) == states


async def test_a_replay_from_an_older_finished_state_returns_that_one() -> None:
    graph = chain(InMemorySaver(), a=Traced().node("a"))
    await graph.ainvoke({"log": ["1"]}, CONFIG)
    finished = await graph.aget_state(CONFIG)
    await graph.ainvoke({"log": ["2"]}, CONFIG)

    assert await graph.ainvoke(None, finished.config) == {"log": ["1", "a"]}


async def test_a_checkpoint_that_does_not_exist_cannot_be_replayed() -> None:
    graph = chain(InMemorySaver(), a=Traced().node("a"))
    await graph.ainvoke({"log": []}, CONFIG)

    with pytest.raises(ConfigError, match="has no checkpoint"):
        await graph.ainvoke(None, {"configurable": {"thread_id": "1", "checkpoint_id": "nope"}})


async def test_finished_siblings_run_again_in_a_replay() -> None:
    trace = Traced()
    builder = StateGraph(State)
    for name in "ab":
        builder.add_node(name, trace.node(name))
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    chosen = (await listed(graph))[1]
    trace.ran.clear()

    result = await graph.ainvoke(None, chosen.config)

    assert sorted(trace.ran) == ["a", "b"]
    assert result == {"log": ["a", "b"]}


# -- replay of questions ----------------------------------------------------------------------------------------


async def test_a_replay_asks_again_however_often() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), a=trace.node("a"), q=trace.node("q", "who?"), b=trace.node("b"))
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke(Command(resume="one"), CONFIG)
    chosen = await waiting_for(graph, "q")

    for _ in range(2):
        result = await graph.ainvoke(None, chosen.config)
        assert [question.value for question in result["__interrupt__"]] == ["who?"]

    assert await graph.ainvoke(Command(resume="two"), CONFIG) == {"log": ["a", "q two", "b"]}
    finals = [state.values["log"] for state in await listed(graph) if not state.next]
    assert finals == [["a", "q two", "b"], ["a", "q one", "b"]]


async def test_a_replay_asks_both_questions_of_a_node_again() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), q=trace.node("q", "one?", "two?"))
    await graph.ainvoke({"log": []}, CONFIG)
    chosen = await waiting_for(graph, "q")
    await graph.ainvoke(Command(resume="1"), CONFIG)
    await graph.ainvoke(Command(resume="2"), CONFIG)

    asked = [(await graph.ainvoke(None, chosen.config))["__interrupt__"][0].value]
    asked.append((await graph.ainvoke(Command(resume="x"), CONFIG))["__interrupt__"][0].value)

    assert asked == ["one?", "two?"]
    assert await graph.ainvoke(Command(resume="y"), CONFIG) == {"log": ["q x y"]}


async def test_a_replay_before_a_question_asks_it_again() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), a=trace.node("a"), q=trace.node("q", "who?"))
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke(Command(resume="one"), CONFIG)

    result = await graph.ainvoke(None, (await waiting_for(graph, "a")).config)

    assert [question.value for question in result["__interrupt__"]] == ["who?"]
    assert await graph.ainvoke(Command(resume="two"), CONFIG) == {"log": ["a", "q two"]}


async def test_no_input_at_the_id_of_the_head_runs_every_task_of_the_step_again() -> None:
    trace = Traced()
    builder = StateGraph(State)
    builder.add_node("a", trace.node("a"))
    builder.add_node("q", trace.node("q", "who?"))
    builder.add_edge(START, "a")
    builder.add_edge(START, "q")
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    head = await graph.aget_state(CONFIG)
    trace.ran.clear()

    await graph.ainvoke(None, head.config)

    assert sorted(trace.ran) == ["a", "q"]
    assert (await listed(graph))[0].metadata["source"] == "fork"


async def test_an_answer_at_the_id_of_the_head_makes_no_fork_and_keeps_finished_siblings() -> None:
    trace = Traced()
    builder = StateGraph(State)
    builder.add_node("a", trace.node("a"))
    builder.add_node("q", trace.node("q", "who?"))
    builder.add_edge(START, "a")
    builder.add_edge(START, "q")
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    head = await graph.aget_state(CONFIG)
    trace.ran.clear()

    result = await graph.ainvoke(Command(resume="me"), head.config)

    assert trace.ran == ["q"]
    assert result == {"log": ["a", "q me"]}
    assert [state.metadata["source"] for state in await listed(graph)] == ["loop", "loop", "input"]


async def test_an_answer_at_a_superseded_checkpoint_goes_into_a_fork() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), q=trace.node("q", "who?"), b=trace.node("b"))
    await graph.ainvoke({"log": []}, CONFIG)
    chosen = await waiting_for(graph, "q")
    (question,) = chosen.interrupts
    await graph.ainvoke({"log": ["new"]}, CONFIG)
    before = await listed(graph)

    result = await graph.ainvoke(Command(resume={question.id: "me"}), chosen.config)

    assert result == {"log": ["q me", "b"]}
    states = await listed(graph)
    assert states[-len(before) :] == before
    assert [state.metadata["source"] for state in states[: -len(before)]] == ["loop", "loop", "fork"]


# -- forks ------------------------------------------------------------------------------------------------------


async def test_a_fork_runs_on_from_what_was_changed() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), a=trace.node("a"), b=trace.node("b"))
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    chosen = await waiting_for(graph, "b")
    trace.ran.clear()

    fork = await graph.aupdate_state(chosen.config, {"log": ["mine"]}, "a")
    result = await graph.ainvoke(None, fork)

    assert trace.ran == ["b"]
    assert result == {"log": ["in", "a", "mine", "b"]}
    assert [state.metadata["source"] for state in (await listed(graph))[:2]] == ["loop", "update"]


async def test_forks_know_nothing_of_one_another() -> None:
    graph = chain(InMemorySaver(), a=Traced().node("a"), b=Traced().node("b"))
    await graph.ainvoke({"log": []}, CONFIG)
    chosen = await waiting_for(graph, "b")

    one = await graph.aupdate_state(chosen.config, {"log": ["1"]}, "a")
    two = await graph.aupdate_state(chosen.config, {"log": ["2"]}, "a")

    assert await graph.ainvoke(None, one) == {"log": ["a", "1", "b"]}
    assert await graph.ainvoke(None, two) == {"log": ["a", "2", "b"]}


async def test_a_superseded_edit_is_forked_again() -> None:
    graph = chain(InMemorySaver(), a=Traced().node("a"), b=Traced().node("b"))
    await graph.ainvoke({"log": []}, CONFIG)
    one = await graph.aupdate_state((await waiting_for(graph, "b")).config, {"log": ["1"]}, "a")
    await graph.ainvoke(None, one)

    await graph.ainvoke(None, one)

    newest, fork = (await listed(graph))[:2]
    assert fork.metadata["source"] == "fork"
    assert fork.parent_config == one
    assert newest.values == {"log": ["a", "1", "b"]}


async def test_a_question_keeps_its_id_in_a_fork_that_is_answered() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), a=trace.node("a"), q=trace.node("q", "who?"))
    await graph.ainvoke({"log": []}, CONFIG)
    paused = await graph.aget_state(CONFIG)
    (question,) = paused.interrupts

    fork = await graph.aupdate_state(paused.config, {"log": ["mine"]}, "a")

    assert await graph.ainvoke(Command(resume={question.id: "me"}), fork) == {"log": ["a", "mine", "q me"]}


async def test_a_command_at_an_older_checkpoint_changes_only_its_branch() -> None:
    graph = chain(InMemorySaver(), a=Traced().node("a"), b=Traced().node("b"))
    await graph.ainvoke({"log": []}, CONFIG)
    chosen = await waiting_for(graph, "b")

    result = await graph.ainvoke(Command(update={"log": ["mine"]}), chosen.config)

    assert result == {"log": ["a", "mine", "b"]}
    assert (await graph.aget_state(chosen.config)).values == {"log": ["a"]}


# -- graphs inside ----------------------------------------------------------------------------------------------


async def test_a_replay_enters_a_graph_inside_anew() -> None:
    trace = Traced()
    inner = chain(x=trace.node("x"), q=trace.node("q", "who?"), y=trace.node("y"))
    graph = chain(InMemorySaver(), a=trace.node("a"), inner=inner)
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke(Command(resume="one"), CONFIG)
    trace.ran.clear()

    result = await graph.ainvoke(None, (await waiting_for(graph, "inner")).config)

    assert [question.value for question in result["__interrupt__"]] == ["who?"]
    assert trace.ran == ["x", "q"]
    final = await graph.ainvoke(Command(resume="two"), CONFIG)
    assert final["log"][-2:] == ["q two", "y"]
    assert trace.ran == ["x", "q", "q", "y"]


async def test_a_replay_shows_memory_as_of_then() -> None:
    trace = Traced()
    inner = chain(True, x=trace.node("x"))
    graph = chain(InMemorySaver(), inner=inner)
    place = {"configurable": {"thread_id": "1", "checkpoint_ns": "inner"}}
    await graph.ainvoke({"log": ["1"]}, CONFIG)
    await graph.ainvoke({"log": ["2"]}, CONFIG)
    second = (await listed(graph))[1]
    assert second.next == ("inner",)
    remembered = (await graph.aget_state(place)).values["log"]
    await graph.ainvoke({"log": ["3"]}, CONFIG)

    await graph.ainvoke(None, second.config)

    assert (await graph.aget_state(place)).values["log"] == remembered


async def test_a_fork_shows_memory_as_of_the_state_it_was_made_from() -> None:
    trace = Traced()
    inner = chain(True, x=trace.node("x"))
    graph = chain(InMemorySaver(), a=trace.node("a"), inner=inner)
    place = {"configurable": {"thread_id": "1", "checkpoint_ns": "inner"}}
    await graph.ainvoke({"log": ["1"]}, CONFIG)
    first = await waiting_for(graph, "inner")
    await graph.ainvoke({"log": ["2"]}, CONFIG)

    fork = await graph.aupdate_state(first.config, {"log": ["mine"]}, "a")
    await graph.ainvoke(None, fork)

    assert (await graph.aget_state(place)).values["log"] == ["1", "a", "mine", "x"]


async def test_memory_is_bounded_below_several_edits() -> None:
    trace = Traced()
    graph = chain(InMemorySaver(), a=trace.node("a"), inner=chain(True, x=trace.node("x")))
    place = {"configurable": {"thread_id": "1", "checkpoint_ns": "inner"}}
    await graph.ainvoke({"log": ["1"]}, CONFIG)
    first = await waiting_for(graph, "inner")
    await graph.ainvoke({"log": ["2"]}, CONFIG)

    fork = await graph.aupdate_state(first.config, {"log": ["mine"]}, "a")
    fork = await graph.aupdate_state(fork, {"log": ["more"]}, "a")
    await graph.ainvoke(None, fork)

    assert (await graph.aget_state(place)).values["log"] == ["1", "a", "mine", "more", "x"]


async def test_an_answer_at_the_id_of_the_head_goes_on_inside() -> None:
    trace = Traced()
    inner = chain(x=trace.node("x"), q=trace.node("q", "who?"))
    graph = chain(InMemorySaver(), inner=inner)
    await graph.ainvoke({"log": []}, CONFIG)
    head = await graph.aget_state(CONFIG)
    trace.ran.clear()

    result = await graph.ainvoke(Command(resume="me"), head.config)

    assert trace.ran == ["q"]
    assert result["log"] == ["x", "q me"]


async def test_an_answer_at_the_head_of_a_graph_inside_goes_on_there() -> None:
    trace = Traced()
    inner = chain(x=trace.node("x"), q=trace.node("q", "who?"))
    graph = chain(InMemorySaver(), inner=inner)
    await graph.ainvoke({"log": []}, CONFIG)
    (task,) = (await graph.aget_state(CONFIG, subgraphs=True)).tasks
    trace.ran.clear()

    result = await graph.ainvoke(Command(resume="me"), task.state.config)

    assert trace.ran == ["q"]
    assert result["log"] == ["x", "q me"]
    assert [state.metadata["source"] for state in await listed(graph)] == ["loop", "loop", "input"]


async def test_an_answer_at_a_superseded_checkpoint_reaches_the_question_inside() -> None:
    trace = Traced()
    inner = chain(x=trace.node("x"), q=trace.node("q", "who?"))
    graph = chain(InMemorySaver(), inner=inner)
    await graph.ainvoke({"log": []}, CONFIG)
    head = await graph.aget_state(CONFIG)
    await graph.ainvoke({"log": ["new"]}, CONFIG)

    result = await graph.ainvoke(Command(resume={head.interrupts[0].id: "me"}), head.config)

    assert result["log"] == ["x", "q me"]


async def test_a_run_from_a_checkpoint_inside_continues_at_the_chosen_node() -> None:
    trace = Traced()
    inner = chain(x=trace.node("x"), y=trace.node("y"), z=trace.node("z"))
    graph = chain(InMemorySaver(), a=trace.node("a"), inner=inner, b=trace.node("b"))
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    (task,) = (await waiting_for(graph, "inner")).tasks
    chosen = await waiting_for(graph, "y", task.state)
    trace.ran.clear()

    result = await graph.ainvoke(None, chosen.config)

    assert trace.ran == ["y", "z", "b"]
    assert result["log"][-3:] == ["y", "z", "b"]


async def test_a_run_from_a_checkpoint_two_levels_inside_continues_at_the_chosen_node() -> None:
    trace = Traced()
    innermost = chain(x=trace.node("x"), y=trace.node("y"))
    inner = chain(m=trace.node("m"), innermost=innermost)
    graph = chain(InMemorySaver(), a=trace.node("a"), inner=inner, b=trace.node("b"))
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    (task,) = (await waiting_for(graph, "inner")).tasks
    (deeper,) = (await waiting_for(graph, "innermost", task.state)).tasks
    chosen = await waiting_for(graph, "y", deeper.state)
    trace.ran.clear()

    await graph.ainvoke(None, chosen.config)

    assert trace.ran == ["y", "b"]


async def test_a_run_from_a_question_inside_asks_it_again_and_keeps_what_came_before() -> None:
    trace = Traced()
    inner = chain(p=trace.node("p", "one?"), q=trace.node("q", "two?"))
    graph = chain(InMemorySaver(), inner=inner)
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke(Command(resume="1"), CONFIG)
    (task,) = (await graph.aget_state(CONFIG, subgraphs=True)).tasks
    chosen = task.state.config
    await graph.ainvoke(Command(resume="2"), CONFIG)
    trace.ran.clear()

    result = await graph.ainvoke(None, chosen)

    assert [question.value for question in result["__interrupt__"]] == ["two?"]
    assert trace.ran == ["q"]
    assert (await graph.ainvoke(Command(resume="3"), CONFIG))["log"] == ["p 1", "q 3"]


async def test_a_run_from_an_update_inside_goes_on_after_it() -> None:
    trace = Traced()
    inner = chain(x=trace.node("x"), y=trace.node("y"), z=trace.node("z"))
    graph = chain(InMemorySaver(), inner=inner)
    await graph.ainvoke({"log": []}, CONFIG)
    (task,) = (await waiting_for(graph, "inner")).tasks
    chosen = await waiting_for(graph, "y", task.state)
    trace.ran.clear()

    config = await graph.aupdate_state(chosen.config, {"log": ["mine"]}, "y")
    result = await graph.ainvoke(None, config)

    assert trace.ran == ["z"]
    assert result["log"] == ["x", "mine", "z"]


async def test_a_run_from_a_checkpoint_of_a_memory_continues_at_the_chosen_node() -> None:
    trace = Traced()
    inner = chain(True, x=trace.node("x"), y=trace.node("y"))
    graph = chain(InMemorySaver(), inner=inner)
    place = {"configurable": {"thread_id": "1", "checkpoint_ns": "inner"}}
    await graph.ainvoke({"log": []}, CONFIG)
    chosen = await waiting_for(graph, "y", place)
    trace.ran.clear()

    await graph.ainvoke(None, chosen.config)

    assert trace.ran == ["y"]


async def test_a_replay_leaves_other_threads_alone() -> None:
    saver = InMemorySaver()
    graph = chain(saver, a=Traced().node("a"))
    other = {"configurable": {"thread_id": "2"}}
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke({"log": []}, other)
    before = await listed(graph, other)

    await graph.ainvoke(None, (await waiting_for(graph, "a")).config)

    assert await listed(graph, other) == before


async def test_the_stream_of_a_replay_begins_with_the_state_it_goes_on_from() -> None:
    graph = chain(InMemorySaver(), a=Traced().node("a"), b=Traced().node("b"))
    await graph.ainvoke({"log": ["in"]}, CONFIG)

    items = [v async for v in graph.astream(None, (await waiting_for(graph, "b")).config, stream_mode="values")]

    assert items == [{"log": ["in", "a"]}, {"log": ["in", "a", "b"]}]


@pytest.mark.parametrize("index", [1, 2, 3])
async def test_a_new_input_at_an_older_checkpoint_begins_without_what_followed_it(index: int) -> None:
    traced = Traced()
    graph = chain(InMemorySaver(), a=traced.node("a"), b=traced.node("b"), c=traced.node("c"))
    await graph.ainvoke({"log": ["first"]}, CONFIG)
    older = [state async for state in graph.aget_state_history(CONFIG)][index]

    result = await graph.ainvoke({"log": ["second"]}, older.config)

    assert result["log"] == [*older.values["log"], "second", "a", "b", "c"]
