"""The transformer that makes an object of each tool call."""

from __future__ import annotations

from typing import Any, ClassVar

from langgraph_async.stream.run.channel import StreamChannel
from langgraph_async.stream.run.pump import Pump, Scope
from langgraph_async.stream.run.replay import Replay
from langgraph_async.stream.run.transformer import ProtocolEvent, StreamTransformer


class ToolCallStream:
    """One call of a tool, while it runs and afterwards.

    Attributes:
        tool_call_id: Id of the call.
        tool_name: The tool.
        input: Its arguments, or None if they were not told.
        output_deltas: What the tool streams; ``async for`` gives all of it, to any number of readers.
        output: What it returned, once `completed`.
        error: Text of what it failed with, or None.
        completed: It has returned or failed.
    """

    __slots__ = ("completed", "error", "input", "output", "output_deltas", "tool_call_id", "tool_name")

    def __init__(self, tool_call_id: str, tool_name: str, input: Any, pump: Pump | None) -> None:
        self.tool_call_id = tool_call_id
        self.tool_name = tool_name
        self.input = input
        self.output_deltas: Replay[Any] = Replay(pump)
        self.output: Any = None
        self.error: str | None = None
        self.completed = False

    def __repr__(self) -> str:
        """Say which call, and where it stands."""
        state = "running" if not self.completed else "failed" if self.error is not None else "completed"
        return f"<ToolCallStream {self.tool_name!r} {self.tool_call_id!r}, {state}>"

    def end(self, *, output: Any = None, error: str | None = None) -> None:
        """Take the end of the call."""
        self.output = output
        self.error = error
        self.completed = True
        self.output_deltas.end()


class ToolCallTransformer(StreamTransformer):
    """Makes ``run.tool_calls``: a `ToolCallStream` for each tool call of its graph, when the call starts."""

    required_stream_modes: ClassVar[tuple[str, ...]] = ("tools",)
    _native: ClassVar[bool] = True

    def __init__(self, scope: Scope = ()) -> None:
        super().__init__(scope)
        self._channel: StreamChannel[ToolCallStream] = StreamChannel()
        self._calls: dict[str, ToolCallStream] = {}

    def init(self) -> dict[str, Any]:
        """Return the projection."""
        return {"tool_calls": self._channel}

    def process(self, event: ProtocolEvent) -> bool:
        """Take what happens in a call."""
        params = event["params"]
        if event["method"] == "tools" and tuple(params["namespace"]) == self.scope:
            self._take(params["data"])
        return True

    def _take(self, data: dict[str, Any]) -> None:
        id, kind = data["tool_call_id"], data["event"]
        if kind == "tool-started":
            if self._channel.listened:
                call = ToolCallStream(id, data.get("tool_name", ""), data.get("input"), self._channel.pump)
                self._calls[id] = call
                self._channel.push(call)
            return
        call_or_none = self._calls.get(id)
        if call_or_none is None:
            return
        if kind == "tool-output-delta":
            call_or_none.output_deltas.items.append(data.get("delta"))
        elif kind == "tool-finished":
            self._calls.pop(id).end(output=data.get("output"))
        elif kind == "tool-error":
            self._calls.pop(id).end(error=str(data.get("message", "")))

    def finalize(self) -> None:
        """End the calls that were not ended: a paused or drained tool tells no end."""
        for call in self._calls.values():
            call.output_deltas.end()
        self._calls.clear()

    def fail(self, err: BaseException) -> None:
        """End the calls that run with what the graph fails with."""
        for call in self._calls.values():
            call.error = str(err) or type(err).__name__
            call.completed = True
            call.output_deltas.end(err)
        self._calls.clear()
