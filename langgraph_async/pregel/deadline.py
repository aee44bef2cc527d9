"""Runs an attempt that may only take so long.

An attempt that suspends runs in an asyncio task of its own, so that it can be cancelled alone. One that swallows its
cancellation gets some time to end; after that nobody waits for it any more. From the moment the time is up, what it
still writes, asks or calls is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from functools import partial
from typing import Any, Final, Literal

from langgraph_async.aio.clock import Clock, Timer
from langgraph_async.aio.standby import Ended, Standby
from langgraph_async.aio.threads import wait_settled
from langgraph_async.errors import GraphBuildError, NodeTimeoutError
from langgraph_async.pregel.life import SignsOfLife
from langgraph_async.pregel.model import RunScope
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.observed import OBSERVER, observed
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


def begin_within(
    scope: TaskScope, policy: TimeoutPolicy, context: Context
) -> Ended[list[Write]] | Coroutine[Any, Any, list[Write]]:
    """Begin to run the scope's task once, in `context`.

    Returns:
        What it writes, if it never suspended; else what is to be awaited for that. That raises `NodeTimeoutError` when
        the time is up.

    Raises:
        BaseException: What it has raised before it suspended.
    """
    run = scope.run
    if policy.idle_timeout is not None:
        scope.signs = SignsOfLife(run.clock, auto=policy.refresh_on == "auto")
    observer = run.config.configurable.get(OBSERVER)
    if observer is not None:
        return observed(observer, scope, policy, partial(_within, scope, policy, context))
    return _begin(scope, policy, context)


def standby(run: RunScope) -> Standby:
    """Return where code of a run begins that may need an asyncio task of its own."""
    if run.standby is None:
        run.standby = Standby(f"{run.spec.name} standby")
    return run.standby


async def _within(scope: TaskScope, policy: TimeoutPolicy, context: Context) -> list[Write]:
    attempt = _begin(scope, policy, context)
    return attempt.result if isinstance(attempt, Ended) else await attempt


def _begin(
    scope: TaskScope, policy: TimeoutPolicy, context: Context
) -> Ended[list[Write]] | Coroutine[Any, Any, list[Write]]:
    started = scope.run.clock.monotonic()
    attempt = standby(scope.run).begin(run_attempt(scope), context, name=scope.task.name)
    return attempt if isinstance(attempt, Ended) else _rest(scope, policy, attempt, started)


async def _rest(
    scope: TaskScope, policy: TimeoutPolicy, attempt: asyncio.Task[list[Write]], started: float
) -> list[Write]:
    clock = scope.run.clock
    watch = _Watch(policy, scope.signs, clock, started)
    try:
        await _first_of(scope, attempt, watch.up)
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


async def _first_of(scope: TaskScope, attempt: asyncio.Task[Any], other: asyncio.Future[Any]) -> None:
    """Wait for an attempt, or for `other`; a cancellation is passed to the attempt, which is then waited for alone.

    An attempt that ended meanwhile, or is being ended by its limit, does not feel it; the run has to.
    """
    try:
        await asyncio.wait({attempt, other}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError as exc:
        felt = not attempt.cancelling()
        felt = attempt.cancel() and felt
        again = await wait_settled(attempt)
        scope.interrupted = again or (None if felt else exc)


class _Watch:
    """Looks, by a timer of the event loop, whether the time of an attempt is up.

    Attributes:
        up: Gets the limit that was hit.
    """

    __slots__ = ("_clock", "_policy", "_signs", "_started", "_timer", "up")

    def __init__(self, policy: TimeoutPolicy, signs: SignsOfLife | None, clock: Clock, started: float) -> None:
        self.up: asyncio.Future[Literal["run", "idle"]] = asyncio.get_running_loop().create_future()
        self._policy = policy
        self._signs = signs
        self._clock = clock
        self._started = started
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
        await _first_of(scope, attempt, patience)
    finally:
        patience.cancel()
        await wait_settled(patience)
    if not attempt.done():
        abandon(attempt)
        return swallowed(scope.task.name)
    if not attempt.cancelled() and attempt.exception() is None:
        return f"Node '{scope.task.name}' swallowed its cancellation; what it returned is ignored."
    return None


def abandon(attempt: asyncio.Task[Any]) -> None:
    """Wait for a task no longer, and for its outcome neither."""
    _abandoned.add(attempt)
    attempt.add_done_callback(_forget)


def swallowed(name: str) -> str:
    """Return what there is to say of a node that was not waited for any longer."""
    return (
        f"Node '{name}' swallowed its cancellation and did not end within {GRACE_S:g}s; it was left running, and "
        "whatever it still does is ignored. Let asyncio.CancelledError pass."
    )


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
