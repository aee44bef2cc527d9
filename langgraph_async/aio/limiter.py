"""Bounds how many tasks run at once, across nested graphs."""

from __future__ import annotations

import anyio


class Limiter:
    """A bound on running tasks that a task can step out of while it waits for a graph inside it.

    Waiters are served in order. Unlike `anyio.CapacityLimiter` a slot has no owner, so a task may take it in one
    asyncio task and give it back in another.
    """

    __slots__ = ("_slots", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._slots = anyio.Semaphore(limit, fast_acquire=True)

    def try_acquire(self) -> bool:
        """Take a slot if one is free."""
        try:
            self._slots.acquire_nowait()
        except anyio.WouldBlock:
            return False
        return True

    async def acquire(self) -> None:
        """Take a slot, waiting for one. A cancelled wait takes none."""
        await self._slots.acquire()

    def release(self) -> None:
        """Give a slot back."""
        self._slots.release()
