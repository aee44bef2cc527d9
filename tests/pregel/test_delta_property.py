"""A delta channel holds, at every checkpoint of a history, what an ordinary reducer channel would hold there."""

from __future__ import annotations

import asyncio
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from langgraph_async import END, START, Command, Send, StateGraph, interrupt
from langgraph_async.channels import DeltaChannel, LastValue
from langgraph_async.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, DeltaChannelHistory
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.graph.schema import channel_of
from langgraph_async.hints import Field
from langgraph_async.pregel import loop
from langgraph_async.pregel.builder import NodeBuilder
from langgraph_async.pregel.entry import completed
from langgraph_async.pregel.graph import Pregel
from langgraph_async.pregel.step.snapshot import restore
from langgraph_async.pregel.view import read_all
from langgraph_async.types import Overwrite

CONFIG: Any = {"configurable": {"thread_id": "1"}}


def extend(state: list[int], batch: Sequence[list[int]]) -> list[int]:
    if any(-1 in write for write in batch):
        raise ValueError("poison")
    return [*state, *(item for write in batch for item in write)]


def add(state: list[int], write: list[int]) -> list[int]:
    if -1 in write:
        raise ValueError("poison")
    return operator.add(state, write)


class Fused(InMemorySaver):
    """A saver that fails instead of storing a checkpoint when `fuse` saves were made."""

    fuse: int | None = None

    def burn(self, metadata: Any) -> None:
        if self.fuse is not None and metadata is not None and metadata["step"] != -2:
            self.fuse -= 1
            if self.fuse < 0:
                raise OSError("disk full")

    async def acommit(self, config: Any, commit: Any) -> Any:
        self.burn(commit.metadata)
        return await super().acommit(config, commit)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        self.burn(metadata)
        return await super().aput(config, checkpoint, metadata, new_versions)


class PrimitiveSaver(Fused):
    """A saver without grouped commits, whose history is collected by the port's own method."""

    immediate: ClassVar[bool] = False
    can_commit: ClassVar[bool] = False

    async def aget_delta_channel_history(
        self, *, config: Any, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await BaseCheckpointSaver.aget_delta_channel_history(self, config=config, channels=channels)


class PathlessSaver(PrimitiveSaver):
    """A saver from before task paths: writes come back in the order of the task ids."""

    async def aput_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str) -> None:  # type: ignore[override]
        await super().aput_writes(config, writes, task_id)


