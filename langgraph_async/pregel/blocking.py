"""A blocking view of a graph, for scripts and notebooks: it runs the async engine in a portal thread.

There is one engine. These methods hand their call to an event loop in a thread of its own and wait; inside a sync
node they hand it to the loop that runs the node.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import anyio
import anyio.from_thread

from langgraph_async import ambient

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel

_END = object()


class _Portal:
    """The event loop thread behind all blocking calls of the process; started when it is first needed.

    It is a daemon, so that a program which ends never waits for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: anyio.from_thread.BlockingPortal | None = None

    def get(self) -> anyio.from_thread.BlockingPortal:
        with self._lock:
            if self._portal is None:
                ready = threading.Event()
                threading.Thread(
                    target=anyio.run, args=(self._serve, ready), name="langgraph_async", daemon=True
                ).start()
                ready.wait()
            assert self._portal is not None
            return self._portal

    async def _serve(self, ready: threading.Event) -> None:
        async with anyio.from_thread.BlockingPortal() as portal:
            self._portal = portal
            ready.set()
            await portal.sleep_until_stopped()


_portal = _Portal()


def call_blocking(name: str, func: Callable[[], Coroutine[Any, Any, Any]], *, iterates: bool = False) -> Any:
    """Run an async function to its end and return its result. An interrupted wait cancels it.

    Raises:
        RuntimeError: An event loop runs in this thread: await the async method instead.
    """
    if _loop_is_running():
        instead = f"async for ... in graph.a{name}(...)" if iterates else f"await graph.a{name}(...)"
        raise RuntimeError(
            f"graph.{name}() was called on a running event loop, which it would block. Use '{instead}' there."
        )
    task = ambient.current.get()
    if task is not None and task.event_loop is not None and task.event_loop.is_running():
        # Any thread that has the node's context may call, not only the one that was made for a sync node.
        return _wait(asyncio.run_coroutine_threadsafe(func(), task.event_loop))
    return _wait(_portal.get().start_task_soon(_noting_end(func, ended := threading.Event())), ended)


def _noting_end(func: Callable[[], Coroutine[Any, Any, Any]], ended: threading.Event) -> Callable[[], Any]:
    async def run() -> Any:
        try:
            return await func()
        finally:
            ended.set()

    return run


def _wait(future: Future[Any], ended: threading.Event | None = None) -> Any:
    try:
        return future.result()
    except BaseException:
        if future.cancel() and ended is not None:
            ended.wait()  # what the call started has cleaned up when it is left
        raise


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def iterate_blocking(name: str, make: Callable[[], AsyncIterator[Any]]) -> Iterator[Any]:
    """Yield what an async iterator yields; leaving early closes it."""
    holder: list[Any] = []

    async def start() -> None:
        holder.append(make())

    steps: set[asyncio.Task[Any]] = set()

    async def step() -> Any:
        task = asyncio.current_task()
        assert task is not None
        steps.add(task)
        try:
            return await anext(holder[0], _END)
        finally:
            steps.discard(task)

    async def close() -> None:
        # A step is still under way when Ctrl-C came while it was being handed over.
        for task in tuple(steps):
            task.cancel()
            await asyncio.wait([task])
        await holder[0].aclose()

    call_blocking(name, start, iterates=True)
    try:
        while (item := call_blocking(name, step, iterates=True)) is not _END:
            yield item
    finally:
        call_blocking(name, close, iterates=True)


class BlockingView:
    """The blocking methods of a graph. Mixed into `Pregel`; each is the async one of the same name without its a."""

    __slots__ = ()

    def invoke(self: Pregel, input: Any, config: Any = None, **options: Any) -> Any:  # type: ignore[misc]
        """Run the graph and return its output; see `ainvoke`."""
        return call_blocking("invoke", lambda: self.ainvoke(input, config, **options))

    def stream(self: Pregel, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:  # type: ignore[misc]
        """Run the graph and yield what it streams; see `astream`."""
        return iterate_blocking("stream", lambda: self.astream(input, config, **options))

    def batch(self: Pregel, inputs: Any, config: Any = None, **options: Any) -> list[Any]:  # type: ignore[misc]
        """Run the graph on several inputs; see `abatch`."""
        found: list[Any] = call_blocking("batch", lambda: self.abatch(inputs, config, **options))
        return found

    def get_state(self: Pregel, config: Any, **options: Any) -> Any:  # type: ignore[misc]
        """Return the state of a thread; see `aget_state`."""
        return call_blocking("get_state", lambda: self.aget_state(config, **options))

    def get_state_history(self: Pregel, config: Any, **options: Any) -> Iterator[Any]:  # type: ignore[misc]
        """Yield the states of a thread, newest first; see `aget_state_history`."""
        return iterate_blocking("get_state_history", lambda: self.aget_state_history(config, **options))

    def update_state(self: Pregel, config: Any, values: Any, **options: Any) -> Any:  # type: ignore[misc]
        """Change the state of a thread; see `aupdate_state`."""
        return call_blocking("update_state", lambda: self.aupdate_state(config, values, **options))

    def bulk_update_state(self: Pregel, config: Any, supersteps: Any) -> Any:  # type: ignore[misc]
        """Change the state of a thread in several supersteps; see `abulk_update_state`."""
        return call_blocking("bulk_update_state", lambda: self.abulk_update_state(config, supersteps))

    def clear_cache(self: Pregel, nodes: Any = None) -> None:  # type: ignore[misc]
        """Forget cached results; see `aclear_cache`."""
        call_blocking("clear_cache", lambda: self.aclear_cache(nodes))
