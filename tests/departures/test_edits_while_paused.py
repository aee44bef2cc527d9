"""Changing the state while a question is open, and going on from inside a subgraph (P8, P9)."""

from __future__ import annotations

import pytest
from places import S, asks_twice, cfg, flat, two_parallel

from langgraph_async import START, Command, Send, StateGraph, UnknownInterruptError, interrupt

NESTED = ["subgraph", "subgraph with memory", "subgraph as node", "three levels deep"]


async def ask(state):
    return {"log": [interrupt("why")]}


def before_and_after(node, saver, **kw):
    return (
        StateGraph(S)
        .add_node("before", lambda s: {"log": ["before"]})
        .add_node("q", node)
        .add_node("after", lambda s: {"log": ["after"]})
        .add_edge(START, "before")
        .add_edge("before", "q")
        .add_edge("q", "after")
        .compile(checkpointer=saver, **kw)
    )


# -- P8 -----------------------------------------------------------------------------------------------------


async def test_an_open_question_is_listed_with_its_id(place, saver, durability):
    graph = place(ask, saver)
    result = await graph.ainvoke({"x": 1}, cfg(), durability=durability)

    state = await graph.aget_state(cfg())

    assert list(state.interrupts) == result["__interrupt__"]
    assert [q for task in state.tasks for q in task.interrupts] == result["__interrupt__"]
    assert state.next != ()


async def test_an_update_leaves_the_question_open_with_its_id(saver, durability):
    graph = before_and_after(ask, saver)
    result = await graph.ainvoke({"x": 1}, cfg(), durability=durability)
    question = result["__interrupt__"][0]

    await graph.aupdate_state(cfg(), {"x": "changed"}, as_node="before")
    state = await graph.aget_state(cfg())
    again = await graph.ainvoke(None, cfg(), durability=durability)
    done = await graph.ainvoke(Command(resume={question.id: "yes"}), cfg(), durability=durability)

    assert list(state.interrupts) == [question]
    assert state.next == ("q",)
    assert state.values["x"] == "changed"
    assert again["__interrupt__"] == [question]
    assert done["log"] == ["before", "yes", "after"]
    assert done["x"] == "changed"


@pytest.mark.parametrize("place", ["flat", *NESTED], indirect=True)
async def test_an_update_of_the_paused_place_leaves_the_question_open_wherever_it_was_asked(place, saver):
    """The update is made as whoever came before the paused task."""
    graph = place(ask, saver)
    result = await graph.ainvoke({"x": 1}, cfg())
    question = result["__interrupt__"][0]
    state = await graph.aget_state(cfg())

    await graph.aupdate_state(cfg(), {"x": "changed"}, as_node=START)
    edited = await graph.aget_state(cfg())
    done = await graph.ainvoke(Command(resume={question.id: "yes"}), cfg())

    assert edited.next == state.next
    assert [q.id for q in edited.interrupts] == [question.id]
    assert done["log"] == ["yes"]


async def test_several_updates_in_a_row_leave_the_question_open(saver):
    graph = before_and_after(ask, saver)
    question = (await graph.ainvoke({"x": 1}, cfg()))["__interrupt__"][0]

    for n in range(3):
        await graph.aupdate_state(cfg(), {"x": n}, as_node="before")
        assert list((await graph.aget_state(cfg())).interrupts) == [question]
    done = await graph.ainvoke(Command(resume="yes"), cfg())

    assert done["log"] == ["before", "yes", "after"]
    assert done["x"] == 2


async def test_after_an_update_the_second_question_of_a_node_stays_open_and_the_first_is_not_asked_again(saver):
    graph = before_and_after(asks_twice, saver)
    first = (await graph.ainvoke({"x": 1}, cfg()))["__interrupt__"][0]
    second = (await graph.ainvoke(Command(resume="A"), cfg()))["__interrupt__"][0]

    await graph.aupdate_state(cfg(), {"x": 2}, as_node="before")
    state = await graph.aget_state(cfg())
    with pytest.raises(UnknownInterruptError):
        await graph.ainvoke(Command(resume={first.id: "again"}), cfg())
    done = await graph.ainvoke(Command(resume={second.id: "B"}), cfg())

    assert list(state.interrupts) == [second]
    assert done["log"] == ["before", "A", "B", "after"]


