"""Runs code that may need an asyncio task of its own, and gives it one only when it first suspends.

A task of its own costs more than most steps: it is made, waits for its turn, and is waited for. But code that is to be
cancelled alone, and given up if it does not end, needs one as soon as somebody has to wait for it. So a task is kept
ready: code begins at once, in that task's name, and only when it suspends does it move into it. From inside it looks as
if it had run there all along: ``asyncio.current_task()``, timeouts and cancel scopes find the same task before and
after.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Ended(Generic[T]):
    """What code has come to that never suspended.

    Attributes:
        result: What it has returned.
    """

    __slots__ = ("result",)

    def __init__(self, result: T) -> None:
        self.result = result


class _Seat:
    """What a task that is kept ready is given to go on with."""

    __slots__ = ("awaited", "context", "coro", "parked")

    def __init__(self) -> None:
        self.parked: asyncio.Future[None] | None = None
        self.coro: Coroutine[Any, Any, Any] | None = None
        self.context: Context | None = None
        self.awaited: Any = None


class Standby:
    """Keeps one asyncio task ready.

    Args:
        name: Name of tasks that are ready, and of no use yet.
    """

    __slots__ = ("_loop", "_name", "_seat", "_task")

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._name = name
        self._seat: _Seat | None = None
        self._task: asyncio.Task[Any] | None = None

    def begin(self, coro: Coroutine[Any, Any, T], context: Context, *, name: str) -> Ended[T] | asyncio.Task[T]:
        """Run a coroutine in `context` until it ends or suspends.

        Returns:
            Its result, or the task in which it goes on, to be waited for.

        Raises:
            BaseException: What it has raised before it suspended.
        """
        seat, task = self._seat, self._task
        if seat is None or task is None or seat.parked is None or task.cancelling():
            self._make_ready()
            return self._loop.create_task(coro, name=name, context=context)
        self._seat = None  # what begins inside has to find another
        me = asyncio.current_task()
        assert me is not None
        asyncio._leave_task(self._loop, me)
        asyncio._enter_task(self._loop, task)
        try:
            awaited = context.run(coro.send, None)
        except StopIteration as stop:
            self._seat = seat
            return Ended(stop.value)
        except BaseException:
            self._seat = seat
            raise
        finally:
            asyncio._leave_task(self._loop, task)
            asyncio._enter_task(self._loop, me)
        seat.coro, seat.context, seat.awaited = coro, context, awaited
        task.set_name(name)
        if not seat.parked.done():  # else it was cancelled from inside
            seat.parked.set_result(None)
        self._task = None
        self._make_ready()
        return task

    def _make_ready(self) -> None:
        """See to it that there is a task that will be ready when it has had its first turn."""
        if self._task is None or self._task.done() or self._task.cancelling():
            self._seat = _Seat()
            waiting: Any = _go_on(self._seat, self._loop)
            self._task = self._loop.create_task(waiting, name=self._name)

    def leave(self) -> asyncio.Task[Any] | None:
        """End the task that is ready, and return it to be waited for; those that moved are their callers' business."""
        task, self._task, self._seat = self._task, None, None
        if task is None or task.done():
            return None
        task.cancel()
        return task


@types.coroutine
def _go_on(seat: _Seat, loop: asyncio.AbstractEventLoop) -> Generator[Any, Any, Any]:
    """Wait for a coroutine that has begun elsewhere, and run the rest of it."""
    error: BaseException | None = None
    seat.parked = loop.create_future()
    try:
        yield from seat.parked
    except asyncio.CancelledError as exc:
        if seat.coro is None:
            raise
        error = exc
    coro, context, awaited = seat.coro, seat.context, seat.awaited
    assert coro is not None
    assert context is not None
    del seat
    run = context.run
    try:
        if error is not None:
            awaited = run(coro.throw, error)
        while True:
            error = None
            try:
                sent = yield awaited
            except GeneratorExit:
                run(coro.close)
                raise
            except BaseException as exc:  # noqa: BLE001
                awaited = run(coro.throw, exc)
            else:
                awaited = run(coro.send, sent)
    except StopIteration as stop:
        return stop.value
    finally:
        # The traceback of a cancellation keeps this frame; what it holds would keep the whole run.
        del coro, context, run
        error = None
