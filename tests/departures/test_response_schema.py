"""An answer is checked against the type that its question asks for."""

from __future__ import annotations

import asyncio

import pytest
from places import S, cfg, flat
from pydantic import BaseModel, ValidationError

from langgraph_async import START, Command, StateGraph, interrupt
from langgraph_async.errors import is_invalid_resume


class Verdict(BaseModel):
    ok: bool
    note: str = ""


async def asks_for_an_int(state):
    return {"log": [interrupt("how many", response_schema=int)]}


async def test_an_answer_is_converted_to_the_type(place, saver):
    graph = place(asks_for_an_int, saver)
    first = await graph.ainvoke({"x": 1}, cfg())

    result = await graph.ainvoke(Command(resume="5"), cfg())

    assert first["__interrupt__"][0].response_schema == {"type": "integer"}
    assert result["log"] == [5]


async def test_an_answer_becomes_a_model(saver):
    got = []

    async def node(state):
        got.append(interrupt("ok?", response_schema=Verdict))
        return {"log": [got[-1].note]}

    graph = flat(node, saver)
    await graph.ainvoke({}, cfg())

    await graph.ainvoke(Command(resume={"ok": "yes", "note": "n"}), cfg())

    assert got == [Verdict(ok=True, note="n")]


async def test_a_dict_schema_is_shown_and_not_enforced(saver):
    schema = {"type": "integer"}

    async def node(state):
        return {"log": [interrupt("how many", response_schema=schema)]}

    graph = flat(node, saver)
    first = await graph.ainvoke({}, cfg())

    result = await graph.ainvoke(Command(resume="many"), cfg())

    assert first["__interrupt__"][0].response_schema == schema
    assert result["log"] == ["many"]


@pytest.mark.parametrize("by_id", [False, True])
async def test_after_an_invalid_answer_the_question_stays_and_can_be_answered(place, saver, durability, by_id):
    graph = place(asks_for_an_int, saver)
    first = await graph.ainvoke({"x": 1}, cfg(), durability=durability)
    question = first["__interrupt__"][0]

    def answer(value):
        return Command(resume={question.id: value} if by_id else value)

    for _ in range(2):
        with pytest.raises(ValidationError) as caught:
            await graph.ainvoke(answer("many"), cfg(), durability=durability)
        assert is_invalid_resume(caught.value)
    again = await graph.ainvoke(None, cfg(), durability=durability)
    with pytest.raises(ValidationError):
        await graph.ainvoke(answer("many"), cfg(), durability=durability)
    result = await graph.ainvoke(answer("5"), cfg(), durability=durability)

    assert again["__interrupt__"] == [question]
    assert result["log"] == [5]


async def test_an_invalid_answer_does_not_cancel_siblings(saver, durability):
    ran = []

    async def sibling(state):
        answer = interrupt("sibling")
        for _ in range(5):
            await asyncio.sleep(0)
        ran.append(answer)
        return {"log": [answer]}

    graph = (
        StateGraph(S)
        .add_node("q", asks_for_an_int)
        .add_node("sibling", sibling)
        .add_edge(START, "q")
        .add_edge(START, "sibling")
        .compile(checkpointer=saver)
    )
    first = await graph.ainvoke({}, cfg(), durability=durability)
    ids = {q.value: q.id for q in first["__interrupt__"]}

    with pytest.raises(ValidationError):
        await graph.ainvoke(
            Command(resume={ids["how many"]: "many", ids["sibling"]: "done"}), cfg(), durability=durability
        )
    result = await graph.ainvoke(Command(resume=7), cfg(), durability=durability)

    assert ran == ["done"]
    assert result["log"] == [7, "done"]


