"""Which run holds a thread, within this process.

Savers guarantee across processes that only one of two runs can store; a lease tells a second run so before it
starts, and lets it wait, or take over, if it was asked to. Nothing is kept for a thread that no run holds.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from langgraph_async.aio.threads import wait_settled
from langgraph_async.errors import ThreadConflictError

_TURNS = 3
"""Turns of the event loop after which an abandoned stream has begun to close itself."""


@dataclass(slots=True, eq=False)
class Lease:
    """A run's hold on a thread.

    Attributes:
        task: The asyncio task that hosts the run.
        loop: Its event loop.
        done: Set when the thread is given back.
        closing: The run is coming to its end; whoever wants the thread need only wait.
        evicted: Another run took over; the holder fails with a conflict.
        head_before: Newest checkpoint id before the run, or None for an empty thread.
    """

    task: asyncio.Task[Any] | None
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]
    closing: bool = False
    evicted: bool = False
    head_before: str | None = None


@dataclass(slots=True, eq=False)
class Seat:
    """Who holds a thread, and who waits for it, in order."""

    holder: Lease
    waiting: deque[tuple[Lease, asyncio.Future[None]]] = field(default_factory=deque)


_elsewhere: weakref.WeakKeyDictionary[Any, dict[str, Seat]] = weakref.WeakKeyDictionary()


def _seats(saver: Any) -> dict[str, Seat]:
    own = getattr(saver, "leases", None)
    if isinstance(own, dict):
        return own
    try:
        return _elsewhere.setdefault(saver, {})
    except TypeError:
        return {}


async def acquire(saver: Any, thread_id: str, strategy: str) -> tuple[Lease, Lease | None]:
    """Take a thread for a run.

    Args:
        saver: The saver; runs on different savers do not know each other.
        thread_id: The thread.
        strategy: ``"reject"``, ``"enqueue"``, ``"interrupt"`` or ``"rollback"``.

    Returns:
        The lease, and the lease of the run that was put off for it, or None.

    Raises:
        ThreadConflictError: The thread is taken, and `strategy` is ``"reject"``.
    """
    seats = _seats(saver)
    loop = asyncio.get_running_loop()
    lease = Lease(asyncio.current_task(), loop, loop.create_future())
    put_off: Lease | None = None
    turns = 0
    while (seat := seats.get(thread_id)) is not None and not seat.holder.loop.is_closed():
        held = seat.holder
        if held.loop is not loop:
            raise _conflict(thread_id, "by a run in another event loop")
        if strategy == "enqueue":
            await _wait_in_line(seats, thread_id, seat, lease)
            return lease, None
        if held.closing:
            await _ended(held)
        elif strategy == "reject":
            if turns == _TURNS:
                raise _conflict(thread_id, "by a run that has not ended")
            turns += 1
            await asyncio.sleep(0)
        else:
            _evict(held, thread_id)
            await _ended(held)
            put_off = held
    seats[thread_id] = Seat(lease)
    return lease, put_off


def _evict(held: Lease, thread_id: str) -> None:
    if held.task is asyncio.current_task():
        raise _conflict(thread_id, "by the very run that asks for it")
    if not held.evicted and held.task is not None:
        held.evicted = True
        held.task.cancel()


async def _wait_in_line(seats: dict[str, Seat], thread_id: str, seat: Seat, lease: Lease) -> None:
    turn: asyncio.Future[None] = lease.loop.create_future()
    seat.waiting.append((lease, turn))
    try:
        await turn
    except asyncio.CancelledError:
        if turn.done() and not turn.cancelled():
            _give_back(seats, thread_id, lease)
        raise


@asynccontextmanager
async def holding(saver: Any, thread_id: str, strategy: str) -> AsyncIterator[tuple[Lease, Lease | None]]:
    """Hold a thread while the block runs; gives the lease, and that of the run that was put off for it, or None.

    Raises:
        ThreadConflictError: As for `acquire`; or another run took the thread over while the block ran.
    """
    lease, put_off = await acquire(saver, thread_id, strategy)
    try:
        yield lease, put_off
    except asyncio.CancelledError:
        if not lease.evicted:
            raise
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        raise ThreadConflictError(
            f"Another run took thread {thread_id!r} over (multitask_strategy={strategy!r} on its side); this run was "
            "stopped. What it had committed is stored.",
            thread_id=thread_id,
        ) from None
    finally:
        release(saver, thread_id, lease)


async def rolled_back(saver: Any, thread_id: str, strategy: str, put_off: Lease | None) -> str | None:
    """Return the checkpoint from which to start instead of the newest, or None.

    With ``"rollback"`` that is where the run that was put off had started; a thread that was empty then is deleted.
    """
    if put_off is None or strategy != "rollback":
        return None
    if put_off.head_before is None:
        await saver.adelete_thread(thread_id)
    return put_off.head_before


def release(saver: Any, thread_id: str, lease: Lease) -> None:
    """Give a thread back, and let the next run in line have it."""
    _give_back(_seats(saver), thread_id, lease)


def _give_back(seats: dict[str, Seat], thread_id: str, lease: Lease) -> None:
    if not lease.done.done():
        lease.done.set_result(None)
    seat = seats.get(thread_id)
    if seat is None or seat.holder is not lease:
        return
    while seat.waiting:
        following, turn = seat.waiting.popleft()
        if not turn.done():
            seat.holder = following
            turn.set_result(None)
            return
    del seats[thread_id]


async def _ended(held: Lease) -> None:
    interrupted = await wait_settled(held.done)
    if interrupted is not None:
        raise interrupted


def _conflict(thread_id: str, holder: str) -> ThreadConflictError:
    return ThreadConflictError(
        f"Thread {thread_id!r} is held {holder}. Wait for that run to end, use another thread_id, or pass "
        "config={'multitask_strategy': 'enqueue'} (or 'interrupt', 'rollback'). Nothing was stored.",
        thread_id=thread_id,
    )
