"""LastValue, LastValueAfterFinish, AnyValue, EphemeralValue, UntrackedValue: how long, and from how many writers."""

from __future__ import annotations

import pytest

from langgraph_async.channels import AnyValue, EphemeralValue, LastValue, LastValueAfterFinish, UntrackedValue
from langgraph_async.constants import MISSING
from langgraph_async.errors import EmptyChannelError, InvalidUpdateError


def test_last_value_stays_through_steps_without_writes() -> None:
    channel = LastValue(int, "x")
    channel.update([1])

    assert channel.update(()) is False
    assert channel.get() == 1


@pytest.mark.parametrize("values", [[1, 2], [1, 1]])
def test_last_value_refuses_two_writes_even_if_equal_and_says_what_to_do(values: list[int]) -> None:
    channel = LastValue(int, "x")
    channel.update([0])

    with pytest.raises(InvalidUpdateError, match=r"^At key 'x': Can receive only one value per step\.") as caught:
        channel.update(values)
    assert "Annotated[<type>, reducer]" in str(caught.value)
    assert "INVALID_CONCURRENT_GRAPH_UPDATE" in str(caught.value)
    assert channel.get() == 0


def test_any_two_last_values_are_equal_and_no_other_class_is() -> None:
    assert LastValue(int) == LastValue(str)
    assert LastValue(int) != AnyValue(int)


def test_a_held_back_value_shows_after_finish_and_until_it_was_used() -> None:
    channel = LastValueAfterFinish(int, "x")
    channel.update([1, 2])
    with pytest.raises(EmptyChannelError):
        channel.get()

    assert channel.finish() is True
    assert channel.finish() is False
    assert channel.get() == 2
    assert channel.consume() is True
    assert channel.consume() is False
    assert channel.checkpoint() is MISSING


def test_a_new_write_holds_the_value_back_again() -> None:
    channel = LastValueAfterFinish(int, "x")
    channel.update([1])
    channel.finish()
    channel.update([2])

    assert not channel.is_available()
    assert channel.consume() is False
    assert channel.checkpoint() == [2, False]


@pytest.mark.parametrize("stored", [(None, True), [None, True]])
def test_a_held_back_pair_is_restored_from_a_list_or_a_tuple(stored: object) -> None:
    channel = LastValueAfterFinish(int, "x").from_checkpoint(stored)

    assert channel.is_available()
    assert channel.get() is None


def test_finish_without_a_value_changes_nothing() -> None:
    channel = LastValueAfterFinish(int, "x")

    assert channel.finish() is False
    assert not channel.is_available()


def test_any_value_takes_several_and_drops_it_in_a_step_without() -> None:
    channel = AnyValue(int, "x")
    channel.update([1, 2])
    assert channel.get() == 2

    assert channel.update(()) is True
    assert channel.update(()) is False
    assert not channel.is_available()


def test_an_ephemeral_value_lives_for_one_step() -> None:
    channel = EphemeralValue(int, key="x")
    channel.update([None])
    assert channel.is_available()

    assert channel.update(()) is True
    assert channel.update(()) is False
    assert channel.checkpoint() is MISSING


@pytest.mark.parametrize("kind", [EphemeralValue, UntrackedValue])
def test_a_guarded_channel_refuses_two_writes_and_an_unguarded_one_keeps_the_last(kind: type) -> None:
    with pytest.raises(InvalidUpdateError, match=r"At key 'x': .*guard=True"):
        kind(int, key="x").update([1, 2])
    unguarded = kind(int, guard=False, key="x")
    unguarded.update([1, 2])

    assert unguarded.get() == 2
    assert unguarded != kind(int)
    assert unguarded == kind(str, False)


def test_an_untracked_value_survives_the_step_and_its_copy_but_not_the_store() -> None:
    channel = UntrackedValue(int, key="x")
    channel.update([1])

    assert channel.update(()) is False
    assert channel.copy().get() == 1
    assert channel.checkpoint() is MISSING
    assert not channel.from_checkpoint(1).is_available()
