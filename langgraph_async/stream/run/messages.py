"""The transformer that makes an object of each answer of a chat model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, ClassVar, Generic, TypeVar

from langgraph_async.stream.run.channel import StreamChannel
from langgraph_async.stream.run.chunks import ChunkView, merge_calls, read_chunk, whole_message
from langgraph_async.stream.run.pump import Pump, Scope
from langgraph_async.stream.run.replay import Replay
from langgraph_async.stream.run.transformer import ProtocolEvent, StreamTransformer

P = TypeVar("P")
W = TypeVar("W")


class Projection(Replay[P], Generic[P, W]):
    """Part of a model's answer: ``async for`` yields it piece by piece, ``await`` gives it whole.

    Args:
        pump: What advances the run; None if everything is there.
        join: Makes the whole of the pieces.
    """

    __slots__ = ("_join",)

    def __init__(self, pump: Pump | None, join: Callable[[list[P]], W]) -> None:
        super().__init__(pump)
        self._join = join

    def __await__(self) -> Generator[Any, None, W]:
        """Wait for the end of the answer and return the whole."""
        return self._all().__await__()

    def __call__(self) -> Projection[P, W]:
        """Return itself, so that ``await stream.output()`` is the same as ``await stream.output``."""
        return self

    async def _all(self) -> W:
        return self._join(await self.whole())


class ChatModelStream:
    """One answer of a chat model, while it comes and afterwards.

    ``async for chunk in stream`` yields the chunks as the model gave them; ``await stream`` gives the whole message.
    Everything can be read by any number of readers, each from the beginning, at any time.

    Attributes:
        message_id: Id of the message, or None if no chunk has told it.
        role: Who speaks; ``"assistant"`` for a model.
        metadata: Metadata of the first chunk: the node, the step, the model.
        node: The node that called the model.
        namespace: Path of the graph that the node belongs to.
        text: Pieces of text, or the whole text.
        reasoning: The same of the reasoning.
        tool_calls: Pieces of tool calls (``index``, ``id``, ``name``, ``args`` as text), or the list of whole ones
            (``name``, ``args``, ``id``, ``type``; arguments that are not JSON stay text).
        output: The whole message: a message of langchain-core for its chunks, else a dict in OpenAI style.
        usage: Token counts as told last, or None.
    """

    __slots__ = (
        "_chunks",
        "message_id",
        "metadata",
        "namespace",
        "node",
        "output",
        "reasoning",
        "role",
        "text",
        "tool_calls",
        "usage",
        "whole",
    )

    def __init__(self, pump: Pump | None, metadata: dict[str, Any], namespace: Scope) -> None:
        self.message_id: str | None = None
        self.role: str | None = None
        self.metadata = metadata
        self.node: str | None = metadata.get("langgraph_node")
        self.namespace = list(namespace)
        self.whole = False
        self.usage: Any = None
        self.text: Projection[str, str] = Projection(pump, "".join)
        self.reasoning: Projection[str, str] = Projection(pump, "".join)
        self.tool_calls: Projection[dict[str, Any], list[dict[str, Any]]] = Projection(pump, merge_calls)
        self._chunks: Replay[Any] = Replay(pump)
        self.output: Projection[Any, Any] = Projection(pump, self._message)

    @property
    def done(self) -> bool:
        """Whether the answer is complete, or has failed."""
        return self._chunks.ended

    @property
    def error(self) -> BaseException | None:
        """What the answer broke off with, or None."""
        return self._chunks.error

    @property
    def output_message(self) -> Any:
        """The whole message once it is `done`, else None."""
        return self._message([]) if self.done and self.error is None else None

    def __aiter__(self) -> AsyncGenerator[Any, None]:
        """Yield the chunks as they were given; a whole message is its only chunk."""
        return self._chunks.__aiter__()

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the whole message."""
        return self.output.__await__()

    def __repr__(self) -> str:
        """Say which message, and where it stands."""
        state = "coming" if not self.done else "failed" if self.error is not None else "done"
        return f"<ChatModelStream {self.message_id!r} of node {self.node!r}, {state}>"

    def take(self, chunk: Any, view: ChunkView) -> None:
        """Take a chunk, or the whole message."""
        self.message_id = self.message_id or view.id
        self.role = self.role or view.role
        self.whole = self.whole or view.whole
        self.usage = view.usage or self.usage
        self._chunks.items.append(chunk)
        if view.text:
            self.text.items.append(view.text)
        if view.reasoning:
            self.reasoning.items.append(view.reasoning)
        self.tool_calls.items.extend(dict(call) for call in view.tool_calls)

    def end(self, error: BaseException | None = None) -> None:
        """Take the end of the answer."""
        for part in (self._chunks, self.text, self.reasoning, self.tool_calls, self.output):
            part.end(error)

    def _message(self, _: list[Any]) -> Any:
        view = ChunkView(
            id=self.message_id,
            role=self.role,
            whole=self.whole,
            finished=True,
            text="".join(self.text.items),
            reasoning="".join(self.reasoning.items),
            tool_calls=merge_calls(self.tool_calls.items, parsed=False),
            usage=self.usage,
        )
        return whole_message(self._chunks.items, view)


