"""Signs of life: what keeps an attempt with an idle limit from being ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph_async.aio.clock import Clock

if TYPE_CHECKING:
    from langgraph_async.pregel.scope import TaskScope


class SignsOfLife:
    """Remembers when an attempt with an idle limit last gave a sign of life.

    Attributes:
        auto: Whether chunks, yields, calls and what happens inside count, and not only heartbeats.
        last: When, by the clock's monotonic time.
    """

    __slots__ = ("_clock", "auto", "last")

    def __init__(self, clock: Clock, *, auto: bool) -> None:
        self._clock = clock
        self.auto = auto
        self.last = clock.monotonic()

    def note(self) -> None:
        """Note a sign of life."""
        self.last = self._clock.monotonic()


class LivingWriter:
    """A stream writer whose chunks are signs of life."""

    __slots__ = ("_scope", "_write")

    def __init__(self, scope: TaskScope, write: Any) -> None:
        self._scope = scope
        self._write = write

    def __call__(self, chunk: Any, /) -> None:
        """Write `chunk`."""
        self._scope.sign()
        self._write(chunk)

    async def drain(self) -> None:
        """Wait until the reader has taken all chunks that are waiting."""
        await self._write.drain()
        self._scope.sign()
