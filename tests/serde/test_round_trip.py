"""What is stored comes back with the same types and equal values, or is refused."""

from __future__ import annotations

import datetime as dt
import math
import re
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import pytest
import serde_types as user
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage

from langgraph_async.errors import SerializationError
from langgraph_async.serde.identity import identical
from langgraph_async.serde.jsonplus import Codec, JsonPlusSerializer
from langgraph_async.types import Command, Interrupt, PregelTask, Send, StateSnapshot

SERDE = JsonPlusSerializer(allowed_msgpack_modules=user.USER_TYPES)
PARIS = zoneinfo.ZoneInfo("Europe/Paris")
FIXED = dt.timezone(dt.timedelta(hours=-5))


def round_trip(value: Any, serde: JsonPlusSerializer = SERDE) -> Any:
    return serde.loads_typed(serde.dumps_typed(value))


def _default_dict() -> Any:
    made: Any = defaultdict(list)
    made["a"].append((1, 2))
    return made


VALUES: dict[str, Any] = {
    "enum": user.Color.RED,
    "enum of a tuple": user.Color.PAIR,
    "str enum": user.Text.A,
    "int flag": user.Bits.ONE | user.Bits.TWO,
    "pydantic": user.Model(color=user.Color.PAIR, when=dt.datetime(2024, 1, 1, tzinfo=PARIS), tags={"a", "b"}),
    "pydantic in pydantic": user.Parent(child=user.Model(any=(1, [2], {3}))),
    "pydantic subclass in pydantic": user.Parent(child=user.SubModel(more=3)),
    "pydantic in any": user.Model(any=user.Model(tags={"x"})),
    "pydantic alias": user.Aliased(theName="x"),
    "pydantic excluded": user.Hidden(name="a", secret="b"),
    "pydantic root": user.Root([1, 2]),
    "pydantic nan": user.Model(any=[math.nan]),
    "dataclass with tuple": user.Plain((1, (2,)), {"x": (3,)}),
    "frozen dataclass": user.Frozen((1, 2)),
    "dataclass that derives": user.Derived(3),
    "nested class": user.Outer.Inner(1),
    "attrs": user.Attrs((1,), 2),
    "frozen attrs": user.FrozenAttrs([1]),
    "msgspec": user.Struct({1}, (2,)),
    "namedtuple": user.Point(1, (2,)),
    "str subclass": user.Name("n"),
    "dict subclass": user.Bag({"a": (1,)}),
    "ordered subclass": user.Ordered({"a": 1}),
    "nested tuple": (1, (2, [3, (4,)])),
    "empty tuple": (),
    "set": {1, (2, 3)},
    "frozenset": frozenset({(1,), frozenset({2})}),
    "decimal": Decimal("1.10"),
    "fraction": Fraction(1, 3),
    "complex": complex(-0.0, math.inf),
    "range": range(1, 10, 2),
    "pure path": PurePosixPath("a/b"),
    "windows path": PureWindowsPath("C:\\a"),
    "path": Path("."),
    "float64": np.float64(1.5),
    "float32": np.float32(0.1),
    "int64": np.int64(-3),
    "np bool": np.bool_(True),
    "np str": np.str_("x"),
    "np datetime": np.datetime64("2024-01-01T00:00:00.123", "ms"),
    "np ten minutes": np.datetime64(3, "10m"),
    "np nat": np.datetime64("NaT"),
    "np timedelta": np.timedelta64(3, "h"),
    "2-D": np.arange(6.0).reshape(2, 3),
    "2-D Fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "strided": np.arange(10)[::3],
    "big endian": np.arange(3, dtype=">i4"),
    "empty array": np.zeros((0, 3)),
    "text array": np.array(["ab", "c"]),
    "dates": np.array(["2024-01-01", "NaT"], "M8[D]"),
    "dates in 2-D": np.asfortranarray(np.array([["2024", "2025"], ["2026", "NaT"]], "M8[s]")),
    "object array": np.array([{"a": (1,)}, None, "x"], dtype=object),
    "object array of lists": np.array([[[1], [2]], [[3], [4]]], dtype=object),
    "records": np.array([(1, 2.5, (3, 4))], dtype=[("a", "<i4"), ("b", "<f8"), ("c", "<i2", (2,))]),
    "aligned records": np.zeros(2, dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "2**70": 2**70,
    "-2**70": -(2**70),
    "huge": 7**20000,
    "inf": [math.inf, -math.inf, -0.0],
    "keys": {1: "a", (1, (2, None)): "b", None: "c", 2.5: "d", True and b"x": "e"},
    "odd keys": {
        dt.date(2024, 1, 1): 1, user.Color.RED: 2, uuid.UUID(int=5): 3, frozenset({1}): 4, (dt.timedelta(1),): 5,
        user.Text.A: 6, 2**70: 7, "\ud800": 8, user.Point(1, 2): 9, np.int64(3): 10,
    },
    "odd keys deep": [(1, {"x": {(2**70, ()): {frozenset(): 1}}})],
    "deque with maxlen": deque([1, 2], maxlen=5),
    "defaultdict": _default_dict(),
    "defaultdict without factory": defaultdict(None, {"a": 1}),
    "OrderedDict": OrderedDict([("b", 1), ((1,), 2)]),
    "Counter": Counter({"a": 2, "b": -1}),
    "UUID": uuid.UUID(int=1),
    "timedelta": dt.timedelta(-1, 2, 3),
    "fixed offset": dt.datetime(2024, 1, 1, tzinfo=FIXED),
    "named offset": dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1), "X")),
    "zoneinfo": dt.datetime(2024, 10, 27, 2, 30, tzinfo=PARIS),
    "zoneinfo fold": dt.datetime(2024, 10, 27, 2, 30, tzinfo=PARIS, fold=1),
    "time with zone": dt.time(1, 2, tzinfo=PARIS, fold=1),
    "timezone": FIXED,
    "bytes": [b"\x00\xff"],
    "bytearray": [bytearray(b"ab"), {"x": bytearray()}],
    "memoryview": memoryview(b"x"),
    "NUL": "a\x00b",
    "surrogate": ["x\ud800y", {"\udfff": "\ud800"}],
    "regex": re.compile("a+", re.IGNORECASE | re.MULTILINE),
    "bytes regex": re.compile(b"a+"),
    "namespace": types.SimpleNamespace(a=(1,)),
    "slice": slice(1, None, 2),
    "builtin type": [list, dict, int, type(None)],
    "send": Send("n", (1, {"a": {1}})),
    "command": Command(update={"a": (1,)}, goto=[Send("a", 1), "b"], resume={"x": (1,)}),
    "command resuming with None": Command(resume=None),
    "command with an empty list": Command(goto=[]),
    "command with nothing": Command(),
    "interrupt": Interrupt((1,), id="ab", response_schema={"type": "string"}),
    "snapshot": StateSnapshot(
        {"a": 1}, ("n",), {}, None, None, None, (PregelTask("i", "n", ("x", 1)),), (Interrupt(1, id="a"),)
    ),
    "message": AIMessage("hi", id="1", tool_calls=[{"name": "t", "args": {"a": 1}, "id": "c"}]),
    "tool message": ToolMessage("x", tool_call_id="c", artifact=user.Point(1, (2,))),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_comes_back_with_the_same_type_and_an_equal_value(name: str) -> None:
    value = VALUES[name]

    for case in (value, [value], {"k": (value,)}):
        assert identical(round_trip(case), case)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("boom"), KeyError("a", (1,)), OSError(2, "no such", "file"), StopIteration(3),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ExceptionGroup("g", [ValueError("a"), TypeError("b")]),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_a_builtin_exception_comes_back_with_arguments_and_attributes(error: Exception) -> None:
    error.add_note("while testing")
    error.extra = (1,)  # type: ignore[attr-defined]

    found = round_trip([error])[0]

    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)
    if not isinstance(error, ExceptionGroup):
        assert identical(found.args, error.args)
        assert getattr(found, "filename", None) == getattr(error, "filename", None)


