"""Stream transformers: what turns a run's protocol events into projections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ClassVar, Literal, NotRequired, TypeAlias, TypedDict

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled

_log = logging.getLogger(__name__)


class ProtocolParams(TypedDict):
    """What an event says.

    Attributes:
        namespace: Path of the graph that it comes from; empty for the outermost.
        timestamp: Milliseconds since 1970.
        data: The payload of the stream mode, or the item of the channel.
        interrupts: With ``values``: the questions of a paused run.
    """

    namespace: list[str]
    timestamp: int
    data: Any
    interrupts: NotRequired[tuple[Any, ...]]


class ProtocolEvent(TypedDict):
    """One event of a run stream.

    Attributes:
        type: Always ``"event"``.
        method: A stream mode, ``lifecycle``, or ``custom:<name>`` for an item of a named channel.
        params: What it says.
        seq: Its number among the events of this stream, rising. It is given when the event is told.
        event_id: An id, if somebody gave it one.
    """

    type: Literal["event"]
    method: str
    params: ProtocolParams
    seq: NotRequired[int]
    event_id: NotRequired[str]


class StreamTransformer:
    """Base of what is told all events of a run and makes projections of them.

    A subclass overrides `init`, and `process` or `aprocess`. The run makes a fresh instance for itself and for each
    nested graph; it sees the events of its graph and of all graphs inside that.

    Args:
        scope: Namespace of the graph that it is made for.

    Attributes:
        requires_async: Needs an event loop. Every run stream has one; declared for the sake of LangGraph.
        supports_sync: As `requires_async`.
        required_stream_modes: Stream modes that the run has to be asked for.
        before_builtins: Gets events before the built-in transformers do.
    """

    requires_async: ClassVar[bool] = False
    supports_sync: ClassVar[bool] = False
    required_stream_modes: ClassVar[tuple[str, ...]] = ()
    before_builtins: ClassVar[bool] = False
    _native: ClassVar[bool] = False

    scope: tuple[str, ...] = ()
    _scheduled: dict[asyncio.Task[Any], str] | None = None

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        self.scope = scope

    def init(self) -> dict[str, Any]:
        """Return the projections by name: `StreamChannel`s, or anything else that readers should find there."""
        return {}

    def process(self, event: ProtocolEvent) -> bool:
        """Take an event. False keeps it out of the events that the stream itself yields, not from transformers."""
        raise NotImplementedError(f"{type(self).__name__} must override process() or aprocess().")

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """Take an event, as `process` does; by default it calls that. The run waits meanwhile."""
        return self.process(event)

    def finalize(self) -> None:
        """Take the end of the graph. Channels are closed afterwards."""

    async def afinalize(self) -> None:
        """Take the end of the graph, as `finalize` does; by default it calls that."""
        self.finalize()

    def fail(self, err: BaseException) -> None:
        """Take what the graph failed with. Channels fail with it afterwards."""

    async def afail(self, err: BaseException) -> None:
        """Take what the graph failed with, as `fail` does; by default it calls that."""
        self.fail(err)

    def schedule(self, coro: Coroutine[Any, Any, Any], on_error: Literal["log", "raise"] = "log") -> asyncio.Task[Any]:
        """Start `coro` beside the run. It is waited for before `afinalize`, and cancelled if the run fails.

        Args:
            coro: What to run.
            on_error: Log what it fails with, or let the run stream fail with it.

        Raises:
            RuntimeError: No event loop is running.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            coro.close()
            raise RuntimeError(f"{type(self).__name__}.schedule() requires a running event loop.") from None
        if on_error not in ("log", "raise"):
            coro.close()
            raise ValueError(f"on_error must be 'log' or 'raise', got {on_error!r}.")
        task = spawn(coro, name=f"{type(self).__name__} task")
        if self._scheduled is None:
            self._scheduled = {}
        self._scheduled[task] = on_error
        task.add_done_callback(self._scheduled_ended)
        return task

    def _scheduled_ended(self, task: asyncio.Task[Any]) -> None:
        scheduled = self._scheduled
        if scheduled is None:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None and scheduled.get(task) == "raise":
            return  # kept for the one who waits
        scheduled.pop(task, None)
        if error is not None:
            _log.error("A task scheduled by %s failed.", type(self).__name__, exc_info=error)


async def join_scheduled(transformer: StreamTransformer) -> None:
    """Wait for what a transformer has scheduled.

    Raises:
        BaseException: What one of them failed with, if it was scheduled to raise.
    """
    while scheduled := transformer._scheduled:
        task, on_error = next(iter(scheduled.items()))
        await asyncio.wait([task])
        scheduled.pop(task, None)
        if on_error == "raise" and not task.cancelled():
            task.result()


async def cancel_scheduled(transformer: StreamTransformer) -> None:
    """End what a transformer has scheduled."""
    scheduled, transformer._scheduled = transformer._scheduled or {}, None
    for task in scheduled:
        task.cancel()
    for task in scheduled:
        await wait_settled(task)
        if not task.cancelled():
            task.exception()


TransformerFactory: TypeAlias = Callable[[tuple[str, ...]], StreamTransformer]


def checked_factories(given: Iterable[Any]) -> tuple[TransformerFactory, ...]:
    """Return transformer factories in order: those before the built-in ones come first.

    Raises:
        TypeError: Something is an instance, or cannot be called.
    """
    if not isinstance(given, Iterable):
        raise TypeError(f"transformers must be a list of classes or callables of a scope, got {given!r}.")
    factories = tuple(given)
    for factory in factories:
        if isinstance(factory, StreamTransformer):
            raise TypeError(
                f"transformers got a pre-built instance of {type(factory).__name__}; every graph of a run gets its "
                "own. Give the class, or a factory such as `lambda scope: MyTransformer(scope, ...)`."
            )
        if not callable(factory):
            raise TypeError(f"transformers must be classes or callables of a scope, got {factory!r}.")
    return factories
