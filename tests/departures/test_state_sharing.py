"""Nobody shares a live container, generators write at each yield, memory is kept apart: departures S6, S7 and S9."""

import asyncio
import operator
from typing import Annotated, Any

import pytest
from drawings import State, chain, logs, says
from threads import on, stored
from typing_extensions import TypedDict

from langgraph_async import START, Command, Overwrite, Send, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver

DURABILITIES = ["sync", "async", "exit"]


# -- S6: nobody shares a live container ----------------------------------------------------------------------


class Containers(TypedDict, total=False):
    items: list
    table: dict
    bag: set
    out: Annotated[list, operator.add]


def spoils(state):
    for key, change in (
        ("items", lambda v: v.append(9)),
        ("table", lambda v: v.update(z=9)),
        ("bag", lambda v: v.add(9)),
    ):
        if key in state:
            change(state[key])


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("sync", [False, True])
async def test_what_a_node_does_to_its_input_in_place_reaches_nobody(saved, sync):
    async def bad(state):
        spoils(state)

    def bad_sync(state):
        spoils(state)

    async def reads(state):
        await asyncio.sleep(0)
        return {"out": [[list(state["items"]), dict(state["table"]), set(state["bag"])]]}

    builder = StateGraph(Containers)
    builder.add_node("bad", bad_sync if sync else bad)
    builder.add_node("sibling", reads)
    builder.add_node("next", reads)
    builder.add_edge(START, "bad")
    builder.add_edge(START, "sibling")
    builder.add_edge("bad", "next")
    graph = builder.compile(checkpointer=InMemorySaver() if saved else None)
    given = {"items": [1], "table": {"a": 1}, "bag": {1}, "out": []}

    result = await graph.ainvoke(given, on())

    assert given == {"items": [1], "table": {"a": 1}, "bag": {1}, "out": []}
    assert result["out"] == [[[1], {"a": 1}, {1}]] * 2
    assert (result["items"], result["table"], result["bag"]) == ([1], {"a": 1}, {1})


async def test_parallel_sends_of_one_object_do_not_share_it():
    shared = {"items": [1]}

    async def worker(arg):
        spoils(arg)
        await asyncio.sleep(0)
        return {"out": [arg["items"]]}

    builder = StateGraph(Containers)
    builder.add_node("worker", worker)
    builder.add_conditional_edges(
        START, lambda state: [Send("worker", shared), Send("worker", {"items": shared["items"]})]
    )

    out = await builder.compile().ainvoke({"out": []})

    assert shared == {"items": [1]}
    assert out["out"] == [[1, 9], [1, 9]]


async def test_a_list_that_a_node_keeps_and_changes_later_is_not_the_state():
    kept = [1]

    async def keeps(state):
        return {"items": kept}

    async def changes(state):
        kept.append(2)

    assert (await chain(Containers, a=keeps, b=changes, c=says({})).ainvoke({}))["items"] == [1]


async def test_a_callers_list_that_changes_during_the_run_is_not_the_state():
    given = {"items": [1]}

    async def changes(state):
        given["items"].append(2)

    assert (await chain(Containers, a=changes, b=says({})).ainvoke(given))["items"] == [1]


@pytest.mark.parametrize("mode", ["values", "updates", "tasks", "debug", "checkpoints"])
async def test_what_a_reader_does_to_a_streamed_item_does_not_reach_the_run(mode):
    def spoil(value):
        if isinstance(value, dict):
            for item in list(value.values()):
                spoil(item)
            spoils(value)

    async def reads(state):
        return {"out": [list(state["items"])]}

    graph = chain(Containers, InMemorySaver(), a=says({"items": [1]}), b=reads, c=reads)
    async for item in graph.astream({"out": []}, on(), stream_mode=mode):
        spoil(item)

    assert (await stored(graph, on())).values["out"] == [[1], [1]]


async def test_a_reducer_that_works_in_place_does_not_change_what_the_caller_or_a_node_holds():
    def extend(a, b):
        a.extend(b)
        return a

    class InPlace(TypedDict, total=False):
        items: Annotated[list, extend]

    given, held = [0], [1]
    graph = chain(InPlace, a=says({"items": held}), b=says({"items": held}))

    assert (await graph.ainvoke({"items": given}))["items"] == [0, 1, 1]
    assert (given, held) == ([0], [1])


# -- S7: generator nodes -------------------------------------------------------------------------------------


async def agen(state):
    yield {"log": ["1"], "x": 1}
    yield None
    yield {"log": ["2"]}
    yield Command(update={"log": ["3"], "x": 3}, goto="last")