@pytest.mark.parametrize(
    "error",
    [
        user.Oops("x", detail="y"),
        ValueError(object()),
        ExceptionGroup("g", [user.Oops("x")]),
        ValueError(user.Oops("x")),
    ],
    ids=["unregistered", "unstorable argument", "group of unregistered", "unregistered argument"],
)
def test_an_exception_that_cannot_be_rebuilt_is_stored_as_its_repr(error: Exception) -> None:
    assert round_trip({"e": error}) == {"e": repr(error)}


def test_a_registered_exception_comes_back_with_its_attributes() -> None:
    found = round_trip(user.Oops("x", detail="y"), SERDE.with_allowlist([user.Oops]))

    assert (type(found), found.args, found.detail) == (user.Oops, ("x",), "y")


def test_a_value_that_its_constructor_would_change_is_set_field_by_field() -> None:
    value = user.Clamped(1)
    value.a = 99

    assert round_trip(value) == value


def test_an_array_that_comes_back_can_be_written_to() -> None:
    found = round_trip(np.arange(3))
    found[0] = 7

    assert found.tolist() == [7, 1, 2]


def test_an_object_within_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    knot = user.Plain(None)
    knot.a = [knot]

    for value in (loop, knot):
        with pytest.raises(SerializationError, match="itself"):
            SERDE.dumps_typed(value)


