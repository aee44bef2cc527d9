"""Classes of a user's, for the serializer's tests."""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic


class Color(enum.Enum):
    RED = "r"
    PAIR = (1, 2)


class Text(str, enum.Enum):
    A = "a"


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Plain:
    a: Any
    b: Any = None


@dataclass(frozen=True, slots=True)
class Frozen:
    pair: tuple[int, ...]


@dataclass
class Derived:
    a: int
    doubled: int = field(init=False)

    def __post_init__(self) -> None:
        self.doubled = self.a * 2


@dataclass
class Clamped:
    a: int

    def __post_init__(self) -> None:
        self.a = min(self.a, 10)


class Model(pydantic.BaseModel):
    color: Color = Color.RED
    when: datetime | None = None
    tags: set[str] = set()
    any: Any = None


class Aliased(pydantic.BaseModel):
    name: str = pydantic.Field(alias="theName")


class Hidden(pydantic.BaseModel):
    name: str
    secret: str = pydantic.Field(default="", exclude=True)


class Parent(pydantic.BaseModel):
    child: Model


class SubModel(Model):
    more: int = 0


class Root(pydantic.RootModel[list[int]]):
    pass


class Private(pydantic.BaseModel):
    _token: int = pydantic.PrivateAttr(default=0)


@attrs.define
class Attrs:
    a: Any
    _b: Any = 1


@attrs.frozen
class FrozenAttrs:
    a: Any


class Struct(msgspec.Struct, frozen=True):
    a: Any
    b: tuple[int, ...] = ()


class Name(str):
    pass


class Bag(dict):  # type: ignore[type-arg]
    pass


class Ordered(OrderedDict):  # type: ignore[type-arg]
    pass


class Oops(Exception):
    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class Outer:
    @dataclass
    class Inner:
        a: int


USER_TYPES: list[type] = [
    Color, Text, Bits, Point, Plain, Frozen, Derived, Clamped, Model, Aliased, Hidden, Parent, SubModel, Root,
    Attrs, FrozenAttrs, Struct, Name, Bag, Ordered, Outer.Inner,
]  # fmt: skip
