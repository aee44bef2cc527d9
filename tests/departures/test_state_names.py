"""Nothing that is written or sent to a name gets lost: departure S1."""

import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from drawings import State, chain, logs, says
from threads import on, stored
from typing_extensions import TypedDict

from langgraph_async import START, Command, Send, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import InvalidUpdateError

DURABILITIES = ["sync", "async", "exit"]


@dataclass
class Stray:
    x: int = 1
    stray: int = 2


async def yields_stray(state):
    yield {"x": 1}
    yield {"stray": 1}


def sync_yields_stray(state):
    yield {"stray": 1}


def sync_stray(state):
    return {"stray": 1}


# -- S1: nothing that is written or sent anywhere gets lost ---------------------------------------------------


STRAYS = {
    "dict": says({"x": 1, "stray": 1}),
    "command": says(Command(update={"stray": 1})),
    "pairs": says(Command(update=[("stray", 1)])),
    "object": says(Stray()),
    "command_object": says(Command(update=Stray())),
    "list_of_commands": says([Command(update={"x": 1}), {"stray": 1}]),
    "async_generator": yields_stray,
    "generator": sync_yields_stray,
    "sync": sync_stray,
}


@pytest.mark.parametrize("kind", STRAYS)
@pytest.mark.parametrize("durability", DURABILITIES)
async def test_an_undeclared_key_is_refused_and_the_thread_stays_usable(kind, durability):
    saver = InMemorySaver()
    graph = chain(saver=saver, first=logs("first"), bad=STRAYS[kind])

    with pytest.raises(InvalidUpdateError, match="'bad'.*'stray'"):
        await graph.ainvoke({"log": ["in"]}, on(), durability=durability)

    kept = await stored(graph, on())
    assert kept.values == {"log": ["in", "first"]}
    assert kept.next == ("bad",)
    mended = chain(saver=saver, first=logs("first"), bad=logs("bad"))
    assert await mended.ainvoke(None, on()) == {"log": ["in", "first", "bad"]}
    assert await mended.ainvoke({"log": ["again"]}, on()) == {"log": ["in", "first", "bad", "again", "first", "bad"]}


@pytest.mark.parametrize("kind", STRAYS)
async def test_an_undeclared_key_from_a_send_is_refused(kind):
    builder = StateGraph(State)
    builder.add_node("bad", STRAYS[kind])
    builder.add_conditional_edges(START, lambda state: [Send("bad", 1), Send("bad", 2)])

    with pytest.raises(InvalidUpdateError, match="'bad'.*'stray'"):
        await builder.compile().ainvoke({})


GOALS: dict[str, Any] = {
    "goto": says(Command(goto="nowhere")),
    "goto_list": says(Command(goto=["b", "nowhere"])),
    "goto_send": says(Command(goto=Send("nowhere", 1))),
    "goto_sends": says(Command(goto=[Send("b", {}), Send("nowhere", 1)])),
    "send": says(Send("nowhere", 1)),
    "command_list": says([Command(goto="b"), Command(goto="nowhere")]),
}


@pytest.mark.parametrize("kind", GOALS)
@pytest.mark.parametrize("durability", DURABILITIES)
async def test_an_unknown_target_is_refused_and_nothing_of_the_step_is_applied(kind, durability):
    def drawn(action):
        builder = StateGraph(State)
        builder.add_node("a", action)
        builder.add_node("b", logs("b"))
        builder.add_node("z", logs("z"))
        builder.add_edge(START, "a")
        builder.add_edge(START, "z")
        return builder.compile(checkpointer=saver)

    saver = InMemorySaver()

    with pytest.raises(InvalidUpdateError, match="'a'.*'nowhere'"):
        await drawn(GOALS[kind]).ainvoke({"log": ["in"]}, on(), durability=durability)

    kept = await stored(drawn(GOALS[kind]), on())
    assert kept.values == {"log": ["in"]}
    assert "a" in kept.next
    assert (await drawn(logs("a")).ainvoke(None, on()))["log"] == ["in", "a", "z"]


