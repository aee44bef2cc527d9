"""Functions of one name that differ in what they took along have cached results of their own."""

from __future__ import annotations

import enum
import logging
import operator
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any

import numpy as np
import pydantic
import pytest
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph
from langgraph_async.cache.memory import InMemoryCache
from langgraph_async.func import entrypoint, task
from langgraph_async.types import CachePolicy

RUNS: list[int] = []


class State(TypedDict, total=False):
    n: int
    out: Annotated[list[Any], operator.add]


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Settings:
    values: dict[str, Any]


@dataclass(slots=True)
class Slotted:
    value: Any


class Model(pydantic.BaseModel):
    value: int


@dataclass
class Nested:
    settings: Settings = field(default_factory=lambda: Settings({}))


class Service:
    """No data: a client, say, that is another one in each process."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.lock = object()


def closing_over(value: Any) -> Any:
    async def node(state: State) -> Any:
        return {"out": [repr(value)]}

    return node


def with_default(value: Any) -> Any:
    async def node(state: State, *, given: Any = value) -> Any:
        return {"out": [repr(given)]}

    return node


def bound(value: Any) -> Any:
    async def node(given: Any, state: State) -> Any:
        return {"out": [repr(given)]}

    return partial(node, value)


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value

    async def method(self, state: State) -> Any:
        return {"out": [repr(self.value)]}


class SlottedHolder:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    async def method(self, state: State) -> Any:
        return {"out": [repr(self.value)]}


def method(value: Any) -> Any:
    return Holder(value).method


def method_of_slots(value: Any) -> Any:
    return SlottedHolder(value).method


PAIRS = [
    ({"a": 1}, {"a": 2}),
    ([1, [2]], [1, [3]]),
    ((1, [2]), (1, [3])),
    ({1, 2}, {1, 3}),
    ([1], (1,)),
    (Decimal(1), Decimal(2)),
    (timedelta(1), timedelta(2)),
    (PurePosixPath("a"), PurePosixPath("b")),
    (Colour.RED, Colour.BLUE),
    (Settings({"a": [1]}), Settings({"a": [2]})),
    (Slotted(1), Slotted(2)),
    (Model(value=1), Model(value=2)),
    (Nested(Settings({"a": 1})), Nested(Settings({"a": 2}))),
    ({"rules": Settings({"a": 1})}, {"rules": Settings({"a": 2})}),
    (np.array([1, 2]), np.array([1, 3])),
    (int, float),
    (range(2), range(3)),
    (bytearray(b"a"), bytearray(b"b")),
]


@pytest.mark.parametrize("make", [closing_over, with_default, bound, method, method_of_slots])
@pytest.mark.parametrize(("one", "other"), PAIRS, ids=[type(one).__name__ + str(i) for i, (one, _) in enumerate(PAIRS)])
async def test_what_a_function_took_along_tells_it_from_others_of_its_name(make: Any, one: Any, other: Any) -> None:
    cache: Any = InMemoryCache()

    async def outcome(value: Any) -> Any:
        builder = StateGraph(State)
        builder.add_node("work", make(value), cache_policy=CachePolicy())
        builder.add_edge(START, "work")
        return (await builder.compile(cache=cache).ainvoke({"n": 1}))["out"]

    assert [await outcome(one), await outcome(other), await outcome(one)] == [[repr(one)], [repr(other)], [repr(one)]]


@pytest.mark.parametrize("make", [closing_over, with_default])
async def test_functions_that_a_function_took_along_tell_it_from_others(make: Any) -> None:
    cache: Any = InMemoryCache()

    def caller(amount: int) -> Any:
        def add(number: int) -> int:
            return number + amount

        async def node(state: State) -> Any:
            return {"out": [steps["add"](state["n"])]}

        steps = {"add": add}
        return node

    for amount in (1, 10):
        builder = StateGraph(State).add_node("work", caller(amount), cache_policy=CachePolicy())
        graph = builder.add_edge(START, "work").compile(cache=cache)
        assert (await graph.ainvoke({"n": 1}))["out"] == [1 + amount]


async def test_tasks_that_differ_in_what_they_took_along_have_results_of_their_own() -> None:
    cache: Any = InMemoryCache()

    def workflow(rules: dict[str, int]) -> Any:
        @task(cache_policy=CachePolicy())
        async def add(number: int) -> int:
            return number + rules["amount"]

        @entrypoint(cache=cache)
        async def flow(number: int) -> int:
            return await add(number)

        return flow

    assert [await workflow({"amount": n}).ainvoke(1) for n in (1, 10)] == [2, 11]


async def test_what_is_no_data_is_told_by_its_class_only_so_that_processes_share_results() -> None:
    cache: Any = InMemoryCache()
    RUNS.clear()

    class Client:
        def __init__(self) -> None:
            self.service = Service(f"http://{id(self)}")

        async def ask(self, state: State) -> Any:
            RUNS.append(1)
            return {"out": [1]}

    for _ in range(2):
        builder = StateGraph(State).add_node("work", Client().ask, cache_policy=CachePolicy())
        await builder.add_edge(START, "work").compile(cache=cache).ainvoke({"n": 1})

    assert RUNS == [1]


async def test_what_contains_itself_is_told_apart_without_an_end() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    builder = StateGraph(State).add_node("work", closing_over(loop), cache_policy=CachePolicy())

    result = await builder.add_edge(START, "work").compile(cache=InMemoryCache()).ainvoke({"n": 1})

    assert result["out"] == [repr(loop)]


PROGRAM = """
from langgraph_async.pregel.digest import digest
from langgraph_async import StateGraph, START
def make(value):
    async def node(state): return value
    return node
builder = StateGraph(dict)
builder.add_node("work", make({"b": {"x", "y", "z"}, "a": [1, (2.5, None)]}))
print(digest(builder.add_edge(START, "work").compile().nodes["work"]))
"""


def test_other_processes_tell_them_apart_in_the_same_way() -> None:
    def digest(seed: str) -> str:
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
        return done.stdout

    assert digest("1") == digest("2")


async def test_a_function_that_cannot_be_told_apart_runs_uncached(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(dict[str, int]):
        def items(self) -> Any:
            raise ConnectionError("reads from afar")

    builder = StateGraph(State).add_node("work", closing_over(Odd()), cache_policy=CachePolicy())
    graph = builder.add_edge(START, "work").compile(cache=InMemoryCache())

    with caplog.at_level(logging.WARNING, "langgraph_async"):
        assert (await graph.ainvoke({"n": 1}))["out"] == ["{}"]
    assert "'work'" in caplog.text
