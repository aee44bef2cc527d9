"""LangGraph goes on with our SQLite database, and we with its.

Runs only where ``LANGGRAPH_ASYNC_PEER_PYTHON`` names a Python that has LangGraph's SQLite saver installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PEER = os.environ.get("LANGGRAPH_ASYNC_PEER_PYTHON", "")
pytestmark = pytest.mark.skipif(not PEER, reason="LANGGRAPH_ASYNC_PEER_PYTHON is not set")
ROOT = Path(__file__).parents[2]

CODE = """
import asyncio, json, operator, sys
from typing import Annotated, TypedDict
from {package}.checkpoint.sqlite.aio import AsyncSqliteSaver
from {package}.graph import StateGraph
from {package}.types import Command, interrupt

class State(TypedDict):
    log: Annotated[list, operator.add]

async def first(state):
    return {{"log": ["first"]}}

async def ask(state):
    return {{"log": [interrupt("name?")]}}

async def last(state):
    return {{"log": ["last"]}}

async def main(path, action, value):
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        builder = StateGraph(State).add_node("first", first).add_node("ask", ask).add_node("last", last)
        builder.add_edge("__start__", "first").add_edge("first", "ask").add_edge("ask", "last")
        graph = builder.compile(checkpointer=saver)
        config = {{"configurable": {{"thread_id": "1"}}}}
        if action == "start":
            await graph.ainvoke({{"log": [value]}}, config)
        elif action == "answer":
            await graph.ainvoke(Command(resume=value), config)
        state = await graph.aget_state(config)
        history = [s.metadata["step"] async for s in graph.aget_state_history(config)]
        asked = [i.value for t in state.tasks for i in t.interrupts]
        print(json.dumps([state.values["log"], list(state.next), asked, history]))

asyncio.run(main(*sys.argv[1:]))
"""


def _run(who: str, path: Path, action: str, value: str = "") -> object:
    python, package = (PEER, "langgraph") if who == "peer" else (sys.executable, "langgraph_async")
    done = subprocess.run(
        [python, "-c", CODE.format(package=package), str(path), action, value],
        cwd=ROOT if who == "ours" else path.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("order", [("ours", "peer"), ("peer", "ours")])
def test_the_other_goes_on_with_a_paused_thread(tmp_path: Path, order: tuple[str, str]) -> None:
    path = tmp_path / "a.db"
    one, other = order
    paused = [["in", "first"], ["ask"], ["name?"], [1, 0, -1]]

    assert _run(one, path, "start", "in") == paused
    assert _run(other, path, "look") == paused
    finished = [["in", "first", "Ann", "last"], [], [], [3, 2, 1, 0, -1]]
    assert _run(other, path, "answer", "Ann") == finished
    assert _run(one, path, "look") == finished
    again = [[*finished[0], "more", "first"], ["ask"], ["name?"], [6, 5, 4, 3, 2, 1, 0, -1]]
    assert _run(one, path, "start", "more") == again
    assert _run(other, path, "look") == again
