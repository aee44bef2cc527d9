"""The pump of a run stream: whoever runs dry advances the run by one item, and everybody gets what comes of it.

In: a source of stream parts. Out: protocol events, dispatched to the root scope. One consumer pulls at a time, in its
own task; the others wait for what it brings. Nothing runs between two pulls but the superstep that is under way.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Protocol, TypeAlias

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.constants import MISSING
from langgraph_async.errors import GraphBubbleUp

Event: TypeAlias = dict[str, Any]
Scope: TypeAlias = tuple[str, ...]


class StreamSource(Protocol):
    """A run that is advanced item by item."""

    def check_caller(self) -> None:
        """Raise RuntimeError if a node of the run is calling: it cannot wait for itself."""
        ...

    async def next(self) -> Any:
        """Return the next `StreamPart`, or `MISSING` at the end; raises what the run fails with."""
        ...

    async def aclose(self) -> None:
        """End the run, and return when everything of it has ended; again does nothing.

        An item that is being waited for meanwhile becomes `MISSING`.
        """
        ...


class Dispatching(Protocol):
    """What events are given to: the root scope, or that of a nested graph."""

    async def dispatch(self, event: Event) -> None:
        """Give an event to the transformers, in order."""
        ...

    async def finalize(self) -> None:
        """End all projections."""
        ...

    async def fail(self, error: BaseException) -> None:
        """End all projections with an error."""
        ...


class Pump:
    """Advances one run, item by item, for any number of consumers.

    Args:
        source: The run. Nothing of it is touched before the first pull.

    Attributes:
        root: The scope that gets the events; set before the first pull.
        over: The run has ended, and so have all projections.
        error: What it failed with.
        aborted: `abort` ended it.
        delivers_in_task: A transformer awaits in `aprocess`, so that what it waits for must be cancellable.
    """

    __slots__ = (
        "_delivery",
        "_late",
        "_puller",
        "_settling",
        "_waiters",
        "aborted",
        "delivers_in_task",
        "error",
        "over",
        "root",
        "source",
    )

    root: Dispatching

    def __init__(self, source: StreamSource) -> None:
        self.source = source
        self.over = False
        self.error: BaseException | None = None
        self.aborted = False
        self.delivers_in_task = False
        self._late: deque[tuple[Dispatching, Event]] = deque()
        self._puller: asyncio.Task[Any] | None = None
        self._delivery: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def later(self, scope: Dispatching, event: Event) -> None:
        """Give `event` to `scope` with one of the next pulls, before the run goes on.

        So a consumer can subscribe to a nested graph's projections before it has lost anything of them.
        """
        self._late.append((scope, event))

    def wake(self) -> None:
        """Let the consumers that wait for another's pull look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def pull(self) -> None:
        """Advance the run by one item, or wait until somebody else has.

        Never raises what the run fails with: that reaches the consumers through what they read. A consumer that is
        cancelled while it pulls ends the run before the cancellation leaves here; one that waits just leaves.

        Raises:
            RuntimeError: A transformer or a node of the run waits for the stream that waits for it.
        """
        if self.over:
            return
        self._check_outside()
        if self._puller is not None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
            return
        self._puller = asyncio.current_task()
        try:
            await self._advance()
        finally:
            self._puller = None
            self.wake()

    async def abort(self) -> None:
        """End the run, and return when nothing of it is left. Cursors end quietly; again does nothing.

        Raises:
            RuntimeError: A transformer or a node of the run aborts the stream that waits for it.
        """
        if self.over:
            return
        self._check_outside()
        if self._settling is None:
            self.aborted = True
        await self._settle(None)

    def _check_outside(self) -> None:
        self.source.check_caller()
        if asyncio.current_task() in (self._puller, self._delivery, self._settling):
            raise RuntimeError(
                "A stream transformer cannot wait for the run stream that it is part of: the stream waits for it. "
                "Hand the work to schedule()."
            )

    async def _advance(self) -> None:
        try:
            if self._late:
                # A task that was just started to read a nested graph gets the turn to subscribe.
                await asyncio.sleep(0)
            if self._late:
                await self._deliver(*self._late.popleft())
                return
            part = await self.source.next()
            if self._settling is None and part is not MISSING:
                await self._deliver(self.root, _event(part))
                return
            error: BaseException | None = None
        except (Exception, GraphBubbleUp) as exc:  # noqa: BLE001
            error = exc
        except asyncio.CancelledError:
            await self._settle(
                asyncio.CancelledError("Another consumer of the run stream, which ran it, was cancelled.")
            )
            raise
        except BaseException as exc:
            await self._settle(exc)
            raise
        await self._settle(error)

    async def _deliver(self, scope: Dispatching, event: Event) -> None:
        if not self.delivers_in_task:
            await scope.dispatch(event)
            return
        self._delivery = delivery = spawn(scope.dispatch(event), name="run stream event")
        interrupted = await wait_settled(delivery, lambda: _cancel(delivery))
        self._delivery = None
        if interrupted is not None:
            raise interrupted
        if not delivery.cancelled() or self._settling is None:
            delivery.result()

    async def _settle(self, error: BaseException | None) -> None:
        """End the run once, whoever asks, and wait for it, however often the wait is cancelled."""
        if self._settling is None:
            self._settling = spawn(self._end(error), name="end of a run stream")
        interrupted = await wait_settled(self._settling)
        self._settling.result()
        if interrupted is not None:
            raise interrupted

    async def _end(self, error: BaseException | None) -> None:
        self._late.clear()
        try:
            if self._delivery is not None:
                self._delivery.cancel()
                await asyncio.wait([self._delivery])
            await self.source.aclose()
            if error is None:
                await self.root.finalize()
        except BaseException as exc:  # noqa: BLE001
            error = exc
        if error is not None:
            await self.root.fail(error)
        self.error = error
        self.over = True
        self.wake()


def _cancel(work: asyncio.Task[None]) -> None:
    work.cancel()


def _event(part: dict[str, Any]) -> Event:
    params: dict[str, Any] = {"namespace": list(part["ns"]), "timestamp": now_ms(), "data": part["data"]}
    if "interrupts" in part:
        params["interrupts"] = part["interrupts"]
    return {"type": "event", "method": part["type"], "params": params}


def now_ms() -> int:
    """Return the wall-clock time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
