"""Whom an answer reaches, as what, and what is stored (P2, P3, P4, P5)."""

from __future__ import annotations

import pytest
from places import (
    S,
    asks_twice,
    cfg,
    flat,
    guarded_by_except_exception,
    two_parallel,
)
from slow_savers import SAVERS, stored_rows

from langgraph_async import START, Command, Send, StateGraph, UnknownInterruptError, interrupt

# -- P2: an id that was answered is refused -----------------------------------------------------------------


async def refused(graph, payload, config, saver):
    thread = config["configurable"]["thread_id"]
    before = await stored_rows(saver, thread)
    with pytest.raises(UnknownInterruptError) as caught:
        await graph.ainvoke(Command(resume=payload), config)
    assert await stored_rows(saver, thread) == before
    return caught.value


async def test_an_answered_id_is_refused_while_the_next_question_waits(place, saver, durability):
    graph = place(asks_twice, saver)
    first = await graph.ainvoke({"x": 1}, cfg(), durability=durability)
    asked = first["__interrupt__"][0].id
    second = await graph.ainvoke(Command(resume={asked: "A"}), cfg(), durability=durability)

    error = await refused(graph, {asked: "again"}, cfg(), saver)
    result = await graph.ainvoke(Command(resume="B"), cfg(), durability=durability)

    assert second["__interrupt__"][0].value == "two"
    assert second["__interrupt__"][0].id != asked
    assert error.reason == "not_pending"
    assert error.interrupt_ids == (asked,)
    assert error.pending_ids == (second["__interrupt__"][0].id,)
    assert result["log"] == ["A", "B"]


async def test_an_id_answered_in_an_earlier_step_is_refused(place, saver, durability):
    """The question is gone from the newest checkpoint; the thread remembers it all the same."""

    async def again(state):
        return {"log": [interrupt("later")]}

    inner = place(asks_twice, None)
    graph = (
        StateGraph(S)
        .add_node("early", inner)
        .add_node("late", again)
        .add_edge(START, "early")
        .add_edge("early", "late")
        .compile(checkpointer=saver)
    )
    ids = []
    result = await graph.ainvoke({"x": 1}, cfg(), durability=durability)
    for answer in ("A", "B"):
        ids.append(result["__interrupt__"][0].id)
        result = await graph.ainvoke(Command(resume={ids[-1]: answer}), cfg(), durability=durability)
    pending = result["__interrupt__"][0]

    errors = [await refused(graph, {i: "again"}, cfg(), saver) for i in ids]
    result = await graph.ainvoke(Command(resume="C"), cfg(), durability=durability)

    assert pending.value == "later"
    assert [e.pending_ids for e in errors] == [(pending.id,)] * 2
    assert result["log"] == ["A", "B", "C"]


async def test_an_answered_id_is_refused_when_the_thread_has_finished(place, saver, durability):
    graph = place(guarded_by_except_exception, saver)
    first = await graph.ainvoke({"x": 1}, cfg(), durability=durability)
    asked = first["__interrupt__"][0].id
    await graph.ainvoke(Command(resume={asked: "A"}), cfg(), durability=durability)

    error = await refused(graph, {asked: "again"}, cfg(), saver)

    assert error.reason == "not_pending"
    assert error.pending_ids == ()


async def test_an_id_that_was_answered_without_being_named_is_refused(place, saver):
    graph = place(asks_twice, saver)
    first = await graph.ainvoke({"x": 1}, cfg())
    await graph.ainvoke(Command(resume="A"), cfg())

    error = await refused(graph, {first["__interrupt__"][0].id: "again"}, cfg(), saver)

    assert error.reason == "not_pending"


async def test_a_map_with_one_pending_and_one_unknown_id_is_refused(place, saver):
    graph = place(asks_twice, saver)
    first = await graph.ainvoke({"x": 1}, cfg())

    error = await refused(graph, {first["__interrupt__"][0].id: "A", "0" * 32: "B"}, cfg(), saver)

    assert error.reason == "not_pending"
    assert error.interrupt_ids == ("0" * 32,)


async def test_the_id_of_another_thread_is_data(place, saver):
    graph = place(guarded_by_except_exception, saver)
    other = await graph.ainvoke({"x": 1}, cfg("other"))
    await graph.ainvoke({"x": 1}, cfg("mine"))
    payload = {other["__interrupt__"][0].id: "data"}

    result = await graph.ainvoke(Command(resume=payload), cfg("mine"))

    assert result["log"] == [payload]


# -- P3: no input asks again --------------------------------------------------------------------------------


