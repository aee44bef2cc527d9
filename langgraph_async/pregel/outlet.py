"""What a task tells its listeners of messages and tools: who may hear it, with which metadata, how fast."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from langgraph_async.constants import CHECKPOINT_NS, TAG_NOSTREAM
from langgraph_async.stream.modes import visible_tags
from langgraph_async.stream.writer import Drained

if TYPE_CHECKING:
    from langgraph_async.pregel.scope import TaskScope


class TaskOutlet:
    """The listeners of one attempt of a task, for one stream mode; see `Outlet`."""

    __slots__ = ("_buses", "_mode", "_scope", "_seen")

    def __init__(
        self,
        scope: TaskScope,
        mode: Literal["messages", "tools"],
        buses: Sequence[Drained],
        seen: Sequence[set[str]],
    ) -> None:
        self._scope = scope
        self._mode = mode
        self._buses = buses
        self._seen = seen

    @property
    def metadata(self) -> dict[str, Any]:
        """What listeners are told about the task with each message; a new dict."""
        return {**metadata_of(self._scope), CHECKPOINT_NS: self._scope.task.ns}

    @property
    def closed(self) -> bool:
        """Whether the task is done."""
        return self._scope.closed

    def emit(self, payload: Any, metadata: dict[str, Any] | None = None) -> None:
        """Tell the listeners."""
        if self._mode == "messages":
            self._scope.emit_message(payload, metadata or {})
        else:
            self._scope.emit_tool_event(payload)

    def knows(self, message_id: str) -> bool:
        """Tell whether every listener has been told of this message already."""
        return all(message_id in seen for seen in self._seen)

    async def room(self) -> None:
        """Wait until no more than a few items wait for the readers; the wait counts as a sign of life."""
        if self._scope.closed:
            return
        for bus in self._buses:
            await bus.room()
        self._scope.sign()

    def wait_for_room(self) -> None:
        """Do what `room` does, from a worker thread."""
        run = self._scope.run
        loop = run.event_loop
        if loop is not None and loop.is_running() and threading.get_ident() != run.thread_ident:
            asyncio.run_coroutine_threadsafe(self.room(), loop).result()


def muted(scope: TaskScope, tags: Sequence[str] = ()) -> bool:
    """Tell whether what the task tells of messages and tools is for nobody."""
    return scope.task.node.hidden or TAG_NOSTREAM in tags or TAG_NOSTREAM in (scope.config.get("tags") or ())


def metadata_of(scope: TaskScope) -> dict[str, Any]:
    """Return the metadata of the task's config, and its tags; a new dict."""
    config = scope.config
    found = dict(config.get("metadata") or {})
    tags = visible_tags(config.get("tags") or ())
    if tags:
        found["tags"] = tags
    return found


def message_id(message: Any) -> str | None:
    """Return the id of a message, a dict or an object; None without one."""
    found = message.get("id") if isinstance(message, dict) else getattr(message, "id", None)
    return found if isinstance(found, str) and found else None


def refuse(scope: TaskScope, mode: str) -> None:
    """Warn that something came too late to be told."""
    what = "a message" if mode == "messages" else "a tool event"
    warnings.warn(
        f"Node '{scope.task.name}' streamed {what} after it was done; it is dropped. Something that the node started "
        "outlived it: let the node await what it starts.",
        RuntimeWarning,
        stacklevel=4,
    )
