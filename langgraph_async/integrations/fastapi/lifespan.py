"""Ends the runs that still go on when the application shuts down."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from langgraph_async.aio.clock import SYSTEM_CLOCK, Clock
from langgraph_async.pregel.background import background_runs


def drain_runs(
    grace_s: float = 10.0,
    *,
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Callable[[Any], AbstractAsyncContextManager[Any]]:
    """Return a lifespan that drains the runs of the event loop at shutdown, and cancels what is left.

    A run that is drained finishes the superstep in flight; its thread goes on with input None. Servers wait for open
    streams before they shut the lifespan down: bound that, with uvicorn by ``--timeout-graceful-shutdown``.

    Args:
        grace_s: Seconds after which a run is cancelled.
        lifespan: One of yours, which is left after the runs have ended: close savers there.
        clock: What the wait goes by.

    Example:
        >>> from fastapi import FastAPI
        >>> app = FastAPI(lifespan=drain_runs(grace_s=20))
    """

    @asynccontextmanager
    async def managed(app: Any) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            state = await stack.enter_async_context(lifespan(app)) if lifespan is not None else None
            try:
                yield state
            finally:
                await background_runs().drain(grace_s, clock=clock)

    return managed