async def test_no_input_asks_the_same_question_again_and_stores_nothing(place, saver, durability, run):
    graph = place(asks_twice, saver)
    await run(graph, {"x": 1}, cfg(), durability=durability)
    second = await run(graph, Command(resume="A"), cfg(), durability=durability)
    before = await stored_rows(saver, "t")

    again = await run(graph, None, cfg(), durability=durability)
    after = await stored_rows(saver, "t")
    result = await run(graph, Command(resume="B"), cfg(), durability=durability)

    assert second["__interrupt__"][0].value == "two"
    assert again["__interrupt__"] == second["__interrupt__"]
    assert after == before
    assert result["log"] == ["A", "B"]


async def test_no_input_asks_again_even_if_the_question_cannot_be_compared(saver):
    numpy = pytest.importorskip("numpy")

    async def node(state):
        return {"log": [interrupt(numpy.array([1, 2]))]}

    graph = flat(node, saver)
    first = await graph.ainvoke({}, cfg())
    before = await stored_rows(saver, "t")

    again = await graph.ainvoke(None, cfg())
    after = await stored_rows(saver, "t")
    result = await graph.ainvoke(Command(resume="yes"), cfg())

    assert again["__interrupt__"][0].id == first["__interrupt__"][0].id
    assert after == before
    assert result["log"] == ["yes"]


async def test_no_input_twice_then_answers_in_any_order(saver):
    graph = two_parallel(saver, [])
    first = await graph.ainvoke({}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}
    await graph.ainvoke(None, cfg())
    again = await graph.ainvoke(None, cfg())

    await graph.ainvoke(Command(resume={ids["b"]: "B"}), cfg())
    result = await graph.ainvoke(Command(resume={ids["a"]: "A"}), cfg())

    assert {q.value: q.id for q in again["__interrupt__"]} == ids
    assert result["log"] == ["A", "B"]


# -- P4: a payload is delivered as it is --------------------------------------------------------------------

PAYLOADS = {
    "None": None,
    "empty dict": {},
    "int keys": {1: "v"},
    "tuple keys": {("a", 1): "v"},
    "32 hex digits": {"0123456789abcdef0123456789abcdef": "v"},
    "several of 32 hex digits": {"0" * 32: 1, "f" * 32: 2},
    "mixed keys": {"0" * 32: 1, "x": 2},
    "empty list": [],
    "zero": 0,
    "false": False,
    "empty text": "",
    "empty bytes": b"",
    "set": {1, 2},
    "tuple": (1, 2),
    "nested": {"a": {"b": [None, {}]}},
    "upper case": {"A" * 32: "v"},
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
async def test_a_payload_is_delivered_as_it_is(payload, place):
    saver = SAVERS["primitive"]()
    got = []

    async def node(state):
        got.append(interrupt("why"))
        return {"log": [got[-1]]}

    graph = place(node, saver)
    await graph.ainvoke({"x": 1}, cfg())

    result = await graph.ainvoke(Command(resume=payload), cfg())

    assert result["log"] == [payload]
    assert type(result["log"][0]) is type(payload)
    assert got == [payload]


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
async def test_a_payload_under_an_id_is_delivered_as_it_is(payload, place):
    saver = SAVERS["slow"]()
    graph = place(asks_twice, saver)
    first = await graph.ainvoke({"x": 1}, cfg())

    await graph.ainvoke(Command(resume={first["__interrupt__"][0].id: payload}), cfg())
    result = await graph.ainvoke(Command(resume=payload), cfg())

    assert result["log"] == [payload, payload]


async def test_a_hex_keyed_payload_is_data_even_after_other_questions_were_answered(place, saver):
    graph = place(asks_twice, saver)
    await graph.ainvoke({"x": 1}, cfg())
    await graph.ainvoke(Command(resume="A"), cfg())

    result = await graph.ainvoke(Command(resume={"0" * 32: "v"}), cfg())

    assert result["log"] == ["A", {"0" * 32: "v"}]


@pytest.mark.parametrize("payload", [None, {}, 0, "v", {"0" * 32: "v"}], ids=repr)
async def test_an_ambiguous_payload_is_refused_and_nothing_runs(payload, saver):
    ran = []
    graph = two_parallel(saver, ran)
    first = await graph.ainvoke({}, cfg())
    ran.clear()

    error = await refused(graph, payload, cfg(), saver)
    again = await graph.ainvoke(None, cfg())

    assert error.reason == "ambiguous"
    assert set(error.pending_ids) == {q.id for q in first["__interrupt__"]}
    assert {q.id for q in again["__interrupt__"]} == {q.id for q in first["__interrupt__"]}


# -- P5: who was not asked is left alone --------------------------------------------------------------------


async def test_answering_one_leaves_the_others_alone(saver, durability, run):
    ran = []
    graph = two_parallel(saver, ran, "abc")
    first = await run(graph, {}, cfg(), durability=durability)
    ids = {q.value: q.id for q in first["__interrupt__"]}
    ran.clear()

    second = await run(graph, Command(resume={ids["a"]: "A", ids["c"]: "C"}), cfg(), durability=durability)
    counted = list(ran)
    third = await run(graph, Command(resume="B"), cfg(), durability=durability)

    assert sorted(counted) == ["a", "c"]
    assert [(q.value, q.id) for q in second["__interrupt__"]] == [("b", ids["b"])]
    assert third["log"] == ["A", "B", "C"]
    assert sorted(ran) == ["a", "b", "c"]


async def test_answering_one_of_a_subgraph_leaves_its_others_alone(saver, durability):
    ran = []
    inner = two_parallel(None, ran, "abc")
    graph = StateGraph(S).add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=saver)
    first = await graph.ainvoke({}, cfg(), durability=durability)
    ids = {q.value: q.id for q in first["__interrupt__"]}
    ran.clear()

    second = await graph.ainvoke(Command(resume={ids["a"]: "A"}), cfg(), durability=durability)
    third = await graph.ainvoke(Command(resume={ids["b"]: "B", ids["c"]: "C"}), cfg(), durability=durability)

    assert sorted(q.value for q in second["__interrupt__"]) == ["b", "c"]
    assert third["log"] == ["A", "B", "C"]
    assert sorted(ran) == ["a", "b", "c"]


