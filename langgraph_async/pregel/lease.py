"""Which run holds a thread, within this process.

Savers guarantee across processes that only one of two runs can store; a lease tells a second run so before it
starts, and lets it wait, or take over, if it was asked to. Nothing is kept for a thread that no run holds.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from langgraph_async.aio.threads import wait_settled
from langgraph_async.constants import MISSING, Missing
from langgraph_async.errors import ThreadConflictError

_TURNS = 10
"""Turns of the event loop after which an abandoned stream has begun to close itself: two per generator around it."""


@dataclass(slots=True, eq=False)
class Lease:
    """A run's hold on a thread.

    Attributes:
        thread_id: The thread.
        task: The asyncio task that hosts the run, as long as it does.
        loop: Its event loop.
        done: Set when the thread is given back.
        closing: The run is coming to its end; whoever wants the thread need only wait.
        evicted_by: Strategy of the run that took over, or None; the holder fails with a conflict.
        cancelled_before: Cancellations of `task` that were under way when it took the thread.
        head_before: Newest checkpoint id before the run, None for an empty thread, `MISSING` while the run has not
            looked, and so has not stored anything.
    """

    thread_id: str
    task: asyncio.Task[Any] | None
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]
    closing: bool = False
    evicted_by: str | None = None
    cancelled_before: int = 0
    head_before: str | None | Missing = MISSING

    def note_head(self, head: str | None) -> None:
        """Note the newest checkpoint id before the run, unless it is known from a run whose place this one took."""
        if self.head_before is MISSING:
            self.head_before = head


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


async def acquire(
    saver: Any, thread_id: str, strategy: str, *, within: Collection[Lease] = ()
) -> tuple[Lease, Lease | None]:
    """Take a thread for a run.

    Args:
        saver: The saver; runs on different savers do not know each other.
        thread_id: The thread.
        strategy: ``"reject"``, ``"enqueue"``, ``"interrupt"`` or ``"rollback"``.
        within: Leases of the runs that the call is made in, which cannot end before it does.

    Returns:
        The lease, and the lease of the run that was put off for it, or None.

    Raises:
        ThreadConflictError: The thread is taken, and `strategy` is ``"reject"`` or cannot be followed.
    """
    seats = _seats(saver)
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task is not None else 0
    lease = Lease(thread_id, task, loop, loop.create_future(), cancelled_before=cancelled_before)
    put_off: Lease | None = None
    while (seat := seats.get(thread_id)) is not None and not seat.holder.loop.is_closed():
        held = seat.holder
        if held.loop is not loop:
            raise _conflict(thread_id, "by a run in another event loop")
        if held in within or held.task is task:
            raise _conflict(thread_id, "by the very run that asks for it")
        if strategy == "enqueue":
            await _wait_in_line(seats, thread_id, seat, lease)
            return lease, None
        if strategy == "reject" and not await _closes(held):
            raise _conflict(thread_id, "by a run that has not ended")
        if strategy != "reject" and not held.closing:
            _evict(held, strategy)
            put_off = held
        await _ended(held)
    seats[thread_id] = Seat(lease)
    if put_off is not None and strategy == "rollback":
        lease.head_before = put_off.head_before
    return lease, put_off


async def _closes(held: Lease) -> bool:
    """Tell whether a run is being closed from outside, or is about to be, since its stream was dropped."""
    for _ in range(_TURNS):
        if held.closing:
            break
        await asyncio.sleep(0)
    return held.closing


def _evict(held: Lease, strategy: str) -> None:
    if held.evicted_by is None and held.task is not None:
        held.evicted_by = strategy
        held.task.cancel()
    elif strategy == "rollback":
        held.evicted_by = strategy


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
async def holding(
    saver: Any, thread_id: str, strategy: str, *, within: Collection[Lease] = ()
) -> AsyncIterator[tuple[Lease, Lease | None]]:
    """Hold a thread while the block runs; gives the lease, and that of the run that was put off for it, or None.

    Raises:
        ThreadConflictError: As for `acquire`; or another run took the thread over while the block ran.
    """
    lease, put_off = await acquire(saver, thread_id, strategy, within=within)
    try:
        yield lease, put_off
    except BaseException as exc:
        if not _stopped_by_other(lease):
            raise
        raise _taken_over(lease, thread_id) from (None if isinstance(exc, asyncio.CancelledError) else exc)
    else:
        # It took no notice of the cancellation and came to its end: that counts, unless it is to be undone.
        if _stopped_by_other(lease) and lease.evicted_by == "rollback":
            raise _taken_over(lease, thread_id)
    finally:
        release(saver, thread_id, lease)
        lease.task = None  # what that task comes to may hold the run, which holds this


def _stopped_by_other(lease: Lease) -> bool:
    """Take back the cancellation by which another run took over; tell whether there was one, and no other."""
    if lease.evicted_by is None or lease.task is None:
        return False
    return lease.task.uncancel() <= lease.cancelled_before


def _taken_over(lease: Lease, thread_id: str) -> ThreadConflictError:
    fate = "undone" if lease.evicted_by == "rollback" else "stored"
    return ThreadConflictError(
        f"Another run took thread {thread_id!r} over (multitask_strategy={lease.evicted_by!r} on its side); this run "
        f"was stopped. What it had committed is {fate}.",
        thread_id=thread_id,
    )


async def rolled_back(saver: Any, thread_id: str, strategy: str, put_off: Lease | None) -> str | None:
    """Return the checkpoint from which to start instead of the newest, or None.

    With ``"rollback"`` that is where the run that was put off had started; a thread that was empty then is deleted.
    """
    if put_off is None or strategy != "rollback" or isinstance(put_off.head_before, Missing):
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
