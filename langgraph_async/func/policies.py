"""Checks the policies that are given to tasks and entrypoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeAlias

from langgraph_async.errors import GraphBuildError
from langgraph_async.pregel.call import Action
from langgraph_async.types import RetryPolicy, TimeoutPolicy

Timeout: TypeAlias = float | timedelta | TimeoutPolicy | None
Retries: TypeAlias = RetryPolicy | Sequence[RetryPolicy] | None


class GeneratorRefused(GraphBuildError, NotImplementedError):
    """A generator was given where a function with one result is needed."""


def check_policies(
    what: str,
    action: Action,
    *,
    timeout: TimeoutPolicy | None,
) -> None:
    """Check that a function can be run under its policies.

    Args:
        what: ``Task 'name'`` or ``Entrypoint 'name'``.
        action: The function.
        timeout: How long it may take.

    Raises:
        GraphBuildError: It cannot.
    """
    if action.kind in ("gen", "async_gen"):
        raise GeneratorRefused(
            f"{what} is a generator, which is not supported: it must return one value. Send chunks with the stream "
            "writer (a parameter `writer`) instead."
        )
    if timeout is not None and not action.is_async:
        raise GraphBuildError(
            f"Timeouts are only supported for async functions. {what} is sync. Make it an async function, or drop its "
            "timeout."
        )
