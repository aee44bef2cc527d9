"""Channels of a run stream: what a transformer pushes, for the one who iterates."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from langgraph_async.errors import StreamOverflowError
from langgraph_async.stream.bus import HARD_LIMIT
from langgraph_async.stream.run.pump import Pump

T = TypeVar("T")


class StreamChannel(Generic[T]):
    """A projection that is told item by item.

    Items are kept only for cursors that are open, and dropped when they are read. There is one subscriber; `atee`
    makes several of it. A cursor that runs dry advances the run.

    Args:
        name: Also tell each item in the run's protocol events, as method ``custom:<name>``.
        maxlen: Unread items that a cursor may be owed, by default 10,000. A reader that is further behind gets
            these, and then a `StreamOverflowError`; the run and other readers are not affected.

    Raises:
        ValueError: `maxlen` is not positive.
    """

    __slots__ = ("_closed", "_cursors", "_error", "_forward", "_maxlen", "_pump", "_subscribed", "name")

    def __init__(self, name: str | None = None, *, maxlen: int | None = None) -> None:
        if maxlen is not None and (not isinstance(maxlen, int) or isinstance(maxlen, bool) or maxlen < 1):
            raise ValueError(f"StreamChannel maxlen must be a positive int or None, got {maxlen!r}.")
        self.name = name
        self._maxlen = maxlen
        self._pump: Pump | None = None
        self._forward: Callable[[Any], None] | None = None
        self._cursors: list[tuple[weakref.ref[Cursor[Any]], str | None]] = []
        self._subscribed = False
        self._closed = False
        self._error: tuple[BaseException, TracebackType | None] | None = None

    # -- producing ----------------------------------------------------------------------------------------------

    def push(self, item: T) -> None:
        """Give an item to the open cursors, and to the protocol events if the channel has a name.

        Raises:
            RuntimeError: The channel is closed, and somebody reads it.
        """
        if self._closed:
            if self._subscribed:
                raise RuntimeError("Cannot push to a closed StreamChannel.")
            return
        if self._forward is not None:
            self._forward(item)
        if self._cursors:
            for cursor, label in self._open():
                cursor.put(item if label is None else (label, item))
            if self._pump is not None:
                self._pump.wake()

    def close(self) -> None:
        """End the channel after the items that wait; again does nothing."""
        self._closed = True

    def fail(self, error: BaseException) -> None:
        """End the channel with `error`, after the items that wait. A closed channel stays as it ended."""
        if not self._closed:
            self._closed = True
            self._error = (error, error.__traceback__)

    # -- reading ------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Cursor[T]:
        """Return the one cursor; it gets what is pushed from now on.

        Raises:
            RuntimeError: The channel has a subscriber already.
            TypeError: The channel belongs to no run yet.
        """
        return self._subscribe(1)[0]

    def __iter__(self) -> AsyncIterator[T]:
        """Refuse: an asynchronous run is read with ``async for``."""
        self._bound()
        raise TypeError("This StreamChannel is bound to async mode: read it with 'async for'.")

    def atee(self, n: int = 2) -> tuple[Cursor[T], ...]:
        """Return `n` cursors, each of which gets every item. They are the channel's one subscriber.

        Raises:
            ValueError: `n` is less than 1.
            RuntimeError: The channel has a subscriber already.
            TypeError: The channel belongs to no run yet.
        """
        if n < 1:
            raise ValueError(f"atee makes at least one cursor, got n={n!r}.")
        return self._subscribe(n)

    @property
    def listened(self) -> bool:
        """Whether a cursor is open, so that an item would be kept."""
        return bool(self._cursors) and any(True for _ in self._open())

    @property
    def pump(self) -> Pump | None:
        """What advances the run; None before the channel belongs to one."""
        return self._pump

    @property
    def closed(self) -> bool:
        """Whether no more items come."""
        return self._closed

    # -- inside -------------------------------------------------------------------------------------------------

    def bind(self, pump: Pump, forward: Callable[[Any], None] | None) -> None:
        """Make the channel part of a run. `forward` tells each item elsewhere, too."""
        self._pump = pump
        self._forward = forward

    def join(self, cursor: Cursor[Any], label: str) -> None:
        """Make `cursor` the subscriber, which gets every item with `label`."""
        self._bound()
        self._take()
        self._cursors.append((weakref.ref(cursor), label))

    def leave(self, cursor: Cursor[Any]) -> None:
        """Keep nothing more for `cursor`."""
        self._cursors = [entry for entry in self._cursors if entry[0]() not in (cursor, None)]

    def end(self) -> tuple[BaseException, TracebackType | None] | None:
        """Return what the channel failed with, if it did."""
        return self._error

    def _subscribe(self, count: int) -> tuple[Cursor[T], ...]:
        pump = self._bound()
        self._take()
        cursors = tuple(Cursor[T](pump, (self,), self._maxlen or HARD_LIMIT) for _ in range(count))
        self._cursors.extend((weakref.ref(cursor), None) for cursor in cursors)
        return cursors

    def _bound(self) -> Pump:
        if self._pump is None:
            raise TypeError(
                "This StreamChannel has not been bound: it belongs to a run once init() of a transformer returns it."
            )
        return self._pump

    def _take(self) -> None:
        if self._subscribed:
            raise RuntimeError("This StreamChannel already has a subscriber; use .atee(n) for fan-out.")
        self._subscribed = True

    def _open(self) -> list[tuple[Cursor[Any], str | None]]:
        """Return the cursors that are still there; one that was dropped is owed nothing."""
        found = [(cursor, label) for ref, label in self._cursors if (cursor := ref()) is not None]
        if len(found) < len(self._cursors):
            self._cursors = [(weakref.ref(cursor), label) for cursor, label in found]
        return found


class Cursor(Generic[T]):
    """Reads one channel, or several merged in the order of their items. Ends when all of them have.

    What a run fails with is raised after the items that came before, each time an item is asked for.
    """

    __slots__ = ("__weakref__", "_channels", "_items", "_limit", "_overflow", "_pump")

    def __init__(self, pump: Pump, channels: Sequence[StreamChannel[Any]], limit: int = HARD_LIMIT) -> None:
        self._pump = pump
        self._channels = tuple(channels)
        self._limit = limit
        self._items: deque[Any] = deque()
        self._overflow = False

    def __len__(self) -> int:
        """Return how many items wait to be read."""
        return len(self._items)

    def __bool__(self) -> bool:
        """A cursor is there even if nothing waits in it."""
        return True

    def put(self, item: Any) -> None:
        """Keep an item until it is read."""
        if len(self._items) >= self._limit:
            self._overflow = True
            self._detach()
        else:
            self._items.append(item)

    def __aiter__(self) -> Self:
        """Return the cursor."""
        return self

    async def __anext__(self) -> T:
        """Return the next item, advancing the run if none waits.

        Raises:
            StreamOverflowError: The reader was too far behind.
            asyncio.CancelledError: This reader, or another one that pulled, was cancelled.
            BaseException: What the run failed with.
        """
        while not self._items:
            if self._overflow:
                raise StreamOverflowError(
                    f"{self._limit} items of a run stream's projection waited for a reader that does not keep up; "
                    "the later ones were dropped. Read the projections at the same time, for example with "
                    "run.interleave(...), or let the channel keep more (maxlen)."
                )
            failed = [end for channel in self._channels if (end := channel.end()) is not None]
            if failed:
                raise failed[0][0].with_traceback(failed[0][1])
            if all(channel.closed for channel in self._channels):
                raise StopAsyncIteration
            if self._pump.over:
                self._detach()
                if self._pump.error is not None:
                    raise self._pump.error
                raise StopAsyncIteration
            await self._pump.pull()
        found: T = self._items.popleft()
        return found

    async def aclose(self) -> None:
        """Stop reading: nothing is kept any more. The run is not touched."""
        self._detach()
        self._items.clear()
        self._channels = ()

    def _detach(self) -> None:
        for channel in self._channels:
            channel.leave(self)
