"""Goes from a failed attempt of a task to its next one."""

from __future__ import annotations

import asyncio

from langgraph_async.errors import is_invalid_resume, leaves_thread
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.step.retry import wait_before_next
from langgraph_async.pregel.view import fresh_input


def retry_wait(scope: TaskScope, error: BaseException) -> float | None:
    """Return the seconds after which a failed attempt is repeated, or None when it is not.

    Signals, pauses, cancellations and answers that did not fit are no passing faults.

    Raises:
        Exception: What the predicate of a policy raised.
    """
    policies = scope.task.node.retry_policy
    if not policies and scope.caller is None:
        policies = scope.run.spec.retry_policy
    if not policies or not isinstance(error, Exception) or scope.paused:
        return None
    if is_invalid_resume(error) or leaves_thread(error):
        return None
    me = asyncio.current_task()
    if me is not None and me.cancelling():
        return None
    return wait_before_next(policies, error, scope.attempt)


async def rest(scope: TaskScope, seconds: float) -> None:
    """Wait before the next attempt; meanwhile the slot of this one is free for others."""
    run = scope.run
    if run.limiter is None:
        await run.clock.sleep(seconds)
        return
    if scope.holds_slot:
        scope.holds_slot = False
        run.limiter.release()
    await run.clock.sleep(seconds)
    await run.limiter.acquire()
    scope.holds_slot = True


def next_attempt(scope: TaskScope) -> TaskScope:
    """Return the scope of the next attempt, which starts from the same input and takes over the slot."""
    task = scope.task
    # What the failed attempt changed in place is none of the next one's business.
    task.input = fresh_input(scope.run.spec, scope.state, task)
    following = TaskScope(scope.run, task, scope.state, scope.starter, scope.caller)
    following.attempt = scope.attempt + 1
    following.began = scope.began
    following.holds_slot, scope.holds_slot = scope.holds_slot, False
    return following
