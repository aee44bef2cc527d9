from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_async.channels import DeltaChannel
from langgraph_async.constants import MISSING
from langgraph_async.errors import InvalidUpdateError, ReducerError, SchemaError
from langgraph_async.types import DeltaSnapshot, Overwrite

Batches = st.lists(st.lists(st.lists(st.integers(), max_size=3), max_size=4), max_size=6)


def add_all(state: list[Any], batch: list[list[Any]]) -> list[Any]:
    return reduce(operator.add, batch, state)


def extend_all(state: list[Any], batch: list[list[Any]]) -> list[Any]:
    for each in batch:
        state.extend(each)
    return state


def fresh(reducer: Any = add_all, **options: Any) -> DeltaChannel[Any]:
    return DeltaChannel(reducer, key="log", **options).from_checkpoint(MISSING)


def stored(writes: list[Any]) -> list[tuple[str, str, Any]]:
    return [("task", "log", write) for write in writes]


@given(batches=Batches, reducer=st.sampled_from([add_all, extend_all]))
def test_it_does_not_matter_how_writes_are_split_into_batches(batches: list[list[list[int]]], reducer: Any) -> None:
    split, whole, replayed = fresh(reducer), fresh(reducer), fresh(reducer)
    for batch in batches:
        split.update(batch)
    together = [write for batch in batches for write in batch]
    whole.update(together)
    replayed.replay_writes(stored(together))

    assert split.get() == whole.get() == replayed.get()


@given(batches=Batches, cut=st.integers(0, 6))
def test_a_snapshot_and_the_writes_since_give_the_value(batches: list[list[list[int]]], cut: int) -> None:
    live = fresh()
    for batch in batches[:cut]:
        live.update(batch)
    snapshot = live.snapshot()
    for batch in batches[cut:]:
        live.update(batch)
    loaded = fresh().from_checkpoint(snapshot)
    loaded.replay_writes(stored([write for batch in batches[cut:] for write in batch]))

    assert loaded.get() == live.get()


def test_the_reducer_is_called_once_a_step_with_the_whole_batch() -> None:
    batches: list[list[Any]] = []

    def note(state: list[Any], batch: list[Any]) -> list[Any]:
        batches.append(batch)
        return state

    fresh(note).update(([1], [2]))

    assert batches == [[[1], [2]]]


def test_a_declared_channel_has_no_value_and_a_started_one_is_empty() -> None:
    assert not DeltaChannel(add_all).is_available()
    assert fresh().get() == []
    assert DeltaChannel(lambda state, batch: state, dict).from_checkpoint(MISSING).get() == {}


def test_nothing_is_stored_but_snapshots() -> None:
    channel = fresh()
    channel.update([[1]])

    assert channel.checkpoint() is MISSING
    assert channel.snapshot() == DeltaSnapshot([1])
    assert DeltaChannel(add_all).snapshot() is MISSING


@pytest.mark.parametrize(("stored_value", "value"), [([1], [1]), (None, []), (DeltaSnapshot([1]), [1])])
def test_what_an_older_declaration_stored_is_taken_over(stored_value: Any, value: Any) -> None:
    assert fresh().from_checkpoint(stored_value).get() == value


def test_an_overwrite_replaces_the_value_and_drops_the_rest_of_its_step() -> None:
    channel = fresh()
    payload = [9]
    channel.update([[1]])
    channel.update([[2], Overwrite(payload), [3]])
    payload.append(10)

    assert channel.get() == [9]


def test_overwriting_with_none_empties() -> None:
    channel = fresh()
    channel.update([[1]])
    channel.update([Overwrite(None)])

    assert channel.get() == []


def test_two_overwrites_are_refused_live_and_the_last_one_counts_in_a_replay() -> None:
    channel = fresh()
    two = [Overwrite([1]), [2], {"__overwrite__": [3]}, [4]]

    with pytest.raises(InvalidUpdateError, match="only one Overwrite"):
        channel.update(two)
    channel.replay_writes(stored(two))
    assert channel.get() == [3, 4]


def test_a_reducer_that_raises_after_changing_its_argument_leaves_the_value_as_it_was() -> None:
    def fail(state: list[Any], batch: list[Any]) -> list[Any]:
        state.append("half")
        raise KeyError("x")

    channel = fresh(fail).from_checkpoint([1])

    with pytest.raises(ReducerError, match="'log'") as caught:
        channel.update([[2]])
    assert isinstance(caught.value.__cause__, KeyError)
    assert channel.get() == [1]


def test_a_default_is_the_first_value() -> None:
    channel = fresh(extend_all, default=["d"])
    channel.update([["e"]])

    assert channel.get() == ["d", "e"]
    assert channel.from_checkpoint(MISSING).get() == ["d"]


def test_declaring_it_for_a_key_keeps_reducer_frequency_and_own_default() -> None:
    channel = DeltaChannel(add_all, snapshot_frequency=7, default=["d"]).declared(list[int], key="log")

    assert (channel.key, channel.typ, channel.snapshot_frequency) == ("log", list[int], 7)
    assert channel.from_checkpoint(MISSING).get() == ["d"]


def test_a_declaration_that_cannot_work_is_refused() -> None:
    with pytest.raises(ValueError, match="snapshot_frequency must be greater than 0"):
        DeltaChannel(add_all, snapshot_frequency=0)
    with pytest.raises(SchemaError, match="can be made empty"):
        DeltaChannel(add_all, list | None)


def test_equality_goes_by_reducer_and_frequency() -> None:
    assert DeltaChannel(add_all) == DeltaChannel(add_all, dict)
    assert DeltaChannel(add_all) != DeltaChannel(extend_all)
    assert DeltaChannel(add_all) != DeltaChannel(add_all, snapshot_frequency=5)
