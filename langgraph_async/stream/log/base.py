"""The log port: what an event of a run is, and what is expected of whatever keeps them.

A run is recorded by one recorder, in the process that runs it, and read by any number of readers, there and elsewhere.
Events are numbered from 1; a reader that has seen event n asks for those after n.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from langgraph_async.aio.clock import SYSTEM_CLOCK, Clock
from langgraph_async.errors import EventLogError

if TYPE_CHECKING:
    from langgraph_async.stream.log.broadcast import Broadcast

RunStatus: TypeAlias = Literal["running", "done", "paused", "failed", "cancelled", "drained"]
STATUSES: Final[tuple[str, ...]] = get_args(RunStatus)

ERROR: Final = "error"
"""Mode of the event that says what a run failed with: a dict of ``type``, ``code`` (or None) and ``message``."""
END: Final = "end"
"""Mode of the last event of a run: a dict of ``status`` and, for a drained run, ``reason``."""

MAX_EVENTS: Final = 100_000
PAGE: Final = 500
"""Events that a reader asks for at once."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a run told.

    Attributes:
        seq: Its number within the run, from 1, without gaps.
        mode: A stream mode, or ``"error"`` or ``"end"``.
        ns: Namespace of the graph that told it, as in stream parts.
        data: The payload of the mode.
    """

    seq: int
    mode: str
    ns: tuple[str, ...]
    data: Any


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a log knows of a run.

    Attributes:
        run_id: The run.
        thread_id: Its thread, or None.
        status: How it stands; ``"running"`` also for one whose process died.
        first_seq: The oldest event that is still kept; one more than `last_seq` when none is.
        last_seq: The newest event; 0 when there is none yet.
        silent_s: Seconds since its recorder last gave a sign of life.
        owner: Which log object of which process records it.
    """

    run_id: str
    thread_id: str | None
    status: RunStatus
    first_seq: int
    last_seq: int
    silent_s: float
    owner: str


@dataclass(frozen=True, slots=True)
class Page:
    """A run as it stands, and some of its events, in order."""

    run: RunRecord
    events: tuple[Event, ...]


class EventLog:
    """Keeps the events of runs.

    Args:
        max_events: Events that are kept of each run, the newest; somewhat more may be there.
        ttl_s: Seconds after its end for which a run is kept; None: for good.
        interval_s: Least time between two appends of a run: what comes meanwhile is stored together.
        stale_s: Silence in seconds after which a run of another process counts as dead; a third of it is the longest
            time between two signs of life.
        poll_s: How often a run of another process is looked at.
        clock: What waits go by.

    Attributes:
        live: The runs that are being recorded through this log, by id.
        starting: Ids of the runs that are being entered.
        owner: Tells this log from those of other processes.

    Raises:
        ValueError: A bound is not positive.
    """

    in_process: ClassVar[bool] = False
    """Whether only this process can read it."""

    def __init__(
        self,
        *,
        max_events: int = MAX_EVENTS,
        ttl_s: float | None = 86_400.0,
        interval_s: float = 0.05,
        stale_s: float = 30.0,
        poll_s: float = 0.25,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        for name, bound in (("max_events", max_events), ("ttl_s", ttl_s), ("stale_s", stale_s), ("poll_s", poll_s)):
            if bound is not None and bound <= 0:
                raise ValueError(f"{name} must be positive, got {bound!r}.")
        self.max_events = max_events
        self.ttl_s = ttl_s
        self.interval_s = interval_s
        self.stale_s = stale_s
        self.poll_s = poll_s
        self.clock = clock
        self.live: dict[str, Broadcast] = {}
        self.starting: set[str] = set()
        self.owner = uuid.uuid4().hex

    def for_saver(self, saver: Any) -> Self:  # noqa: ARG002 - for logs that serialize
        """Return this log, as it is to be used for runs of a graph with this saver: with the graph's own types."""
        return self

    async def abegin(self, run_id: str, thread_id: str | None) -> None:
        """Enter a run that is about to start.

        Raises:
            EventLogError: It is there already (``"exists"``).
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer abegin().")

    async def aappend(self, run_id: str, events: Sequence[Event]) -> None:
        """Store events; they are there for good when this returns. Also a sign of life.

        Storing an event that is there already changes nothing. An ``end`` event ends the run. Of events above
        `max_events` the oldest are dropped.

        Raises:
            EventLogError: The run is not there (``"unknown"``): somebody deleted it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer aappend().")

    async def atouch(self, run_id: str) -> None:
        """Note a sign of life of a run."""
        raise NotImplementedError(f"{type(self).__name__} does not offer atouch().")

    async def aread(self, run_id: str, after: int = 0, limit: int = PAGE) -> Page:
        """Return events after number `after`, at most `limit`, and how the run stands.

        Raises:
            EventLogError: The run is unknown, the event after `after` is no longer kept (``"dropped"``), or `after`
                is the number of an event that was never stored (``"ahead"``).
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer aread().")

    async def arun(self, run_id: str) -> RunRecord:
        """Return how a run stands.

        Raises:
            EventLogError: The run is unknown.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer arun().")

    async def aruns(self, thread_id: str | None = None, *, limit: int = 100) -> list[RunRecord]:
        """Return the runs of a thread, or all, the one that began last first."""
        raise NotImplementedError(f"{type(self).__name__} does not offer aruns().")

    async def adelete_thread(self, thread_id: str) -> None:
        """Forget the runs of a thread."""
        raise NotImplementedError(f"{type(self).__name__} does not offer adelete_thread().")

    async def asweep(self) -> int:
        """Forget the runs that ended, or fell silent, more than `ttl_s` seconds ago, and return how many.

        Entering a run does so too, now and then.
        """
        raise NotImplementedError(f"{type(self).__name__} does not offer asweep().")


def unknown_run(run_id: str) -> EventLogError:
    """Return the error for a run that the log does not have."""
    return EventLogError(
        f"The event log has no run {run_id!r}: it never was there, or it has expired.", run_id=run_id, reason="unknown"
    )


def run_exists(run_id: str) -> EventLogError:
    """Return the error for a run that is there already."""
    return EventLogError(
        f"The event log has a run {run_id!r} already. Give every run an id of its own; to read that one, pass "
        "resume_from=.",
        run_id=run_id,
        reason="exists",
    )


def check_after(run: RunRecord, after: int) -> None:
    """Check that a reader can go on after event `after`.

    Raises:
        EventLogError: It cannot, without a gap or a repeat.
    """
    if after < run.first_seq - 1:
        raise EventLogError(
            f"Run {run.run_id!r}: the events after {after} are no longer kept, the oldest one is {run.first_seq}. Read "
            "the thread's state instead.",
            run_id=run.run_id,
            reason="dropped",
        )
    if after > run.last_seq:
        raise EventLogError(
            f"Run {run.run_id!r} has no event {after}: the newest one is {run.last_seq}.",
            run_id=run.run_id,
            reason="ahead",
        )


__all__ = ["END", "ERROR", "MAX_EVENTS", "PAGE", "Event", "EventLog", "Page", "RunRecord", "RunStatus"]
