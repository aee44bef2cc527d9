"""Tells ``stream_mode="tools"`` what happens in the call of a tool, for tools that no framework calls."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from langgraph_async.constants import MISSING
from langgraph_async.errors import GraphBubbleUp
from langgraph_async.stream.outlet import Outlet, current_outlet


class ToolCall:
    """One call of a tool, from its start to its end; see `tool_call`.

    Attributes:
        id: The call's id.
        name: The tool.
    """

    def __init__(self, name: str, id: str | None, input: Any, tags: tuple[str, ...]) -> None:
        self.name = name
        self.id = id or str(uuid4())
        self._input = input
        self._tags = tags
        self._outlet: Outlet | None = None
        self._output: Any = MISSING

    def delta(self, delta: Any) -> None:
        """Tell a piece of the output. Never blocks; `drain` waits for a slow reader.

        Raises:
            StreamOverflowError: More chunks wait than a slow reader can be owed.
        """
        self._tell("tool-output-delta", delta=delta)

    async def drain(self) -> None:
        """Wait for a reader that is behind. Call it in a loop that tells a lot."""
        if self._outlet is not None:
            await self._outlet.room()

    def finish(self, output: Any) -> Any:
        """Say what the tool returned, and return it; it is told at the end of the block."""
        self._output = output
        return output

    def __enter__(self) -> Self:
        """Tell that the call has begun."""
        self._outlet = current_outlet("tools", self._tags)
        given = {} if self._input is None else {"input": self._input}
        self._tell("tool-started", tool_name=self.name, **given)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Tell how the call has ended; of one that was paused, drained or cancelled, nothing."""
        if error is None:
            self._tell("tool-finished", output=None if self._output is MISSING else self._output)
        elif not isinstance(error, (GraphBubbleUp, asyncio.CancelledError, GeneratorExit)):
            self._tell("tool-error", message=str(error))

    async def __aenter__(self) -> Self:
        """Do what ``with`` does."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do what ``with`` does."""
        self.__exit__(kind, error, traceback)

    def _tell(self, event: str, **more: Any) -> None:
        if self._outlet is not None:
            self._outlet.emit({"event": event, "tool_call_id": self.id, **more})


def tool_call(name: str, id: str | None = None, input: Any = None, *, tags: tuple[str, ...] = ()) -> ToolCall:
    """Tell whoever streams ``tools`` of the call of a tool: when it begins, what it gives so far, how it ends.

    Use it around the tool's work, by ``with`` or ``async with``. Outside of a run, or when nobody listens, it does
    nothing. An error is told as ``tool-error`` and goes on; a tool that asks a person (`interrupt`) has not ended.

    Args:
        name: The tool.
        id: The id of the model's tool call; by default a new one.
        input: The arguments.
        tags: With ``"nostream"`` nothing is told.

    Example:
        >>> async def search(query):
        ...     async with tool_call("search", "call_1", {"query": query}) as call:
        ...         call.delta("found 1")
        ...         return call.finish("tea")
        >>> import asyncio
        >>> asyncio.run(search("tea"))
        'tea'
    """
    return ToolCall(name, id, input, tags)
