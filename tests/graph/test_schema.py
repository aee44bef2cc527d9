"""From annotations to channels."""

import operator
import typing
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NotRequired, Required

import pydantic
import pytest

from langgraph_async.channels import (
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    Topic,
    UntrackedValue,
)
from langgraph_async.channels.managed import IsLastStepManager, RemainingStepsManager
from langgraph_async.constants import MISSING, ROOT
from langgraph_async.errors import SchemaError
from langgraph_async.graph.schema import channels_of
from langgraph_async.managed import IsLastStep, RemainingSteps


def concat(state: list[Any], batch: list[Any]) -> list[Any]:
    return [*state, *(item for each in batch for item in each)]


Shared = Annotated[list[str], Topic(str, accumulate=True)]


class State(typing.TypedDict):
    plain: int
    log: Annotated[list[str], operator.add]
    maybe: NotRequired[Annotated[list[int], operator.add]]
    topic: Shared
    other: Shared
    once: Annotated[list[int], EphemeralValue]
    loose: Annotated[Any, UntrackedValue(Any, guard=False), "note"]
    delta: Required[Annotated[dict[str, int], DeltaChannel(lambda state, batch: state, snapshot_frequency=3)]]
    noted: Annotated[list[int], operator.add, "the last extra is not a reducer"]
    last: IsLastStep
    left: Required[RemainingSteps]


def test_every_field_becomes_the_channel_it_declares() -> None:
    channels, managed = channels_of(State)

    assert {key: type(channel) for key, channel in channels.items()} == {
        "plain": LastValue,
        "log": BinaryOperatorAggregate,
        "maybe": BinaryOperatorAggregate,
        "topic": Topic,
        "other": Topic,
        "once": EphemeralValue,
        "loose": UntrackedValue,
        "delta": DeltaChannel,
        "noted": LastValue,
    }
    assert managed == {"last": IsLastStepManager, "left": RemainingStepsManager}


def test_every_channel_knows_its_key_even_if_fields_share_an_annotation() -> None:
    channels, _ = channels_of(State)

    assert all(channel.key == key for key, channel in channels.items())
    channels["topic"].update(["a"])
    assert not channels["other"].is_available()


def test_two_reads_of_a_schema_share_no_channel() -> None:
    one, two = channels_of(State).channels, channels_of(State).channels
    one["topic"].update(["a"])

    assert not two["topic"].is_available()


def test_channels_get_the_annotated_type() -> None:
    channels, _ = channels_of(State)

    assert channels["plain"].typ is int
    assert channels["maybe"].typ == list[int]
    assert channels["once"].typ is list
    delta = channels["delta"]
    assert isinstance(delta, DeltaChannel)
    assert (delta.typ, delta.snapshot_frequency) == (dict[str, int], 3)
    assert delta.from_checkpoint(MISSING).get() == {}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (int, LastValue),
        (list[str], LastValue),
        (Annotated[list, operator.add], BinaryOperatorAggregate),
        (Shared, Topic),
    ],
)
def test_a_schema_without_fields_is_one_channel(schema: Any, kind: type) -> None:
    channels, managed = channels_of(schema)

    assert {key: type(channel) for key, channel in channels.items()} == {ROOT: kind}
    assert channels[ROOT].key == ROOT
    assert managed == {}


def test_a_managed_value_cannot_be_the_whole_state() -> None:
    with pytest.raises(SchemaError, match="a managed value cannot be the whole state"):
        channels_of(IsLastStep)


@dataclass
class DataDefaults:
    n: Annotated[int, operator.add] = 10
    log: Annotated[list[str], operator.add] = field(default_factory=lambda: ["d"])
    delta: Annotated[list[str], DeltaChannel(concat)] = field(default_factory=lambda: ["d"])
    own: Annotated[list[str], BinaryOperatorAggregate(list, operator.add)] = field(default_factory=lambda: ["d"])
    none: Annotated[list[str] | None, operator.add] = None
    plain: str = "p"


class ModelDefaults(pydantic.BaseModel):
    n: Annotated[int, operator.add] = 10
    log: Annotated[list[str], operator.add] = ["d"]
    delta: Annotated[list[str], DeltaChannel(concat)] = ["d"]
    own: Annotated[list[str], BinaryOperatorAggregate(list, operator.add)] = ["d"]
    none: Annotated[list[str] | None, operator.add] = None
    plain: str = "p"


@pytest.mark.parametrize("schema", [DataDefaults, ModelDefaults])
def test_the_default_of_a_reduced_field_starts_each_thread_anew(schema: type) -> None:
    channels, _ = channels_of(schema)
    first = {key: channel.from_checkpoint(MISSING) for key, channel in channels.items()}
    for key in ("log", "delta", "own"):
        first[key].get().append("changed in place")
    second = {key: channel.from_checkpoint(MISSING) for key, channel in channels.items()}

    assert {key: channel.get() for key, channel in second.items() if channel.is_available()} == {
        "n": 10,
        "log": ["d"],
        "delta": ["d"],
        "own": ["d"],
    }


def test_writes_are_added_to_the_default() -> None:
    channel = channels_of(DataDefaults).channels["n"].from_checkpoint(MISSING)
    channel.update([5])

    assert channel.get() == 15


def schema_with(reducer: Any) -> Any:
    return typing.TypedDict("Reduced", {"total": Annotated[int, reducer]})  # type: ignore[misc]


class Marker:
    pass


@pytest.mark.parametrize(
    ("reducer", "got"),
    [
        (lambda a: a, "(a)"),
        (lambda a, b, c: a, "(a, b, c)"),
        (lambda a, b, c=1: a, "(a, b, c=1)"),
        (lambda *a: a, "(*a)"),
        (lambda a, b, *, c: a, "(a, b, *, c)"),
        (Marker, "()"),
        (int, "<class 'int'>"),
    ],
)
def test_a_reducer_must_take_two_values(reducer: Any, got: str) -> None:
    with pytest.raises(ValueError, match="Invalid reducer signature") as caught:
        channels_of(schema_with(reducer))

    assert isinstance(caught.value, SchemaError)
    assert str(caught.value).startswith(f"Invalid reducer signature. Expected (a, b) -> c. Got {got}")
    assert "field 'total' of schema Reduced" in str(caught.value)


@pytest.mark.parametrize(
    "reducer",
    [
        operator.add,
        max,
        lambda a, b: a,
        lambda a, b, *, form=None: a,
        partial(lambda a, b, c: a, c=1),
        partial(lambda c, a, b: a, 1),
    ],
)
def test_anything_that_may_take_two_values_is_a_reducer(reducer: Any) -> None:
    assert isinstance(channels_of(schema_with(reducer)).channels["total"], BinaryOperatorAggregate)


def test_a_channel_class_that_needs_more_than_a_type_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"Field 'total' of schema Reduced: .*names.*Put an instance"):
        from langgraph_async.channels import NamedBarrierValue

        channels_of(schema_with(NamedBarrierValue))


def test_an_unresolvable_annotation_is_a_schema_error() -> None:
    class Broken(typing.TypedDict):
        price: "Decimal"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(SchemaError, match=r"Field 'price' of .*Broken: cannot resolve 'Decimal'"):
        channels_of(Broken)
