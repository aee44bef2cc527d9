"""Types of the standard library that people put into a state come back as they were."""

from __future__ import annotations

import http
import math
import time
import types
import urllib.parse
from array import array
from collections import ChainMap, OrderedDict, UserDict, UserList, UserString
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_async.errors import SerializationError
from langgraph_async.serde.jsonplus import JsonPlusSerializer

SERDE = JsonPlusSerializer()


def round_trip(value: Any) -> Any:
    return SERDE.loads_typed(SERDE.dumps_typed({"key": [value]}))["key"][0]


VALUES: list[Any] = [
    *(array(code, [1, 2]) for code in "bBhHiIlLqQfd"),
    array("u", "a\u00e9"),
    array("d"),
    array("d", [math.inf, -0.0]),
    ChainMap(),
    ChainMap({"a": (1,)}, {"b": 2}),
    ChainMap(OrderedDict(a=1)),
    UserDict(a=(1,)),
    UserList([1, (2,)]),
    UserString("text"),
    types.MappingProxyType({"a": (1,)}),
    types.MappingProxyType(OrderedDict(a=1)),
    ...,
    time.gmtime(0),
    time.struct_time(range(9)),
    http.HTTPStatus.NOT_FOUND,
    http.HTTPMethod.GET,
    urllib.parse.urlsplit("http://host/path?a=b#c"),
    urllib.parse.urlparse(b"http://host/path"),
    urllib.parse.urldefrag("x#y"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    found = round_trip(value)

    assert type(found) is type(value)
    assert found == value
    assert repr(found) == repr(value)


@given(st.lists(st.floats()))
def test_numbers_of_an_array_come_back_to_the_bit(numbers: list[float]) -> None:
    assert round_trip(array("d", numbers)).tobytes() == array("d", numbers).tobytes()


def test_the_zone_of_a_time_comes_back() -> None:
    value = time.gmtime(0)
    found = round_trip(value)

    assert (found.tm_zone, found.tm_gmtoff) == (value.tm_zone, value.tm_gmtoff)


def test_what_lies_beside_the_data_is_not_lost() -> None:
    value = UserDict(a=1)
    value.note = "beside"  # type: ignore[attr-defined]

    with pytest.raises(SerializationError, match="beside its data"):
        round_trip(value)


@pytest.mark.parametrize(
    "call",
    [
        ("array", "array", ["d", "not numbers"]),
        ("array", "array", ["z", []]),
        ("array", "array", ["b", [1000]]),
        ("collections", "ChainMap", [[1]]),
        ("time", "struct_time", [[1], {}]),
        ("types", "EllipsisType", [1]),
    ],
)
def test_a_call_of_another_form_is_refused(call: tuple[str, str, Any]) -> None:
    import msgpack

    stored = msgpack.packb(msgpack.ExtType(1, msgpack.packb(call)))

    with pytest.raises(SerializationError):
        SERDE.loads_typed(("msgpack", stored))
