"""Run streams of a graph: what makes its runs advance only as they are read."""

from __future__ import annotations

import asyncio
import contextvars
import warnings
from collections.abc import Awaitable, Sequence
from typing import Any

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import MISSING
from langgraph_async.errors import ConfigError
from langgraph_async.pregel.begin import RunOptions
from langgraph_async.pregel.handle import belongs, check_loop, check_outside
from langgraph_async.pregel.lease import Lease
from langgraph_async.pregel.model import RunScope
from langgraph_async.pregel.session import run_graph
from langgraph_async.pregel.sinks import Sink
from langgraph_async.runtime import RunControl
from langgraph_async.stream.bus import Bus
from langgraph_async.stream.parts import Shape, shape
from langgraph_async.stream.run.runs import AsyncGraphRunStream
from langgraph_async.stream.run.transformer import checked_factories
from langgraph_async.stream.wanted import Wanted, parse_modes
from langgraph_async.types import All

_OWNED = ("stream_mode", "subgraphs")
_PASSED = ("context", "durability", "output_keys", "print_mode", "debug")


class RunSource:
    """A run that starts when its first item is asked for. Its namespaces begin at the graph itself.

    It implements `StreamSource`.
    """

    __slots__ = ("__weakref__", "_bus", "_closing", "_context", "_form", "_held", "_input", "_loop", "_run", "_work")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._bus = Bus()
        self._context = contextvars.copy_context()
        self._held: list[Lease] = []
        self._closing = False
        self._work: asyncio.Task[None] | None = None
        self._run: RunScope | None = None

    def sink(self, modes: frozenset[str]) -> Sink:
        """Return what takes the run's items."""
        return Sink(
            put=self._bus.put_fact, put_chunk=self._bus.put, bus=self._bus, wanted=Wanted.of(modes), subgraphs=True
        )

    def open(self, run: RunScope, value: Any, form: Shape) -> None:
        """Say what is to be run, with which input, and in which form its items are given."""
        self._run = run
        self._form = form
        self._input = value

    def check_caller(self) -> None:
        """Refuse to let a node of the run wait for it, or another event loop."""
        check_loop(self._loop, "This run stream")
        if self._run is not None:
            check_outside(self._run, "Use the request_drain() of its RunControl, which does not wait.")

    async def next(self) -> Any:
        """Return the next item, or `MISSING` at the end."""
        run = self._run
        assert run is not None
        if self._closing:
            return MISSING
        if self._work is None:
            self._start(run)
        assert self._work is not None
        item = self._bus.get_nowait()
        while item is MISSING:
            if not await self._bus.wait():
                await self._result(self._work)
                return MISSING
            item = self._bus.get_nowait()
        part = self._form(*item)
        part["ns"] = part["ns"][len(run.ns_levels) :]
        return part

    async def aclose(self) -> None:
        """End the run and wait for it, however often the wait is cancelled."""
        self._closing = True
        work = self._work
        if work is None:
            return
        for lease in self._held:
            lease.closing = True
        work.cancel()
        self._bus.close()
        interrupted = await wait_settled(work)
        if not work.cancelled():
            work.exception()
        if interrupted is not None:
            raise interrupted

    def _start(self, run: RunScope) -> None:
        # The context of the call that made the stream counts, not that of whoever happens to read first.
        work = _streamed(run, self._input, self._bus, self._held)
        self._work = self._context.run(spawn, work, name=f"{run.spec.name} run")
        if run.parent is not None:
            belongs(self._work, run.parent.hosts)

    async def _result(self, work: asyncio.Task[None]) -> None:
        interrupted = await wait_settled(work)
        if interrupted is not None:
            raise interrupted
        if not self._closing:
            work.result()

    def __del__(self) -> None:
        work = getattr(self, "_work", None)
        if work is None or work.done() or self._loop.is_closed():
            return
        if not self._closing:
            # Finalizers may run in any thread.
            self._loop.call_soon_threadsafe(work.cancel)
            name = self._run.spec.name if self._run is not None else ""
            warnings.warn(
                f"A run stream of graph {name!r} was dropped before its run ended, so the run is cancelled. Read it "
                "to its end, or bound it with `async with`.",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )


