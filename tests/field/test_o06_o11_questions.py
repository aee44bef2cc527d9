"""O6 Partial answers, O7 Ambiguous answer, O8 Payload fidelity, O9 No-input run while paused, O11 Replay."""

from __future__ import annotations

from collections import Counter

import pytest
from places import S, asks_twice, cfg, flat, two_parallel
from slow_savers import SAVERS, stored_rows

from langgraph_async import START, Command, Send, StateGraph, UnknownInterruptError, interrupt


@pytest.fixture(params=list(SAVERS))
def saver(request):
    return SAVERS[request.param]()


async def test_o6_partial_answers(saver):
    ran: Counter[str] = Counter()

    async def ask(state):
        ran[state["x"]] += 1
        return {"log": [interrupt(state["x"])]}

    graph = (
        StateGraph(S)
        .add_node("ask", ask)
        .add_conditional_edges(START, lambda s: [Send("ask", {"x": n}) for n in "abc"], ["ask"])
        .compile(checkpointer=saver)
    )
    ids = {q.value: q.id for q in (await graph.ainvoke({}, cfg()))["__interrupt__"]}
    second = await graph.ainvoke(Command(resume={ids["a"]: "A", ids["c"]: "C"}), cfg())
    counts = dict(ran)
    third = await graph.ainvoke(Command(resume={ids["b"]: "B"}), cfg())

    assert len(set(ids.values())) == 3
    assert [(q.value, q.id) for q in second["__interrupt__"]] == [("b", ids["b"])]
    assert counts == {"a": 2, "b": 1, "c": 2}
    assert ran["b"] == 2
    assert third["log"] == ["A", "B", "C"]


@pytest.mark.parametrize("inside", [False, True])
async def test_o7_an_ambiguous_answer_is_an_error(saver, inside):
    ran: list[str] = []
    graph = two_parallel(None if inside else saver, ran)
    if inside:
        graph = StateGraph(S).add_node("sub", graph).add_edge(START, "sub").compile(checkpointer=saver)
    first = await graph.ainvoke({}, cfg())
    count = len(ran)
    before = await stored_rows(saver, "t")

    with pytest.raises(UnknownInterruptError):
        await graph.ainvoke(Command(resume="one value"), cfg())
    state = await graph.aget_state(cfg())

    assert len(ran) == count
    assert await stored_rows(saver, "t") == before
    assert {q.id for q in state.interrupts} == {q.id for q in first["__interrupt__"]}


@pytest.mark.parametrize("payload", [None, {}, {1: "v"}, {"0123456789abcdef" * 2: "v"}, [], 0, False], ids=repr)
async def test_o8_a_payload_arrives_as_it_is(saver, payload):
    async def node(state):
        return {"x": interrupt("why")}

    graph = flat(node, saver)
    await graph.ainvoke({"x": "before"}, cfg())

    result = await graph.ainvoke(Command(resume=payload), cfg())

    assert result["x"] == payload
    assert type(result["x"]) is type(payload)
    assert (await graph.aget_state(cfg())).values["x"] == payload


async def test_o9_no_input_while_paused_asks_again(saver):
    graph = flat(asks_twice, saver)
    await graph.ainvoke({}, cfg())
    second = await graph.ainvoke(Command(resume="A"), cfg())
    before = await stored_rows(saver, "t")

    again = await graph.ainvoke(None, cfg())

    assert again["__interrupt__"] == second["__interrupt__"]
    assert await stored_rows(saver, "t") == before


async def test_o11_a_replay_asks_again_and_keeps_the_first_branch(saver):
    async def a(state):
        return {"log": ["a"]}

    async def q(state):
        return {"log": [interrupt("why")]}

    graph = (
        StateGraph(S)
        .add_node("a", a)
        .add_node("q", q)
        .add_edge(START, "a")
        .add_edge("a", "q")
        .compile(checkpointer=saver)
    )
    await graph.ainvoke({}, cfg())
    first = await graph.ainvoke(Command(resume="one"), cfg())
    at_q = next(s for s in [s async for s in graph.aget_state_history(cfg())] if s.next == ("q",))

    again = await graph.ainvoke(None, at_q.config)
    done = await graph.ainvoke(Command(resume="two"), cfg())
    logs = [s.values.get("log") async for s in graph.aget_state_history(cfg())]

    assert [q.value for q in again["__interrupt__"]] == ["why"]
    assert first["log"] == ["a", "one"]
    assert done["log"] == ["a", "two"]
    assert ["a", "one"] in logs
