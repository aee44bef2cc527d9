"""Checks the policies and limits that users give, wherever they give them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from langgraph_async.errors import GraphBuildError
from langgraph_async.types import CachePolicy, Limiter, RetryPolicy


def retry_policies(value: RetryPolicy | Sequence[RetryPolicy] | None, where: str) -> tuple[RetryPolicy, ...]:
    """Return one policy or several as a tuple, checked; None is none.

    Args:
        value: What was given.
        where: Who it was given to, for messages: ``node 'fetch'``.

    Raises:
        GraphBuildError: It is not a policy, or has a field that cannot be used.
    """
    if value is None:
        return ()
    if isinstance(value, RetryPolicy):
        found: tuple[Any, ...] = (value,)
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        found = tuple(value)
    else:
        raise _bad(where, value)
    for policy in found:
        if not isinstance(policy, RetryPolicy):
            raise _bad(where, policy)
        _check(policy, where)
    return found


def checked_limit(value: Any, where: str) -> Limiter | None:
    """Return a limit that was given to a node, task or entrypoint.

    Raises:
        GraphBuildError: It is no `Limiter`.
    """
    if value is None or isinstance(value, Limiter):
        return value
    raise GraphBuildError(
        f"The limit of {where} cannot be used: expected a Limiter, got {value!r}. "
        "Write Limiter(rate=10, per=60) or Limiter(concurrency=4)."
    )


def checked_cache(value: Any, where: str) -> CachePolicy | None:
    """Return a cache policy that was given to a node, task, entrypoint or graph.

    Raises:
        GraphBuildError: It is no `CachePolicy`.
    """
    if value is None or isinstance(value, CachePolicy):
        return value
    raise GraphBuildError(
        f"The cache_policy of {where} cannot be used: expected a CachePolicy, got {value!r}. Write CachePolicy(ttl=60)."
    )


def step_seconds(value: Any, graph: str) -> float | None:
    """Return the `step_timeout` of a graph in seconds.

    Raises:
        GraphBuildError: It is neither None nor a positive number nor a timedelta.
    """
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise GraphBuildError(
            f"The step_timeout of graph {graph!r} must be a number of seconds greater than 0, a timedelta or None, got "
            f"{value!r}."
        )
    return float(seconds)


def _bad(where: str, value: Any) -> GraphBuildError:
    return GraphBuildError(
        f"The retry_policy of {where} cannot be used: expected a RetryPolicy or a sequence of them, got {value!r}. "
        "Write RetryPolicy(max_attempts=3)."
    )


def _check(policy: RetryPolicy, where: str) -> None:
    for field, least in (("initial_interval", 0), ("backoff_factor", 0), ("max_interval", 0), ("max_attempts", 1)):
        number = getattr(policy, field)
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not number >= least:
            raise GraphBuildError(
                f"The retry_policy of {where} cannot be used: {field} must be a number of at least {least}, "
                f"got {number!r}."
            )
    wanted: Any = policy.retry_on
    if isinstance(wanted, Sequence) and not isinstance(wanted, (str, bytes)):
        fits = all(_is_exception(one) for one in wanted)
    else:
        fits = _is_exception(wanted) if isinstance(wanted, type) else callable(wanted)
    if not fits:
        raise GraphBuildError(
            f"The retry_policy of {where} cannot be used: retry_on must be an Exception class, a sequence of them, or "
            f"a function from an exception to a bool; got {wanted!r}."
        )


def _is_exception(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)
