"""How a stream's run is hosted: in a task of its own that ends with its reader, or goes on; or read from a log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from langgraph_async.aio.threads import wait_settled
from langgraph_async.config import RunnableConfig
from langgraph_async.errors import ConfigError, EventLogError, GraphDrained, RunFailedError
from langgraph_async.pregel.background import background_runs
from langgraph_async.pregel.begin import calling_task
from langgraph_async.pregel.handle import given_run_id, numbered, thread_of
from langgraph_async.pregel.model import RunScope
from langgraph_async.pregel.session import run_graph
from langgraph_async.runtime import RunControl
from langgraph_async.stream.bus import Bus
from langgraph_async.stream.log.base import END, ERROR, Event, EventLog, unknown_run
from langgraph_async.stream.log.tail import follow
from langgraph_async.stream.parts import shape
from langgraph_async.stream.wanted import parse_modes
from langgraph_async.types import All, Durability, StreamMode

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of `Pregel.astream` that `Pregel.start` takes, too."""

    context: Any
    stream_mode: StreamMode | Sequence[StreamMode] | None
    print_mode: StreamMode | Sequence[StreamMode]
    output_keys: str | Sequence[str] | None
    interrupt_before: All | Sequence[str] | None
    interrupt_after: All | Sequence[str] | None
    durability: Durability | None
    control: RunControl | None
    subgraphs: bool
    debug: bool | None
    version: Literal["v1", "v2"]

    def as_dict(self) -> dict[str, Any]:
        """Return them by their names."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Follow:
    """The other arguments of `Pregel.astream`: whether a stream can be come back to, and what its end means."""

    event_log: EventLog | None
    run_id: str | None
    resume_from: int | None
    on_disconnect: Literal["cancel", "continue"]


async def followed(
    graph: Pregel[Any, Any, Any, Any], input: Any, config: RunnableConfig | None, call: Call, how: Follow
) -> AsyncGenerator[Any, None]:
    """Yield what `Pregel.astream` yields with a log, or with a run that outlasts its reader."""
    if how.resume_from is not None:
        async with aclosing(_resumed(graph, input, config, call, how)) as stored:
            async for part in stored:
                yield part
        return
    _check_owner(graph, config, how)
    run = graph.start(input, config, event_log=how.event_log, run_id=how.run_id, **call.as_dict())
    if how.on_disconnect == "continue":
        background_runs().adopt(run)
    try:
        async with aclosing(run.__aiter__()) as parts:
            async for part in parts:
                yield part
    finally:
        if how.on_disconnect == "cancel":
            await run.aclose()


def _check_owner(graph: Pregel[Any, Any, Any, Any], config: RunnableConfig | None, how: Follow) -> None:
    if how.on_disconnect not in ("cancel", "continue"):
        raise ConfigError(f"on_disconnect must be 'cancel' or 'continue', got {how.on_disconnect!r}.")
    if how.on_disconnect == "continue" and calling_task(graph, config) is not None:
        raise ConfigError(
            f"Graph {graph.name!r} is called in a node, which a run cannot outlast: on_disconnect='continue' is for "
            "runs of their own."
        )


async def _resumed(
    graph: Pregel[Any, Any, Any, Any], input: Any, config: RunnableConfig | None, call: Call, how: Follow
) -> AsyncGenerator[Any, None]:
    if how.event_log is None or input is not None or how.resume_from is None:
        raise ConfigError("resume_from= reads a run from its log: pass event_log=, and None as the input.")
    if isinstance(how.resume_from, bool) or not isinstance(how.resume_from, int) or how.resume_from < 0:
        raise ConfigError(f"resume_from must be the seq of the last part that was seen, or 0, got {how.resume_from!r}.")
    log = how.event_log.for_saver(graph.checkpointer)
    modes, is_list = parse_modes(call.stream_mode, graph.stream_mode)
    mappers = graph.mappers(call.output_keys)
    formed = numbered(shape(call.version, is_list=is_list, subgraphs=call.subgraphs, mappers=mappers), call.version)
    run_id = await find_run(log, how.run_id or given_run_id(graph, config), thread_of(graph, config))
    async with aclosing(follow(log, run_id, how.resume_from)) as events:
        failure: Event | None = None
        async for event in events:
            if event.mode == ERROR:
                failure = event
            elif event.mode == END:
                raise_end(run_id, event, failure)
            elif event.mode in modes and (call.subgraphs or not event.ns):
                yield formed(event)


async def find_run(log: EventLog, run_id: str | None, thread_id: str | None) -> str:
    """Return the id of a run in a log, by default that of the newest one of the thread.

    Raises:
        EventLogError: The log does not have it, or it ran on another thread.
        ConfigError: Neither a run nor a thread is named.
    """
    if run_id is None:
        if thread_id is None:
            raise ConfigError("Which run is to be read? Pass run_id=, or a config with the thread_id.")
        found = await log.aruns(thread_id, limit=1)
        if not found:
            raise EventLogError(f"The event log has no run of thread {thread_id!r}.", run_id="", reason="unknown")
        return found[0].run_id
    if thread_id is not None and (await log.arun(run_id)).thread_id != thread_id:
        raise unknown_run(run_id)
    return run_id


def raise_end(run_id: str, end: Event, failure: Event | None) -> None:
    """Raise what the end of a run means for those who read it from its log; nothing if it ended well."""
    status = end.data["status"]
    if status == "drained":
        raise GraphDrained(end.data.get("reason") or "shutdown")
    if status not in ("failed", "cancelled"):
        return
    told = failure.data if failure is not None else {}
    kind = told.get("type")
    what = f"failed with {kind}: {told.get('message')}" if kind else f"was {status}"
    raise RunFailedError(
        f"Run {run_id!r} {what}", run_id=run_id, status=status, error_type=kind, error_code=told.get("code")
    )


async def streamed(run: RunScope, value: Any, bus: Bus, on_lease: Callable[[Any], None]) -> None:
    """Run a graph and close the bus."""
    boundary: Callable[[], Awaitable[None]] = bus.boundary
    try:
        await run_graph(run, value, boundary, on_lease, lambda: bus.closed)
    finally:
        bus.close()


async def end_stream(work: asyncio.Task[None], bus: Bus, held: Sequence[Any]) -> None:
    """End a stream's run and wait for it, however often the wait is cancelled."""
    for lease in held:
        lease.closing = True
    if work.done():
        return
    work.cancel()
    bus.close()
    interrupted = await wait_settled(work)
    if not work.cancelled():
        work.exception()
    if interrupted is not None:
        raise interrupted
