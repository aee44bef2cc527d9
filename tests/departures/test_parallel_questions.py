"""Several questions at once in one node, and how often and where a question is shown (P6, P11)."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from places import S, cfg, flat, two_parallel
from slow_savers import SAVERS, stored_rows

from langgraph_async import START, Command, Send, StateGraph, interrupt


async def ask(name):
    return f"{name}={interrupt(name)}"


async def gathered(state):
    return {"log": await asyncio.gather(ask("a"), ask("b"))}


async def gathered_under_except(state):
    try:
        return {"log": await asyncio.gather(ask("a"), ask("b"))}
    except BaseException:
        return {"log": ["swallowed"]}


async def gathered_with_exceptions_returned(state):
    return {"log": await asyncio.gather(ask("a"), ask("b"), return_exceptions=True)}


async def in_a_task_group(state):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(name)) for name in "ab"]
    return {"log": [task.result() for task in tasks]}


async def in_an_anyio_group(state):
    found = {}

    async def one(name):
        found[name] = await ask(name)

    async with anyio.create_task_group() as group:
        for name in "ab":
            group.start_soon(one, name)
    return {"log": [found["a"], found["b"]]}


async def in_threads(state):
    def one(name):
        return f"{name}={interrupt(name)}"

    first = asyncio.to_thread(one, "a")
    try:
        found = [await first]
    except BaseException:
        found = []
    return {"log": [*found, await asyncio.to_thread(one, "b")]}


ASKING = [
    gathered,
    gathered_under_except,
    gathered_with_exceptions_returned,
    in_a_task_group,
    in_an_anyio_group,
    in_threads,
]


@pytest.fixture(params=ASKING, ids=lambda f: f.__name__)
def asking(request):
    return request.param


async def test_both_questions_show_with_ids_of_their_own(asking, place):
    graph = place(asking, SAVERS["slow"]())

    result = await graph.ainvoke({"x": 1}, cfg())

    assert [q.value for q in result["__interrupt__"]] == ["a", "b"]
    assert len({q.id for q in result["__interrupt__"]}) == 2


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_either_can_be_answered_first(asking, place, order, saver):
    graph = place(asking, saver)
    first = await graph.ainvoke({"x": 1}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}

    second = await graph.ainvoke(Command(resume={ids[order[0]]: order[0].upper()}), cfg())
    again = await graph.ainvoke(None, cfg())
    third = await graph.ainvoke(Command(resume={ids[order[1]]: order[1].upper()}), cfg())

    assert [(q.value, q.id) for q in second["__interrupt__"]] == [(order[1], ids[order[1]])]
    assert again["__interrupt__"] == second["__interrupt__"]
    assert third["log"] == ["a=A", "b=B"]


async def test_both_can_be_answered_at_once(asking, place, durability):
    saver = SAVERS["primitive"]()
    graph = place(asking, saver)
    first = await graph.ainvoke({"x": 1}, cfg(), durability=durability)

    result = await graph.ainvoke(
        Command(resume={q.id: q.value.upper() for q in first["__interrupt__"]}), cfg(), durability=durability
    )

    assert result["log"] == ["a=A", "b=B"]


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_an_id_answered_first_is_refused_the_second_time(order, saver):
    graph = flat(gathered, saver)
    first = await graph.ainvoke({"x": 1}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}
    await graph.ainvoke(Command(resume={ids[order[0]]: 1}), cfg())
    before = await stored_rows(saver, "t")

    with pytest.raises(Exception, match="not pending"):
        await graph.ainvoke(Command(resume={ids[order[0]]: 2}), cfg())
    after = await stored_rows(saver, "t")

    assert after == before


async def test_two_subgraphs_gathered_in_a_node_both_ask(saver):
    def inner(name):
        async def node(state):
            return {"log": [interrupt(name)]}

        return StateGraph(S).add_node("q", node).add_edge(START, "q").compile()

    left, right = inner("a"), inner("b")

    async def node(state):
        found = await asyncio.gather(left.ainvoke({"x": 1}), right.ainvoke({"x": 2}))
        return {"log": [entry for result in found for entry in result["log"]]}

    graph = flat(node, saver)
    first = await graph.ainvoke({}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}

    second = await graph.ainvoke(Command(resume={ids["b"]: "B"}), cfg())
    third = await graph.ainvoke(Command(resume={ids["a"]: "A"}), cfg())

    assert sorted(ids) == ["a", "b"]
    assert [q.value for q in second["__interrupt__"]] == ["a"]
    assert third["log"] == ["A", "B"]


# -- P11: a question is streamed once, where it was asked ---------------------------------------------------


async def one(state):
    return {"log": [interrupt("why")]}


async def questions(graph, value, config, **kw):
    found = []
    async for ns, mode, item in graph.astream(value, config, stream_mode=["updates", "values"], subgraphs=True, **kw):
        if "__interrupt__" in item:
            found.append((mode, tuple(part.split(":")[0] for part in ns), [q.value for q in item["__interrupt__"]]))
    return found


NAMESPACES = {
    "flat": (),
    "subgraph": ("sub",),
    "subgraph with memory": ("sub",),
    "subgraph as node": ("sub",),
    "three levels deep": ("middle", "inner"),
    "after a send": (),
}


async def test_a_question_is_streamed_once_with_its_namespace(request, place, saver):
    ns = NAMESPACES[request.node.callspec.params["place"]]
    graph = place(one, saver)

    found = await questions(graph, {"x": 1}, cfg())
    again = await questions(graph, None, cfg())

    assert sorted(found) == [("updates", ns, ["why"]), ("values", ns, ["why"])]
    assert sorted(again) == sorted(found)


async def test_the_question_left_alone_is_streamed_once(saver):
    inner = two_parallel(None, [], "ab")
    graph = (
        StateGraph(S)
        .add_node("sub", inner)
        .add_node("other", one)
        .add_edge(START, "sub")
        .add_edge(START, "other")
        .compile(checkpointer=saver)
    )
    first = await graph.ainvoke({}, cfg())
    ids = {q.value: q.id for q in first["__interrupt__"]}

    found = await questions(graph, Command(resume={ids["a"]: "A"}), cfg())

    updates = sorted((ns, names) for mode, ns, names in found if mode == "updates")
    assert updates == [((), ["why"]), (("sub",), ["b"])]


async def test_without_subgraphs_the_root_shows_the_question_once(place):
    graph = place(one, SAVERS["slow"]())
    found = []
    async for item in graph.astream({"x": 1}, cfg(), stream_mode="updates"):
        found.extend(item.get("__interrupt__", ()))

    assert [q.value for q in found] == ["why"]


async def test_each_of_several_sends_shows_its_question_once(saver):
    inner = two_parallel(None, [], "ab")
    graph = (
        StateGraph(S)
        .add_node("sub", inner)
        .add_conditional_edges(START, lambda s: [Send("sub", {"x": n}) for n in range(3)], ["sub"])
        .compile(checkpointer=saver)
    )

    found = await questions(graph, {}, cfg())

    updates = [names for mode, _, names in found if mode == "updates"]
    assert sorted(name for names in updates for name in names) == ["a", "a", "a", "b", "b", "b"]
