"""Takes what a run puts on its bus into a log, and only then to those who read.

In: the items of a run. Out: numbered events, stored together: all that came while the last ones were being stored,
and, where storing is expensive, within the log's interval. So a reader never sees an event that the log might not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from langgraph_async.aio.clock import Timer
from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.constants import MISSING
from langgraph_async.errors import LangGraphError
from langgraph_async.stream.bus import Bus
from langgraph_async.stream.log.base import END, ERROR, Event, EventLog, RunStatus
from langgraph_async.stream.log.broadcast import Broadcast

_BATCH: Final = 256
"""Events that are stored together at most."""


class Recorder:
    """Records one run.

    Args:
        log: The log.
        run_id: The run.
        thread_id: Its thread, or None.
        on_failure: Called when the log fails: nothing more can be told to anybody, so the run must end.

    Attributes:
        bus: Where the run puts what it tells.
        broadcast: For those who read along.
    """

    def __init__(
        self, log: EventLog, run_id: str, thread_id: str | None, on_failure: Callable[[], None] = lambda: None
    ) -> None:
        self.log = log
        self.run_id = run_id
        self.bus = Bus()
        self.broadcast = Broadcast()
        self._thread_id = thread_id
        self._on_failure = on_failure
        self._last = 0
        self._pending: list[Event] = []
        self._appended_at: float | None = None
        self._hurried = False
        self._recording: asyncio.Task[None] | None = None
        self._touching: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Enter the run into the log and begin to record it.

        Raises:
            EventLogError: The log has a run with this id.
            StorageError: The log cannot be used.
        """
        self.log.starting.add(self.run_id)
        try:
            await self.log.abegin(self.run_id, self._thread_id)
            self.log.live[self.run_id] = self.broadcast
        except BaseException as exc:
            self.bus.close()
            self.broadcast.fail(exc)
            raise
        finally:
            self.log.starting.discard(self.run_id)
        self._recording = spawn(self._record(), name="langgraph_async_record")
        if not self.log.in_process:
            self._touching = spawn(self._give_signs(), name="langgraph_async_record_signs")

    async def boundary(self) -> None:
        """Return when all that was put so far is stored and, if somebody drives, read."""
        self._hurry()
        await self.bus.drain()
        self._hurry()  # what was being stored meanwhile has used up the first one
        if not self.bus.closed:
            await self.broadcast.settled(self._last)

    async def finish(self, status: RunStatus, error: BaseException | None = None, reason: str | None = None) -> None:
        """Store what is left and the end of the run. A cancellation is passed on once that is done.

        Raises:
            StorageError: The log failed.
        """
        self.bus.close()
        self.broadcast.let_go()
        self._hurry()
        interrupted = None
        for task in (self._touching, self._recording):
            if task is not None:
                if task is self._touching:
                    task.cancel()
                interrupted = await wait_settled(task) or interrupted
        if self.broadcast.failure is None:
            closing = spawn(self._close(status, error, reason), name="langgraph_async_record_end")
            interrupted = await wait_settled(closing) or interrupted
        self.log.live.pop(self.run_id, None)
        if self.broadcast.failure is not None:
            raise self.broadcast.failure  # which may be why the run was cancelled
        if interrupted is not None:
            raise interrupted

    # -- inside -------------------------------------------------------------------------------------------------

    async def _record(self) -> None:
        """Record until the bus is closed. A cancellation, which only the end of the event loop brings, is not obeyed:
        the run is cancelled, too, and closes the bus.
        """
        going = True
        while going or self._pending:
            try:
                self._take()
                if self._pending and self._is_due():
                    await self._store()
                elif going:
                    going = await self._more()
                else:
                    self._hurried = True
            except asyncio.CancelledError:
                continue
            except Exception as exc:  # noqa: BLE001 - given to whoever runs the run, and to readers
                self.broadcast.fail(exc)
                self.bus.close()
                self._on_failure()
                return

    def _take(self) -> None:
        while len(self._pending) < _BATCH and (item := self.bus.get_nowait()) is not MISSING:
            ns, mode, data = item
            self._add(mode, ns, data)

    def _add(self, mode: str, ns: tuple[str, ...], data: Any) -> None:
        self._last += 1
        self._pending.append(Event(self._last, mode, ns, data))

    def _is_due(self) -> bool:
        return self._hurried or self._wait_s() <= 0 or len(self._pending) >= _BATCH

    def _wait_s(self) -> float:
        if self._appended_at is None:
            return 0.0
        return self._appended_at + self.log.interval_s - self.log.clock.monotonic()

    async def _more(self) -> bool:
        """Wait until there is more to do; tell whether the bus is open, or has items."""
        timer: Timer | None = None
        if self._pending:
            timer = self.log.clock.call_later(self._wait_s(), self._hurry)
        try:
            return await self.bus.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _hurry(self) -> None:
        self._hurried = True
        self.bus.nudge()

    async def _store(self) -> None:
        batch = self._pending
        await self.log.aappend(self.run_id, batch)
        self._pending = []
        self._hurried = False
        self._appended_at = self.log.clock.monotonic()
        self.broadcast.publish(batch)
        await self.broadcast.settled(batch[-1].seq)

    async def _close(self, status: RunStatus, error: BaseException | None, reason: str | None) -> None:
        if error is not None:
            self._add(ERROR, (), describe(error))
        self._add(END, (), {"status": status} if reason is None else {"status": status, "reason": reason})
        while True:
            try:
                await self._store()
            except asyncio.CancelledError:
                continue
            except Exception as exc:  # noqa: BLE001 - raised by `finish`
                self.broadcast.fail(exc)
            return

    async def _give_signs(self) -> None:
        while True:
            await self.log.clock.sleep(self.log.stale_s / 3)
            with suppress(LangGraphError):  # what matters is stored, or fails the run
                await self.log.atouch(self.run_id)


def describe(error: BaseException) -> dict[str, Any]:
    """Return what others are told of a failure: its class, its stable code if it has one, and its message."""
    code = getattr(error, "code", None)
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - it is somebody else's
        message = ""
    return {"type": type(error).__name__, "code": code if isinstance(code, str) else None, "message": message}


__all__ = ["Recorder", "describe"]
