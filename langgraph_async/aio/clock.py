"""A clock that can be replaced: everything that reads the time or waits for it takes a `Clock`."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Protocol, TypeAlias

_TURNS: Final = 25
"""Turns of the event loop that `FakeClock.advance` gives to what it woke, before it goes on."""


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Call nothing; without effect once the call was made."""
        ...


class Clock(Protocol):
    """What time it is, and how to wait for a later one."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed moment; never goes back. For measuring, not for showing."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`, and not before the event loop had a turn."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running event loop after `seconds`, unless the timer is cancelled before."""
        ...


class SystemClock:
    """The real time."""

    __slots__ = ()

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running event loop after `seconds`."""
        return asyncio.get_running_loop().call_later(seconds, callback)


SYSTEM_CLOCK: Final = SystemClock()


_Sleeper: TypeAlias = tuple[float, int, asyncio.Future[None]]
"""When it is due, the order of entering, and what wakes it."""


class _FakeTimer:
    __slots__ = ("_stop",)

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def cancel(self) -> None:
        self._stop()


class FakeClock:
    """A clock for tests: its time stands still until `advance` is called.

    Example:
        >>> async def test_waits_before_the_second_attempt():
        ...     clock = FakeClock()
        ...     task = asyncio.create_task(retrying(clock))
        ...     await clock.sleepers()
        ...     await clock.advance(0.5)
    """

    __slots__ = ("_elapsed", "_order", "_sleepers", "_start", "_watchers", "slept")

    def __init__(self, start: datetime = datetime(2024, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._order = itertools.count()
        self._sleepers: list[_Sleeper] = []
        self._watchers: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self.slept: list[float] = []
        """Seconds asked for by every `sleep` so far, in the order of the calls."""

    def now(self) -> datetime:
        """Return the start time plus what was advanced."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Return the seconds that were advanced since the clock was made."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Return when the clock was advanced by `seconds`; with 0 or less, after one turn of the event loop."""
        self.slept.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        entry = self._enter(seconds)
        try:
            await entry[2]
        finally:
            self._leave(entry)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` when the clock was advanced by `seconds`; counts as a sleeper until then."""
        entry = self._enter(seconds)
        entry[2].add_done_callback(lambda due: None if due.cancelled() else callback())
        return _FakeTimer(partial(self._leave, entry))

    def _enter(self, seconds: float) -> _Sleeper:
        entry = (self._elapsed + seconds, next(self._order), asyncio.get_running_loop().create_future())
        heapq.heappush(self._sleepers, entry)
        self._notify()
        return entry

    def _leave(self, entry: _Sleeper) -> None:
        if entry in self._sleepers:
            self._sleepers.remove(entry)
            heapq.heapify(self._sleepers)
        entry[2].cancel()

    async def sleepers(self, count: int = 1) -> None:
        """Return as soon as at least `count` sleeps are under way."""

        def enough() -> bool:
            return len(self._sleepers) >= count

        if not enough():
            reached = asyncio.get_running_loop().create_future()
            self._watchers.append((enough, reached))
            await reached

    async def advance(self, seconds: float) -> None:
        """Move the time on, and wake in the order of their times all who sleep until then.

        Whoever wakes gets some turns of the event loop before the time moves on, so a loop that sleeps again and
        again wakes as often as it would by a real clock.
        """
        target = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, awake = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, due)
            if not awake.done():
                awake.set_result(None)
            await self._settle()
        self._elapsed = target
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def _notify(self) -> None:
        waiting = []
        for enough, reached in self._watchers:
            if reached.done():
                continue
            if enough():
                reached.set_result(None)
            else:
                waiting.append((enough, reached))
        self._watchers = waiting
