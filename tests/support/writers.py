"""Graphs for many runs on one thread."""

from __future__ import annotations

import asyncio

from places import S, cfg, flat

from langgraph_async import START, StateGraph

WRITERS = 20


async def append(state):
    await asyncio.sleep(0)
    return {"log": [state["x"]]}


def appending(saver):
    return flat(append, saver)


async def settled(*runs):
    """Return what the runs come to, successes and errors apart."""
    found = await asyncio.gather(*runs, return_exceptions=True)
    errors = [f for f in found if isinstance(f, BaseException)]
    return [f for f in found if not isinstance(f, BaseException)], errors


async def log_of(graph, thread="t"):
    return (await graph.aget_state(cfg(thread))).values.get("log", [])


def assert_free(saver):
    assert saver.leases == {}


class Held:
    """A graph whose first run waits inside its node."""

    def __init__(self, saver, *, ending=None):
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.ran: list = []
        self._ending = ending

        async def before(state):
            return {"log": [f"before {state['x']}"]}

        async def node(state):
            self.ran.append(state["x"])
            if len(self.ran) == 1:
                self.entered.set()
                try:
                    await self.go.wait()
                finally:
                    if self._ending is not None:
                        self._ending()
            return {"log": [state["x"]]}

        self.graph = (
            StateGraph(S)
            .add_node("before", before)
            .add_node("node", node)
            .add_edge(START, "before")
            .add_edge("before", "node")
            .compile(checkpointer=saver)
        )

    async def start(self, **more):
        task = asyncio.create_task(self.graph.ainvoke({"x": "first"}, cfg(), **more))
        await self.entered.wait()
        return task
