"""Functions that entrypoints, nodes and other tasks call as steps of their own."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from langgraph_async import ambient
from langgraph_async.constants import PUSH, RETURN
from langgraph_async.errors import GraphBuildError
from langgraph_async.func.policies import Retries, Timeout, check_policies
from langgraph_async.pregel.call import injected, prepare
from langgraph_async.pregel.call_order import know_name
from langgraph_async.pregel.memo import namespace_of
from langgraph_async.pregel.node import PregelNode, Write
from langgraph_async.pregel.old_names import renamed
from langgraph_async.pregel.policies import checked_cache, checked_limit, retry_policies
from langgraph_async.types import CachePolicy, Limiter, RetryPolicy, TimeoutPolicy

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")


class TaskFunction(Generic[P, T]):
    """A function whose calls are steps: stored when they are done, and not run again when the caller is.

    Attributes:
        func: The function.
        retry_policy: When a failed call is tried again.
        cache_policy: How results are cached, or None.
        timeout: How long one attempt may take, or None.
        limit: A limit that its calls share with whatever has the same object, or None.
    """

    def __init__(
        self,
        func: Callable[P, Awaitable[T]] | Callable[P, T],
        *,
        name: str | None = None,
        retry_policy: tuple[RetryPolicy, ...] = (),
        cache_policy: CachePolicy | None = None,
        timeout: TimeoutPolicy | None = None,
        limit: Limiter | None = None,
    ) -> None:
        if not callable(func):
            raise GraphBuildError(
                f"A task must be a function or a callable object, got {type(func).__name__}: {func!r}."
            )
        functools.update_wrapper(self, func, updated=())
        self.func = func
        self.retry_policy = retry_policy
        self.cache_policy = cache_policy
        self.timeout = timeout
        self.limit = limit
        action = prepare(func, name=name)
        self.__name__ = action.name
        know_name(action.name)
        check_policies(f"Task '{action.name}'", action, timeout=timeout)
        inject = injected(func, action.name, skip_first=False)
        self._node = PregelNode(
            triggers=(PUSH,),
            channels=(),
            action=replace(action, func=_Spread(func, _places(func, inject)), inject=inject, literal=True),
            write=_result,
            retry_policy=retry_policy,
            cache_policy=cache_policy,
            timeout=timeout,
            limit=limit,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Start a call of the function as a step, and return the future of its result.

        From a worker thread, as from a sync entrypoint, it is a `concurrent.futures.Future`, whose ``result()``
        blocks the thread.

        Raises:
            RuntimeError: Called outside of an entrypoint, a task or a node.
        """
        call = ambient.running_task(f"task {self.__name__!r}").call
        found: asyncio.Future[T] = call(self.__name__, self._node, args, kwargs)
        return found

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> TaskFunction[P, T]: ...

    @overload
    def __get__(
        self: TaskFunction[Concatenate[Any, Q], T], instance: object, owner: type | None = None
    ) -> Callable[Q, asyncio.Future[T]]: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        """Return the task as a method of `instance`."""
        return self if instance is None else functools.partial(self, instance)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<task {self.__name__!r}>"

    async def aclear_cache(self, cache: Any) -> None:
        """Forget cached results of the task; without a cache policy there are none."""
        if self.cache_policy is not None:
            await cache.aclear([namespace_of(self._node)])

    def clear_cache(self, cache: Any) -> None:
        """Do what `aclear_cache` does, with a cache that has blocking methods."""
        if self.cache_policy is not None:
            cache.clear([namespace_of(self._node)])


class _Spread:
    """Calls a function with the arguments of a call, and with what is injected where the call gives nothing."""

    __slots__ = ("_func", "_places")

    def __init__(self, func: Callable[..., Any], places: Mapping[str, int]) -> None:
        self._func = func
        self._places = places

    def __call__(self, given: tuple[tuple[Any, ...], dict[str, Any]], /, **injected: Any) -> Any:
        args, kwargs = given
        if injected:
            for name, place in self._places.items():
                if place < len(args):
                    del injected[name]
            kwargs = {**injected, **kwargs}
        return self._func(*args, **kwargs)


def _places(func: Callable[..., Any], names: Mapping[str, bool]) -> dict[str, int]:
    """Return the places of those parameters that can be given by position."""
    if not names:
        return {}
    parameters = inspect.signature(func).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD or p.kind is p.POSITIONAL_ONLY]
    return {name: positional.index(name) for name in names if name in positional}


def _result(value: Any) -> Sequence[Write]:
    return [(RETURN, value)]


@overload
def task(
    func: None = None,
    *,
    name: str | None = None,
    retry_policy: Retries = None,
    cache_policy: CachePolicy | None = None,
    timeout: Timeout = None,
    limit: Limiter | None = None,
    **deprecated: Any,
) -> _Decorator: ...


@overload
def task(func: Callable[P, Awaitable[T]], *, name: str | None = None) -> TaskFunction[P, T]: ...


@overload
def task(func: Callable[P, T], *, name: str | None = None) -> TaskFunction[P, T]: ...


def task(
    func: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    retry_policy: Retries = None,
    cache_policy: CachePolicy | None = None,
    timeout: Timeout = None,
    limit: Limiter | None = None,
    **deprecated: Any,
) -> Any:
    """Make a function a task: a step that an entrypoint, a node or another task calls.

    Calling it starts it at once and returns a future: await it, gather it with others, or cancel it. Its result is
    stored when it is done; when its caller runs again, after a pause or a failure, calls that are done are not
    repeated. Calls are matched with what is stored by the order in which the caller makes them, so keep that order
    stable.

    Args:
        func: An async or a plain function (which runs in a worker thread), a method, partial or callable object.
        name: What it is called in streams and in stored data, instead of the function's name.
        retry_policy: When a failed call is tried again.
        cache_policy: How results are cached.
        timeout: Bounds each attempt: seconds, timedelta or policy. For async functions only.
        limit: How often its calls may start, and how many may run at once: shared with whatever has the same object.
        deprecated: The old spelling `retry`.

    Raises:
        GraphBuildError: The function is a generator, or cannot be run under its policies.

    Example:
        >>> @task
        ... async def double(number: int) -> int:
        ...     return 2 * number
    """
    if deprecated:
        old = renamed("task", deprecated, retry="retry_policy")
        retry_policy = old["retry_policy"] if retry_policy is None else retry_policy
    where = "a task" if name is None else f"task {name!r}"
    decorator = _Decorator(
        name,
        retry_policies(retry_policy, where),
        checked_cache(cache_policy, where),
        TimeoutPolicy.coerce(timeout),
        checked_limit(limit, where),
    )
    return decorator if func is None else decorator(func)


class _Decorator:
    """What `task` with options returns."""

    __slots__ = ("_options",)

    def __init__(
        self,
        name: str | None,
        retry_policy: tuple[RetryPolicy, ...],
        cache_policy: CachePolicy | None,
        timeout: TimeoutPolicy | None,
        limit: Limiter | None,
    ) -> None:
        self._options = (name, retry_policy, cache_policy, timeout, limit)

    @overload
    def __call__(self, func: Callable[P, Awaitable[T]]) -> TaskFunction[P, T]: ...

    @overload
    def __call__(self, func: Callable[P, T]) -> TaskFunction[P, T]: ...

    def __call__(self, func: Callable[..., Any]) -> Any:
        name, retry_policy, cache_policy, timeout, limit = self._options
        return TaskFunction(
            func, name=name, retry_policy=retry_policy, cache_policy=cache_policy, timeout=timeout, limit=limit
        )
