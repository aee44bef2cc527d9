"""A superstep whose results are all stored, but not the checkpoint that follows: the process ended in between."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from faulty_saver import FaultySaver, SaverFailed
from threads import on
from typing_extensions import TypedDict

from langgraph_async import START, Command, Send, StateGraph
from langgraph_async.channels.delta import DeltaChannel


class Chat(TypedDict, total=False):
    log: Annotated[list, operator.add]
    deltas: Annotated[list, DeltaChannel(lambda value, writes: [*value, *(x for w in writes for x in w)])]


def both(*items: str) -> dict[str, Any]:
    return {"log": list(items), "deltas": list(items)}


def broken(left: list, right: list) -> list:
    if right == ["a"]:
        raise ValueError("no")
    return left + right


class Strict(TypedDict, total=False):
    log: Annotated[list, broken]


class World:
    """Nodes in a chain, the last superstep of which is left open."""

    def __init__(self, *names: str, at: int) -> None:
        self.ran: list[str] = []
        self.saver = FaultySaver("aput", at, grouped=False)
        builder = StateGraph(Chat)
        for before, name in zip((START, *names), names, strict=False):
            builder.add_node(name, self.node(name))
            builder.add_edge(before, name)
        self.graph = builder.compile(checkpointer=self.saver)

    def node(self, name: str) -> Any:
        async def run(state):
            self.ran.append(name)
            return both(name)

        return run

    async def leave_open(self) -> None:
        with pytest.raises(SaverFailed):
            await self.graph.ainvoke(both("hi"), on(), durability="sync")


async def test_what_follows_a_superstep_that_is_not_closed_is_shown_as_next():
    world = World("a", "b", at=2)
    await world.leave_open()
    state = await world.graph.aget_state(on())

    assert world.ran == ["a"]
    assert state.values == both("hi", "a")
    assert state.next == ("b",)
    assert await world.graph.ainvoke(None, on()) == both("hi", "a", "b")
    assert world.ran == ["a", "b"]


async def test_an_input_whose_first_checkpoint_is_missing_is_not_shown_as_finished():
    world = World("a", at=1)
    await world.leave_open()

    assert (await world.graph.aget_state(on())).next == ("a",)
    assert await world.graph.ainvoke(None, on()) == both("hi", "a")


async def test_sends_that_follow_are_shown_as_next():
    async def worker(state):
        return both("w")

    saver = FaultySaver("aput", 2, grouped=False)
    builder = StateGraph(Chat).add_node("a", lambda state: both("a")).add_node("w", worker).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: [Send("w", {}), Send("w", {})], ["w"])
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(SaverFailed):
        await graph.ainvoke(both("hi"), on(), durability="sync")

    assert (await graph.aget_state(on())).next == ("w", "w")
    assert await graph.ainvoke(None, on()) == both("hi", "a", "w", "w")


async def test_a_new_input_keeps_the_results_of_a_superstep_that_is_not_closed():
    world = World("a", at=2)
    await world.leave_open()
    seen = await world.graph.aget_state(on())
    result = await world.graph.ainvoke(both("more"), on())

    assert (seen.values, seen.next) == (both("hi", "a"), ())
    assert result == both("hi", "a", "more", "a")
    steps = [(s.metadata["source"], s.values) async for s in world.graph.aget_state_history(on())]
    assert steps[3] == ("loop", both("hi", "a"))
    assert [source for source, _ in steps] == ["loop", "loop", "input", "loop", "loop", "input"]


async def test_a_new_input_gives_up_what_would_have_followed():
    world = World("a", "b", at=2)
    await world.leave_open()
    result = await world.graph.ainvoke(both("more"), on())

    assert result == both("hi", "a", "more", "a", "b")


async def test_a_new_input_goes_past_a_superstep_that_cannot_be_applied():
    world = World("a", at=2)
    await world.leave_open()

    async def fixed(state):
        return {"log": ["b"]}

    graph = StateGraph(Strict).add_node("a", fixed).add_edge(START, "a").compile(checkpointer=world.saver)
    assert (await graph.aget_state(on())).next == ("a",)
    assert await graph.ainvoke({"log": ["more"]}, on()) == {"log": ["hi", "more", "b"]}


@pytest.mark.parametrize("as_node", ["a", None])
async def test_an_update_keeps_the_results_of_a_superstep_that_is_not_closed(as_node):
    world = World("a", "b", at=2)
    await world.leave_open()
    await world.graph.aupdate_state(on(), both("edit"), as_node)
    state = await world.graph.aget_state(on())

    assert state.next == ("b",)
    assert state.values == both("hi", "a", "edit")


@pytest.mark.parametrize("at", [0, 1, 2, 3])
@pytest.mark.parametrize("method", ["aput", "aput_writes"])
async def test_a_first_run_that_could_not_be_stored_at_its_end_leaves_a_thread_that_takes_an_input(method, at):
    world = World("a", at=0)
    world.saver = FaultySaver(method, at, grouped=False)
    world.graph.checkpointer = world.saver
    try:
        await world.graph.ainvoke(both("hi"), on(), durability="exit")
    except SaverFailed:
        assert (await world.graph.aget_state(on())).created_at is None
        assert await world.graph.ainvoke(both("hi"), on(), durability="exit") == both("hi", "a")
    assert (await world.graph.aget_state(on())).values == both("hi", "a")


async def test_a_new_input_keeps_an_update_that_was_given_with_a_command():
    world = World("a", "b", at=3)
    await world.graph.ainvoke(both("hi"), on(), durability="sync", interrupt_before=["b"])
    with pytest.raises(SaverFailed):
        await world.graph.ainvoke(Command(update=both("command")), on(), durability="sync")
    world.saver.failed = True
    seen = await world.graph.aget_state(on())
    result = await world.graph.ainvoke(both("more"), on())

    assert seen.values == both("hi", "a", "command", "b")
    assert result == both("hi", "a", "command", "b", "more", "a", "b")


async def test_a_new_input_gives_up_tasks_that_have_not_finished_but_no_update_given_with_a_command():
    fails = [False, True]

    async def b(state):
        if fails and fails.pop():
            raise ConnectionError
        return both("b")

    saver = FaultySaver(grouped=False)
    graph = StateGraph(Chat).add_node("b", b).add_edge(START, "b").compile(checkpointer=saver)
    await graph.ainvoke(both("hi"), on(), interrupt_before=["b"])
    with pytest.raises(ConnectionError):
        await graph.ainvoke(Command(update=both("command")), on())
    seen = await graph.aget_state(on())
    result = await graph.ainvoke(both("more"), on())

    assert (seen.values, seen.next) == (both("hi", "command"), ("b",))
    assert result == both("hi", "command", "more", "b")
