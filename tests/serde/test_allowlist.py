"""Which classes may be stored, and how they come to be listed."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypeVar, Union

import pytest
import serde_types as user
from typing_extensions import TypedDict

from langgraph_async.errors import ConfigError, SerializationError
from langgraph_async.serde.allowlist import collect_types
from langgraph_async.serde.jsonplus import JsonPlusSerializer

T = TypeVar("T")


@dataclasses.dataclass
class Box(Generic[T]):
    item: T


class Inner(TypedDict, total=False):
    points: list[user.Point]
    again: Inner


class State(TypedDict):
    color: user.Color
    inner: Inner
    both: Annotated[dict[str, tuple[user.Frozen, ...]], "reducer"]
    old: Optional[user.Struct]  # noqa: UP045
    either: Union[user.Attrs, int, None]  # noqa: UP007
    boxed: Box[user.Bag]
    error: user.Oops
    text: Literal[user.Text.A]
    renamed: NewType("Renamed", user.Model)  # type: ignore[valid-type]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (user.Color.RED, "Color"), (user.Plain(1), "Plain"), (user.Model(), "Model"), (user.Point(1, 2), "Point"),
        (user.Attrs(1), "Attrs"), (user.Struct(1), "Struct"), (user.Name("x"), "Name"),
    ],
)  # fmt: skip
def test_a_class_nobody_listed_is_refused_when_it_is_written(value: Any, name: str) -> None:
    with pytest.raises(SerializationError) as caught:
        JsonPlusSerializer().dumps_typed({"k": [value]})

    assert caught.value.path == ("k", "0")
    assert f"allowed_msgpack_modules=[{name}]" in str(caught.value)


def test_a_class_is_listed_with_the_classes_in_its_fields() -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[user.Parent])
    value = user.Parent(child=user.Model(color=user.Color.PAIR))

    assert serde.loads_typed(serde.dumps_typed(value)) == value


def test_a_class_can_be_listed_by_module_and_name() -> None:
    written = JsonPlusSerializer(allowed_msgpack_modules=[user.Parent]).dumps_typed(user.Parent(child=user.Model()))
    serde = JsonPlusSerializer(allowed_msgpack_modules=[("serde_types", "Parent")])

    assert serde.loads_typed(written) == user.Parent(child=user.Model())
    assert serde.dumps_typed(user.Parent(child=user.Model())) == written


def test_a_nested_class_is_read_under_the_short_name_too() -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[user.Outer.Inner])
    written = serde.dumps_typed(user.Outer.Inner(1))[1]
    short = written.replace(b"\xabOuter.Inner", b"\xa5Inner").replace(written[:2], bytes([0xC7, written[1] - 6]))

    assert serde.loads_typed(("msgpack", short)) == user.Outer.Inner(1)


def test_a_class_made_in_a_function_can_be_listed() -> None:
    class Local(enum.Enum):
        A = 1

    serde = JsonPlusSerializer(allowed_msgpack_modules=[Local])

    assert serde.loads_typed(serde.dumps_typed(Local.A)) is Local.A


def test_a_name_that_is_not_there_is_an_error_when_it_is_read() -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[("serde_types", "Gone")])
    frame = b"\x93\xabserde_types\xa4Gone\x01"

    with pytest.raises(SerializationError, match="is not there"):
        serde.loads_typed(("msgpack", bytes([0xC7, len(frame), 0]) + frame))


def test_with_allowlist_returns_itself_when_nothing_is_new() -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[user.Plain, ("a", "B")])
    bigger = serde.with_allowlist([user.Color])

    assert serde.with_allowlist([user.Plain, ("a", "B")]) is serde
    assert serde.with_allowlist([]) is serde
    assert bigger is not serde
    assert bigger.dumps_typed(user.Color.RED)
    with pytest.raises(SerializationError):
        serde.dumps_typed(user.Color.RED)


def test_something_that_is_not_a_class_cannot_be_listed() -> None:
    with pytest.raises(ConfigError, match="module and its name"):
        JsonPlusSerializer(allowed_msgpack_modules=["serde_types.Plain"])  # type: ignore[list-item]


def test_collect_types_walks_a_schema() -> None:
    assert collect_types(State) == {
        user.Color, user.Point, user.Frozen, user.Struct, user.Attrs, Box, user.Bag, user.Oops, user.Text, user.Model,
    }  # fmt: skip


@pytest.mark.parametrize("hint", [int, dict[str, Any], Any, None, "Forward", list, T, Literal["a"]])
def test_collect_types_finds_nothing_in_builtin_types(hint: Any) -> None:
    assert collect_types(hint) == set()


def test_a_field_that_a_class_no_longer_has_is_named() -> None:
    old = JsonPlusSerializer(allowed_msgpack_modules=[user.Plain]).dumps_typed(user.Plain(1))[1]
    serde = JsonPlusSerializer(allowed_msgpack_modules=[user.Plain])

    with pytest.raises(SerializationError, match=r"serde_types\.Plain.*no field 'z'"):
        serde.loads_typed(("msgpack", old.replace(b"\xa1b", b"\xa1z")))