@pytest.mark.parametrize("place", NESTED, indirect=True)
async def test_after_an_update_around_a_subgraph_an_answer_does_not_reach_another_of_its_questions(place, saver):
    """The subgraph begins anew, and so asks its first question, while the second is the one that is open."""
    graph = place(asks_twice, saver)
    await graph.ainvoke({"x": 1}, cfg())
    second = (await graph.ainvoke(Command(resume="A"), cfg()))["__interrupt__"][0]

    await graph.aupdate_state(cfg(), {"x": 2}, as_node=START)
    again = await graph.ainvoke(Command(resume={second.id: "B"}), cfg())
    result = await graph.ainvoke(Command(resume="A2"), cfg())
    done = await graph.ainvoke(Command(resume="B2"), cfg())

    assert [q.value for q in again["__interrupt__"]] == ["one"]
    assert [q.value for q in result["__interrupt__"]] == ["two"]
    assert done["log"] == ["A2", "B2"]


async def test_after_an_update_answered_ids_are_still_refused(saver):
    graph = before_and_after(ask, saver)
    question = (await graph.ainvoke({"x": 1}, cfg()))["__interrupt__"][0]
    await graph.aupdate_state(cfg(), {"x": 2}, as_node="before")
    await graph.ainvoke(Command(resume="yes"), cfg())

    with pytest.raises(UnknownInterruptError, match="not pending"):
        await graph.ainvoke(Command(resume={question.id: "again"}), cfg())


async def test_an_update_leaves_parallel_questions_open_and_either_can_be_answered(saver):
    ran = []
    graph = two_parallel(saver, ran)
    first = await graph.ainvoke({}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}

    await graph.aupdate_state(cfg(), {"x": 1}, as_node=START)
    state = await graph.aget_state(cfg())
    second = await graph.ainvoke(Command(resume={ids["b"]: "B"}), cfg())
    third = await graph.ainvoke(Command(resume={ids["a"]: "A"}), cfg())

    assert {q.value: q.id for q in state.interrupts} == ids
    assert [q.id for q in second["__interrupt__"]] == [ids["a"]]
    assert third["log"] == ["A", "B"]
    assert sorted(ran) == ["a", "a", "b", "b"]


async def test_an_update_as_the_paused_node_answers_for_it(saver):
    graph = before_and_after(ask, saver)
    await graph.ainvoke({"x": 1}, cfg())

    await graph.aupdate_state(cfg(), {"log": ["by hand"]}, as_node="q")
    state = await graph.aget_state(cfg())
    done = await graph.ainvoke(None, cfg())

    assert state.interrupts == ()
    assert state.next == ("after",)
    assert done["log"] == ["before", "by hand", "after"]


async def test_an_update_inside_a_paused_subgraph_leaves_the_question_open(saver):
    inner = before_and_after(ask, None)
    graph = StateGraph(S).add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=saver)
    question = (await graph.ainvoke({"x": 1}, cfg()))["__interrupt__"][0]
    outer = await graph.aget_state(cfg(), subgraphs=True)

    await graph.aupdate_state(outer.tasks[0].state.config, {"x": "changed"}, as_node="before")
    state = await graph.aget_state(cfg(), subgraphs=True)
    done = await graph.ainvoke(Command(resume={question.id: "yes"}), cfg())

    assert [q.id for q in state.interrupts] == [question.id]
    assert [q.id for q in state.tasks[0].state.interrupts] == [question.id]
    assert done["log"] == ["before", "yes", "after"]
    assert done["x"] == "changed"


async def test_a_command_that_updates_without_answering_leaves_the_question_open(saver, durability):
    graph = before_and_after(ask, saver)
    question = (await graph.ainvoke({"x": 1}, cfg(), durability=durability))["__interrupt__"][0]

    again = await graph.ainvoke(Command(update={"x": "changed"}), cfg(), durability=durability)
    done = await graph.ainvoke(Command(resume={question.id: "yes"}), cfg(), durability=durability)

    assert again["__interrupt__"] == [question]
    assert done["x"] == "changed"
    assert done["log"] == ["before", "yes", "after"]