async def test_an_invalid_answer_inside_a_subgraph_does_not_cancel_the_siblings_there(saver):
    ran = []

    async def sibling(state):
        answer = interrupt("sibling")
        for _ in range(5):
            await asyncio.sleep(0)
        ran.append(answer)
        return {"log": [answer]}

    inner = (
        StateGraph(S)
        .add_node("q", asks_for_an_int)
        .add_node("sibling", sibling)
        .add_edge(START, "q")
        .add_edge(START, "sibling")
        .compile()
    )
    graph = StateGraph(S).add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=saver)
    first = await graph.ainvoke({}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}

    with pytest.raises(ValidationError):
        await graph.ainvoke(Command(resume={ids["how many"]: "many", ids["sibling"]: "done"}), cfg())
    result = await graph.ainvoke(Command(resume={ids["how many"]: 7}), cfg())

    assert ran == ["done"]
    assert result["log"] == [7, "done"]


async def test_an_invalid_answer_to_the_second_question_keeps_the_first_answer(place, saver):
    async def node(state):
        return {"log": [interrupt("first"), interrupt("second", response_schema=int)]}

    graph = place(node, saver)
    await graph.ainvoke({"x": 1}, cfg())
    await graph.ainvoke(Command(resume="A"), cfg())

    with pytest.raises(ValidationError):
        await graph.ainvoke(Command(resume="many"), cfg())
    result = await graph.ainvoke(Command(resume="2"), cfg())

    assert result["log"] == ["A", 2]


async def test_a_node_may_take_an_invalid_answer_into_its_own_hands(saver):
    async def node(state):
        while True:
            try:
                return {"log": [interrupt("how many", response_schema=int)]}
            except ValidationError:
                continue

    graph = flat(node, saver)
    await graph.ainvoke({}, cfg())

    again = await graph.ainvoke(Command(resume="many"), cfg())
    result = await graph.ainvoke(Command(resume=3), cfg())

    assert [q.value for q in again["__interrupt__"]] == ["how many"]
    assert result["log"] == [3]


async def test_invalid_answers_of_gathered_questions_can_all_be_answered_again(saver):
    async def one(name):
        return interrupt(name, response_schema=int)

    async def node(state):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(name)) for name in "ab"]
        return {"log": [task.result() for task in tasks]}

    graph = flat(node, saver)
    first = await graph.ainvoke({}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}

    with pytest.raises(ExceptionGroup) as caught:
        await graph.ainvoke(Command(resume={ids["a"]: "x", ids["b"]: "y"}), cfg())
    assert is_invalid_resume(caught.value)
    second = await graph.ainvoke(Command(resume={ids["b"]: 2}), cfg())
    third = await graph.ainvoke(Command(resume={ids["a"]: 1}), cfg())

    assert [q.id for q in second["__interrupt__"]] == [ids["a"]]
    assert third["log"] == [1, 2]


async def test_a_mix_of_a_valid_and_an_invalid_answer_keeps_the_valid_one(saver):
    async def one(name):
        return interrupt(name, response_schema=int)

    async def node(state):
        return {"log": await asyncio.gather(one("a"), one("b"))}

    graph = flat(node, saver)
    first = await graph.ainvoke({}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}

    with pytest.raises(ValidationError):
        await graph.ainvoke(Command(resume={ids["a"]: "x", ids["b"]: 2}), cfg())
    again = await graph.ainvoke(None, cfg())
    result = await graph.ainvoke(Command(resume=1), cfg())

    assert [q.id for q in again["__interrupt__"]] == [ids["a"]]
    assert result["log"] == [1, 2]


async def test_an_invalid_answer_is_told_even_if_another_question_of_the_node_is_still_open(saver):
    async def one(name):
        return interrupt(name, response_schema=int)

    async def node(state):
        return {"log": await asyncio.gather(one("a"), one("b"))}

    graph = flat(node, saver)
    first = await graph.ainvoke({}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}

    with pytest.raises(ValidationError):
        await graph.ainvoke(Command(resume={ids["a"]: "x"}), cfg())
    again = await graph.ainvoke(None, cfg())
    result = await graph.ainvoke(Command(resume={ids["a"]: 1, ids["b"]: 2}), cfg())

    assert {q.value: q.id for q in again["__interrupt__"]} == ids
    assert result["log"] == [1, 2]
