"""Runs blocking functions in worker threads, and never leaves one behind."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio.to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")

_THREADS = 40
"""Worker threads at once on each level of nesting; anyio's own default on the outermost."""
_inner: RunVar[list[anyio.CapacityLimiter]] = RunVar("langgraph_async_thread_limiters")


def _threads_at(depth: int) -> anyio.CapacityLimiter | None:
    """Return what bounds the threads on one level: a thread that waits for inner ones must not keep them waiting."""
    if not depth:
        return None
    limiters = _inner.get([])
    _inner.set(limiters)
    while len(limiters) < depth:
        limiters.append(anyio.CapacityLimiter(_THREADS))
    return limiters[depth - 1]


async def run_in_thread(
    func: Callable[..., T],
    *args: Any,
    depth: int = 0,
    on_cancel: Callable[[], None] | None = None,
    limiter: anyio.CapacityLimiter | None = None,
) -> T:
    """Call a blocking function in a worker thread, in a copy of the current context.

    A thread cannot be interrupted: when the caller is cancelled, this waits for the function to end, drops its
    result and passes the cancellation on.

    Args:
        func: The function.
        args: Its arguments.
        depth: How many functions in threads this one may be called by, each of which waits for it.
        on_cancel: Called for each cancellation that arrives: it may end what the function waits for.
        limiter: Bounds the threads instead of what bounds those of nodes.
    """
    context = contextvars.copy_context()
    work = anyio.to_thread.run_sync(lambda: context.run(_boxed, func, args), limiter=limiter or _threads_at(depth))
    call = asyncio.get_running_loop().create_task(work)
    interrupted = await wait_settled(call, on_cancel)
    outcome = call.result()
    if interrupted is not None:
        raise interrupted
    result: T = outcome.unbox()
    return result


async def run_in_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Do `work` in another event loop, which runs in another thread, and tell whether that loop does run.

    A cancellation is passed on when the work is done.
    """
    if not loop.is_running():
        return False
    future = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))
    interrupted = await wait_settled(future)
    if interrupted is not None:
        raise interrupted
    future.result()
    return True


class _Outcome:
    """A result or an exception; StopIteration cannot be passed through a future."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any, error: BaseException | None) -> None:
        self.value = value
        self.error = error

    def unbox(self) -> Any:
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None
        return self.value


def _boxed(func: Callable[..., Any], args: tuple[Any, ...]) -> _Outcome:
    try:
        return _Outcome(func(*args), None)
    except BaseException as exc:  # noqa: BLE001
        return _Outcome(None, exc)


async def wait_settled(
    future: asyncio.Future[Any], on_cancel: Callable[[], None] | None = None
) -> asyncio.CancelledError | None:
    """Wait until `future` is done, however often the waiter is cancelled meanwhile.

    Args:
        future: Not cancelled by a cancellation of the waiter.
        on_cancel: Called for each cancellation that arrives.

    Returns:
        The last cancellation that arrived, to be raised by the caller when it is done; None without one.
    """
    interrupted: asyncio.CancelledError | None = None
    try:
        while not future.done():
            try:
                if interrupted is None:
                    await _ended(future)
                else:
                    with anyio.CancelScope(shield=True):
                        await _ended(future)
            except asyncio.CancelledError as exc:
                interrupted = exc
                if on_cancel is not None:
                    on_cancel()
        return interrupted
    finally:
        interrupted = None  # its traceback holds this frame


async def _ended(future: asyncio.Future[Any]) -> None:
    """Wait until `future` is done, and leave it alone when that is cancelled."""
    waiter: asyncio.Future[None] = future.get_loop().create_future()

    def wake(_: asyncio.Future[Any]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    future.add_done_callback(wake)
    try:
        await waiter
    finally:
        future.remove_done_callback(wake)
