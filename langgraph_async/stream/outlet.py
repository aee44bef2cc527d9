"""Where code inside a task tells of messages and tools, and waits for who reads; the port behind `stream_tokens`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from langgraph_async import ambient


class Closing(Protocol):
    """Something open that must not outlive its task."""

    async def aclose(self) -> None:
        """Close it; again is no more."""
        ...


class Outlet(Protocol):
    """The listeners of one task, for one stream mode."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What listeners are told about the task with each message; a new dict."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the task is done: what comes now is refused."""
        ...

    def emit(self, payload: Any, metadata: dict[str, Any] | None = None) -> None:
        """Tell the listeners; see `TaskScope.emit_message` and `TaskScope.emit_tool_event`."""
        ...

    def knows(self, message_id: str) -> bool:
        """Tell whether every listener has been told of this message already."""
        ...

    async def room(self) -> None:
        """Wait until no more than a few items wait for the reader."""
        ...

    def wait_for_room(self) -> None:
        """Do what `room` does, from a worker thread; in the event loop's thread return at once."""
        ...


def current_outlet(mode: Literal["messages", "tools"], tags: Sequence[str] = ()) -> Outlet | None:
    """Return the outlet of the task that is running here, or None where nobody listens.

    Outside of a task, with `tags` or under a node that are not to be streamed, nobody does.
    """
    task = ambient.current.get()
    found: Outlet | None = task.outlet(mode, tags) if task is not None else None
    return found
