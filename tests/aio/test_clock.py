from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from langgraph_async.aio.clock import SYSTEM_CLOCK, FakeClock


async def test_the_system_clock_tells_utc_and_never_goes_back() -> None:
    before = SYSTEM_CLOCK.monotonic()
    await SYSTEM_CLOCK.sleep(0)

    assert SYSTEM_CLOCK.now().tzinfo is UTC
    assert SYSTEM_CLOCK.monotonic() >= before


async def test_a_fake_clock_stands_still_until_it_is_advanced() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    clock = FakeClock(start)
    assert clock.now() == start
    assert clock.monotonic() == 0

    await clock.advance(1.5)

    assert clock.now() == start + timedelta(seconds=1.5)
    assert clock.monotonic() == 1.5


async def test_sleepers_wake_in_the_order_of_their_times_and_not_early() -> None:
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("c", 3.0), ("a", 1.0), ("b", 1.0)):
            group.create_task(sleeper(name, seconds))
        await clock.sleepers(3)
        await clock.advance(0.9)
        assert woken == []
        await clock.advance(2)
        assert woken == [("a", 1.0), ("b", 1.0)]
        await clock.advance(1)

    assert woken[-1] == ("c", 3.0)
    assert clock.slept == [3.0, 1.0, 1.0]


async def test_a_loop_that_sleeps_again_wakes_as_often_as_by_a_real_clock() -> None:
    clock = FakeClock()
    ticks: list[float] = []

    async def ticking() -> None:
        while True:
            await clock.sleep(1)
            ticks.append(clock.monotonic())

    task = asyncio.ensure_future(ticking())
    await clock.sleepers()
    await clock.advance(3.5)
    task.cancel()

    assert ticks == [1, 2, 3]
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = FakeClock()
    task = asyncio.ensure_future(clock.sleep(1))
    await clock.sleepers()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    again = asyncio.ensure_future(clock.sleepers())
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()


async def test_sleeping_no_time_gives_others_a_turn() -> None:
    clock = FakeClock()
    turns: list[str] = []
    asyncio.get_running_loop().call_soon(turns.append, "other")

    await clock.sleep(0)

    assert turns == ["other"]
