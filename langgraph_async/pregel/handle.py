"""A run that was started and not waited for: the object by which it is awaited, read, drained and cancelled."""

from __future__ import annotations

import asyncio
import uuid
import warnings
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Literal, Self

from langgraph_async import ambient
from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.config import RunnableConfig, merge_configs
from langgraph_async.constants import CONF, END, INTERRUPT, THREAD_ID
from langgraph_async.errors import ConfigError, GraphDrained
from langgraph_async.pregel.begin import RunOptions, calling_task, names_task
from langgraph_async.pregel.lease import Lease
from langgraph_async.pregel.loop import PregelLoop
from langgraph_async.pregel.model import RunScope
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.session import run_graph
from langgraph_async.pregel.sinks import Item, Sink
from langgraph_async.runtime import RunControl
from langgraph_async.stream.bus import Bus
from langgraph_async.stream.log.base import END as END_EVENT
from langgraph_async.stream.log.base import ERROR as ERROR_EVENT
from langgraph_async.stream.log.base import Event, EventLog, RunStatus
from langgraph_async.stream.log.recorder import Recorder
from langgraph_async.stream.log.tail import follow
from langgraph_async.stream.parts import Mapper, Shape, shape
from langgraph_async.stream.wanted import Wanted, parse_modes
from langgraph_async.types import All, Durability, GraphOutput, StreamMode

_INSTEAD = "Use run.cancel() or run.drain(), which do not wait."


class _Feed:
    """Where a run's items go: to the bus of the one who reads just now, or nowhere. It does not hold the handle."""

    __slots__ = ("bus", "lease", "paused", "recorder", "stopped", "work")

    def __init__(self) -> None:
        self.bus: Bus | None = None
        self.recorder: Recorder | None = None
        self.paused = False
        self.lease: Lease | None = None
        self.stopped = False
        self.work: asyncio.Task[Any] | None = None

    def put(self, item: Item) -> None:
        if self.bus is not None:
            self.bus.put_fact(item)

    def put_chunk(self, item: Item) -> None:
        bus = self.bus  # a thread may write while the reader leaves
        if bus is not None:
            bus.put(item)

    async def drain(self) -> None:
        if self.bus is not None:
            await self.bus.drain()

    async def room(self) -> None:
        if self.bus is not None:
            await self.bus.room()

    async def boundary(self) -> None:
        if self.recorder is not None:
            await self.recorder.boundary()
        elif self.bus is not None:
            await self.bus.boundary()

    def note_lease(self, lease: Lease) -> None:
        self.lease = lease
        lease.closing = self.stopped

    def leave(self) -> None:
        """Let go of the reader: the run waits for it no longer."""
        bus, self.bus = self.bus, None
        if bus is not None:
            bus.close()

    def fail(self) -> None:
        """End the run, since its log has failed."""
        if self.work is not None and not self.stopped:
            self.stop()

    def stop(self) -> None:
        """Cancel the run, once."""
        work = self.work
        if self.stopped or work is None or work.done():
            return
        self.stopped = True
        if self.lease is not None:
            self.lease.closing = True
        work.cancel()
        if self.bus is not None:
            self.bus.close()


