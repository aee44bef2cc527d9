"""Whether a failed attempt is repeated, and after how long.

In: policies, what the attempt failed with, and how many there were. Out: seconds to wait, or None. It never waits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langgraph_async.types import RetryPolicy


def wait_before_next(
    policies: Iterable[RetryPolicy],
    error: Exception,
    attempts: int,
    noise: Callable[[], float] = random.random,
) -> float | None:
    """Return the seconds to wait before the next attempt, or None when there is to be none.

    The first policy that matches the error counts; attempts are counted over all policies.

    Args:
        policies: In the order in which they were given.
        error: What the last attempt failed with.
        attempts: How many there were.
        noise: Gives the jitter, in seconds from 0 to 1.
    """
    for policy in policies:
        if matches(policy, error):
            return _interval(policy, attempts, noise) if attempts < policy.max_attempts else None
    return None


def matches(policy: RetryPolicy, error: Exception) -> bool:
    """Tell whether a policy is meant for an error."""
    wanted: Any = policy.retry_on
    if isinstance(wanted, type):
        return isinstance(error, wanted)
    if isinstance(wanted, Sequence):
        return isinstance(error, tuple(wanted))
    return bool(wanted(error))


def _interval(policy: RetryPolicy, attempts: int, noise: Callable[[], float]) -> float:
    try:
        grown = policy.initial_interval * policy.backoff_factor ** (attempts - 1)
    except OverflowError:
        grown = policy.max_interval
    return min(policy.max_interval, grown) + (noise() if policy.jitter else 0.0)
