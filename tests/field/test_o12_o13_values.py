"""O12 Twenty writers, one thread; O13 Round trip: what a node stored is what the next run reads."""

from __future__ import annotations

import asyncio
import enum
import operator
import re
import uuid
import zoneinfo
from array import array
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple, TypedDict

import numpy as np
import pytest
from pydantic import BaseModel

from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.config import RunnableConfig
from langgraph_async.errors import SerializationError, ThreadConflictError
from langgraph_async.serde.encrypted import EncryptedSerializer
from langgraph_async.serde.identity import identical

OpenSavers = Callable[[int], Any]
CONFIG: Any = {"configurable": {"thread_id": "one"}}
WRITERS = 20


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any]:
    """Which saver, and where its database is."""
    if request.param == "postgres":
        return "postgres", request.getfixturevalue("postgres_database")
    return request.param, tmp_path / "a.db"


@pytest.fixture
async def savers(database: tuple[str, Any]) -> AsyncIterator[OpenSavers]:
    """Opens savers on one database."""
    kind, where = database

    def made(serde: Any) -> Any:
        if kind == "sqlite":
            return AsyncSqliteSaver.from_conn_string(where, synchronous="NORMAL", serde=serde)
        return AsyncPostgresSaver.from_conn_string(where, max_size=4, serde=serde)

    async with AsyncExitStack() as stack:

        async def open_savers(count: int, serde: Any = None) -> list[Any]:
            if kind == "memory":
                return [InMemorySaver(serde=serde)] * count
            return [await stack.enter_async_context(made(serde)) for _ in range(count)]

        yield open_savers


class Log(TypedDict):
    log: Annotated[list[int], operator.add]


def appending(saver: Any) -> Any:
    async def work(state: Log) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {}

    return StateGraph(Log).add_node("work", work).add_edge(START, "work").compile(checkpointer=saver)