@dataclass
class World:
    """One graph on one thread; what its nodes do next is set from outside, the same for every world."""

    log_type: Any
    saver: Fused
    kind: str = "state"
    plan: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.graph: Any = self.raw() if self.kind == "raw" else self.build()
        self.specs = {"": self.graph.spec}
        if self.kind != "raw":
            self.specs["sub"] = self.inner.spec

    def raw(self) -> Any:
        async def node(name: str) -> Any:
            todo = self.plan.get(name)
            if todo == "fail":
                raise RuntimeError(name)
            if todo == "ask":
                return interrupt(name)
            if todo == "poison":
                return [-1]
            return Overwrite([100]) if todo == "overwrite" else [ord(name)]

        async def a(value: Any) -> Any:
            return await node("a")

        async def b(value: Any) -> Any:
            return await node("b")

        async def c(value: Any) -> Any:
            return await node("c")

        log, rest = (channel_of(Field(key, self.log_type), "raw") for key in ("log", "rest"))
        return Pregel(
            nodes={
                "a": NodeBuilder().subscribe_only("log").do(a).write_to("rest"),
                "b": NodeBuilder().subscribe_only("rest").do(b).write_to("turn"),
                "c": NodeBuilder().subscribe_to("turn", read=False).read_from("log").do(c).write_to("rest2"),
                "d": NodeBuilder().subscribe_to("turn", read=False).read_from("log").do(c).write_to("rest2"),
            },
            channels={
                "log": log,
                "rest": rest,
                "rest2": channel_of(Field("rest2", self.log_type), "raw"),
                "turn": LastValue(list),
            },
            input_channels=["log", "rest", "turn"],
            output_channels=["log", "rest", "turn", "rest2"],
            checkpointer=self.saver,
        )

    async def act(self, name: str) -> Any:
        todo = self.plan.get(name)
        if todo == "fail":
            raise RuntimeError(name)
        if todo == "ask":
            return {"log": interrupt(name)}
        if todo == "poison":
            return {"log": [-1]}
        if todo == "overwrite":
            return {"log": Overwrite([100 + len(name)])}
        if todo == "both":
            return {"log": [1], "rest": [2]}
        if todo == "rest":
            return {"rest": [3]}
        if todo == "idle":
            return {}
        return {"log": [ord(name[0])]}

    def build(self) -> Any:
        Inner: Any = TypedDict("Inner", {"log": self.log_type})  # type: ignore[misc]
        State: Any = TypedDict(  # type: ignore[misc]
            "State", {"log": self.log_type, "rest": self.log_type, "turn": list}
        )

        async def a(state: Any) -> Any:
            return await self.act("a")

        async def b(state: Any) -> Any:
            return await self.act("b")

        async def c(state: Any) -> Any:
            return await self.act("c")

        async def d(state: Any) -> Any:
            return await self.act("d")

        async def worker(state: Any) -> Any:
            return {"log": [state["n"]], "rest": [state["n"]]}

        async def x(state: Any) -> Any:
            return await self.act("x")

        inner = StateGraph(Inner)
        inner.add_node("x", x)
        inner.add_edge(START, "x")
        builder = StateGraph(State)
        for name, action in (("a", a), ("b", b), ("c", c), ("d", d), ("worker", worker)):
            builder.add_node(name, action)
        self.inner: Any = inner.compile(checkpointer=True if self.kind == "memory" else None)
        builder.add_node("sub", self.inner)
        builder.add_edge(START, "a")
        builder.add_edge(START, "b")
        builder.add_conditional_edges(
            "a", lambda state: [Send("worker", {"n": n}) for n in range(self.plan.get("width", 0))] or "c"
        )
        builder.add_edge("worker", "d")
        builder.add_edge("c", "d")
        builder.add_conditional_edges("d", lambda state: "sub" if self.plan.get("nest") else END)
        return builder.compile(checkpointer=self.saver)

    async def run(self, value: Any, durability: str, checkpoint: int | None) -> Any:
        config = CONFIG
        if checkpoint is not None:
            items = await self.items()
            if not items:
                return None
            config = items[checkpoint % len(items)].config
        if isinstance(value, list):
            value = {"log": value, "turn": value}
        self.saver.fuse = self.plan.get("crash")
        try:
            return await self.graph.ainvoke(value, config, durability=durability)
        except Exception as exc:
            return type(exc).__name__
        finally:
            self.saver.fuse = None

    async def edit(self, as_node: str | None, numbers: list[int], checkpoint: int | None) -> Any:
        items = await self.items()
        config = items[checkpoint % len(items)].config if items and checkpoint is not None else CONFIG
        values: Any = {"log": numbers, "turn": numbers}
        if self.kind == "raw" and as_node != "__input__":
            values = numbers
        if as_node == "__copy__":
            values = [(values, "b" if len(numbers) > 1 else "a")] if numbers else None
        elif as_node == "__end__":
            values = None
        try:
            await self.graph.aupdate_state(config, values, as_node)
        except Exception as exc:
            return type(exc).__name__
        return (await self.graph.aget_state(CONFIG)).values

    async def resume(self, durability: str) -> Any:
        questions: dict[str, Any] = {}
        for item in (await self.items())[:1]:
            for _, channel, pending in item.pending_writes or ():
                if channel == "__interrupt__":
                    questions.update({question.id: [50] for question in pending})
        return await self.run(Command(resume=questions or 50), durability, None)

    async def items(self, ns: str = "") -> list[CheckpointTuple]:
        found = [item async for item in self.saver.alist({"configurable": {"thread_id": "1", "checkpoint_ns": ns}})]
        return [item for item in found if item.metadata["step"] != -2]

    async def history(self) -> list[tuple[Any, ...]]:
        """Return the states of all checkpoints of all graphs; checks that pruning is told what it needs to know."""
        states = []
        for ns in self.saver.storage.get("1", {}):
            name = ns.partition(":")[0]
            spec = self.specs[name]
            for item in await self.items(ns):
                state = restore(spec, await completed(spec, self.saver, item))
                states.append((name, item.metadata.get("source"), item.metadata.get("step"), read_all(state)))
                counters = item.metadata.get("counters_since_delta_snapshot") or {}
                versions, values = item.checkpoint["channel_versions"], item.checkpoint["channel_values"]
                for key in spec.deltas:
                    assert key in values or key not in versions or any(counters[key])
        return states


