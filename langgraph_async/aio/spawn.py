"""The one place where a task is started outside of a task group.

A stream's run cannot be hosted by its reader: no task group may be open across the ``yield`` of an async generator.
So the run lives in a task of its own, which hosts the group, and which its reader always waits for. And what stores a
run must outlast the cancellation of everything around it: it has a task in no group, which the run always waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def spawn(work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Start `work` in a task that the caller must wait for, however the caller itself ends."""
    return asyncio.get_running_loop().create_task(work, name=name)