async def write(graphs: list[Any], config: Any) -> tuple[list[int], list[Any]]:
    """Return the numbers whose run succeeded, and what the others raised."""
    runs = (graphs[i % len(graphs)].ainvoke({"log": [i]}, config) for i in range(WRITERS))
    results = await asyncio.gather(*runs, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    return [i for i, result in enumerate(results) if not isinstance(result, BaseException)], failures


@pytest.mark.parametrize("count", [1, 2])
async def test_o12_a_run_that_succeeds_has_an_effect(savers: OpenSavers, count: int) -> None:
    graphs = [appending(saver) for saver in await savers(count)]
    succeeded, failures = await write(graphs, CONFIG)
    log = (await graphs[0].aget_state(CONFIG)).values["log"]

    assert sorted(log) == succeeded
    assert len(succeeded) >= 1
    assert {type(failure) for failure in failures} <= {ThreadConflictError}


async def test_o12_runs_that_wait_for_each_other_all_succeed(savers: OpenSavers) -> None:
    (saver,) = await savers(1)
    graph = appending(saver)
    succeeded, failures = await write([graph], {**CONFIG, "multitask_strategy": "enqueue"})

    assert failures == []
    assert succeeded == list(range(WRITERS))
    assert sorted((await graph.aget_state(CONFIG)).values["log"]) == succeeded


class Color(enum.Enum):
    RED = "r"


class Text(str, enum.Enum):
    A = "a"


class Flag(enum.IntFlag):
    X = 1
    Y = 2


class Model(BaseModel):
    color: Color
    when: datetime
    tags: set[str]


@dataclass
class Plain:
    pair: tuple[int, int]


@dataclass(frozen=True)
class Frozen:
    n: int


class Point(NamedTuple):
    x: int
    y: int


PARIS = zoneinfo.ZoneInfo("Europe/Paris")
VALUES: list[Any] = [
    Color.RED,
    Text.A,
    Flag.X | Flag.Y,
    Model(color=Color.RED, when=datetime(2024, 1, 1, tzinfo=UTC), tags={"a", "b"}),
    Plain((1, 2)),
    Frozen(1),
    Point(1, 2),
    (1, (2, (3,))),
    {1, 2},
    frozenset({1}),
    Decimal("1.10"),
    Fraction(1, 3),
    1 + 2j,
    range(1, 10, 2),
    slice(1, None, 2),
    PurePosixPath("a/b"),
    Path("a/b"),
    np.float64(1.5),
    np.int64(3),
    np.bool_(True),
    np.array([[1, 2], [3, 4]]),
    np.asfortranarray([[1, 2], [3, 4]]),
    np.array(["2024-01-01"], dtype="datetime64[D]"),
    np.array([1, "a", None], dtype=object),
    2**70,
    -(2**70),
    float("inf"),
    {1: "a", (1, 2): "b", None: "c"},
    deque([1, 2], maxlen=3),
    defaultdict(list, {"a": [1]}),
    OrderedDict([("b", 1), ("a", 2)]),
    Counter("aab"),
    ChainMap({"a": 1}, {"b": 2}),
    array("d", [1.5]),
    uuid.UUID(int=5),
    timedelta(1, 2, 3),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    datetime(2024, 10, 27, 2, 30, tzinfo=PARIS, fold=1),
    b"x",
    bytearray(b"x"),
    "a\0b",
    "a\ud800b",
    "",
    ValueError("x", 1),
    re.compile("a+", re.IGNORECASE),
]
WRAPPED = [value for value in VALUES if not isinstance(value, BaseException)]
NESTED: list[Any] = [nested for value in WRAPPED for nested in ([value], {"k": (value,)})]


class Holder(TypedDict):
    value: Any
    seen: list[Color | Text | Flag | Model | Plain | Frozen | Point]


async def stored(savers: OpenSavers, values: list[Any], **options: Any) -> list[Any]:
    """Return the values that a second saver reads, each stored by a node on a thread of its own."""
    writer, reader = await savers(2, **options)

    def graph(saver: Any) -> Any:
        async def node(state: Holder, config: RunnableConfig) -> dict[str, Any]:
            return {"value": values[int(config["configurable"]["thread_id"])]}

        return StateGraph(Holder).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)

    writing, reading = graph(writer), graph(reader)
    found = []
    for i in range(len(values)):
        config: Any = {"configurable": {"thread_id": str(i)}}
        await writing.ainvoke({"value": None}, config)
        found.append((await reading.aget_state(config)).values["value"])
    return found


async def test_o13_a_value_comes_back_with_its_type_and_equal(savers: OpenSavers) -> None:
    values = [*VALUES, *NESTED]
    pairs = zip(values, await stored(savers, values), strict=True)

    assert [(value, found) for value, found in pairs if not same(value, found)] == []


async def test_o13_a_value_comes_back_from_an_encrypted_thread(savers: OpenSavers) -> None:
    pytest.importorskip("cryptography")
    found = await stored(savers, VALUES, serde=EncryptedSerializer.from_keys(b"k" * 32))

    assert [(value, each) for value, each in zip(VALUES, found, strict=True) if not same(value, each)] == []


def same(value: Any, found: Any) -> bool:
    if isinstance(value, re.Pattern):
        return bool(type(found) is re.Pattern and found == value)
    if isinstance(value, BaseException):
        return type(found) is type(value) and identical(found.args, value.args)
    return identical(value, found)


class Opaque:
    pass


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("value", [Opaque(), [Opaque()], {"k": (Opaque(),)}, print, defaultdict(lambda: 1)])
async def test_o13_what_cannot_be_stored_fails_before_the_step_commits_and_names_the_key(
    savers: OpenSavers, durability: Any, value: Any
) -> None:
    (saver,) = await savers(1)

    async def node(state: Holder) -> dict[str, Any]:
        return {"value": value}

    graph = StateGraph(Holder).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
    with pytest.raises(SerializationError, match="'value'"):
        await graph.ainvoke({"value": "before"}, CONFIG, durability=durability)

    assert (await graph.aget_state(CONFIG)).values.get("value") in ("before", None)
