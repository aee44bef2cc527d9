"""A log in memory: for one process, for tests, and to see how it works."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from langgraph_async.aio.clock import SYSTEM_CLOCK, Clock
from langgraph_async.stream.log.base import (
    END,
    PAGE,
    Event,
    EventLog,
    Page,
    RunRecord,
    RunStatus,
    check_after,
    run_exists,
    unknown_run,
)


@dataclass(slots=True)
class _Kept:
    """A run; `events` holds those numbered from ``last_seq - len(events) + 1`` to `last_seq`."""

    thread_id: str | None
    events: deque[Event]
    touched: float
    status: RunStatus = "running"
    last_seq: int = 0

    @property
    def first_seq(self) -> int:
        return self.last_seq - len(self.events) + 1


@dataclass(slots=True)
class _Shelf:
    runs: dict[str, _Kept] = field(default_factory=dict)


class InMemoryEventLog(EventLog):
    """Keeps events as they are, in this process.

    Args:
        max_events: Events that are kept of each run, the newest.
        ttl_s: Seconds after its end for which a run is kept; None: until it is one of more than `max_runs`.
        max_runs: Runs that are kept; of more, those that ended first are forgotten.
        clock: What waits, and `ttl_s`, go by.
    """

    in_process: ClassVar[bool] = True

    def __init__(
        self,
        *,
        max_events: int = 10_000,
        ttl_s: float | None = 600.0,
        max_runs: int = 1_000,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(max_events=max_events, ttl_s=ttl_s, interval_s=0.0, clock=clock)
        if max_runs <= 0:
            raise ValueError(f"max_runs must be positive, got {max_runs!r}.")
        self._max_runs = max_runs
        self._shelf = _Shelf()

    async def abegin(self, run_id: str, thread_id: str | None) -> None:
        """Enter a run that is about to start."""
        await self.asweep()
        runs = self._shelf.runs
        if run_id in runs:
            raise run_exists(run_id)
        if len(runs) >= self._max_runs:
            ended = [name for name, kept in runs.items() if kept.status != "running"]
            for name in ended[: len(runs) - self._max_runs + 1]:
                del runs[name]
        runs[run_id] = _Kept(thread_id, deque(maxlen=self.max_events), self.clock.monotonic())

    async def aappend(self, run_id: str, events: Sequence[Event]) -> None:
        """Store events."""
        kept = self._kept(run_id)
        kept.touched = self.clock.monotonic()
        for event in events:
            if event.seq <= kept.last_seq:
                continue
            kept.events.append(event)
            kept.last_seq = event.seq
            if event.mode == END:
                kept.status = event.data["status"]

    async def atouch(self, run_id: str) -> None:
        """Note a sign of life of a run."""
        self._kept(run_id).touched = self.clock.monotonic()

    async def aread(self, run_id: str, after: int = 0, limit: int = PAGE) -> Page:
        """Return events after number `after`, at most `limit`, and how the run stands."""
        kept = self._kept(run_id)
        record = self._record(run_id, kept)
        check_after(record, after)
        start = after + 1 - record.first_seq
        return Page(record, tuple(itertools.islice(kept.events, start, start + limit)))

    async def arun(self, run_id: str) -> RunRecord:
        """Return how a run stands."""
        return self._record(run_id, self._kept(run_id))

    async def aruns(self, thread_id: str | None = None, *, limit: int = 100) -> list[RunRecord]:
        """Return the runs of a thread, or all, the one that began last first."""
        runs = reversed(self._shelf.runs.items())
        found = (self._record(name, kept) for name, kept in runs if thread_id in (None, kept.thread_id))
        return list(itertools.islice(found, limit))

    async def adelete_thread(self, thread_id: str) -> None:
        """Forget the runs of a thread."""
        runs = self._shelf.runs
        for name in [name for name, kept in runs.items() if kept.thread_id == thread_id]:
            del runs[name]

    async def asweep(self) -> int:
        """Forget the runs that ended, or fell silent, more than `ttl_s` seconds ago, and return how many."""
        if self.ttl_s is None:
            return 0
        before = self.clock.monotonic() - self.ttl_s
        runs = self._shelf.runs
        old = [name for name, kept in runs.items() if kept.touched < before and name not in self.live]
        for name in old:
            del runs[name]
        return len(old)

    def _kept(self, run_id: str) -> _Kept:
        try:
            return self._shelf.runs[run_id]
        except KeyError:
            raise unknown_run(run_id) from None

    def _record(self, run_id: str, kept: _Kept) -> RunRecord:
        silent_s = self.clock.monotonic() - kept.touched
        return RunRecord(run_id, kept.thread_id, kept.status, kept.first_seq, kept.last_seq, silent_s, self.owner)


__all__ = ["InMemoryEventLog"]
