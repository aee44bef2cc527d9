"""A graph with nodes of all kinds, to be cancelled anywhere."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any

from threads import on, stored
from typing_extensions import TypedDict

import langgraph_async
from langgraph_async import START, Send, StateGraph
from langgraph_async.aio.clock import FakeClock
from langgraph_async.constants import ERROR_HANDLER_PREFIX
from langgraph_async.func import task
from langgraph_async.types import RetryPolicy

_PACKAGE = str(Path(langgraph_async.__file__).parent)


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]


class _Eager(FakeClock):
    """Every wait is over after one turn of the loop."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)


class World:
    """A graph of all kinds of nodes, and what became of them."""

    def __init__(self, saver: Any, thread: str = "t") -> None:
        self.saver = saver
        self.on = on(thread)
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

    def failing(self, name: str) -> Any:
        """A node that is tried twice, fails both times, and is taken over by a handler."""

        async def node(state):
            self.started.append(name)
            try:
                await asyncio.sleep(0)
                raise ConnectionError(name)
            finally:
                try:
                    await asyncio.sleep(0)
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

        @task
        async def called(name):
            return await self.node(name)({}, lambda chunk: None)

        async def calls(state):
            self.started.append("calls")
            try:
                await asyncio.gather(called("call1"), called("call2"))
                self.done.append("calls")
                return {"log": ["calls"]}
            finally:
                self.ended.append("calls")

        builder = StateGraph(State)
        builder.add_node("first", self.node("first"))
        builder.add_node("gen", self.generator("gen"))
        builder.add_node("sync", self.sync("sync"))
        builder.add_node("subs", subs)
        builder.add_node("send", send)
        builder.add_node("calls", calls)
        builder.add_node("timed", self.node("timed"), timeout=50)
        builder.add_node(
            "tried",
            self.failing("tried"),
            retry_policy=RetryPolicy(initial_interval=0.001, max_attempts=2, jitter=False),
            error_handler=self.node("tried_rescued"),
        )
        builder.add_edge(START, "first")
        for name in ("gen", "sync", "subs", "tried", "calls", "timed"):
            builder.add_edge("first", name)
        builder.add_conditional_edges("gen", lambda state: [Send("send", n) for n in range(3)])
        graph = builder.compile(checkpointer=self.saver)
        graph.clock = _Eager()
        return graph

    async def check_quiet(self) -> None:
        # What a database was asked for is its saver's, which may still be at it.
        lanes = [task for task in asyncio.all_tasks() if task.get_name().startswith("langgraph_async_")]
        if lanes:
            await asyncio.wait(lanes, timeout=30)
        assert len(asyncio.all_tasks()) == 1, asyncio.all_tasks()
        assert sorted(self.started) == sorted(self.ended)
        assert not self.saver.leases
        left = [each for each in asyncio.get_running_loop()._asyncgens if each.ag_running or each.ag_frame]
        # The test's own database is a generator, too: a fixture.
        assert [each for each in left if each.ag_code.co_filename.startswith((_PACKAGE, __file__))] == []

    async def check_goes_on(self, durability: str) -> None:
        kept = await stored(self.graph, self.on, self.saver)
        shown = (await self.graph.aget_state(self.on)).next
        # A handler that has not finished is shown under its own name, and its node as finished.
        still = (*kept.next, *(name.removeprefix(ERROR_HANDLER_PREFIX) for name in shown), "in", "call1", "call2")
        finished = {name for name in self.done if kept.checkpoints and not name.startswith(still)}
        out = await self.graph.ainvoke(None if kept.checkpoints else {"log": []}, self.on, durability=durability)

        assert out["log"] == EXPECTED
        assert [name for name in self.done if name in finished and self.done.count(name) > 1] == []


EXPECTED = ["first", "calls", "gen1", "gen2", "subs", "sync", "timed", "tried_rescued", "send0", "send1", "send2"]
