"""The bus: what the tasks of one root run have to tell, on its way to the one who reads the stream.

Many write (the run's tasks in the event loop, node functions in worker threads), one reads. In the loop a write is
an append and, when the reader waits, one future set; only threads pay for a wake-up across threads. Nothing here is
locked: all state but the threads' inbox is touched in the loop's thread alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable
from typing import Any, Final, Self, TypeAlias

from langgraph_async.constants import MISSING
from langgraph_async.errors import ConfigError, StreamOverflowError

SOFT_LIMIT: Final = 256
HARD_LIMIT: Final = 10_000

_Line: TypeAlias = "deque[tuple[int, asyncio.Future[None]]]"
"""Who waits until how many items went by; in the order of those numbers."""

_NOBODY_ASKS: Final = -1


class Bus:
    """A bounded buffer with many writers and one reader, in the event loop in which it is made.

    An item is *handed out* by `get_nowait`. It is *consumed* when the reader comes back for more; until then the
    reader may be holding it, suspended at a ``yield``.

    Args:
        soft_limit: Items that may wait for the reader before `room` makes a writer wait.
        hard_limit: Chunks that may wait for the reader before `put` refuses more.

    Raises:
        ConfigError: The limits are not ``1 <= soft_limit <= hard_limit``.
        RuntimeError: No event loop is running.

    Example:
        >>> async def read(bus):
        ...     async for item in bus:
        ...         yield item
    """

    __slots__ = (
        "_allowance",
        "_boundaries",
        "_closed",
        "_consumed",
        "_drains",
        "_error",
        "_handed",
        "_hard_limit",
        "_inbox",
        "_items",
        "_loop",
        "_nudged",
        "_reader",
        "_rooms",
        "_soft_limit",
        "_thread",
    )

    def __init__(self, *, soft_limit: int = SOFT_LIMIT, hard_limit: int = HARD_LIMIT) -> None:
        if not 1 <= soft_limit <= hard_limit:
            raise ConfigError(
                f"A stream needs 1 <= soft_limit <= hard_limit, got soft_limit={soft_limit}, hard_limit={hard_limit}."
            )
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._soft_limit = soft_limit
        self._hard_limit = hard_limit
        self._allowance = hard_limit
        self._items: deque[Any] = deque()
        self._inbox: deque[Any] = deque()
        self._handed = 0
        self._consumed = _NOBODY_ASKS
        self._reader: asyncio.Future[None] | None = None
        self._nudged = False
        self._drains: _Line = deque()
        self._rooms: _Line = deque()
        self._boundaries: _Line = deque()
        self._closed = False
        self._error: BaseException | None = None

    def __len__(self) -> int:
        """Return how many items wait for the reader."""
        return len(self._items) + len(self._inbox)

    @property
    def closed(self) -> bool:
        """Whether `close` was called; items may still wait for the reader."""
        return self._closed

    # -- writing ------------------------------------------------------------------------------------------------

    def put(self, item: Any) -> None:
        """Append a chunk: something a node writes as often as it likes. Never blocks; callable from any thread.

        Chunks of one thread keep their order, and a thread's chunk comes before whatever the event loop learns
        from that thread afterwards. On a closed bus the item is dropped.

        Raises:
            StreamOverflowError: As many chunks as the hard limit allows are waiting for the reader.
        """
        if self._closed:
            return
        if len(self._items) + len(self._inbox) >= self._allowance:
            raise StreamOverflowError(
                f"{len(self)} stream items wait for a reader that does not keep up (limit {self._hard_limit}); the "
                "chunk was not written. Let the node wait for the reader with `await writer.drain()` between its "
                "chunks, or raise the stream's hard limit."
            )
        if threading.get_ident() == self._thread:
            self._append(item)
        else:
            self._send_over(item)

    def put_fact(self, item: Any) -> None:
        """Append something the engine tells: never refused, since supersteps bound how much there is.

        Facts do not count against the hard limit of chunks. Call it in the event loop's thread only.
        """
        if not self._closed:
            self._allowance += 1
            self._append(item)

    def close(self, error: BaseException | None = None) -> None:
        """End the stream after the items that wait now; `error` is then raised to the reader, once.

        Everybody who waits in `drain`, `room` or `boundary` goes on. A second call does nothing. A reader that
        leaves early closes the bus too, after it has cancelled the run.
        """
        if self._closed:
            return
        self._pour()
        self._closed = True
        self._error = error
        self._wake()
        for line in (self._drains, self._rooms, self._boundaries):
            if line:
                _release(line, line[-1][0])

    # -- waiting for the reader ---------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Return when all items that are waiting now were handed out, at once if there is none or the bus is closed.

        Cancelling it changes nothing for anybody else.
        """
        ticket = self._total()
        if not self._closed and self._handed < ticket:
            await self._until(self._drains, ticket)

    async def room(self) -> None:
        """Return when no more items than the soft limit wait, of those that are waiting now."""
        ticket = self._total() - self._soft_limit
        if not self._closed and self._handed < ticket:
            await self._until(self._rooms, ticket)

    async def boundary(self) -> None:
        """Return when all items that were put so far are consumed and the reader asks for more.

        So nothing begins after a boundary as long as the reader holds the last item. Items that others put in the
        meantime are not waited for. On a closed bus it returns at once.
        """
        ticket = self._total()
        if not self._closed and self._consumed < ticket:
            await self._until(self._boundaries, ticket)

    # -- reading ------------------------------------------------------------------------------------------------

    def get_nowait(self) -> Any:
        """Return the next item, or `MISSING` if none is waiting. Says that all items before it are consumed."""
        if self._inbox:
            self._pour()
        self._come_back()
        if not self._items:
            return MISSING
        item = self._items.popleft()
        self._handed += 1
        if self._drains:
            _release(self._drains, self._handed)
        if self._rooms:
            _release(self._rooms, self._handed)
        return item

    async def wait(self) -> bool:
        """Wait for an item. Says that all items handed out are consumed.

        A reader that is cancelled here has lost nothing and may come back.

        Returns:
            Whether the stream goes on: an item is there for `get_nowait`, or somebody called `nudge`.

        Raises:
            RuntimeError: Somebody is waiting already: there is one reader.
            BaseException: What `close` was given, once, after the last item.
        """
        if self._reader is not None:
            raise RuntimeError("This stream is being read already; it can have one reader only.")
        self._pour()
        self._come_back()
        while not self._items:
            if self._closed:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                return False
            self._allowance = self._hard_limit
            self._reader = self._loop.create_future()
            try:
                await self._reader
            except BaseException:
                self._consumed = _NOBODY_ASKS
                raise
            finally:
                self._reader = None
            if self._nudged:
                break
        self._nudged = False
        return True

    def nudge(self) -> None:
        """Let a reader that waits go on without an item. Nothing happens when nobody waits."""
        if self._reader is not None:
            self._nudged = True
            self._wake()

    def __aiter__(self) -> Self:
        """Iterate as the one reader; stopping early leaves the bus open."""
        return self

    async def __anext__(self) -> Any:
        """Return the next item; see `wait` for what is raised."""
        item = self.get_nowait()
        while item is MISSING:
            if not await self.wait():
                raise StopAsyncIteration
            item = self.get_nowait()
        return item

    # -- inside -------------------------------------------------------------------------------------------------

    def _total(self) -> int:
        """Return how many items were put so far. The first thing in everything that waits, so it checks the thread."""
        if threading.get_ident() != self._thread:
            raise RuntimeError("Only code in the event loop of the run can wait for the stream's reader.")
        self._pour()
        return self._handed + len(self._items)

    def _append(self, item: Any) -> None:
        if self._inbox:
            self._pour()
        self._items.append(item)
        self._wake()

    def _send_over(self, item: Any) -> None:
        self._inbox.append(item)
        try:
            self._loop.call_soon_threadsafe(self._pour)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            # The run is over, and so is its loop: a thread that nobody waited for has nobody to write to.

    def _pour(self) -> None:
        """Move what threads wrote behind the items. A thread may write more meanwhile; that wakes us once more."""
        inbox = self._inbox
        if not inbox:
            return
        while inbox:
            item = inbox.popleft()
            if not self._closed:
                self._items.append(item)
        self._wake()

    def _wake(self) -> None:
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(None)

    def _come_back(self) -> None:
        self._consumed = self._handed
        if self._boundaries:
            _release(self._boundaries, self._consumed)

    def _until(self, line: _Line, ticket: int) -> Awaitable[None]:
        return _stand_in(line, (ticket, self._loop.create_future()))


async def _stand_in(line: _Line, entry: tuple[int, asyncio.Future[None]]) -> None:
    line.append(entry)
    try:
        await entry[1]
    except BaseException:
        if entry in line:
            line.remove(entry)
        raise


def _release(line: _Line, reached: int) -> None:
    while line and line[0][0] <= reached:
        waiting = line.popleft()[1]
        if not waiting.done():
            waiting.set_result(None)
