"""The stream writer that a node is given."""

from __future__ import annotations

import warnings
from collections.abc import Callable
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
        bus: What `drain` waits for, or None if nobody reads while the run goes on.
        node: Name of the node, for the warning.
    """

    __slots__ = ("_bus", "_closed", "_emit", "_node")

    def __init__(self, emit: Callable[[Any], None], bus: Drained | None = None, *, node: str) -> None:
        self._emit = emit
        self._bus = bus
        self._node = node
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
        if self._bus is not None and not self._closed:
            await self._bus.drain()

    def close(self) -> None:
        """Refuse all further chunks. The engine calls it as soon as the task is done."""
        self._closed = True
