"""A run that is cancelled at any turn of the event loop leaves nothing behind but what was committed."""

import asyncio
import gc
import operator
from typing import Annotated, Any

import anyio
import pytest
from faulty_saver import SlowSaver
from threads import on, stored
from typing_extensions import TypedDict

from langgraph_async import START, Send, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver

DURABILITIES = ["sync", "async", "exit"]


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]


class World:
    """A graph of all kinds of nodes, and what became of them."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.started: list[str] = []
        self.ended: list[str] = []
        self.done: list[str] = []
        self.graph = self._graph()

    def node(self, name: str) -> Any:
        async def node(state, writer):
            self.started.append(name)
            try:
                writer(name)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                self.done.append(name)
                return {"log": [name]}
            finally:
                try:
                    await asyncio.sleep(0)
                finally:
                    self.ended.append(name)

        return node

    def generator(self, name: str) -> Any:
        async def node(state, writer):
            self.started.append(name)
            try:
                yield {"log": [name + "1"]}
                await asyncio.sleep(0)
                writer(name)
                self.done.append(name)
                yield {"log": [name + "2"]}
            finally:
                try:
                    await asyncio.sleep(0)
                finally:
                    self.ended.append(name)

        return node

    def sync(self, name: str) -> Any:
        def node(state):
            self.started.append(name)
            try:
                self.done.append(name)
                return {"log": [name]}
            finally:
                self.ended.append(name)

        return node

    def _graph(self) -> Any:
        inner = StateGraph(State)
        inner.add_node("in1", self.node("in1"))
        inner.add_node("in2", self.node("in2"))
        inner.add_node("in3", self.node("in3"))
        inner.add_edge(START, "in1")
        inner.add_edge("in1", "in2")
        inner.add_edge("in1", "in3")
        sub = inner.compile()

        async def subs(state):
            self.started.append("subs")
            try:
                await sub.ainvoke({"log": []})
                self.done.append("subs")
                return {"log": ["subs"]}
            finally:
                self.ended.append("subs")

        async def send(arg):
            return await self.node(f"send{arg}")(arg, lambda chunk: None)

        builder = StateGraph(State)
        builder.add_node("first", self.node("first"))
        builder.add_node("gen", self.generator("gen"))
        builder.add_node("sync", self.sync("sync"))
        builder.add_node("subs", subs)
        builder.add_node("send", send)
        builder.add_edge(START, "first")
        for name in ("gen", "sync", "subs"):
            builder.add_edge("first", name)
        builder.add_conditional_edges("gen", lambda state: [Send("send", n) for n in range(3)])
        return builder.compile(checkpointer=self.saver)

    async def check_quiet(self) -> None:
        assert len(asyncio.all_tasks()) == 1, asyncio.all_tasks()
        assert sorted(self.started) == sorted(self.ended)
        assert not self.saver.leases

    async def check_goes_on(self, durability: str) -> None:
        kept = await stored(self.graph, on(), self.saver)
        finished = {name for name in self.done if kept.checkpoints and not name.startswith((*kept.next, "in"))}
        out = await self.graph.ainvoke(None if kept.checkpoints else {"log": []}, on(), durability=durability)

        assert out["log"] == EXPECTED
        assert [name for name in self.done if name in finished and self.done.count(name) > 1] == []


EXPECTED = ["first", "gen1", "gen2", "subs", "sync", "send0", "send1", "send2"]


def make(kind: str) -> Any:
    return InMemorySaver() if kind == "memory" else SlowSaver(turns=1, grouped=kind == "slow")


async def cancel_task(world: World, turn: int, durability: str) -> bool:
    run = asyncio.create_task(world.graph.ainvoke({"log": []}, on(), durability=durability))
    for _ in range(turn):
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.wait([run])
    return run.cancelled()


async def cancel_scope(world: World, turn: int, durability: str) -> bool:
    with anyio.CancelScope() as scope:

        async def cancel():
            for _ in range(turn):
                await asyncio.sleep(0)
            scope.cancel()

        cancelling = asyncio.create_task(cancel())
        await world.graph.ainvoke({"log": []}, on(), durability=durability)
    await cancelling
    return scope.cancelled_caught


async def close_stream(world: World, turn: int, durability: str) -> bool:
    stream = world.graph.astream({"log": []}, on(), stream_mode=["custom", "updates"], durability=durability)
    reading = asyncio.create_task(_read(stream))
    for _ in range(turn):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    await stream.aclose()
    return reading.cancelled()


async def leave_stream(world: World, turn: int, durability: str) -> bool:
    """Close after so many items; turns between items are spent with the reader away."""
    stream = world.graph.astream({"log": []}, on(), stream_mode=["custom", "updates"], durability=durability)
    for number in range(turn // 2):
        if await anext(stream, None) is None:
            return False
        if number % 2:
            await asyncio.sleep(0)
    await stream.aclose()
    return True


async def drop_stream(world: World, turn: int, durability: str) -> bool:
    stream = world.graph.astream({"log": []}, on(), stream_mode=["custom", "updates"], durability=durability)
    for _ in range(turn // 2):
        if await anext(stream, None) is None:
            return False
    del stream
    gc.collect()
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > 1 or world.saver.leases:
            await asyncio.sleep(0)
    return True


async def _read(stream: Any) -> None:
    async for _ in stream:
        await asyncio.sleep(0)


WAYS = {
    "task": cancel_task,
    "anyio": cancel_scope,
    "reader": close_stream,
    "aclose": leave_stream,
    "drop": drop_stream,
}


async def cancel_at_turns(kind: str, durability: str, way: str, *, stride: int, start: int) -> None:
    turn, cut = start, True
    while cut:
        assert turn < 3_000
        world = World(make(kind))
        cut = await WAYS[way](world, turn, durability)
        await world.check_quiet()
        await world.check_goes_on(durability)
        await world.check_quiet()
        turn += stride
    assert turn > 5


@pytest.mark.parametrize("kind", ["memory", "slow", "single"])
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("way", WAYS)
async def test_a_run_cancelled_at_some_turns_leaves_nothing_behind_and_can_go_on(kind, durability, way):
    start = (3 * list(WAYS).index(way) + DURABILITIES.index(durability)) % 7
    await cancel_at_turns(kind, durability, way, stride=13, start=start)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "slow", "single"])
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("way", WAYS)
async def test_a_run_cancelled_at_any_turn_leaves_nothing_behind_and_can_go_on(kind, durability, way):
    await cancel_at_turns(kind, durability, way, stride=1, start=0)