class _Opaque:
    pass


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"items": [1, {"x": _Opaque()}]}, ("items", "1", "x")),
        ({"items": (1, (2, _Opaque()))}, ("items", "1", "1")),
        ({"m": user.Plain(a={"k": [_Opaque()]})}, ("m", "a", "k", "0")),
        ({"m": user.Model(any=[lambda: 1])}, ("m", "any", "0")),
        ({"f": print}, ("f",)),
        ({"\ud800": 1, "x": [(_Opaque(),)]}, ("x", "0", "0")),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(value: Any, path: tuple[str, ...]) -> None:
    with pytest.raises(SerializationError) as caught:
        SERDE.dumps_typed(value)

    assert caught.value.path == path
    assert " -> ".join(path) in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        object(), NotImplemented, iter([]), print, user.Model, defaultdict(lambda: 1),
        np.ma.masked_array([1], [True]), np.longdouble(1), dt.datetime.now, memoryview(np.arange(3)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_of_unknown_kinds_are_refused(value: Any) -> None:
    with pytest.raises(SerializationError):
        SERDE.dumps_typed([value])


def test_a_private_attribute_that_would_be_lost_is_refused() -> None:
    value = user.Private()
    value._token = 5

    with pytest.raises(SerializationError, match="equal value"):
        SERDE.with_allowlist([user.Private]).dumps_typed(value)


def test_an_attribute_beside_the_fields_that_would_be_lost_is_refused() -> None:
    value = user.Plain(1)
    value.extra = 1  # type: ignore[attr-defined]

    with pytest.raises(SerializationError, match="equal value"):
        SERDE.dumps_typed(value)


def test_an_attribute_of_a_data_subclass_that_would_be_lost_is_refused() -> None:
    value = user.Name("x")
    value.extra = 1  # type: ignore[attr-defined]

    with pytest.raises(SerializationError, match="equal value"):
        SERDE.dumps_typed(value)


def test_a_serializer_still_works_after_a_refusal() -> None:
    serde = JsonPlusSerializer()
    with pytest.raises(SerializationError):
        serde.dumps_typed([(1, ({object()},))])

    assert round_trip([(1, {(2,)})], serde) == [(1, {(2,)})]


def test_a_codec_stores_a_class_the_serializer_does_not_know() -> None:
    class Celsius:
        def __init__(self, degrees: float) -> None:
            self.degrees = degrees

    serde = JsonPlusSerializer(codecs=[Codec(Celsius, lambda value: (value.degrees,))])
    found = round_trip({"t": Celsius(3.5)}, serde)["t"]

    assert (type(found), found.degrees) == (Celsius, 3.5)


def test_pickle_is_used_only_when_asked_for() -> None:
    serde = JsonPlusSerializer(pickle_fallback=True)
    typed = serde.dumps_typed(re.match)

    assert typed[0] == "pickle"
    assert serde.loads_typed(typed) is re.match
    with pytest.raises(SerializationError, match="pickle_fallback"):
        JsonPlusSerializer().loads_typed(typed)


_text = st.text(st.characters(), max_size=5)
_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**80), 2**80), st.floats(), _text, st.binary(max_size=5),
    st.binary(max_size=5).map(bytearray), st.complex_numbers(), st.fractions(), st.decimals(allow_nan=False),
    st.dates(), st.times(), st.timedeltas(), st.uuids(), st.datetimes(timezones=st.sampled_from([None, dt.UTC, PARIS])),
    st.sampled_from([*user.Color, *user.Text, user.Bits(3)]), st.ip_addresses(),
)  # fmt: skip
_hashable = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), _text, st.dates(),
        st.binary(max_size=4), st.sampled_from([*user.Color, *user.Text]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3), st.builds(user.Point, inner, inner)
    ),
    max_leaves=4,
)  # fmt: skip
_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=4).map(tuple), st.sets(_hashable, max_size=3),
        st.dictionaries(_hashable, inner, max_size=4), st.dictionaries(_text, inner, max_size=4),
        st.builds(user.Plain, inner, inner), st.builds(user.Point, inner, inner), st.builds(user.Attrs, inner, inner),
        st.builds(user.Model, any=inner), st.builds(user.Struct, inner), st.lists(inner, max_size=3).map(deque),
        st.builds(Send, _text, inner), st.builds(Command, update=inner, resume=inner),
        st.dictionaries(_hashable, inner, max_size=3).map(OrderedDict),
    ),
    max_leaves=12,
)  # fmt: skip


def test_a_tuple_with_a_nan_comes_back() -> None:
    value = user.Point(None, float("nan"))

    assert identical(round_trip(value), value)


@settings(max_examples=150, deadline=None)
@given(_values)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    assert identical(round_trip(value), value)
