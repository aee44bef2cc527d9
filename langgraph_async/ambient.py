"""The one context variable: which task is running here.

A node's code, and everything it calls, runs in a context in which `current` holds the node's task. That is how
`interrupt()`, `get_config()` and a graph called inside a node find what they belong to.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Sequence


class AmbientTask(Protocol):
    """What the running task offers to the functions that users call inside a node.

    Attributes:
        refusing: It was cancelled while its code runs in a worker thread, where nothing else can tell it so.
    """

    refusing: bool

    @property
    def config(self) -> Any:
        """The task's config, as an injected `config` parameter would be."""

    @property
    def runtime(self) -> Any:
        """The task's `Runtime`."""

    @property
    def event_loop(self) -> AbstractEventLoop | None:
        """The loop that runs the task."""

    def interrupt(self, value: Any, response_schema: Any = None) -> Any:
        """Return the next answer, or pause the task by raising `GraphInterrupt`."""

    def call(self, name: str, node: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Start a functional task as a child of this one and return its future."""

    def emit_message(self, message: Any, metadata: dict[str, Any]) -> None:
        """Tell those who listen for ``messages``; see `TaskScope.emit_message`."""

    def outlet(self, mode: Any, tags: Sequence[str] = ()) -> Any:
        """Return the `Outlet` of the task for a stream mode, or None when nobody listens."""

    def push_write(self, key: str, value: Any) -> None:
        """Write to a state key besides what the node will return."""

    def keep_open(self, stream: Any) -> None:
        """Note that the task's code reads from something that has to be closed with the task."""

    def let_go(self, stream: Any) -> None:
        """Note that it is closed."""


current: ContextVar[AmbientTask | None] = ContextVar("langgraph_async_task", default=None)


def running_task(caller: str) -> AmbientTask:
    """Return the task that is running here.

    Raises:
        RuntimeError: No node is running in this context.
    """
    task = current.get()
    if task is None:
        raise RuntimeError(
            f"Called {caller} outside of a runnable context: it works only inside a node, a task or an "
            "entrypoint, in code that inherits the node's context."
        )
    return task
