"""Reads a run from its log to its end, wherever the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from langgraph_async.errors import EventLogError
from langgraph_async.stream.log.base import END, Event, EventLog, RunRecord
from langgraph_async.stream.log.broadcast import Broadcast


async def follow(
    log: EventLog, run_id: str, after: int = 0, *, live: Broadcast | None = None, drives: bool = False
) -> AsyncGenerator[Event, None]:
    """Yield the events of a run after number `after`, each once, in order: those stored, then those to come.

    The last one is the run's ``end``. A run of this process is followed as it goes on; one of another process by
    looking at the log from time to time.

    Args:
        log: The log.
        run_id: The run.
        after: Number of the last event that was seen; 0 for all.
        live: The run, if it is one of this process that may not have begun yet.
        drives: Let the run wait for this reader, which must be the only such one.

    Raises:
        EventLogError: See `EventLog.aread`; also ``"lost"``: the process that ran it has ended without a word.
        RuntimeError: Another reader drives.
    """
    if drives and live is not None:
        if live.driven:
            raise RuntimeError("This run is being read already; it can have one reader at a time.")
        live.consumed(after)
    try:
        while batch := await _next_batch(log, run_id, after, live):
            for event in batch:
                yield event
                after = event.seq
                if drives and live is not None:
                    live.consumed(after)
                if event.mode == END:
                    return
    finally:
        if drives and live is not None:
            live.consumed(None)


async def _next_batch(log: EventLog, run_id: str, after: int, live: Broadcast | None) -> Sequence[Event]:
    while True:
        live = live or _live(log, run_id)
        if live is not None:
            events = live.since(after)
            if events:
                return events
            if events is not None and not live.ended:
                if after <= live.stored:
                    await live.changed()
                else:
                    await log.aread(run_id, after)  # says so, unless the event was stored just now
                continue
            if live.failure is not None:
                raise live.failure
        page = await log.aread(run_id, after)
        if page.events or page.run.status != "running":
            return page.events
        if live is None and _live(log, run_id) is None:
            _check_alive(log, page.run)
            await log.clock.sleep(log.poll_s)


def _live(log: EventLog, run_id: str) -> Broadcast | None:
    found = log.live.get(run_id)
    return found if found is not None and found.loop is asyncio.get_running_loop() else None


def _check_alive(log: EventLog, run: RunRecord) -> None:
    if run.run_id in log.live or run.run_id in log.starting:
        return
    if run.owner == log.owner or run.silent_s > log.stale_s:
        raise EventLogError(
            f"Run {run.run_id!r} has no end: the process that ran it is gone. Its thread goes on from what was stored, "
            "with input None.",
            run_id=run.run_id,
            reason="lost",
        )


__all__ = ["follow"]
