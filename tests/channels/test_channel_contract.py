"""What holds for every channel class, whatever it does with its writes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from langgraph_async.channels import (
    AnyValue,
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from langgraph_async.constants import MISSING
from langgraph_async.errors import EmptyChannelError
from langgraph_async.types import DeltaSnapshot


def extend_in_place(left: list[Any], right: list[Any]) -> list[Any]:
    left.extend(right)
    return left


def extend_batch_in_place(left: list[Any], batch: list[list[Any]]) -> list[Any]:
    for right in batch:
        left.extend(right)
    return left


@dataclass(frozen=True)
class Case:
    make: Callable[[], BaseChannel]
    writes: tuple[list[Any], ...]
    """Batches that leave the channel with a value (after `finish`)."""
    more: list[Any]
    """A further batch that changes it."""
    takes_none: bool = False
    stored: bool = True


CASES = {
    "LastValue": Case(lambda: LastValue(int, "k"), ([1], [2]), [3], takes_none=True),
    "LastValueAfterFinish": Case(lambda: LastValueAfterFinish(int, "k"), ([1, 2],), [3], takes_none=True),
    "AnyValue": Case(lambda: AnyValue(int, "k"), ([1, 1],), [3], takes_none=True),
    "EphemeralValue": Case(lambda: EphemeralValue(int, key="k"), ([1],), [3], takes_none=True),
    "EphemeralValue unguarded": Case(lambda: EphemeralValue(int, False, key="k"), ([1, 2],), [3], takes_none=True),
    "UntrackedValue": Case(lambda: UntrackedValue(int, key="k"), ([1],), [3], takes_none=True, stored=False),
    "Topic": Case(lambda: Topic(int, key="k"), ([1, [2, 3]],), [4]),
    "Topic accumulating": Case(lambda: Topic(int, accumulate=True, key="k"), ([1], [[2, 3]]), [4]),
    "BinaryOperatorAggregate": Case(
        lambda: BinaryOperatorAggregate(list, operator.add, key="k"), ([[1], [2]], [[3]]), [[4]]
    ),
    "BinaryOperatorAggregate in place": Case(
        lambda: BinaryOperatorAggregate(list, extend_in_place, key="k"), ([[1], [2]], [[3]]), [[4]]
    ),
    "DeltaChannel": Case(lambda: DeltaChannel(extend_batch_in_place, key="k"), ([[1], [2]],), [[3]], stored=False),
    "NamedBarrierValue": Case(lambda: NamedBarrierValue(str, {"a", "b"}, "k"), (["a"], ["b", "a"]), []),
    "NamedBarrierValueAfterFinish": Case(
        lambda: NamedBarrierValueAfterFinish(str, {"a", "b"}, "k"), (["a"], ["b"]), []
    ),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def filled(case: Case) -> BaseChannel:
    channel = case.make()
    for batch in case.writes:
        channel.update(batch)
    channel.finish()
    return channel


def seen(channel: BaseChannel) -> Any:
    return channel.get() if channel.is_available() else MISSING


def state(channel: BaseChannel) -> Any:
    """Everything a channel holds, whether it shows it or not; containers by value."""
    slots = {name for cls in type(channel).__mro__ for name in getattr(cls, "__slots__", ())}
    held = slots & {"value", "values", "seen", "finished"}
    return {name: repr(getattr(channel, name)) for name in sorted(held)}


def test_a_channel_has_no_instance_dict(case: Case) -> None:
    assert not hasattr(case.make(), "__dict__")


def test_a_written_channel_is_available(case: Case) -> None:
    channel = filled(case)

    assert channel.is_available()
    channel.get()


def test_get_raises_exactly_when_the_channel_is_not_available(case: Case) -> None:
    channel = case.make()

    if channel.is_available():
        channel.get()
    else:
        with pytest.raises(EmptyChannelError, match="k"):
            channel.get()


def test_a_copy_keeps_value_key_and_declaration(case: Case) -> None:
    channel = filled(case)
    copy = channel.copy()

    assert type(copy) is type(channel)
    assert (copy.key, copy.typ) == (channel.key, channel.typ)
    assert copy == channel
    assert state(copy) == state(channel)


def test_what_happens_to_a_copy_does_not_happen_to_the_original(case: Case) -> None:
    channel = filled(case)
    before = state(channel)
    copy = channel.copy()
    copy.update(case.more)
    copy.update(())
    copy.consume()

    assert state(channel) == before


def test_what_happens_to_the_original_does_not_happen_to_a_copy(case: Case) -> None:
    channel = filled(case)
    copy = channel.copy()
    before = state(copy)
    channel.update(case.more)
    channel.update(())
    channel.consume()

    assert state(copy) == before


def test_a_checkpoint_does_not_change_once_it_was_taken(case: Case) -> None:
    channel = filled(case)
    taken = channel.checkpoint()
    before = repr(taken)
    channel.update(case.more)
    channel.consume()
    channel.update(())

    assert repr(taken) == before


def test_a_stored_channel_comes_back_as_it_was(case: Case) -> None:
    channel = filled(case)
    stored = channel.snapshot() if isinstance(channel, DeltaChannel) else channel.checkpoint()
    back = case.make().from_checkpoint(stored)

    assert back.key == "k"
    if case.stored or isinstance(channel, DeltaChannel):
        assert state(back) == state(channel)
    else:
        assert not back.is_available()


def test_restoring_leaves_the_channel_it_is_called_on_alone(case: Case) -> None:
    channel = filled(case)
    before = state(channel)
    channel.from_checkpoint(MISSING).update(case.more)

    assert state(channel) == before


def test_missing_starts_fresh(case: Case) -> None:
    channel = filled(case).from_checkpoint(MISSING)
    fresh = case.make()

    if isinstance(channel, DeltaChannel):
        assert channel.get() == []
    else:
        assert state(channel) == state(fresh)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.takes_none])
def test_none_is_a_value(name: str) -> None:
    case = CASES[name]
    channel = case.make()
    channel.update([None])
    channel.finish()

    assert channel.is_available()
    assert channel.get() is None
    if case.stored:
        assert channel.checkpoint() is not MISSING
        assert channel.from_checkpoint(channel.checkpoint()).get() is None


def test_every_answer_tells_whether_anything_changed(case: Case) -> None:
    channel = case.make()
    calls: list[Callable[[], bool]] = [
        *(lambda batch=batch: channel.update(batch) for batch in case.writes),
        channel.finish,
        channel.finish,
        lambda: channel.update(()),
        lambda: channel.update(case.more),
        channel.consume,
        channel.consume,
        lambda: channel.update(()),
        lambda: channel.update(()),
    ]
    for call in calls:
        before = state(channel)
        answer = call()
        assert answer == (state(channel) != before)


def test_an_empty_update_changes_nothing_where_the_class_says_so(case: Case) -> None:
    channel = filled(case)
    before = state(channel)
    changed = channel.update(())

    if not channel.reacts_to_empty:
        assert not changed
        assert state(channel) == before


def test_a_subclass_with_its_own_update_is_taken_to_react_to_an_empty_one() -> None:
    class Counting(LastValue[int]):
        def update(self, values: Any) -> bool:
            return super().update(values or [0])

    class Renamed(LastValue[int]):
        pass

    assert Counting.reacts_to_empty
    assert not Renamed.reacts_to_empty


def test_a_snapshot_is_unwrapped_by_both_channels_that_accumulate() -> None:
    reducer = BinaryOperatorAggregate(list, operator.add).from_checkpoint(DeltaSnapshot([1]))
    delta = DeltaChannel(extend_batch_in_place).from_checkpoint(DeltaSnapshot([1]))

    assert reducer.get() == delta.get() == [1]