async def test_a_resume_with_an_update_does_both(saver, durability):
    graph = before_and_after(ask, saver)
    await graph.ainvoke({"x": 1}, cfg(), durability=durability)

    done = await graph.ainvoke(Command(resume="yes", update={"x": "changed"}), cfg(), durability=durability)

    assert done["x"] == "changed"
    assert done["log"] == ["before", "yes", "after"]


async def test_a_new_input_abandons_the_question(saver, durability):
    graph = before_and_after(ask, saver)
    old = (await graph.ainvoke({"x": 1}, cfg(), durability=durability))["__interrupt__"][0]

    new = (await graph.ainvoke({"x": 2}, cfg(), durability=durability))["__interrupt__"][0]
    with pytest.raises(UnknownInterruptError, match="not pending"):
        await graph.ainvoke(Command(resume={old.id: "late"}), cfg(), durability=durability)
    done = await graph.ainvoke(Command(resume={new.id: "yes"}), cfg(), durability=durability)

    assert new.id != old.id
    assert done["log"] == ["before", "before", "yes", "after"]


# -- P9 -----------------------------------------------------------------------------------------------------


def counting(ran, saver, *, memory=None, levels=1):
    async def a(state):
        ran.append("a")
        return {"log": ["a"]}

    async def b(state):
        ran.append("b")
        return {"log": ["b"]}

    async def c(state):
        ran.append("c")
        return {"log": ["c"]}

    async def outer(state):
        ran.append("outer")
        return {}

    graph = (
        StateGraph(S)
        .add_node("a", a)
        .add_node("b", b)
        .add_node("c", c)
        .add_edge(START, "a")
        .add_edge("a", "b")
        .add_edge("b", "c")
        .compile(checkpointer=memory, interrupt_before=["c"])
    )
    for _ in range(levels - 1):
        graph = StateGraph(S).add_node("mid", graph).add_edge(START, "mid").compile()
    return (
        StateGraph(S)
        .add_node("outer", outer)
        .add_node("sub", graph)
        .add_edge(START, "outer")
        .add_edge("outer", "sub")
        .compile(checkpointer=saver)
    )


def of_namespace(snapshot):
    where = snapshot.config["configurable"]
    return {"configurable": {"thread_id": where["thread_id"], "checkpoint_ns": where["checkpoint_ns"]}}


def innermost(snapshot):
    while snapshot.tasks and snapshot.tasks[0].state is not None:
        snapshot = snapshot.tasks[0].state
    return snapshot


@pytest.mark.parametrize("memory", [None, True])
@pytest.mark.parametrize("levels", [1, 2])
async def test_a_run_from_a_checkpoint_inside_a_subgraph_goes_on_at_its_node(saver, memory, levels):
    ran = []
    graph = counting(ran, saver, memory=memory, levels=levels)
    await graph.ainvoke({"x": 1}, cfg())
    inner = innermost(await graph.aget_state(cfg(), subgraphs=True))
    history = [s async for s in graph.aget_state_history(of_namespace(inner))]
    before_b = next(s for s in history if s.next == ("b",))
    ran.clear()

    await graph.ainvoke(None, before_b.config)
    counted = list(ran)
    done = await graph.ainvoke(None, cfg())

    assert counted == ["b"]
    assert ran == ["b", "c"]
    assert done["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("memory", [None, True])
async def test_a_run_from_a_checkpoint_of_a_finished_subgraph_goes_on_at_its_node(saver, memory):
    ran = []
    graph = counting(ran, saver, memory=memory)
    await graph.ainvoke({"x": 1}, cfg())
    inner = innermost(await graph.aget_state(cfg(), subgraphs=True))
    await graph.ainvoke(None, cfg())
    history = [s async for s in graph.aget_state_history(of_namespace(inner))]
    before_c = next(s for s in history if s.next == ("c",))
    ran.clear()

    done = await graph.ainvoke(None, before_c.config)

    assert ran == ["c"]
    assert done["log"] == ["a", "b", "c"]


async def test_a_run_from_a_checkpoint_inside_a_subgraph_asks_its_question_again(saver):
    inner = before_and_after(ask, None)
    graph = StateGraph(S).add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=saver)
    await graph.ainvoke({"x": 1}, cfg())
    nested = innermost(await graph.aget_state(cfg(), subgraphs=True))
    await graph.ainvoke(Command(resume="one"), cfg())
    at_question = next(s for s in [s async for s in graph.aget_state_history(of_namespace(nested))] if s.next == ("q",))

    again = await graph.ainvoke(None, at_question.config)
    done = await graph.ainvoke(Command(resume="two"), cfg())

    assert [q.value for q in again["__interrupt__"]] == ["why"]
    assert done["log"] == ["before", "two", "after"]


