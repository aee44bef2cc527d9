"""Takes the permit that an attempt of a node with a limit needs.

The place under `max_concurrency` is given to others meanwhile, and taken again only with the permit in hand: whoever
has such a place never waits for a permit with it, so the two cannot wait for each other.
"""

from __future__ import annotations

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
    scope.permit = await limit.acquire(_around(scope, limit))
    if slots is not None:
        await slots.acquire()
        scope.holds_slot = True


def _around(scope: TaskScope, limit: Limiter) -> Permit | None:
    """Return the permit of the same limiter that a task around this one has, if one does."""
    outer = scope.around
    while outer is not None:
        if outer.permit is not None and outer.permit.limiter is limit:
            return outer.permit
        outer = outer.around
    return None
