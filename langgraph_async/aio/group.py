"""The task group of a run: opened when the run first needs a task of its own, closed when the run ends."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import TaskGroup


class Group:
    """One anyio task group for a whole run, entered only when it is needed.

    A run whose tasks follow one another never needs it. `open` and `close` must be called by the task that hosts
    the run. What is spawned must not raise: it records its outcome where its caller finds it.
    """

    __slots__ = ("_group",)

    def __init__(self) -> None:
        self._group: TaskGroup | None = None

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

    async def close(self) -> None:
        """Wait for the tasks that are left, and leave the task group."""
        group, self._group = self._group, None
        if group is not None:
            await group.__aexit__(None, None, None)