class MessagesTransformer(StreamTransformer):
    """Makes the projection ``messages``: a `ChatModelStream` for each message that models and nodes of its graph give.

    Chunks belong together by the id of their message, or, without one, by the task that they come from. A message
    ends with its last chunk if that says so, and at the latest with its task. Messages of tools are left out.
    """

    required_stream_modes: ClassVar[tuple[str, ...]] = ("messages", "tasks")
    _native: ClassVar[bool] = True

    def __init__(self, scope: Scope = ()) -> None:
        super().__init__(scope)
        self._channel: StreamChannel[ChatModelStream] = StreamChannel()
        self._tasks: dict[str, dict[str, ChatModelStream | None]] = {}

    def init(self) -> dict[str, Any]:
        """Return the projection."""
        return {"messages": self._channel}

    def process(self, event: ProtocolEvent) -> bool:
        """Take a chunk, a message, or the end of a task."""
        params = event["params"]
        if tuple(params["namespace"]) == self.scope:
            if event["method"] == "messages":
                self._take(*params["data"])
            elif event["method"] == "tasks" and "triggers" not in params["data"]:
                self._task_ended(params["data"])
        return True

    def finalize(self) -> None:
        """End the messages that are still coming."""
        self._end_all(None)

    def fail(self, err: BaseException) -> None:
        """Break off the messages that are still coming."""
        self._end_all(err)

    def _take(self, chunk: Any, metadata: dict[str, Any]) -> None:
        view = read_chunk(chunk)
        if view is None or view.role == "tool":
            return
        task = self._tasks.setdefault(_task_of(metadata), {})
        key = view.id or next((key for key, stream in reversed(task.items()) if stream is not None), "")
        if key not in task:
            # A reader who comes in the middle of a message gets the next one.
            stream = ChatModelStream(self._channel.pump, metadata, self.scope) if self._channel.listened else None
            task[key] = stream
            if stream is not None:
                stream.take(chunk, view)
                self._channel.push(stream)
        elif (stream := task[key]) is not None:
            stream.take(chunk, view)
        if view.finished:
            if stream is not None:
                stream.end()
            if key:
                task[key] = None  # its id is known until the task ends; more of it is not told
            else:
                del task[key]

    def _task_ended(self, data: dict[str, Any]) -> None:
        error = data.get("error")
        for key in [key for key in self._tasks if key in (data["id"], data["name"])]:
            for stream in self._tasks.pop(key).values():
                if stream is not None:
                    stream.end(error if isinstance(error, BaseException) else None)

    def _end_all(self, error: BaseException | None) -> None:
        for task in self._tasks.values():
            for stream in task.values():
                if stream is not None:
                    stream.end(error)
        self._tasks.clear()


def _task_of(metadata: dict[str, Any]) -> str:
    """Return the id of the task that a message comes from, or the name of its node."""
    ns = str(metadata.get("langgraph_checkpoint_ns") or metadata.get("checkpoint_ns") or "")
    _, found, task_id = ns.rsplit("|", 1)[-1].partition(":")
    return task_id if found else str(metadata.get("langgraph_node", ""))
