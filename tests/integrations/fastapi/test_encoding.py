"""Anything becomes JSON."""

from __future__ import annotations

import json
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed (pip install fastapi)")

import attrs
import msgspec
import numpy as np
import pydantic
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk

from langgraph_async.errors import ThreadConflictError
from langgraph_async.integrations.fastapi import json_text, jsonable
from langgraph_async.types import Interrupt, Send


class Color(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


@dataclass
class Point:
    x: Any


@attrs.define
class Attr:
    x: Any


class Struct(msgspec.Struct):
    x: Any


class Model(pydantic.BaseModel):
    x: Any
    at: datetime | None = None


Pair = namedtuple("Pair", "a b")


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError


class OddModel:
    def model_dump(self) -> Any:
        raise RuntimeError


class OddMapping(OrderedDict):
    def items(self) -> Any:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**80, 2**80),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        ("x", "x"),
        (Text("t"), "t"),
        (b"\x00\xff", "AP8="),
        (bytearray(b"a"), "YQ=="),
        (Color.RED, "red"),
        (Level.LOW, 1),
        ((1, (2,)), [1, [2]]),
        ({3, 1, 2}, [1, 2, 3]),
        (deque([1]), [1]),
        (Pair(1, b"a"), {"a": 1, "b": "YQ=="}),
        ({1: 2, None: 3, (1, 2): 4, Color.RED: 5}, {"1": 2, "None": 3, "(1, 2)": 4, "red": 5}),
        (datetime(2024, 1, 2, tzinfo=UTC), "2024-01-02T00:00:00+00:00"),
        (date(2024, 1, 2), "2024-01-02"),
        (time(3, 4), "03:04:00"),
        (timedelta(minutes=1), 60.0),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (PurePosixPath("a/b"), "a/b"),
        (Point(Point(b"a")), {"x": {"x": "YQ=="}}),
        (Attr(1), {"x": 1}),
        (Struct((1,)), {"x": [1]}),
        (Model(x=Point(1), at=datetime(2024, 1, 2)), {"x": {"x": 1}, "at": "2024-01-02T00:00:00"}),
        (Interrupt("?", "1" * 32), {"value": "?", "id": "1" * 32}),
        (Interrupt("?", "1" * 32, response_schema={"type": "string"}), None),
        (ValueError("no"), {"type": "ValueError", "code": None, "message": "no"}),
        (ThreadConflictError("no"), {"type": "ThreadConflictError", "code": "THREAD_CONFLICT", "message": "no"}),
        (np.float32(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        (Send("n", {"x": 1}), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_known_values(value: Any, expected: Any) -> None:
    found = jsonable(value)
    assert json.loads(json_text(value)) == found
    if expected is not None:
        assert found == expected


def test_messages_show_their_fields() -> None:
    found = jsonable(AIMessage("hi", id="1"))
    assert (found["type"], found["content"], found["id"]) == ("ai", "hi", "1")
    assert jsonable((AIMessageChunk("h"), {"langgraph_node": "n"}))[0]["content"] == "h"


@pytest.mark.parametrize("value", [object(), Odd(), OddModel(), OddMapping(a=1), lambda: 0, Point, iter([]), ...])
def test_odd_values_are_shown(value: Any) -> None:
    found = jsonable({"a": [value]})["a"][0]
    assert set(found) == {"type", "repr"}
    assert json.loads(json_text(value)) == found


def test_an_integer_too_long_to_be_written_is_shown() -> None:
    assert json.loads(json_text([1 << 20_000])) == [{"type": "builtins.int", "repr": "<int>"}]


def test_cycles_and_depth_end() -> None:
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    assert json.loads(json_text(cycle))
    assert json.loads(json_text(deep))


def test_text_stays_one_line_of_json() -> None:
    assert "\n" not in json_text("a\nb\r\u2028")
    assert json.loads(json_text("\ud800 \U0001f600")) == "\ud800 \U0001f600"


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.datetimes() | st.builds(Odd),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers() | st.none(), inner)
        | st.builds(Point, inner)
        | st.builds(Model, x=inner)
    ),
    max_leaves=20,
)


@given(_ANYTHING)
def test_whatever_it_is_a_strict_reader_reads_it(value: Any) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    text = json_text(value)
    json.loads(text, parse_constant=refuse)
    text.encode()
    assert "\n" not in text
