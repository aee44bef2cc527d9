"""The task group of a run: opened when the run first needs a task of its own, closed when the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import TaskGroup

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled


class Group:
    """One anyio task group for a whole run, entered only when it is needed.

    A run whose tasks follow one another never needs it. `open` and `close` must be called by the task that hosts
    the run. What is spawned must not raise: it records its outcome where its caller finds it.
    """

    __slots__ = ("_group", "_loose")

    def __init__(self) -> None:
        self._group: TaskGroup | None = None
        self._loose: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Enter the task group unless it is open."""
        if self._group is None:
            group = anyio.create_task_group()
            await group.__aenter__()
            self._group = group

    def spawn(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Start a task. The group must be open."""
        if self._group is None:
            raise RuntimeError("The run's task group is not open.")
        self._group.start_soon(work)

    def spawn_loose(self, work: Coroutine[Any, Any, Any], *, name: str) -> None:
        """Start a task from inside a node, whether the group is open or not.

        There no task group can be opened: the node may hold cancel scopes of its own open in the same asyncio task.
        The task does not hear of cancellations by itself: whoever starts it cancels it and waits for it.
        """
        self.hold(spawn(work, name=name))

    def hold(self, task: asyncio.Task[Any]) -> None:
        """Wait for a task, too, when the group is closed."""
        self._loose.add(task)
        task.add_done_callback(self._loose.discard)

    def _cancel_loose(self) -> None:
        for task in self._loose:
            task.cancel()

    async def close(self) -> None:
        """Wait for the tasks that are left, and leave the task group."""
        interrupted = None
        while self._loose:
            loose = tuple(self._loose)
            ended = asyncio.gather(*loose, return_exceptions=True)
            interrupted = await wait_settled(ended, self._cancel_loose) or interrupted
            # Their callbacks may not have run yet: from Python 3.12 on, gathering what is done takes no turn.
            self._loose.difference_update(loose)
        group, self._group = self._group, None
        if group is not None:
            await group.__aexit__(None, None, None)
        if interrupted is not None:
            raise interrupted
