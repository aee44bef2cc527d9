"""Tells an observer of attempts that may only take so long: when they start, show life, and finish."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeVar

from langgraph_async.errors import GraphBubbleUp, ParentCommand
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.types import TimeoutPolicy

T = TypeVar("T")

OBSERVER: Final = "__pregel_timed_attempt_observer"
"""Key of the configurable under which the observer stands."""
_SHARE: Final = 4
"""Signs of life are told no more often than so many times per idle limit."""

logger: Final = logging.getLogger("langgraph_async")


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """Which attempt it is.

    Attributes:
        run_timeout_secs: Seconds that it may take, or None.
        idle_timeout_secs: Seconds that it may show no life, or None.
        refresh_on: What counts as a sign of life: ``"auto"`` or ``"heartbeat"``.
    """

    task_id: str
    task_name: str
    attempt: int
    run_id: str | None
    thread_id: str | None
    checkpoint_ns: str
    started_at: datetime
    run_timeout_secs: float | None
    idle_timeout_secs: float | None
    refresh_on: str


@dataclass(frozen=True, slots=True)
class AttemptEvent:
    """What happened to it.

    Attributes:
        progress_at: When it showed life, for ``progress``.
        finished_at: When it ended, for ``finish``.
        status: How it ended; a pause and a command for a graph around count as success.
    """

    context: AttemptContext
    event: Literal["start", "progress", "finish"]
    progress_at: datetime | None = None
    finished_at: datetime | None = None
    status: Literal["success", "error"] | None = None
    error_type: str | None = None
    error_message: str | None = None


async def observed(
    observer: Callable[[AttemptEvent], object],
    scope: TaskScope,
    policy: TimeoutPolicy,
    attempt: Callable[[], Awaitable[T]],
) -> T:
    """Run an attempt, and tell `observer` of it; what that raises is logged."""
    clock, signs = scope.run.clock, scope.signs
    context = _context(scope, policy, clock.now())
    last = float("-inf")

    def tell(event: AttemptEvent) -> None:
        try:
            observer(event)
        except Exception:
            logger.warning("The observer of timed attempts failed.", exc_info=True)

    def note() -> None:
        nonlocal last
        now = clock.monotonic()
        if now - last >= float(context.idle_timeout_secs or 0) / _SHARE:
            last = now
            tell(AttemptEvent(context, "progress", progress_at=clock.now()))

    tell(AttemptEvent(context, "start"))
    if signs is not None:
        signs.told = note
    try:
        result = await attempt()
    except (GraphBubbleUp, ParentCommand):
        tell(AttemptEvent(context, "finish", finished_at=clock.now(), status="success"))
        raise
    except BaseException as exc:
        kind, text = type(exc).__name__, str(exc)
        tell(AttemptEvent(context, "finish", None, clock.now(), "error", kind, text))
        raise
    finally:
        if signs is not None:
            signs.told = None
    tell(AttemptEvent(context, "finish", finished_at=clock.now(), status="success"))
    return result


def _context(scope: TaskScope, policy: TimeoutPolicy, now: datetime) -> AttemptContext:
    run, task = scope.run, scope.task
    run_id = run.config.given.get("run_id")
    return AttemptContext(
        task_id=task.id,
        task_name=task.name,
        attempt=scope.attempt,
        run_id=None if run_id is None else str(run_id),
        thread_id=run.config.thread_id,
        checkpoint_ns=task.ns,
        started_at=now,
        run_timeout_secs=None if policy.run_timeout is None else float(policy.run_timeout),  # type: ignore[arg-type]
        idle_timeout_secs=None if policy.idle_timeout is None else float(policy.idle_timeout),  # type: ignore[arg-type]
        refresh_on=policy.refresh_on,
    )
