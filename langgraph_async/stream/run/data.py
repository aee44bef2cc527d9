"""Transformers that show a stream mode as a projection of its own. None of them is there unless asked for."""

from __future__ import annotations

from typing import Any, ClassVar

from langgraph_async.stream.run.channel import StreamChannel
from langgraph_async.stream.run.pump import Scope
from langgraph_async.stream.run.transformer import ProtocolEvent, StreamTransformer


class _ModeTransformer(StreamTransformer):
    """Makes a projection of the payloads of one stream mode, those of its own graph only."""

    mode: ClassVar[str]
    _native: ClassVar[bool] = True

    def __init__(self, scope: Scope = ()) -> None:
        super().__init__(scope)
        self._channel: StreamChannel[Any] = StreamChannel()

    def init(self) -> dict[str, Any]:
        """Return the projection."""
        return {self.mode: self._channel}

    def process(self, event: ProtocolEvent) -> bool:
        """Take a payload."""
        if event["method"] == self.mode and tuple(event["params"]["namespace"]) == self.scope:
            self._channel.push(event["params"]["data"])
        return True


class UpdatesTransformer(_ModeTransformer):
    """Makes ``run.updates``: what each task wrote."""

    mode = "updates"
    required_stream_modes: ClassVar[tuple[str, ...]] = ("updates",)


class CustomTransformer(_ModeTransformer):
    """Makes ``run.custom``: what nodes wrote to their stream writer."""

    mode = "custom"
    required_stream_modes: ClassVar[tuple[str, ...]] = ("custom",)


class CheckpointsTransformer(_ModeTransformer):
    """Makes ``run.checkpoints``: the checkpoints, if the graph has a saver."""

    mode = "checkpoints"
    required_stream_modes: ClassVar[tuple[str, ...]] = ("checkpoints",)


class DebugTransformer(_ModeTransformer):
    """Makes ``run.debug``: checkpoints and tasks, with step and time."""

    mode = "debug"
    required_stream_modes: ClassVar[tuple[str, ...]] = ("debug",)


class TasksTransformer(_ModeTransformer):
    """Makes ``run.tasks``: starts and results of tasks."""

    mode = "tasks"
    required_stream_modes: ClassVar[tuple[str, ...]] = ("tasks",)
