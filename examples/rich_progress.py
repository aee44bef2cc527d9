"""Shows the progress of a fan-out as a bar in the terminal, while the run goes on.

    python examples/rich_progress.py [number of files]

Draws with rich where it is installed, and prints plain lines where it is not.
"""

from __future__ import annotations

import asyncio
import operator
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Protocol

from typing_extensions import TypedDict

from langgraph_async import START, Send, StateGraph
from langgraph_async.types import StreamWriter


class State(TypedDict):
    names: list[str]
    sizes: Annotated[list[int], operator.add]


class Packet(TypedDict):
    name: str


def each(state: State) -> list[Send]:
    return [Send("fetch", {"name": name}) for name in state["names"]]


async def fetch(packet: Packet, writer: StreamWriter) -> dict[str, Any]:
    """Stand in for a download in four parts; the writer tells each."""
    parts = 4
    for part in range(1, parts + 1):
        await asyncio.sleep(0.01)
        writer({"name": packet["name"], "done": part, "of": parts})
    return {"sizes": [len(packet["name"]) * 100]}


class Bars(Protocol):
    def show(self, name: str, done: int, of: int) -> None: ...


class PlainBars:
    def show(self, name: str, done: int, of: int) -> None:
        if done == of:
            print(f"{name}: done")


class RichBars:
    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._tasks: dict[str, Any] = {}

    def show(self, name: str, done: int, of: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=of)
        self._progress.update(self._tasks[name], completed=done)


@contextmanager
def bars() -> Iterator[Bars]:
    try:
        from rich.progress import Progress  # noqa: PLC0415 - it may not be installed
    except ImportError:
        yield PlainBars()
        return
    with Progress() as progress:
        yield RichBars(progress)


async def main(count: int) -> None:
    builder = StateGraph(State)
    builder.add_node("fetch", fetch)
    builder.add_conditional_edges(START, each, ["fetch"])
    graph = builder.compile()

    names = [f"file-{number:02}.txt" for number in range(count)]
    total = 0
    with bars() as shown:
        # "custom" is what nodes write while they run; "values" is the state after each step.
        async for mode, part in graph.astream({"names": names, "sizes": []}, stream_mode=["custom", "values"]):
            if mode == "custom":
                shown.show(**part)
            else:
                total = sum(part["sizes"])
    print(f"{count} files, {total} bytes")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8))