async def test_a_replay_before_a_question_asks_again_every_time_and_keeps_the_old_branch(place, saver):
    graph = place(ask, saver)
    await graph.ainvoke({"x": 1}, cfg())
    paused = await graph.aget_state(cfg())
    first = await graph.ainvoke(Command(resume="one"), cfg())

    for answer in ("two", "three"):
        again = await graph.ainvoke(None, paused.config)
        done = await graph.ainvoke(Command(resume=answer), cfg())

        assert [q.value for q in again["__interrupt__"]] == ["why"]
        assert done["log"] == [answer]
    logs = [s.values.get("log") async for s in graph.aget_state_history(cfg())]

    assert first["log"] == ["one"]
    assert ["one"] in logs
    assert ["two"] in logs


async def test_a_resume_at_the_head_by_its_id_keeps_finished_siblings(saver):
    ran = []

    async def sibling(state):
        ran.append("sibling")
        return {"log": ["sibling"]}

    graph = (
        StateGraph(S)
        .add_node("q", ask)
        .add_node("sibling", sibling)
        .add_edge(START, "q")
        .add_edge(START, "sibling")
        .compile(checkpointer=saver)
    )
    await graph.ainvoke({}, cfg())
    head = (await graph.aget_state(cfg())).config

    done = await graph.ainvoke(Command(resume="yes"), head)

    assert done["log"] == ["yes", "sibling"]
    assert ran == ["sibling"]


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_resume_at_an_older_checkpoint_answers_its_question_anew(place, saver, durability, by_id):
    graph = place(ask, saver)
    question = (await graph.ainvoke({"x": 1}, cfg(), durability=durability))["__interrupt__"][0]
    paused = await graph.aget_state(cfg())
    await graph.ainvoke(Command(resume="one"), cfg(), durability=durability)

    for answer in ("two", "three"):
        payload = {question.id: answer} if by_id else answer
        done = await graph.ainvoke(Command(resume=payload), paused.config, durability=durability)

        assert done["log"] == [answer]
        assert (await graph.aget_state(cfg())).values["log"] == [answer]


async def test_a_resume_at_an_older_checkpoint_keeps_the_answers_before_its_question(saver):
    graph = flat(asks_twice, saver)
    await graph.ainvoke({"x": 1}, cfg())
    await graph.ainvoke(Command(resume="A"), cfg())
    paused = await graph.aget_state(cfg())
    await graph.ainvoke(Command(resume="B"), cfg())

    done = await graph.ainvoke(Command(resume="C"), paused.config)

    assert done["log"] == ["A", "C"]


async def test_sends_keep_their_questions_over_a_fork(saver):
    async def node(state):
        return {"log": [f"{state['x']}={interrupt(state['x'])}"]}

    graph = (
        StateGraph(S)
        .add_node("q", node)
        .add_conditional_edges(START, lambda s: [Send("q", {"x": n}) for n in "ab"], ["q"])
        .compile(checkpointer=saver)
    )
    first = await graph.ainvoke({}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}
    await graph.aupdate_state(cfg(), None, as_node="__copy__")

    state = await graph.aget_state(cfg())
    again = await graph.ainvoke(None, cfg())
    done = await graph.ainvoke(Command(resume={q.id: q.value.upper() for q in again["__interrupt__"]}), cfg())

    assert {q.value for q in again["__interrupt__"]} == set(ids)
    assert [q.value for q in state.interrupts] in ([], ["a", "b"])
    assert done["log"] == ["a=A", "b=B"]


async def test_flat_history_lists_the_question_on_its_checkpoint(saver):
    graph = flat(ask, saver)
    question = (await graph.ainvoke({"x": 1}, cfg()))["__interrupt__"][0]
    await graph.ainvoke(Command(resume="yes"), cfg())

    found = [s.interrupts async for s in graph.aget_state_history(cfg()) if s.next == ("q",)]

    assert found == [(question,)]
