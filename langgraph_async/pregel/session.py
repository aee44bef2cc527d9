"""Runs a graph with its hold on the thread, and turns what it ends with into what callers see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langgraph_async.callbacks.port import Tracing
from langgraph_async.pregel import lease as leases
from langgraph_async.pregel.admission import come_back
from langgraph_async.pregel.claim import RunClaim, begins_with_a_node
from langgraph_async.pregel.loop import PregelLoop
from langgraph_async.pregel.model import RunScope
from langgraph_async.pregel.replay import Replay
from langgraph_async.pregel.traceback_trim import trimmed


async def run_graph(
    run: RunScope,
    value: Any,
    boundary: Callable[[], Awaitable[None]] | None = None,
    on_lease: Callable[[Any], None] | None = None,
    stopped: Callable[[], bool] | None = None,
) -> PregelLoop:
    """Run a graph to its end or to a pause, and return the loop that ran it.

    Args:
        run: The run.
        value: Its input.
        boundary: Awaited before the tasks of a superstep start.
        on_lease: Given the run's hold on its thread, when it has one.
        stopped: Tells whether the caller has left; the run then ends even if a node swallows its cancellation.

    Raises:
        ThreadConflictError: The thread is busy, or another run took it over.
    """
    try:
        if run.tracing is not None and not run.tracing.quiet:
            return await _run_traced(run, run.tracing, value, boundary, on_lease, stopped)
        return await _run_placed(run, value, boundary, on_lease, stopped)
    except BaseException as exc:
        exc.with_traceback(trimmed(exc.__traceback__))
        raise


async def _run_traced(
    run: RunScope,
    tracing: Tracing,
    value: Any,
    boundary: Callable[[], Awaitable[None]] | None,
    on_lease: Callable[[Any], None] | None,
    stopped: Callable[[], bool] | None,
) -> PregelLoop:
    await tracing.begin(value)
    try:
        loop = await _run_placed(run, value, boundary, on_lease, stopped)
        if loop.paused:
            await tracing.paused(loop.stop, loop.state.checkpoint_id, run.ns_levels, loop.interrupts)
    except BaseException as exc:
        await tracing.fail(exc)
        raise
    await tracing.end(loop.output)
    return loop


async def _run_placed(
    run: RunScope,
    value: Any,
    boundary: Callable[[], Awaitable[None]] | None,
    on_lease: Callable[[Any], None] | None,
    stopped: Callable[[], bool] | None,
) -> PregelLoop:
    if run.is_root and run.saver is not None and run.config.thread_id is not None:
        return await _run_leased(run, value, boundary, on_lease, stopped)
    if run.parent is None:
        return await _run(run, value, boundary, stopped)
    return await _run_inside(run, value, boundary, stopped)


async def _run(
    run: RunScope, value: Any, boundary: Callable[[], Awaitable[None]] | None, stopped: Callable[[], bool] | None
) -> PregelLoop:
    loop = PregelLoop(run, boundary, stopped=stopped)
    await loop.execute(value)
    return loop


async def _run_inside(
    run: RunScope, value: Any, boundary: Callable[[], Awaitable[None]] | None, stopped: Callable[[], bool] | None
) -> PregelLoop:
    assert run.parent is not None
    run.parent.host_graph()
    goes_on = False
    try:
        loop = await _run(run, value, _with_room(run, boundary), stopped)
        goes_on = True
    except Exception:
        goes_on = True  # the node may handle it
        raise
    finally:
        try:
            if goes_on and run.parent.hosts_last():
                await come_back(run.parent)
        finally:
            await run.parent.leave_graph(wait=goes_on)
    return loop


def _with_room(run: RunScope, boundary: Callable[[], Awaitable[None]] | None) -> Callable[[], Awaitable[None]] | None:
    """Return what a nested graph awaits between supersteps: also those who read the graphs around it, and hear it."""
    sinks = run.sinks
    if not sinks.buses:
        return boundary
    if boundary is None:
        return sinks.room

    async def both() -> None:
        await sinks.room()
        await boundary()

    return both


async def _run_leased(
    run: RunScope,
    value: Any,
    boundary: Callable[[], Awaitable[None]] | None,
    on_lease: Callable[[Any], None] | None,
    stopped: Callable[[], bool] | None,
) -> PregelLoop:
    thread_id = run.config.thread_id
    assert thread_id is not None
    strategy = run.config.multitask_strategy
    async with leases.holding(run.saver, thread_id, strategy, within=run.leases) as (lease, put_off):
        run.leases = (*run.leases, lease)
        if on_lease is not None:
            on_lease(lease)
        claim = RunClaim(run)
        try:
            if begins_with_a_node(run, value):
                await claim.take()
            start = await leases.rolled_back(run.saver, thread_id, strategy, put_off)
            if start is not None and run.replay is None:
                # The memory of graphs inside goes back, too.
                run.replay = Replay(start, {})
            loop = PregelLoop(run, boundary, start=start, on_head=lease.note_head, claim=claim, stopped=stopped)
            await loop.execute(value)
        finally:
            await claim.give_back()
    return loop
