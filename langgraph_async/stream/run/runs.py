"""The run stream itself: what `Pregel.astream_events` gives, and the handles of nested graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from langgraph_async.stream.run.builtin import (
    Child,
    LifecyclePayload,
    LifecycleTransformer,
    SubgraphTransformer,
    ValuesTransformer,
    error_text,
)
from langgraph_async.stream.run.channel import Cursor, StreamChannel
from langgraph_async.stream.run.messages import ChatModelStream, MessagesTransformer
from langgraph_async.stream.run.nested import NestedRun, SubgraphStatus
from langgraph_async.stream.run.pump import Event, Pump, Scope, StreamSource
from langgraph_async.stream.run.scope import StreamScope
from langgraph_async.stream.run.transformer import TransformerFactory
from langgraph_async.types import Interrupt

_OPT_IN: Final = {
    "updates": "UpdatesTransformer",
    "custom": "CustomTransformer",
    "checkpoints": "CheckpointsTransformer",
    "debug": "DebugTransformer",
    "tasks": "TasksTransformer",
    "tool_calls": "ToolCallTransformer",
}


class _Projections:
    """What a run and the run of a nested graph have in common: ways to read one scope."""

    _scope: StreamScope
    _values: ValuesTransformer

    @property
    def values(self) -> StreamChannel[Any]:
        """The state after each superstep; one subscriber."""
        channel: StreamChannel[Any] = self._scope.extensions["values"]
        return channel

    @property
    def messages(self) -> StreamChannel[ChatModelStream]:
        """A stream object for each answer of a chat model, and each message that a node returns; one subscriber."""
        channel: StreamChannel[ChatModelStream] = self._scope.extensions["messages"]
        return channel

    @property
    def lifecycle(self) -> StreamChannel[LifecyclePayload]:
        """Starts and ends of all graphs inside this one; one subscriber."""
        channel: StreamChannel[LifecyclePayload] = self._scope.extensions["lifecycle"]
        return channel

    @property
    def subgraphs(self) -> StreamChannel[AsyncSubgraphRunStream]:
        """A handle for each graph called directly by this one, when it starts; one subscriber."""
        channel: StreamChannel[AsyncSubgraphRunStream] = self._scope.extensions["subgraphs"]
        return channel

    @property
    def extensions(self) -> Mapping[str, Any]:
        """All projections by name, those of users' transformers too; cannot be changed."""
        return MappingProxyType(self._scope.extensions)

    def __getattr__(self, name: str) -> Any:
        """Return the projection of that name.

        Raises:
            AttributeError: There is none.
        """
        scope: StreamScope | None = self.__dict__.get("_scope")
        if scope is None or name.startswith("__"):
            raise AttributeError(name)
        try:
            return scope.extensions[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {_unknown(name, scope)}") from None

    def interleave(self, *names: str) -> Cursor[tuple[str, Any]]:
        """Return a cursor over several projections: pairs of name and item, in the order in which they came.

        It is the one subscriber of each of them, from the call on.

        Example:
            >>> async def show(run):
            ...     async for name, item in run.interleave("values", "lifecycle"):
            ...         print(name, item)

        Raises:
            ValueError: No name is given, or one twice, or one that no projection has.
            TypeError: A projection is not a channel.
            RuntimeError: One of them has a subscriber already.
        """
        texts = {name for name in names if isinstance(name, str)}
        if not names or len(texts) < len(names):
            raise ValueError(f"interleave takes the names of one or more projections, each once; got {list(names)!r}.")
        channels: list[StreamChannel[Any]] = []
        for name in names:
            if name not in self._scope.extensions:
                raise ValueError(f"The run stream has no projection {_unknown(name, self._scope)}")
            found = self._scope.extensions[name]
            if not isinstance(found, StreamChannel):
                raise TypeError(f"Projection {name!r} is no StreamChannel, so it cannot be interleaved: {found!r}.")
            channels.append(found)
        cursor: Cursor[tuple[str, Any]] = Cursor(self._scope.pump, channels)
        for name, channel in zip(names, channels, strict=True):
            channel.join(cursor, name)
        return cursor

    def __aiter__(self) -> Cursor[Event]:
        """Return the one cursor over the protocol events of this graph and those inside it, from here on.

        Raises:
            RuntimeError: Somebody iterates already.
        """
        return self._scope.log.__aiter__()

    async def output(self) -> Any:
        """Advance the run to the graph's end, and return its last state; None if it told none.

        Raises:
            BaseException: What the graph failed with.
        """
        await self._to_end()
        return self._values.latest

    async def interrupted(self) -> bool:
        """Advance the run to the graph's end, and tell whether it has paused with questions.

        Raises:
            BaseException: What the graph failed with.
        """
        await self._to_end()
        return bool(self._values.interrupts())

    async def interrupts(self) -> list[Interrupt]:
        """Advance the run to the graph's end, and return the questions that it has paused with.

        Raises:
            BaseException: What the graph failed with.
        """
        await self._to_end()
        return self._values.interrupts()

    async def abort(self) -> None:
        """End the whole run, and return when nothing of it is left. Readers get what waits for them, then the end.

        A run that has ended is left as it is, so again is no more. `output` then gives the last state that was told.

        Raises:
            RuntimeError: A node or a transformer of the run calls it.
        """
        await self._scope.pump.abort()

    async def _to_end(self) -> None:
        log, pump = self._scope.log, self._scope.pump
        while not log.closed and not pump.over:
            await pump.pull()
        failed = log.end()
        if failed is not None:
            raise failed[0].with_traceback(failed[1])
        if not log.closed and pump.error is not None:
            raise pump.error


class AsyncGraphRunStream(_Projections):
    """A run that goes on as it is read, as `Pregel.astream_events` gives it with ``version="v3"``.

    Nothing runs before somebody reads. Any reader that has nothing to read advances the run by one item, in its own
    task; readers at the same time take turns. Whoever is cancelled while it advances the run ends it: everything of
    the run has ended before the cancellation goes on. What the run fails with reaches all readers, after what came
    before it.

    Every projection has one subscriber (`StreamChannel.atee` makes several of it) and keeps nothing unless it has.
    Projections of transformers can be had as attributes, too. Leaving ``async with`` aborts what has not ended.

    Args:
        source: The run.
        factories: Users' transformers.
        ns: Namespace of the graph, if it is called in a node of another.

    Example:
        >>> async def show(graph):
        ...     async with await graph.astream_events({"topic": "ice"}, version="v3") as run:
        ...         async for state in run.values:
        ...             print(state)
        ...         return await run.output()
    """

    def __init__(self, source: StreamSource, factories: Iterable[TransformerFactory] = (), ns: Scope = ()) -> None:
        pump = Pump(source)
        self._scope, self._values = _scope(pump, ns, tuple(factories))
        pump.root = self._scope

    @property
    def required_modes(self) -> frozenset[str]:
        """The stream modes that the source has to give."""
        return self._scope.modes

    async def __aenter__(self) -> Self:
        """Return the run."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Abort what has not ended."""
        await self.abort()


class AsyncSubgraphRunStream(_Projections):
    """The run of a nested graph inside a run stream: read like the run itself.

    Its projections end with the nested graph. `abort` ends the whole run, of which it is a part; leaving
    ``async with`` does not.

    Attributes:
        path: Its namespace.
        trigger_call_id: Id of the task that called it, or None if that cannot be seen.
    """

    def __init__(self, run: NestedRun, scope: StreamScope, values: ValuesTransformer) -> None:
        self._run = run
        self._scope = scope
        self._values = values
        self.path = run.ns
        self.trigger_call_id = run.trigger_call_id

    @property
    def graph_name(self) -> str:
        """Name of its agent, or of the node that called it."""
        return self._run.graph_name

    @property
    def status(self) -> SubgraphStatus:
        """Where it stands: ``"started"``, ``"completed"``, ``"failed"``, ``"interrupted"`` or ``"drained"``."""
        return self._run.status

    @property
    def error(self) -> str | None:
        """Text of what it failed with, or None. The error itself is raised to its readers."""
        return error_text(self._run.error) if self._run.status == "failed" else None

    async def __aenter__(self) -> Self:
        """Return the handle."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the run as it is."""

    def __repr__(self) -> str:
        """Say which graph, and where it stands."""
        return f"<AsyncSubgraphRunStream {self.graph_name!r} at {'|'.join(self.path)!r}, {self.status}>"


def _scope(pump: Pump, ns: Scope, factories: tuple[TransformerFactory, ...]) -> tuple[StreamScope, ValuesTransformer]:
    values = ValuesTransformer(ns)
    builtins = (
        lambda _: values,
        lambda _: MessagesTransformer(ns),
        lambda _: LifecycleTransformer(ns, pump),
        lambda around: SubgraphTransformer(ns, around, _open_child),
    )
    return StreamScope(pump, ns, builtins, factories), values


def _open_child(around: StreamScope, run: NestedRun) -> Child:
    scope, values = _scope(around.pump, run.ns, around.factories)
    return Child(run, scope, AsyncSubgraphRunStream(run, scope, values))


def _unknown(name: str, scope: StreamScope) -> str:
    hint = f"; pass transformers=[{_OPT_IN[name]}] for it" if name in _OPT_IN else ""
    return f"{name!r} (registered projections: {', '.join(sorted(scope.extensions))}{hint})"
