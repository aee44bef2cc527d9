"""Runs that go on although nobody may be waiting for them: one list for each event loop.

The list owns them: each is held until it ends. None outlasts its event loop, which cancels what it still runs when it
is shut down; `BackgroundRuns.drain` ends them in good order before that.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

from langgraph_async.aio.clock import SYSTEM_CLOCK, Clock
from langgraph_async.errors import GraphBubbleUp

if TYPE_CHECKING:
    from langgraph_async.pregel.handle import Run

_log = logging.getLogger("langgraph_async")


class BackgroundRuns:
    """The runs of one event loop that were started with ``on_disconnect="continue"``, or adopted, and have not ended.

    Iterate over it to get their handles. What such a run fails with is logged, unless it is awaited.
    """

    def __init__(self) -> None:
        self._runs: dict[int, Run] = {}
        self._changed: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(tuple(self._runs.values()))

    def find(self, run_id: str) -> Run | None:
        """Return the run with this id, or None."""
        return next((run for run in self if run.run_id == run_id), None)

    def on_thread(self, thread_id: str) -> list[Run]:
        """Return the runs on a thread, the oldest first."""
        return [run for run in self if run.thread_id == thread_id]

    def adopt(self, run: Run, *, logs: bool = True) -> None:
        """Hold a run until it ends; what it fails with is not logged if somebody else looks after that."""
        if not run.done() and id(run) not in self._runs:
            self._runs[id(run)] = run
            run.on_done(self._ended if logs else self._forget)

    def _forget(self, run: Run) -> None:
        self._runs.pop(id(run), None)
        run.failure()  # asyncio is not to report it as well
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    def _ended(self, run: Run) -> None:
        self._forget(run)
        error = run.failure()
        if error is not None and not isinstance(error, GraphBubbleUp):
            _log.error("%r failed in the background", run, exc_info=error)

    async def drain(self, grace_s: float = 10.0, *, reason: str = "shutdown", clock: Clock = SYSTEM_CLOCK) -> None:
        """Ask all runs to stop between two supersteps, give them time to, and cancel those that are left.

        Their threads go on with input None. When it returns, all of them have ended.

        Args:
            grace_s: Seconds after which a run is cancelled.
            reason: What `GraphDrained` says.
            clock: What the wait goes by.
        """
        for run in self:
            run.drain(reason)
        timer = clock.call_later(grace_s, self.cancel) if self._runs else None
        try:
            while self._runs:
                self._changed = asyncio.get_running_loop().create_future() if self._changed is None else self._changed
                await asyncio.wait([self._changed])
        finally:
            if timer is not None:
                timer.cancel()
            self.cancel()

    def cancel(self) -> None:
        """Ask all runs to end now."""
        for run in self:
            run.cancel()


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, BackgroundRuns] = weakref.WeakKeyDictionary()


def background_runs() -> BackgroundRuns:
    """Return the background runs of the running event loop.

    Raises:
        RuntimeError: No event loop is running.
    """
    return _by_loop.setdefault(asyncio.get_running_loop(), BackgroundRuns())


__all__ = ["BackgroundRuns", "background_runs"]