ROUTES: dict[str, Any] = {
    "name": lambda state: "nowhere",
    "names": lambda state: ["b", "nowhere"],
    "send": lambda state: Send("nowhere", 1),
    "sends": lambda state: [Send("b", {}), Send("nowhere", 1)],
}


@pytest.mark.parametrize("kind", ROUTES)
@pytest.mark.parametrize("source", [START, "a"])
async def test_an_unknown_target_of_a_router_is_refused(kind, source):
    builder = StateGraph(State)
    builder.add_node("a", logs("a"))
    builder.add_node("b", logs("b"))
    builder.add_edge(START, "a")
    builder.add_conditional_edges(source, ROUTES[kind])
    graph = builder.compile(checkpointer=InMemorySaver())

    with pytest.raises(InvalidUpdateError, match=f"'{source}'.*'nowhere'"):
        await graph.ainvoke({"log": ["in"]}, on())

    assert (await stored(graph, on())).next == (source,)


@pytest.mark.parametrize(
    "command",
    [
        Command(update={"stray": 1}),
        Command(goto="nowhere"),
        Command(goto=Send("nowhere", 1)),
        Command(update={"log": ["lost"]}, goto=["a", "nowhere"]),
    ],
)
async def test_a_command_as_input_is_refused_before_anything_is_stored(command):
    graph = chain(saver=InMemorySaver(), a=logs("a"))
    await graph.ainvoke({"log": ["in"]}, on())
    before = await stored(graph, on())

    with pytest.raises(InvalidUpdateError, match=r"stray|nowhere"):
        await graph.ainvoke(command, on())
    with pytest.raises(InvalidUpdateError, match=r"stray|nowhere"):
        await graph.ainvoke(command, on("fresh"))

    assert await stored(graph, on()) == before
    assert (await stored(graph, on("fresh"))).checkpoints == 0


@pytest.mark.parametrize(
    "command", [Command(graph=Command.PARENT, update={"stray": 1}), Command(graph=Command.PARENT, goto="nowhere")]
)
async def test_a_command_for_the_parent_is_held_to_the_parents_names(command):
    inner = chain(inside=says(command))
    outer = chain(saver=InMemorySaver(), sub=inner)

    with pytest.raises(InvalidUpdateError, match=r"'sub'.*'(stray|nowhere)'"):
        await outer.ainvoke({"log": ["in"]}, on())

    assert (await stored(outer, on())).next == ("sub",)


class Inner(TypedDict, total=False):
    log: Annotated[list, operator.add]
    private: str


def inner_graph() -> Any:
    return chain(Inner, inside=says({"log": ["inside"], "private": "p"}))


async def test_a_subgraph_takes_the_keys_it_shares_with_its_parent_and_gives_back_those():
    outer = chain(sub=inner_graph())

    assert (await outer.ainvoke({"log": [], "x": 1}))["x"] == 1


async def test_a_node_may_hand_its_state_to_a_graph_and_return_what_that_returns():
    inner = inner_graph()

    async def call(state):
        return await inner.ainvoke({**state, "log": []})

    assert await chain(node=call).ainvoke({"log": ["in"], "x": 1}) == {"log": ["in", "inside"], "x": 1}


async def test_a_stray_key_is_refused_beside_the_keys_of_a_subgraph():
    inner = inner_graph()

    async def call(state):
        return {**await inner.ainvoke({"log": []}), "stray": 1}

    with pytest.raises(InvalidUpdateError, match="'node'.*'stray'"):
        await chain(node=call).ainvoke({})


async def test_a_key_of_another_schema_of_the_graph_is_fine():
    class Private(TypedDict):
        secret: str

    async def reads(state: Private):
        return {"log": [state["secret"]]}

    builder = StateGraph(State)
    builder.add_node("a", says({"secret": "s"}))
    builder.add_node("b", reads)
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")

    assert await builder.compile().ainvoke({"log": []}) == {"log": ["s"]}
