"""Runs an attempt that may only take so long.

The attempt runs in an asyncio task of its own, so that it can be cancelled alone. One that swallows its cancellation
gets some time to end; after that nobody waits for it any more. From the moment the time is up, what it still writes,
asks or calls is refused.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any, Final, Literal

from langgraph_async.aio.clock import Clock, Timer
from langgraph_async.aio.threads import wait_settled
from langgraph_async.errors import GraphBuildError, NodeTimeoutError
from langgraph_async.pregel.life import SignsOfLife
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.step.attempt import run_attempt
from langgraph_async.pregel.task import Task
from langgraph_async.types import TimeoutPolicy

GRACE_S: Final = 5.0
"""Seconds that an attempt has to end after it was cancelled."""
_SOON: Final = 1e-9

_abandoned: set[asyncio.Task[Any]] = set()
"""Attempts that did not end in time; the event loop itself holds tasks only weakly."""


def timeout_of(task: Task) -> TimeoutPolicy | None:
    """Return how long an attempt of a task may take, or None for any time.

    Raises:
        GraphBuildError: The packet that made the task bounds a node that cannot be stopped.
    """
    node, send = task.node, task.send
    if send is None or send.timeout is None:
        return node.timeout
    if node.action is not None and not node.action.is_async:
        raise GraphBuildError(
            f"Node timeouts are only supported for async nodes. Node '{task.name}' is sync: make it an async function, "
            "or send to it without a timeout."
        )
    return TimeoutPolicy.coerce(send.timeout)


async def run_within(scope: TaskScope, policy: TimeoutPolicy, context: Context) -> list[Write]:
    """Run the scope's task once, in `context`, and return what it writes.

    Raises:
        NodeTimeoutError: The time was up.
    """
    clock = scope.run.clock
    started = clock.monotonic()
    if policy.idle_timeout is not None:
        scope.signs = SignsOfLife(clock, auto=policy.refresh_on == "auto")
    loop = asyncio.get_running_loop()
    attempt = loop.create_task(run_attempt(scope), name=scope.task.name, context=context)
    watch = _Watch(policy, scope.signs, clock)
    try:
        await _first_of(attempt, watch.up)
        if not attempt.done():
            kind = watch.up.result()
            note = await _end(scope, attempt)
            error = _error(scope, policy, kind, clock.monotonic() - started)
            if note:
                error.add_note(note)
            raise error from _failure(attempt)
    finally:
        watch.stop()
    return attempt.result()


async def _first_of(attempt: asyncio.Task[Any], other: asyncio.Future[Any]) -> None:
    """Wait for an attempt, or for `other`; a cancellation is passed to the attempt, which is then waited for alone."""
    try:
        await asyncio.wait({attempt, other}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        attempt.cancel()
        await wait_settled(attempt)


class _Watch:
    """Looks, by a timer of the event loop, whether the time of an attempt is up.

    Attributes:
        up: Gets the limit that was hit.
    """

    __slots__ = ("_clock", "_policy", "_signs", "_started", "_timer", "up")

    def __init__(self, policy: TimeoutPolicy, signs: SignsOfLife | None, clock: Clock) -> None:
        self.up: asyncio.Future[Literal["run", "idle"]] = asyncio.get_running_loop().create_future()
        self._policy = policy
        self._signs = signs
        self._clock = clock
        self._started = clock.monotonic()
        self._timer: Timer | None = None
        self._look()

    def _look(self) -> None:
        now, run, idle = self._clock.monotonic(), self._policy.run_timeout, self._policy.idle_timeout
        last = self._signs.last if self._signs is not None else self._started
        run_left, idle_left = self._started + _seconds(run) - now, last + _seconds(idle) - now
        if min(run_left, idle_left) > _SOON:
            self._timer = self._clock.call_later(min(run_left, idle_left), self._look)
        elif not self.up.done():
            self.up.set_result("run" if run_left <= idle_left else "idle")

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        self.up.cancel()


def _seconds(limit: Any) -> float:
    return float("inf") if limit is None else float(limit)


async def _end(scope: TaskScope, attempt: asyncio.Task[Any]) -> str | None:
    """Cancel an attempt and wait for it, but not for ever; return what there is to say about how it ended."""
    scope.refusing = True
    scope.close()
    attempt.cancel()
    patience = asyncio.get_running_loop().create_task(scope.run.clock.sleep(GRACE_S))
    try:
        await _first_of(attempt, patience)
    finally:
        patience.cancel()
        await wait_settled(patience)
    if not attempt.done():
        _abandoned.add(attempt)
        attempt.add_done_callback(_forget)
        return (
            f"Node '{scope.task.name}' swallowed its cancellation and did not end within {GRACE_S:g}s; it was left "
            "running, and whatever it still does is ignored. Let asyncio.CancelledError pass."
        )
    if not attempt.cancelled() and attempt.exception() is None:
        return f"Node '{scope.task.name}' swallowed its cancellation; what it returned is ignored."
    return None


def _forget(attempt: asyncio.Task[Any]) -> None:
    _abandoned.discard(attempt)
    if not attempt.cancelled():
        attempt.exception()


def _failure(attempt: asyncio.Task[Any]) -> BaseException | None:
    """Return what an attempt raised while it was being cancelled."""
    return attempt.exception() if attempt.done() and not attempt.cancelled() else None


def _error(scope: TaskScope, policy: TimeoutPolicy, kind: Literal["run", "idle"], elapsed: float) -> NodeTimeoutError:
    run, idle = policy.run_timeout, policy.idle_timeout
    return NodeTimeoutError(
        scope.task.name,
        elapsed,
        kind=kind,
        run_timeout=None if run is None else _seconds(run),
        idle_timeout=None if idle is None else _seconds(idle),
    )
