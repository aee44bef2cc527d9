"""Ids, versions and times that every checkpoint gets: their form, and their order."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_async import ids
from langgraph_async.checkpoint.rows import next_version


@given(st.integers(-2, 20_000))
def test_a_checkpoint_id_is_a_uuid_of_version_6_that_shows_its_step(step: int) -> None:
    made = ids.checkpoint_id(step)

    assert (UUID(made).version, UUID(made).variant) == (6, "specified in RFC 4122")
    assert str(UUID(made)) == made
    assert UUID(made).clock_seq == step & 0x3FFF


def test_checkpoint_ids_of_one_process_sort_as_text_in_the_order_they_were_made() -> None:
    made = [ids.checkpoint_id(step) for step in (5, 3, 16_383, -2, 0, 7)]

    assert made == sorted(set(made))


@pytest.mark.parametrize("step", [-2, 0, 3])
def test_an_id_is_greater_than_one_whose_clock_is_ahead(step: int) -> None:
    ahead = ids._version_6(ids.stamp_of(ids.checkpoint_id(0)) + 10**9, 2)  # type: ignore[operator]

    assert ids.checkpoint_id(step, ahead) > ahead


def test_an_id_after_one_of_another_kind_is_made_from_the_clock() -> None:
    assert UUID(ids.checkpoint_id(1, "zzz")).version == 6


def test_versions_sort_as_text_and_differ_between_branches_of_a_history() -> None:
    version, made = next_version(None), []
    for _ in range(12):
        made.append(version)
        version = next_version(version)

    assert made == sorted(made)
    assert all(re.fullmatch(r"\d{32}\.0\.\d{16}", each) for each in made)
    assert next_version(made[0]) != next_version(made[0])


@given(st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)))
def test_a_time_is_written_as_iso_8601_to_the_microsecond(moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC)
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids.time, "time_ns", lambda: micros * 1000)
        text = ids.time_text()

    assert text == moment.isoformat(timespec="microseconds")
