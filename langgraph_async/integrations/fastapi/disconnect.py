"""Runs that end with their client, and work that is left in good order when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.pregel.handle import Run

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone away. The request's body must have been read, or is not wanted."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def until_gone(work: asyncio.Future[Any], receive: Receive) -> None:
    """Wait until `work` is done or the client has gone away, whichever comes first; leaves `work` alone."""
    gone = spawn(disconnected(receive), name="langgraph_async_disconnect")
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        interrupted = await wait_settled(gone)
        if not gone.cancelled():
            gone.exception()
        if interrupted is not None:
            raise interrupted


async def run_ended(run: Run, receive: Receive, *, cancel: bool) -> bool:
    """Wait for the end of a run, and tell whether it has come before the client went away.

    Args:
        run: The run.
        receive: Of the request.
        cancel: Cancel the run when the client goes away, or the wait is cancelled.
    """
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    run.on_done(lambda _: None if ended.done() else ended.set_result(None))
    try:
        await until_gone(ended, receive)
        return run.done()
    finally:
        if cancel and not run.done():
            await run.aclose()
