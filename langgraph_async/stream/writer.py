"""The stream writer that a node is given."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Collection
from typing import Any, Protocol


class Drained(Protocol):
    """What takes chunks and can say when they are taken, like a `Bus`."""

    async def drain(self) -> None:
        """Return when all that is waiting now was taken."""
        ...

    async def room(self) -> None:
        """Return when no more than a few items wait."""
        ...


class ChunkWriter:
    """Writes chunks to ``stream_mode="custom"`` for one task, until the task is done.

    Args:
        emit: Takes a chunk to the stream; must be callable from the thread that the node runs in.
        buses: What `drain` waits for; none if nobody reads while the run goes on.
        node: Name of the node, for the warning.
        loop: The event loop of the run, for `drain_blocking`.
    """

    __slots__ = ("_buses", "_closed", "_emit", "_loop", "_node")

    def __init__(
        self,
        emit: Callable[[Any], None],
        buses: Collection[Drained] = (),
        *,
        node: str,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._emit = emit
        self._buses = buses
        self._node = node
        self._loop = loop
        self._closed = False

    def __call__(self, chunk: Any, /) -> None:
        """Write `chunk`. Never blocks.

        Once the task is done the chunk is refused with a RuntimeWarning: it would appear among the chunks of
        later nodes.

        Raises:
            StreamOverflowError: More chunks wait than a slow reader can be owed.
        """
        if self._closed:
            warnings.warn(
                f"Node '{self._node}' wrote a stream chunk after it was done; the chunk is dropped. Something that "
                "the node started outlived it: let the node await what it starts.",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        self._emit(chunk)

    async def drain(self) -> None:
        """Wait until the reader has taken all chunks that are waiting. Call it in a loop that writes a lot."""
        if not self._closed:
            for bus in self._buses:
                await bus.drain()

    def drain_blocking(self) -> None:
        """Do what `drain` does, in a plain function that runs in a worker thread.

        Raises:
            RuntimeError: It was called in the event loop, which it would block.
        """
        if not self._buses or self._closed or self._loop is None:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run_coroutine_threadsafe(self.drain(), self._loop).result()
            return
        raise RuntimeError(
            f"Node '{self._node}' called writer.drain_blocking() on a running event loop, which it would block. Use "
            "`await writer.drain()` there."
        )

    def close(self) -> None:
        """Refuse all further chunks. The engine calls it as soon as the task is done."""
        self._closed = True
