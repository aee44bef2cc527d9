from __future__ import annotations

import pytest

from langgraph_async.channels import NamedBarrierValue, NamedBarrierValueAfterFinish
from langgraph_async.errors import EmptyChannelError, InvalidUpdateError


def test_a_barrier_opens_when_all_names_were_written_and_closes_when_used() -> None:
    barrier = NamedBarrierValue(str, {"a", "b"}, "join")
    assert barrier.update(["a"]) is True
    assert barrier.consume() is False
    assert not barrier.is_available()

    assert barrier.update(["a"]) is False
    assert barrier.update(["b", "a"]) is True
    assert barrier.get() is None
    assert barrier.consume() is True
    assert barrier.checkpoint() == set()


def test_a_closed_barrier_says_whom_it_waits_for() -> None:
    barrier = NamedBarrierValue(str, {"a", "b"}, "join")
    barrier.update(["a"])

    with pytest.raises(EmptyChannelError, match=r"'join' still waits for \['b'\]"):
        barrier.get()


def test_an_unknown_name_is_refused_and_none_of_its_batch_is_taken() -> None:
    barrier = NamedBarrierValue(str, {"a", "b"}, "join")

    with pytest.raises(InvalidUpdateError, match=r"At key 'join': Value 'c' not in \['a', 'b'\]"):
        barrier.update(["a", "c"])
    assert barrier.checkpoint() == set()


def test_an_empty_update_does_not_close_it() -> None:
    barrier = NamedBarrierValue(str, {"a"}, "join")
    barrier.update(["a"])

    assert barrier.update(()) is False
    assert barrier.is_available()


def test_a_deferred_barrier_opens_only_at_the_end() -> None:
    barrier = NamedBarrierValueAfterFinish(str, {"a", "b"}, "join")
    assert barrier.finish() is False
    barrier.update(["a", "b"])
    assert not barrier.is_available()
    assert barrier.consume() is False

    assert barrier.finish() is True
    assert barrier.finish() is False
    assert barrier.is_available()
    assert barrier.consume() is True
    assert barrier.checkpoint() == [set(), False]


@pytest.mark.parametrize("stored", [({"a"}, True), [["a"], True]])
def test_a_deferred_barrier_is_restored_from_any_pair(stored: object) -> None:
    assert NamedBarrierValueAfterFinish(str, {"a"}, "join").from_checkpoint(stored).is_available()


def test_barriers_are_equal_by_names_and_kind() -> None:
    assert NamedBarrierValue(str, {"a"}) == NamedBarrierValue(str, ["a"])
    assert NamedBarrierValue(str, {"a"}) != NamedBarrierValue(str, {"b"})
    assert NamedBarrierValue(str, {"a"}) != NamedBarrierValueAfterFinish(str, {"a"})
