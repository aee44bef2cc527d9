"""A list that grows while a run goes on, for any number of readers, each from its beginning."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

from langgraph_async.stream.run.pump import Pump

T = TypeVar("T")


class Replay(Generic[T]):
    """Yields what has come and what comes, to each ``async for``; a reader that runs dry advances the run.

    Attributes:
        items: What has come.
        ended: Nothing more comes.
        error: Raised to readers after the last item.
    """

    __slots__ = ("_pump", "ended", "error", "items")

    def __init__(self, pump: Pump | None) -> None:
        self._pump = pump
        self.items: list[T] = []
        self.ended = False
        self.error: BaseException | None = None

    def end(self, error: BaseException | None = None) -> None:
        """Let nothing more come; only the first call counts."""
        if not self.ended:
            self.ended = True
            self.error = error

    async def __aiter__(self) -> AsyncGenerator[T, None]:
        """Yield the items.

        Raises:
            BaseException: What the run, or what the items are parts of, failed with.
        """
        read = 0
        while await self.grown(read):
            yield self.items[read]
            read += 1

    async def grown(self, beyond: int) -> bool:
        """Advance the run until there are more than `beyond` items; False if there will not be.

        Raises:
            BaseException: As in iteration.
        """
        while len(self.items) <= beyond:
            if not self.ended and self._pump is not None and not self._pump.over:
                await self._pump.pull()
                continue
            error = self.error if self.ended or self._pump is None else self._pump.error
            if error is not None:
                raise error
            return False
        return True

    async def whole(self) -> list[T]:
        """Advance the run until nothing more comes, and return all items.

        Raises:
            BaseException: As in iteration.
        """
        while await self.grown(len(self.items)):
            pass
        return self.items