async def _streamed(run: RunScope, value: Any, bus: Bus, held: list[Lease]) -> None:
    if run.parent is not None:
        host = asyncio.current_task()
        if host in run.parent.hosts:
            run.parent.hosts.remove(host)  # from here on the session counts it
    try:
        await run_graph(run, value, bus.boundary, held.append, lambda: bus.closed)
    finally:
        bus.close()


class RunStreams:
    """What gives a graph run streams."""

    def astream_events(
        self: Any,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: str = "v2",
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        control: RunControl | None = None,
        transformers: Sequence[Any] | None = None,
        **astream_kwargs: Any,
    ) -> Awaitable[AsyncGraphRunStream]:
        """Make a run that goes on as it is read: ``run = await graph.astream_events(input, version="v3")``.

        Args:
            input: As for `ainvoke`.
            config: As for `ainvoke`.
            version: ``"v3"``. The callback events ``"v1"`` and ``"v2"`` are those of langchain-core's runnables.
            interrupt_before: As for `ainvoke`.
            interrupt_after: As for `ainvoke`.
            control: As for `ainvoke`.
            transformers: Classes, or callables of a scope, that give `StreamTransformer`s; each graph of the run gets
                its own. They come after those of `compile`.
            astream_kwargs: ``context``, ``durability``, ``output_keys``, ``print_mode``, ``debug``, as for `astream`.

        Raises:
            ConfigError: Another version, or an argument that cannot be used.
            TypeError: An argument is unknown, or is the run stream's own business (``stream_mode``, ``subgraphs``),
                or a transformer was given as an instance.
            ValueError: Two transformers make projections of one name.
        """
        if version != "v3":
            raise ConfigError(
                f"astream_events(version={version!r}) of graph {self.name!r}: a graph gives the run streams of "
                'version="v3" only. The callback events of "v1" and "v2" are those of langchain-core: install the '
                "extra (pip install 'langgraph-async[langchain]') and call astream_events on as_runnable(graph)."
            )
        _check_names(astream_kwargs)
        factories = (*checked_factories(self.stream_transformers), *checked_factories(transformers or ()))
        options = RunOptions(
            config=config,
            context=astream_kwargs.get("context"),
            output_keys=astream_kwargs.get("output_keys"),
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=astream_kwargs.get("durability"),
            control=control,
        )
        printers = self._printers(astream_kwargs.get("print_mode", ()), astream_kwargs.get("debug"))
        return _opened(self, input, options, factories, printers)


def _check_names(given: dict[str, Any]) -> None:
    owned = [name for name in _OWNED if name in given]
    if owned:
        raise TypeError(
            f"astream_events(version='v3') does not take {', '.join(owned)}: a run stream asks for the modes that its "
            "transformers need (required_stream_modes), and always for those of subgraphs."
        )
    unknown = [name for name in given if name not in _PASSED]
    if unknown:
        raise TypeError(
            f"astream_events(version='v3') got unknown arguments: {', '.join(unknown)}. Besides its own it takes "
            f"{', '.join(_PASSED)}."
        )


async def _opened(
    graph: Any, value: Any, options: RunOptions, factories: tuple[Any, ...], printers: list[Sink]
) -> AsyncGraphRunStream:
    source = RunSource()
    stream = AsyncGraphRunStream(source, factories)
    modes, _ = parse_modes(stream.required_modes, (), option="required_stream_modes")
    mappers = graph.mappers(options.output_keys)
    run = graph._begin(options, (source.sink(modes), *printers), graph.stream_channels_asis)
    if run.ns:
        mappers[run.ns_levels] = mappers[()]
    source.open(run, value, shape("v2", is_list=True, subgraphs=True, mappers=mappers))
    return stream