@pytest.mark.parametrize("memory", [None, True])
async def test_a_subgraph_that_goes_on_does_not_wake_the_unanswered_nodes_of_another(saver, memory):
    ran = []

    def inner(names, ran):
        graph = StateGraph(S)
        for name in names:

            async def node(state, name=name):
                ran.append(name)
                return {"log": [interrupt(name)]}

            async def after(state):
                return {}

            graph.add_node(name, node)
            graph.add_edge(START, name)
            graph.add_edge(name, f"after_{name}")
            graph.add_node(f"after_{name}", after)
        return graph.compile(checkpointer=memory)

    graph = (
        StateGraph(S)
        .add_node("left", inner("a", ran))
        .add_node("right", inner("cd", ran))
        .add_edge(START, "left")
        .add_edge(START, "right")
        .compile(checkpointer=saver)
    )
    first = await graph.ainvoke({}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}
    ran.clear()

    second = await graph.ainvoke(Command(resume={ids["a"]: "A", ids["c"]: "C"}), cfg())
    third = await graph.ainvoke(Command(resume={ids["d"]: "D"}), cfg())

    assert [q.value for q in second["__interrupt__"]] == ["d"]
    assert sorted(third["log"]) == ["A", "C", "D"]
    assert sorted(ran) == ["a", "c", "d"]


async def test_answering_one_of_several_sends_leaves_the_others_alone(saver, durability):
    ran = []

    async def node(state):
        ran.append(state["x"])
        return {"log": [f"{state['x']}={interrupt(state['x'])}"]}

    graph = (
        StateGraph(S)
        .add_node("q", node)
        .add_conditional_edges(START, lambda s: [Send("q", {"x": n}) for n in "abc"], ["q"])
        .compile(checkpointer=saver)
    )
    first = await graph.ainvoke({}, cfg(), durability=durability)
    ids = {q.value: q.id for q in first["__interrupt__"]}
    ran.clear()

    second = await graph.ainvoke(Command(resume={ids["b"]: 1}), cfg(), durability=durability)
    third = await graph.ainvoke(Command(resume={ids["a"]: 2, ids["c"]: 3}), cfg(), durability=durability)

    assert [q.value for q in second["__interrupt__"]] == ["a", "c"]
    assert third["log"] == ["a=2", "b=1", "c=3"]
    assert sorted(ran) == ["a", "b", "c"]


async def test_a_failed_sibling_of_an_unanswered_question_runs_again(saver):
    ran = []

    async def bad(state):
        ran.append("bad")
        if ran.count("bad") == 1:
            raise ValueError("once")
        return {"log": ["bad"]}

    async def ask(state):
        ran.append("ask")
        return {"log": [interrupt("why")]}

    graph = (
        StateGraph(S)
        .add_node("ask", ask)
        .add_node("bad", bad)
        .add_edge(START, "ask")
        .add_edge(START, "bad")
        .compile(checkpointer=saver)
    )
    with pytest.raises(ValueError, match="once"):
        await graph.ainvoke({}, cfg())

    result = await graph.ainvoke(Command(resume="yes"), cfg())

    assert result["log"] == ["yes", "bad"]
    assert ran.count("bad") == 2
