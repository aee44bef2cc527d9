"""A run that is being recorded in this process, for those who read along without asking the log.

The newest events are kept at hand. One reader may drive: the run then waits for it, as for the reader of any stream.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Sequence
from typing import Final

from langgraph_async.stream.log.base import END, Event

_AT_HAND: Final = 1_024


class Broadcast:
    """The events of one run as they are stored; it belongs to the event loop that runs it.

    Attributes:
        loop: That loop.
        stored: Number of the newest event that is stored.
        ended: Whether nothing more will come.
        failure: Why the log has no end for the run, or None.
    """

    __slots__ = ("_consumed", "_events", "_free", "_settling", "_waiting", "ended", "failure", "loop", "stored")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.stored = 0
        self.ended = False
        self.failure: BaseException | None = None
        self._events: deque[Event] = deque(maxlen=_AT_HAND)
        self._waiting: list[asyncio.Future[None]] = []
        self._settling: list[tuple[int, asyncio.Future[None]]] = []
        self._consumed: int | None = None
        self._free = False

    # -- for the recorder ---------------------------------------------------------------------------------------

    def publish(self, events: Sequence[Event]) -> None:
        """Hand on what was stored."""
        self._events.extend(events)
        self.stored = events[-1].seq
        if events[-1].mode == END:
            self.ended = True
        self._changed()

    def fail(self, failure: BaseException) -> None:
        """Tell readers that there is no more, since the log failed."""
        self.failure = failure
        self.ended = True
        self.let_go()
        self._changed()

    def let_go(self) -> None:
        """Wait for the driver no longer, from now on: the run has ended."""
        self._free = True
        self._settle()

    async def settled(self, seq: int) -> None:
        """Return when event `seq` is stored and, if somebody drives, they have asked for more after it."""
        if self._free or self._reached() >= seq:
            return
        entry = (seq, self.loop.create_future())
        self._settling.append(entry)
        try:
            await entry[1]
        finally:
            if entry in self._settling:
                self._settling.remove(entry)

    # -- for readers --------------------------------------------------------------------------------------------

    def since(self, after: int) -> list[Event] | None:
        """Return the events after number `after`; None if some of them are no longer at hand."""
        first = self.stored - len(self._events) + 1
        if after >= self.stored:
            return []
        return None if after + 1 < first else list(itertools.islice(self._events, after + 1 - first, None))

    async def changed(self) -> None:
        """Wait for the next event, or the end."""
        if self.ended:
            return
        waiter = self.loop.create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    @property
    def driven(self) -> bool:
        """Whether a reader drives."""
        return self._consumed is not None

    def consumed(self, seq: int | None) -> None:
        """Note that the driver has asked for more after event `seq`; None: there is no driver any more."""
        self._consumed = seq
        if self._settling:
            self._settle()

    # -- inside -------------------------------------------------------------------------------------------------

    def _reached(self) -> int:
        return self.stored if self._consumed is None else min(self.stored, self._consumed)

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._settle()

    def _settle(self) -> None:
        reached = self._reached()
        for seq, waiter in self._settling:
            if (self._free or seq <= reached) and not waiter.done():
                waiter.set_result(None)
