"""A workflow whose control flow is one function."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from langgraph_async.channels import EphemeralValue, LastValue
from langgraph_async.checkpoint.foreign.saver import as_saver
from langgraph_async.constants import END, PREVIOUS, START
from langgraph_async.errors import GraphBuildError
from langgraph_async.func.policies import Retries, Timeout, check_policies
from langgraph_async.pregel.call import prepare, unwrap
from langgraph_async.pregel.graph import Pregel
from langgraph_async.pregel.node import PregelNode, Write
from langgraph_async.pregel.old_names import renamed
from langgraph_async.pregel.policies import checked_cache, checked_limit, retry_policies
from langgraph_async.pregel.subgraphs import find_subgraphs
from langgraph_async.serde.allowlist import collect_types
from langgraph_async.types import CachePolicy, Limiter, TimeoutPolicy

R = TypeVar("R")
S = TypeVar("S")


class entrypoint:  # noqa: N801
    """Make a function a workflow that can be run, streamed, paused and resumed like a graph.

    The function takes one input, and may have parameters named `config`, `previous`, `runtime`, `store` and
    `writer`, which are filled in. `previous` is what the last finished run on the thread returned or saved, None
    without one. An async function runs on the event loop, a plain one in a worker thread.

    Args:
        checkpointer: A saver, for threads, pauses and `previous`.
        store: What the function and its tasks find as the store.
        cache: Where tasks with a cache policy keep results.
        context_schema: Type of ``runtime.context``.
        cache_policy: How results are cached: the function's, by its input, and those of tasks without a policy of
            their own, by their arguments.
        retry_policy: When a failed function is tried again.
        timeout: Bounds each attempt: seconds, timedelta or policy. For async functions only.
        limit: How often it may start, and how many of it may run at once: shared with whatever has the same object.
        deprecated: Old spellings: `retry`, `config_schema`.

    Raises:
        GraphBuildError: The function takes no input, is a generator, or cannot be run under its policies.

    Example:
        >>> from langgraph_async.func import task
        >>> @task
        ... async def double(number: int) -> int:
        ...     return 2 * number
        >>> @entrypoint()
        ... async def workflow(numbers: list[int]) -> int:
        ...     return sum([await double(number) for number in numbers])
        >>> import asyncio
        >>> asyncio.run(workflow.ainvoke([1, 2, 3]))
        12
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class final(Generic[R, S]):  # noqa: N801
        """Return one value from an entrypoint, and save another for its next run.

        Attributes:
            value: What the run returns.
            save: What the next run on the thread gets as `previous`.
        """

        value: R
        save: S

    def __init__(
        self,
        checkpointer: Any = None,
        store: Any = None,
        cache: Any = None,
        context_schema: Any = None,
        cache_policy: CachePolicy | None = None,
        retry_policy: Retries = None,
        timeout: Timeout = None,
        limit: Limiter | None = None,
        **deprecated: Any,
    ) -> None:
        if inspect.isfunction(checkpointer):
            raise GraphBuildError("Use @entrypoint() with parentheses: its arguments come first, then the function.")
        if deprecated:
            old = renamed("entrypoint", deprecated, retry="retry_policy", config_schema="context_schema")
            retry_policy = old.get("retry_policy") if retry_policy is None else retry_policy
            context_schema = old.get("context_schema") if context_schema is None else context_schema
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.context_schema = context_schema
        self.cache_policy = checked_cache(cache_policy, "an entrypoint")
        self.retry_policy = retry_policies(retry_policy, "an entrypoint")
        self.timeout = TimeoutPolicy.coerce(timeout)
        self.limit = checked_limit(limit, "an entrypoint")

    def __call__(self, func: Callable[..., Any]) -> Pregel:
        """Return the workflow."""
        action = replace(prepare(func), literal=True)
        check_policies(
            f"Entrypoint '{action.name}'",
            action,
            timeout=self.timeout,
        )
        given, returned, saved = _hints(func, action.name)
        node = PregelNode(
            triggers=(START,),
            channels=START,
            action=action,
            write=_finish,
            retry_policy=self.retry_policy,
            cache_policy=self.cache_policy,
            timeout=self.timeout,
            limit=self.limit,
            subgraphs=find_subgraphs(func),
        )
        return Pregel(
            nodes={action.name: node},
            channels={START: EphemeralValue(given), END: LastValue(returned), PREVIOUS: LastValue(saved)},
            input_channels=START,
            output_channels=END,
            stream_channels=END,
            stream_mode="updates",
            stream_eager=True,
            checkpointer=_with_types(as_saver(self.checkpointer), (given, returned, saved)),
            store=self.store,
            cache=_with_types(self.cache, (given, returned, saved)),
            cache_policy=self.cache_policy,
            retry_policy=self.retry_policy,
            context_schema=self.context_schema,
            name=action.name,
        )


def _finish(output: Any) -> Sequence[Write]:
    if isinstance(output, entrypoint.final):
        return [(END, output.value), (PREVIOUS, output.save)]
    return [(END, output), (PREVIOUS, output)]


def _hints(func: Callable[..., Any], name: str) -> tuple[Any, Any, Any]:
    """Return the types of the input, of what is returned, and of what is saved.

    Raises:
        GraphBuildError: The function takes no input.
    """
    parameters = list(inspect.signature(func).parameters.values())
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise GraphBuildError(
            f"Entrypoint function must have at least one parameter: {name!r} has none that takes the input."
        )
    base: Any = unwrap(func)
    function = base if inspect.isroutine(base) else type(base).__call__
    try:
        hints = typing.get_type_hints(function)
    except NameError:
        hints = {}
    given = hints.get(parameters[0].name, Any)
    returned = hints.get("return", Any)
    if returned is entrypoint.final:
        return given, Any, Any
    if typing.get_origin(returned) is entrypoint.final:
        value, save = typing.get_args(returned)
        return given, value, save
    return given, returned, returned


def _with_types(keeper: Any, hints: Sequence[Any]) -> Any:
    """Return a saver or cache, allowed to read back the types that the function's hints mention."""
    if not hasattr(keeper, "with_allowlist"):
        return keeper
    return keeper.with_allowlist(set[type]().union(*map(collect_types, hints)))
