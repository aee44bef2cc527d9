"""A process that runs a graph on a thread that others want, too.

    python contender.py <database> <file> <run> [strategy]

Says ``ready``; takes a line; runs. The node adds a line to the file, says ``running``, takes a line, and ends. At the
end it says ``done`` or the name of the error. `run` is ``answer``, ``exit`` or ``input``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated, Any, TypedDict

from langgraph_async import START, Command, StateGraph, interrupt
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver


class State(TypedDict, total=False):
    log: Annotated[list, lambda a, b: a + b]
    asks: bool


def say(text: str) -> None:
    print(text, flush=True)


def saver_for(place: str) -> Any:
    if place.startswith("postgresql:"):
        return AsyncPostgresSaver.from_conn_string(place, max_size=2)
    return AsyncSqliteSaver.from_conn_string(place)


def graph_for(saver: Any, file: str) -> Any:
    async def node(state: State) -> State:
        answer = interrupt("?") if state["asks"] else "none"
        with open(file, "a") as lines:
            lines.write(f"{os.getpid()}\n")
        say("running")
        await asyncio.to_thread(sys.stdin.readline)
        return {"log": [answer]}

    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)


async def main(place: str, file: str, run: str, strategy: str = "reject") -> None:
    async with saver_for(place) as saver:
        graph = graph_for(saver, file)
        config: Any = {"configurable": {"thread_id": "t"}, "multitask_strategy": strategy}
        say("ready")
        await asyncio.to_thread(sys.stdin.readline)
        value: Any = Command(resume="yes") if run == "answer" else {"asks": False}
        try:
            await graph.ainvoke(value, config, durability="exit" if run == "exit" else "async")
        except Exception as exc:
            say(type(exc).__name__)
        else:
            say("done")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