def gen(state):
    yield {"log": ["1"], "x": 1}
    yield None
    yield {"log": ["2"]}
    yield Command(update={"log": ["3"], "x": 3}, goto="last")


@pytest.mark.parametrize("node", [agen, gen])
async def test_every_yield_of_a_generator_is_an_update(node):
    builder = StateGraph(State)
    builder.add_node("many", node)
    builder.add_node("last", logs("last"))
    builder.add_edge(START, "many")
    graph = builder.compile(checkpointer=InMemorySaver())

    items = [item async for item in graph.astream({"log": []}, on(), stream_mode="updates")]

    assert items == [
        {"many": {"log": ["1"], "x": 1}},
        {"many": {"log": ["2"]}},
        {"many": {"log": ["3"], "x": 3}},
        {"last": {"log": ["last"]}},
    ]
    assert (await stored(graph, on())).values == {"log": ["1", "2", "3", "last"], "x": 3}


async def test_a_yield_is_streamed_before_the_generator_goes_on():
    go_on = asyncio.Event()

    async def node(state):
        yield {"log": ["1"]}
        await go_on.wait()
        yield {"log": ["2"]}

    stream = chain(node=node).astream({"log": []}, stream_mode="updates")

    assert await anext(stream) == {"node": {"log": ["1"]}}
    go_on.set()
    assert [item async for item in stream] == [{"node": {"log": ["2"]}}]


async def test_yields_of_a_generator_that_fails_are_not_applied():
    async def node(state):
        yield {"log": ["1"]}
        raise ConnectionError

    graph = chain(saver=InMemorySaver(), node=node)
    with pytest.raises(ConnectionError):
        await graph.ainvoke({"log": ["in"]}, on())

    kept = await stored(graph, on())
    assert kept.values == {"log": ["in"]}
    assert kept.next == ("node",)


async def test_a_generator_that_yields_nothing_is_a_node_that_returns_none():
    async def node(state):
        for item in ():
            yield item

    assert await chain(node=node, after=logs("after")).ainvoke({"log": []}) == {"log": ["after"]}


async def test_a_generator_that_is_a_method_of_an_object_works_alike():
    class Node:
        async def __call__(self, state):
            yield {"log": ["1"]}
            yield {"log": ["2"]}

        async def method(self, state):
            yield {"log": ["3"]}

    assert await chain(a=Node(), b=Node().method).ainvoke({"log": []}) == {"log": ["1", "2", "3"]}


# -- S9: memory of parallel instances -------------------------------------------------------------------------


def remembering() -> Any:
    class Memory(TypedDict, total=False):
        item: str
        seen: Annotated[list, operator.add]

    async def remember(state):
        await asyncio.sleep(0)
        return {"seen": [state["item"]]}

    builder = StateGraph(Memory)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    return builder.compile(checkpointer=True)


def fanned(saver: Any) -> Any:
    memory = remembering()

    async def worker(arg):
        return {"log": [(await memory.ainvoke({"item": arg}))["seen"]]}

    builder = StateGraph(State)
    builder.add_node("worker", worker)
    builder.add_conditional_edges(START, lambda state: [Send("worker", item) for item in state["x"]])
    return builder.compile(checkpointer=saver)


async def test_parallel_sends_to_a_graph_with_memory_keep_their_histories_apart():
    graph = fanned(InMemorySaver())

    for turn in "123":
        out = await graph.ainvoke({"log": Overwrite([]), "x": [f"a{turn}", f"b{turn}", f"c{turn}"]}, on())

    assert out["log"] == [["a1", "a2", "a3"], ["b1", "b2", "b3"], ["c1", "c2", "c3"]]


async def test_parallel_sends_straight_to_a_graph_with_memory_keep_their_histories_apart():
    class Outer(TypedDict, total=False):
        seen: Annotated[list, lambda a, b: [*a, b]]
        x: list

    builder = StateGraph(Outer)
    builder.add_node("memory", remembering())
    builder.add_conditional_edges(START, lambda state: [Send("memory", {"item": item}) for item in state["x"]])
    graph = builder.compile(checkpointer=InMemorySaver())

    await graph.ainvoke({"seen": Overwrite([]), "x": ["a1", "b1"]}, on())
    out = await graph.ainvoke({"seen": Overwrite([]), "x": ["a2", "b2"]}, on())

    assert out["seen"] == [["a1", "a2"], ["b1", "b2"]]
