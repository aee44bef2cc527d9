"""Goes from a failed attempt of a task to its next one."""

from __future__ import annotations

import asyncio

from langgraph_async.errors import is_invalid_resume
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.step.retry import wait_before_next
from langgraph_async.pregel.task import CallTask
from langgraph_async.pregel.view import node_input, unshared


def retry_wait(scope: TaskScope, error: BaseException) -> float | None:
    """Return the seconds after which a failed attempt is repeated, or None when it is not.

    Signals, pauses, cancellations and answers that did not fit are no passing faults.

    Raises:
        Exception: What the predicate of a policy raised.
    """
    policies = scope.task.node.retry_policy
    if not policies and scope.caller is None:
        policies = scope.run.spec.retry_policy
    if not policies or not isinstance(error, Exception) or scope.paused or is_invalid_resume(error):
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
    if task.send is not None:
        task.input = unshared(task.send.arg)
    elif not isinstance(task, CallTask):
        # What the failed attempt changed in place is none of the next one's business.
        task.input = node_input(scope.run.spec, scope.state, task.name, task.node)
    following = TaskScope(scope.run, task, scope.state, scope.starter, scope.caller)
    following.attempt = scope.attempt + 1
    following.began = scope.began
    following.holds_slot, scope.holds_slot = scope.holds_slot, False
    return following
