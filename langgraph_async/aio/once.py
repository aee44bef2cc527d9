"""Work that many want done once, and that none of them may interrupt: opening or closing what they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled


class Interrupted(Exception):
    """The work was cancelled, which is not the cancellation of those who wait for it."""


class Once:
    """Does a piece of work in a task of its own, for however many want it done.

    Work that failed, or was cancelled, is begun anew for the next one who asks.

    Args:
        name: Name of the task.
    """

    __slots__ = ("_name", "_task")

    def __init__(self, name: str) -> None:
        self._name = name
        self._task: asyncio.Task[None] | None = None

    async def do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait until the work is done, begun now if it is not under way; a cancellation ends only the waiting.

        Raises:
            Interrupted: The work was cancelled, by `end` or with the event loop.
        """
        task = self._begun(work)
        await asyncio.wait([task])
        _outcome(task)

    async def do_whole(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do likewise, but pass a cancellation on only when the work is done."""
        task = self._begun(work)
        interrupted = await wait_settled(task)
        if interrupted is not None:
            raise interrupted
        _outcome(task)

    async def end(self, *, cancel: bool = False) -> None:
        """Wait for the end of the work if it is under way, cancelled if wanted."""
        if self._task is not None:
            if cancel:
                self._task.cancel()
            await asyncio.wait([self._task])

    def _begun(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = self._task
        if task is None:
            task = self._task = spawn(work(), name=self._name)
            task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._task = None


def _outcome(task: asyncio.Task[None]) -> None:
    if task.cancelled():
        raise Interrupted
    task.result()
