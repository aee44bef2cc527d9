"""Schemas whose annotations are strings, or cannot be resolved."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, NotRequired, TypedDict, TypeVar

import typing_extensions

if TYPE_CHECKING:
    from decimal import Decimal

T = TypeVar("T")


class Base(TypedDict):
    log: Annotated[list[str], operator.add]


class Lazy(Base, total=False):
    count: int
    needed: typing_extensions.Required[int]


class LazyNotRequired(TypedDict):
    a: NotRequired[int]
    b: Annotated[NotRequired[int], "extra"]
    c: int


class LazyGeneric(TypedDict, Generic[T]):
    items: Annotated[list[T], operator.add]
    one: T


@dataclass
class LazyDataclass:
    shared: ClassVar[int] = 1
    later: LazyDataclass | None = None


class Unresolvable(Base):
    price: Decimal
