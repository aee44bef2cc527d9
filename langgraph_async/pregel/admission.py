"""Takes the permit that an attempt of a node with a limit needs.

Whoever waits for a permit holds nothing that others may wait for. The place under `max_concurrency` is given to others
meanwhile, and taken again only with the permit in hand; and the permits of the tasks around it are lent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from langgraph_async.aio.throttle import Limiter, Permit
from langgraph_async.pregel.scope import TaskScope


def admitted_at_once(scope: TaskScope, limit: Limiter) -> bool:
    """Take a permit for the scope's attempt if that needs no waiting.

    Raises:
        RuntimeError: The limiter is in use on another event loop.
    """
    scope.permit = limit.try_acquire(_around(scope, limit))
    return scope.permit is not None


async def admission(scope: TaskScope, limit: Limiter) -> None:
    """Wait for a permit for the scope's attempt. The scope has it from then on, however this ends."""
    slots = scope.run.limiter
    if scope.holds_slot and slots is not None:
        scope.holds_slot = False
        slots.release()
    with _lending(scope):
        scope.permit = await limit.acquire(_around(scope, limit))
    if slots is not None:
        await slots.acquire()
        scope.holds_slot = True


async def come_back(scope: TaskScope, child: TaskScope | None = None) -> None:
    """Take the place of a task's permit again, if it was lent, since what the task has called has ended.

    Args:
        scope: The task.
        child: The call that has ended; its place under `max_concurrency` is kept only with the permit in hand.
    """
    permit, slots = scope.permit, scope.run.limiter
    if permit is None or not permit.lent:
        return
    held = child is not None and child.holds_slot
    if child is not None and slots is not None and held:
        child.holds_slot = False
        slots.release()
    with _lending(scope):
        await permit.come_back()
    if child is not None and slots is not None and held:
        await slots.acquire()
        child.holds_slot = True


@contextmanager
def _lending(scope: TaskScope) -> Iterator[None]:
    """Lend the permits of the tasks around one that waits."""
    lent: list[Permit] = []
    outer = scope.around
    while outer is not None:
        if outer.permit is not None:
            outer.permit.begin_wait()
            lent.append(outer.permit)
        outer = outer.around
    try:
        yield
    finally:
        for permit in lent:
            permit.end_wait()


def _around(scope: TaskScope, limit: Limiter) -> Permit | None:
    """Return the permit of the same limiter that a task around this one has, if one does."""
    outer = scope.around
    while outer is not None:
        if outer.permit is not None and outer.permit.limiter is limit:
            return outer.permit
        outer = outer.around
    return None
