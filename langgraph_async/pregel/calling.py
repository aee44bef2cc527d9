"""What a scope needs to know of the functions that its task calls: who runs them, and where the calls come from."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Protocol

from langgraph_async.pregel.task import CallTask

if TYPE_CHECKING:
    from langgraph_async.pregel.scope import TaskScope


class CallStarter(Protocol):
    """What runs the functions that tasks call."""

    def start_call(self, caller: TaskScope, task: CallTask) -> Any:
        """Start a call, and return the future of its result. May be called from a worker thread."""


class Cancellable(Protocol):
    """A running call."""

    def cancel(self) -> None:
        """Ask it to end."""


def calling_place() -> object:
    """Return the asyncio task that runs here, or the number of the thread where none does."""
    try:
        return asyncio.current_task() or threading.get_ident()
    except RuntimeError:
        return threading.get_ident()
