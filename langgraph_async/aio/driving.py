"""Runs a coroutine inside the current asyncio task, but in a context of its own.

A task of its own would give a coroutine a context of its own too, at ten times the price. Cancellation, timeouts
and cancel scopes inside the coroutine work as usual, since they go by the asyncio task.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def drive(
    coro: Coroutine[Any, Any, T], context: Context, on_suspend: Callable[[], None] | None = None
) -> Generator[Any, Any, T]:
    """Await `coro` with its code running in `context`.

    Args:
        coro: What to run.
        context: Where its code runs; context variables that it sets stay there.
        on_suspend: Called each time before the coroutine gives control to the event loop.
    """
    run, send, throw = context.run, coro.send, coro.throw
    try:
        awaited = run(send, None)
        while True:
            if on_suspend is not None:
                on_suspend()
            try:
                sent = yield awaited
            except GeneratorExit:
                run(coro.close)
                raise
            except BaseException as exc:  # noqa: BLE001
                below = exc.__traceback__ and exc.__traceback__.tb_next  # this frame tells readers nothing
                exc.with_traceback(below)
                del below
                awaited = run(throw, exc)
            else:
                awaited = run(send, sent)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        # The traceback of a cancellation keeps this frame; what it holds would keep the whole run.
        del coro, context, on_suspend, run, send, throw


def finish_now(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, and return its result.

    Raises:
        RuntimeError: It suspended after all.
    """
    try:
        coro.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coro.close()
    raise RuntimeError("A method of a saver that is declared `immediate` suspended; set `immediate = False` on it.")
