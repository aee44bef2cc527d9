"""The limit that nodes, graphs and runs share."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_async.aio.clock import FakeClock
from langgraph_async.aio.throttle import Limiter


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs rate=, concurrency= or both"),
        ({"rate": 0}, "rate of a Limiter must be a finite number greater than 0, got 0"),
        ({"rate": float("inf")}, "rate of a Limiter"),
        ({"rate": True}, "rate of a Limiter"),
        ({"rate": 1, "per": 0}, "per of a Limiter"),
        ({"rate": 1, "per": timedelta(0)}, "per of a Limiter"),
        ({"rate": 1, "burst": 0}, "burst of a Limiter must be a whole number of at least 1"),
        ({"rate": 1, "burst": 1.5}, "burst of a Limiter"),
        ({"concurrency": 0}, "concurrency of a Limiter"),
        ({"concurrency": 2, "burst": 3}, "burst=3 needs rate="),
    ],
)
def test_a_bad_number_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limiter(**options)


def test_a_limiter_shows_what_it_limits() -> None:
    assert repr(Limiter(rate=5, per=timedelta(minutes=1), concurrency=2)) == (
        "Limiter(rate=5, per=60, burst=1, concurrency=2)"
    )


@given(
    rate=st.integers(1, 50),
    per=st.floats(0.1, 100),
    burst=st.integers(1, 5),
    count=st.integers(1, 30),
)
def test_in_no_time_more_start_than_the_rate_and_the_burst_allow(rate: int, per: float, burst: int, count: int) -> None:
    async def run() -> None:
        clock = FakeClock()
        limiter = Limiter(rate=rate, per=per, burst=burst, clock=clock)
        starts: list[tuple[float, int]] = []

        async def one(number: int) -> None:
            await limiter.acquire()
            starts.append((clock.monotonic(), number))

        tasks = [asyncio.create_task(one(number)) for number in range(count)]
        await turns()
        # What is woken starts the next sleep, so one `advance` goes through all of them.
        await clock.advance(per * count / rate)
        await asyncio.gather(*tasks)
        assert [number for _, number in starts] == list(range(count))
        for place, (when, _) in enumerate(starts):
            due = max(0, place + 1 - burst) * per / rate
            assert when == pytest.approx(due, abs=1e-3 * per / rate)

    asyncio.run(run())


async def test_a_place_goes_to_the_one_who_has_waited_longest() -> None:
    limiter, order = Limiter(concurrency=1), list[int]()

    async def one(number: int) -> None:
        permit = await limiter.acquire()
        order.append(number)
        await asyncio.sleep(0)
        permit.release()

    await asyncio.gather(*(one(number) for number in range(5)))
    assert order == [0, 1, 2, 3, 4]


async def test_nobody_overtakes_those_who_wait() -> None:
    limiter = Limiter(concurrency=1)
    held = await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await turns()
    held.release()
    assert limiter.try_acquire() is None
    await waiting


@pytest.mark.parametrize("delivered", [False, True])
async def test_a_cancelled_wait_takes_no_place(delivered: bool) -> None:
    limiter = Limiter(concurrency=1)
    held = await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await turns()
    if delivered:
        held.release()  # the place is on its way when the cancellation comes
    waiting.cancel()
    await asyncio.wait([waiting])
    held.release()
    assert waiting.cancelled()
    assert limiter.try_acquire() is not None


async def test_a_cancelled_wait_takes_no_token_and_lets_the_next_go() -> None:
    clock = FakeClock()
    limiter = Limiter(rate=1, per=10, concurrency=5, clock=clock)
    await limiter.acquire()
    first, second = (asyncio.create_task(limiter.acquire()) for _ in range(2))
    await clock.sleepers()
    first.cancel()
    await turns()
    await clock.advance(10)
    assert first.cancelled()
    assert second.done()


async def test_giving_a_permit_back_twice_frees_one_place() -> None:
    limiter = Limiter(concurrency=1)
    permit = await limiter.acquire()
    permit.release()
    permit.release()
    assert limiter.try_acquire() is not None
    assert limiter.try_acquire() is None


async def test_those_inside_take_turns_in_the_place_of_the_one_around_them() -> None:
    limiter = Limiter(concurrency=1)
    outer = await limiter.acquire()
    inner = await limiter.acquire(within=outer)
    innermost = await limiter.acquire(within=inner)
    assert limiter.try_acquire(within=outer) is None
    innermost.release()
    inner.release()
    assert limiter.try_acquire(within=outer) is not None


async def test_those_inside_wait_for_tokens_like_all_others() -> None:
    clock = FakeClock()
    limiter = Limiter(rate=1, concurrency=1, clock=clock)
    outer = await limiter.acquire()
    inner = asyncio.create_task(limiter.acquire(within=outer))
    await clock.sleepers()
    await clock.advance(1)
    assert inner.done()


def test_a_limiter_serves_one_event_loop_after_the_other() -> None:
    limiter = Limiter(concurrency=1)

    async def leave_it_held() -> None:
        await limiter.acquire()

    asyncio.run(leave_it_held())
    asyncio.run(leave_it_held())


async def test_a_second_event_loop_at_the_same_time_is_refused() -> None:
    limiter = Limiter(concurrency=5)
    await limiter.acquire()

    def elsewhere() -> None:
        asyncio.run(limiter.acquire())

    with pytest.raises(RuntimeError, match="in use on another event loop"):
        await asyncio.to_thread(elsewhere)