ACTS = st.sampled_from([None, None, "fail", "ask", "overwrite", "both", "rest", "idle", "poison"])
PLANS = st.fixed_dictionaries(
    {
        "a": ACTS,
        "b": ACTS,
        "c": ACTS,
        "d": ACTS,
        "x": st.sampled_from([None, "fail", "ask"]),
        "width": st.integers(0, 3),
        "nest": st.booleans(),
        "crash": st.none() | st.integers(0, 4),
    }
)
EDITS: list[str | None] = [None, "a", "b", "d", "__copy__", "__input__", "__end__"]
MOVES = st.one_of(
    st.tuples(st.just("input"), st.lists(st.integers(0, 9), max_size=2), st.none() | st.integers(0, 20)),
    st.tuples(st.just("go_on"), st.none(), st.none() | st.integers(0, 20)),
    st.tuples(st.just("answer"), st.none(), st.none()),
    st.tuples(st.just("update"), st.lists(st.integers(10, 19), max_size=2), st.none() | st.integers(0, 20)),
    st.tuples(st.just("restart"), st.none(), st.none()),
    st.tuples(
        st.just("edit"),
        st.tuples(st.sampled_from(EDITS), st.lists(st.integers(20, 29), max_size=2)),
        st.none() | st.integers(0, 20),
    ),
)
DURABILITIES = st.sampled_from(["sync", "async", "exit"])
PROGRAMS = st.lists(st.tuples(MOVES, PLANS, DURABILITIES), min_size=1, max_size=7)


async def play(world: World, move: tuple[str, Any, Any], durability: str) -> Any:
    kind, value, checkpoint = move
    if kind == "input":
        return await world.run(value, durability, checkpoint)
    if kind == "go_on":
        return await world.run(None, durability, checkpoint)
    if kind == "answer":
        return await world.resume(durability)
    if kind == "update":
        return await world.run(Command(update={"log": value}, goto="c"), durability, checkpoint)
    if kind == "edit":
        return await world.edit(*value, checkpoint)
    world.restart()
    return None


def compare(program: Any, frequency: int, saver: type[Fused], kind: str) -> None:
    # How far a graph gets beside one that fails must not go by the clock.
    with patch.object(loop, "_SLICE_S", math.inf):
        asyncio.run(same_histories(program, frequency, saver, kind))


async def same_histories(program: Any, frequency: int, saver: type[Fused], kind: str = "state") -> None:
    ordinary = World(Annotated[list[int], add], saver(), kind)
    delta = World(Annotated[list[int], DeltaChannel(extend, snapshot_frequency=frequency)], saver(), kind)
    for move, plan, durability in program:
        if plan["crash"] is not None and durability == "async":
            durability = "sync"  # how far an asynchronous run gets before it notices is a matter of timing
        for world in (ordinary, delta):
            world.plan.clear()
            world.plan.update(plan)
        expected = await play(ordinary, move, durability)
        result = await play(delta, move, durability)

        if isinstance(expected, dict):
            expected.pop("__interrupt__", None)
            result.pop("__interrupt__", None)
        assert result == expected
        assert await delta.history() == await ordinary.history()
        if await ordinary.items():  # a crash at the exit may leave an empty checkpoint that has only writes
            assert (await delta.graph.aget_state(CONFIG)).values == (await ordinary.graph.aget_state(CONFIG)).values


KINDS = ["state", "memory", "raw"]
everywhere = pytest.mark.parametrize(
    ("saver", "kind"), [(saver, kind) for saver in (Fused, PrimitiveSaver, PathlessSaver) for kind in KINDS]
)
programs = given(program=PROGRAMS, frequency=st.sampled_from([1, 2, 3, 100]))


@everywhere
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@programs
def test_a_delta_channel_equals_an_ordinary_one_at_every_checkpoint(
    saver: type[Fused], kind: str, program: Any, frequency: int
) -> None:
    compare(program, frequency, saver, kind)


@pytest.mark.slow
@everywhere
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@programs
def test_a_delta_channel_equals_an_ordinary_one_however_long_it_is_tried(
    saver: type[Fused], kind: str, program: Any, frequency: int
) -> None:
    compare(program, frequency, saver, kind)
