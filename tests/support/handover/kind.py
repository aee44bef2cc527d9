"""What a thread that changes hands is: a graph, what its first owner does with it, and what its second one does."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from handover.database import Database, Rows
from handover.view import plain

_NAMES = {
    "StateGraph": "graph", "START": "graph", "END": "graph", "add_messages": "graph.message",
    "Send": "types", "Command": "types", "Overwrite": "types", "StateUpdate": "types", "interrupt": "types",
    "InMemorySaver": "checkpoint.memory", "entrypoint": "func", "task": "func",
    "LastValue": "channels", "Topic": "channels", "EphemeralValue": "channels", "BinaryOperatorAggregate": "channels",
    "AnyValue": "channels", "UntrackedValue": "channels", "DeltaChannel": "channels",
    "Pregel": "pregel", "NodeBuilder": "pregel",
}  # fmt: skip


def library(package: str) -> SimpleNamespace:
    """Return the public names that graphs are built with, of `langgraph` or of `langgraph_async`."""
    found = {name: getattr(importlib.import_module(f"{package}.{at}"), name) for name, at in _NAMES.items()}
    return SimpleNamespace(package=package, **found)


class Bodies:
    """Counts which nodes ran, and holds up those that are to be under way when the process dies.

    Attributes:
        ran: Names of the nodes whose body was entered, in order.
        luck: Whether nodes that fail the first time now succeed.
        held: Whether nodes that may be held up are.
        second: Whether this is for the second owner.
    """

    def __init__(self, *, second: bool = False) -> None:
        self.second = second
        self.ran: list[str] = []
        self.luck = False
        self.held = False

    def enter(self, name: str) -> None:
        """Note that a body runs."""
        self.ran.append(name)

    async def wait(self) -> None:
        """Never come back, while bodies are held up."""
        while self.held:
            await asyncio.Event().wait()

    def try_luck(self) -> None:
        """Fail, but not for ever."""
        if not self.luck:
            raise ValueError("bad luck")


@dataclass
class Owner:
    """One library at work on one thread.

    Attributes:
        lg: The library.
        graph: The graph, compiled with a saver of the library on the database.
        bodies: What ran.
        database: Where the thread is.
        thread: Its id.
        results: What the calls gave.
    """

    lg: Any
    graph: Any
    bodies: Bodies
    database: Database
    thread: str
    results: list[Any] = field(default_factory=list)

    @property
    def config(self) -> dict[str, Any]:
        """A config that names the thread."""
        return {"configurable": {"thread_id": self.thread}}

    async def run(self, given: Any, config: Any = None, **call: Any) -> None:
        """Run the graph; what comes back, or which error, is kept in `results`."""
        try:
            self.results.append(plain(await self.graph.ainvoke(given, {**self.config, **(config or {})}, **call)))
        except Exception as exc:
            self.results.append(plain(exc))

    async def questions(self) -> list[str]:
        """Return the ids of the open questions, in the order of their tasks."""
        state = await self.graph.aget_state(self.config)
        return [question.id for task in state.tasks for question in task.interrupts]

    async def past(self, *following: str) -> Any:
        """Return the newest state in the history after which the given nodes came."""
        return await anext(s async for s in self.graph.aget_state_history(self.config) if s.next == following)

    async def cancel(self, given: Any, node: str) -> None:
        """Run until a node's body is entered that waits on `bodies`, and cancel the run."""
        self.bodies.held = True
        run = asyncio.ensure_future(self.graph.ainvoke(given, self.config, durability="sync"))
        while node not in self.bodies.ran:
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        self.bodies.held = False

    async def die(self, given: Any, channels: Sequence[str]) -> None:
        """Run until writes to the given channels are stored, and go on with what the database held at that moment.

        Nodes that wait on `bodies` are under way then. What the dying run stores later is on a thread that nobody
        looks at any more.
        """
        self.bodies.held = True
        run = asyncio.ensure_future(self.graph.ainvoke(given, self.config, durability="sync"))
        while True:
            rows = await self.database.dump(self.thread)
            if _complete(rows, set(channels)):
                break
            if run.done():
                raise AssertionError(f"It ended early: {run.exception() or run.result()}")
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        self.bodies.held = False
        self.thread += "-after"
        await self.database.load(self.thread, rows)


def _complete(rows: Rows, channels: set[str]) -> bool:
    """Tell whether writes to the channels are there, and all checkpoints that have writes."""
    checkpoints = {(row["checkpoint_ns"], row["checkpoint_id"]) for row in rows["checkpoints"]}
    written = {(row["checkpoint_ns"], row["checkpoint_id"]) for row in rows["writes"]}
    return written <= checkpoints and channels <= {row["channel"] for row in rows["writes"]}


Step = Callable[[Owner], Awaitable[None]]
Build = Callable[[Any, Bodies], Callable[[Any], Any]]


@dataclass(frozen=True)
class Kind:
    """One kind of thread.

    Attributes:
        name: What it is called.
        build: From the library and the bodies to a function from the saver to the compiled graph.
        begin: What the first owner does.
        finish: What the second owner does.
        meant: Differences that are meant: pattern of the lines, and why.
        peer_cannot: What the peer cannot do with such a thread, even one of its own; then only what both show of the
            same rows is compared, and the last result with `gives`.
        gives: What the last call gives, where the peer cannot say.
    """

    name: str
    build: Build
    begin: tuple[Step, ...]
    finish: tuple[Step, ...]
    meant: tuple[tuple[str, str], ...] = ()
    peer_cannot: str | None = None
    gives: Any = None


KINDS: dict[str, Kind] = {}


def step(given: Any) -> Step:
    """Return a step that runs the graph on an input; a step stays as it is."""
    if callable(given):
        return given
    return lambda owner: owner.run(given)


def kind(
    *,
    begin: Sequence[Any],
    finish: Sequence[Any],
    meant: Sequence[tuple[str, str]] = (),
    peer_cannot: str | None = None,
    gives: Any = None,
) -> Callable[[Build], Build]:
    """Register a kind that is named after the function that builds its graph."""

    def register(build: Build) -> Build:
        steps = tuple(map(step, begin)), tuple(map(step, finish))
        KINDS[build.__name__] = Kind(build.__name__, build, *steps, tuple(meant), peer_cannot, gives)
        return build

    return register


def answers(*values: Any, **call: Any) -> Step:
    """Return a step that answers the one open question, again and again."""

    async def give(owner: Owner) -> None:
        for value in values:
            await owner.run(owner.lg.Command(resume=value), **call)

    return give


def answers_by_id(**values: Any) -> Step:
    """Return a step that answers several open questions at once: ``q0`` is the first one."""

    async def give(owner: Owner) -> None:
        ids = await owner.questions()
        await owner.run(owner.lg.Command(resume={ids[int(key[1:])]: value for key, value in values.items()}))

    return give


def runs(given: Any, **call: Any) -> Step:
    """Return a step that runs the graph with arguments."""
    return lambda owner: owner.run(given, **call)


async def luck(owner: Owner) -> None:
    """From now on what failed works."""
    owner.bodies.luck = True