class Run:
    """A run in a task of its own, as `Pregel.start` gives it. It is going on already.

    ``await run`` gives what `ainvoke` returns, to any number of awaiters; a cancelled awaiter leaves the run alone.
    ``async for part in run`` yields what `astream` does, from where the run stands: parts that come while nobody
    iterates are not kept, and then the run waits for nobody. While somebody iterates, a superstep starts when they
    have taken what the last one gave. Leaving the iteration lets the run go on. With an event log all parts are kept,
    there (`graph.astream(None, config, event_log=log, run_id=run.run_id, resume_from=0)`).

    Bound it with ``async with``, which cancels what has not ended and waits for it. A handle that is dropped while
    its run goes on cancels the run, with a `ResourceWarning`.
    """

    __slots__ = ("__weakref__", "_feed", "_form", "_loop", "_run", "_version", "_work")

    def __init__(self, run: RunScope, feed: _Feed, work: asyncio.Task[Any], form: Shape, version: str) -> None:
        self._run = run
        self._version = version
        self._feed = feed
        self._work = work
        self._form = form
        self._loop = asyncio.get_running_loop()

    @property
    def run_id(self) -> str | None:
        """The id that the config gives the run, or None."""
        found = self._run.config.given.get("run_id")
        return str(found) if found is not None else None

    @property
    def thread_id(self) -> str | None:
        """The thread on which it runs, or None without one."""
        return self._run.config.thread_id

    def done(self) -> bool:
        """Tell whether the run has ended, in whatever way: nothing of it is left."""
        return self._work.done()

    @property
    def status(self) -> RunStatus:
        """How the run stands, or how it ended."""
        if not self._work.done():
            return "running"
        if self._work.cancelled():
            return "cancelled"
        error = self._work.exception()
        if error is not None:
            return _ending(error)[0]
        return "paused" if self._feed.paused else "done"

    async def ended(self) -> None:
        """Return when the run has ended, in whatever way."""
        self._check_caller()
        if not self._work.done():
            await asyncio.wait([self._work])

    def failure(self) -> BaseException | None:
        """Return what the run failed with; None while it goes on, and if it ended in another way."""
        return None if self.status != "failed" else self._work.exception()

    def on_done(self, call: Callable[[Run], None]) -> None:
        """Have `call` called with the handle when the run has ended; it then is not to be dropped before."""
        self._work.add_done_callback(lambda _: call(self))

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield the run's events as its log has them, all those since it began, and with the one that ends it.

        The run waits for who reads them as it does for who iterates.

        Raises:
            RuntimeError: The run has no log, or somebody reads it already.
        """
        recorder = self._feed.recorder
        if recorder is None:
            raise RuntimeError("This run has no event log: pass event_log= to start().")
        check_outside(self._run, _INSTEAD)
        async with aclosing(follow(recorder.log, recorder.run_id, live=recorder.broadcast, drives=True)) as events:
            async for event in events:
                yield event

    def cancel(self) -> None:
        """Ask the run to end now. It has ended when ``await run`` raises, or `aclose` returns. Again is no more."""
        self._feed.stop()

    def drain(self, reason: str = "shutdown") -> None:
        """Ask the run to stop before its next superstep; ``await run`` then raises `GraphDrained`.

        The step in flight finishes, and the thread goes on with input None. A run that has nothing left to do ends
        as always. Inside a node the request is made of the whole run around it, which shares its control.
        """
        self._run.control.request_drain(reason)

    async def aclose(self) -> None:
        """Cancel what has not ended, and return when every task of it has ended. Raises nothing that it ended with.

        Raises:
            RuntimeError: A node of the run calls it.
        """
        self._check_caller()
        self._feed.stop()
        interrupted = await wait_settled(self._work)
        if self._feed.stopped and not self._work.cancelled():
            self._work.exception()  # what clean-up raised; a failure of its own that nobody has seen is reported
        if interrupted is not None:
            raise interrupted

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the end of the run and return its output, as `ainvoke` does, whatever the stream mode.

        Raises:
            asyncio.CancelledError: The run was cancelled.
            GraphDrained: It was drained.
            RuntimeError: A node of the run awaits it.
            BaseException: What it failed with.
        """
        return self._result().__await__()

    async def _result(self) -> Any:
        await self.ended()
        return self._work.result()

    async def __aiter__(self) -> AsyncGenerator[Any, None]:
        """Yield the parts from here on; then raise what the run ended with, if it failed.

        Raises:
            RuntimeError: Somebody iterates already, or a node of the run does.
        """
        self._check_caller()
        feed = self._feed
        if feed.recorder is not None:
            async with aclosing(self._recorded(feed.recorder)) as parts:
                async for part in parts:
                    yield part
            await self._result()
            return
        if feed.bus is not None and not feed.bus.closed:
            raise RuntimeError("This run is being read already; it can have one reader at a time.")
        if not self._work.done():
            bus = feed.bus = Bus()
            try:
                async for item in bus:
                    yield self._form(*item)
            finally:
                if feed.bus is bus:
                    feed.leave()
                else:
                    bus.close()
        await self._result()

    async def _recorded(self, recorder: Recorder) -> AsyncGenerator[Any, None]:
        live = recorder.broadcast
        events = follow(recorder.log, recorder.run_id, live.stored, live=live, drives=True)
        formed = numbered(self._form, self._version)
        async with aclosing(events):
            async for event in events:
                if event.mode not in (ERROR_EVENT, END_EVENT):
                    yield formed(event)

    async def __aenter__(self) -> Self:
        """Return the handle."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel what has not ended, and wait for it."""
        await self.aclose()

    def _check_caller(self) -> None:
        check_loop(self._loop, "This run")
        check_outside(self._run, _INSTEAD)

    def __del__(self) -> None:
        work = getattr(self, "_work", None)
        if work is None or work.done() or self._loop.is_closed():
            return
        if not self._feed.stopped:
            # Finalizers may run in any thread.
            self._loop.call_soon_threadsafe(self._feed.stop)
            warnings.warn(
                f"A run of graph {self._run.spec.name!r} was dropped before it ended, so it is cancelled. Await it, "
                "or bound it with `async with`.",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __repr__(self) -> str:
        """Say which run, and whether it goes on."""
        where = f", thread {self.thread_id!r}" if self.thread_id is not None else ""
        return f"<Run of {self._run.spec.name!r}{where}, {'ended' if self.done() else 'going on'}>"


def check_loop(loop: asyncio.AbstractEventLoop, what: str) -> None:
    """Refuse to let another event loop wait for a run.

    Raises:
        RuntimeError: The calling code runs in another loop than `loop`.
    """
    if asyncio.get_running_loop() is not loop:
        raise RuntimeError(
            f"{what} belongs to another event loop, and can be read, awaited and closed in that one only. From another "
            "thread, use asyncio.run_coroutine_threadsafe(..., loop)."
        )


def check_outside(run: RunScope, instead: str) -> None:
    """Refuse to let a node wait for the run that it is part of.

    Args:
        run: The run that would be waited for.
        instead: What the node can do.

    Raises:
        RuntimeError: The calling code runs in a node of the run.
    """
    task = ambient.current.get()
    while isinstance(task, TaskScope):
        if task.run is run:
            raise RuntimeError(f"Node {task.task.name!r} cannot wait for the run that it is part of. {instead}")
        task = task.run.parent


class Startable:
    """What makes a graph's runs handles."""

    def start(
        self: Any,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        print_mode: StreamMode | Sequence[StreamMode] = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        control: RunControl | None = None,
        subgraphs: bool = False,
        debug: bool | None = None,
        version: Literal["v1", "v2"] = "v1",
        event_log: EventLog | None = None,
        run_id: str | None = None,
    ) -> Run:
        """Start a run and return its handle at once: to await, to iterate, to drain, to cancel.

        Takes what `astream` takes; `stream_mode` says what iterating yields, and what goes into `event_log`. Inside a
        node the run is part of the node, which ends it when it returns without having waited.

        Raises:
            RuntimeError: No event loop is running here.
            ConfigError: An argument cannot be used.
        """
        _check_loop(self.name)
        parent = calling_task(self, config)
        if event_log is not None:
            if parent is not None:
                raise ConfigError(
                    f"Graph {self.name!r} is called in a node, so its parts go to the run around it: give "
                    "that one the event_log."
                )
            run_id = run_id or given_run_id(self, config) or str(uuid.uuid4())
        config = with_run_id(config, run_id)
        modes, is_list = parse_modes(stream_mode, "values" if names_task(config, parent) else self.stream_mode)
        options = RunOptions(
            config=config,
            context=context,
            output_keys=output_keys,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=durability,
            control=control,
        )
        mappers = self.mappers(output_keys)
        form = shape(version, is_list=is_list, subgraphs=subgraphs, mappers=mappers)
        feed = _Feed()
        if event_log is not None and run_id is not None:
            thread_id = thread_of(self, config)
            feed.recorder = Recorder(event_log.for_saver(self.checkpointer), run_id, thread_id, feed.fail)
            feed.bus = feed.recorder.bus
        own = Sink(put=feed.put, put_chunk=feed.put_chunk, bus=feed, wanted=Wanted.of(modes), subgraphs=subgraphs)
        run = self._begin(options, (own, *self._printers(print_mode, debug)), self.stream_channels_asis)
        if run.ns:
            mappers[run.ns_levels] = mappers[()]
        work = spawn(_worked(run, input, feed, version, mappers[()].output), name=f"{self.name} run")
        feed.work = work
        if run.parent is not None:
            belongs(work, run.parent.hosts)
        work.add_done_callback(lambda _: feed.bus.close() if feed.bus is not None else None)
        return Run(run, feed, work, form, version)


def _check_loop(name: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            f"start() of graph {name!r} needs a running event loop, and none runs in this thread. Call it in async "
            "code; a script without asyncio has invoke() and stream()."
        ) from None


def belongs(work: asyncio.Task[Any], hosts: list[asyncio.Task[Any]]) -> None:
    """Count `work` among what a node hosts: let a node that returns before the run's first turn end it all the same."""
    hosts.append(work)

    def gone(_: asyncio.Task[Any]) -> None:
        if work in hosts:
            hosts.remove(work)

    work.add_done_callback(gone)


async def _worked(run: RunScope, value: Any, feed: _Feed, version: str, mapper: Mapper | None) -> Any:
    if run.parent is not None and feed.work is not None:
        run.parent.hosts.remove(feed.work)  # from here on the session counts it
    recorder = feed.recorder
    if recorder is None:
        return result_of(run, await _run(run, value, feed), version, mapper)
    await recorder.begin()
    try:
        result = result_of(run, await _run(run, value, feed), version, mapper)
    except BaseException as exc:
        await recorder.finish(*_ending(exc))
        raise
    await recorder.finish("paused" if feed.paused else "done")
    return result


async def _run(run: RunScope, value: Any, feed: _Feed) -> PregelLoop:
    loop = await run_graph(run, value, feed.boundary, feed.note_lease, lambda: feed.stopped)
    feed.paused = loop.paused
    return loop


def _ending(exc: BaseException) -> tuple[RunStatus, BaseException | None, str | None]:
    """Return how a run ended that raised `exc`, and what is to be told of it: the error, or the reason of a drain."""
    if isinstance(exc, asyncio.CancelledError):
        return "cancelled", None, None
    if isinstance(exc, GraphDrained):
        return "drained", None, exc.reason
    return "failed", exc, None


def numbered(form: Shape, version: str) -> Callable[[Event], Any]:
    """Return what gives events the form of their reader; v2 parts get their number as ``seq``."""
    if version != "v2":
        return lambda event: form(event.ns, event.mode, event.data)
    return lambda event: {**form(event.ns, event.mode, event.data), "seq": event.seq}


def with_run_id(config: RunnableConfig | None, run_id: str | None) -> RunnableConfig | None:
    """Return the config with this run id, if there is one."""
    return config if run_id is None else {**(config or {}), "run_id": run_id}


def given_run_id(graph: Any, config: Mapping[str, Any] | None) -> str | None:
    """Return the run id that the config of a call, or of the graph, gives."""
    found = (config or {}).get("run_id") or (graph.config or {}).get("run_id")
    return None if found is None else str(found)


def thread_of(graph: Any, config: Mapping[str, Any] | None) -> str | None:
    """Return the thread that the config of a call, or of the graph, names."""
    found = (merge_configs(graph.config, config).get(CONF) or {}).get(THREAD_ID)
    return None if found is None else str(found)


def result_of(run: RunScope, loop: PregelLoop, version: str, mapper: Callable[[dict[str, Any]], Any] | None) -> Any:
    """Return what the caller of a run that has ended or paused gets.

    Args:
        run: The run.
        loop: What ran it.
        version: ``"v1"`` for the bare output, ``"v2"`` for a `GraphOutput`.
        mapper: Makes an output an instance of the graph's schema, for ``"v2"``.
    """
    value = loop.output
    if version == "v2":
        if mapper is not None and isinstance(value, dict) and not loop.paused:
            value = mapper(value)
        return GraphOutput(value, loop.interrupts)
    if not loop.interrupts:
        return value
    # What an entrypoint shows as its output is that of its last finished run, not of this one.
    shown = value if isinstance(value, dict) and run.sinks.result_keys != END else {}
    return {**shown, INTERRUPT: list(loop.interrupts)}
