"""Calls a saver's methods in the form in which it offers them: async ones are awaited, the others run in threads."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final, cast

import anyio
from anyio.lowlevel import RunVar

from langgraph_async.aio.threads import run_in_thread
from langgraph_async.errors import LangGraphError

_THREADS: Final = 16
"""Calls of blocking savers at once. They have threads of their own: nodes that fill theirs may wait for a saver."""
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("langgraph_async_saver_threads")


class SaverCalls:
    """The methods of a foreign saver, all of them async.

    A method that the saver has twice is called in its async form, unless that turns out not to be implemented.

    Args:
        saver: The saver.
        name: How it is called in errors.
    """

    def __init__(self, saver: Any, name: str) -> None:
        self._saver = saver
        self._name = name
        self._blocking: set[str] = set()

    def offers(self, method: str, *bases: str) -> bool:
        """Tell whether the saver has a method, async or not, that is not just inherited from a class named so."""
        return any(self._own(form, bases) for form in (method, method[1:]))

    def _own(self, form: str, bases: tuple[str, ...]) -> bool:
        for kind in type(self._saver).__mro__:
            if form in vars(kind):
                return kind.__name__ not in bases
        return form in getattr(self._saver, "__dict__", {})

    async def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method by its async name and return its result.

        Raises:
            NotImplementedError: The saver has neither it nor its blocking twin.
        """
        missing: BaseException | None = None
        if method not in self._blocking and (function := self._method(method)) is not None:
            try:
                result = function(*args, **options)
                return await result if inspect.isawaitable(result) else result
            except NotImplementedError as exc:
                missing = _unless_ours(exc)
        twin = self._method(method[1:])
        if twin is None:
            raise self._not_offered(method, missing) from missing
        try:
            result = await _in_thread(twin, *args, **options)
        except NotImplementedError as exc:
            missing = missing or _unless_ours(exc)
            raise self._not_offered(method, missing) from missing
        self._blocking.add(method)
        return result

    async def iterate(self, method: str, *args: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """Call a method that gives many results, and yield them. A blocking one has given them all by then.

        Raises:
            NotImplementedError: The saver has neither it nor its blocking twin.
        """
        missing: BaseException | None = None
        if method not in self._blocking and (function := self._method(method)) is not None:
            yielded = False
            try:
                async with aclosing(_items(function(*args, **options))) as items:
                    async for item in items:
                        yielded = True
                        yield item
                return
            except NotImplementedError as exc:
                missing = _unless_ours(exc)
                if yielded:
                    raise
        for item in await self._collected(method, missing, *args, **options):
            yield item

    async def _collected(self, method: str, missing: BaseException | None, *args: Any, **options: Any) -> list[Any]:
        twin = self._method(method[1:])
        if twin is None:
            raise self._not_offered(method, missing) from missing
        try:
            # In one go: a cursor may be bound to the thread that it was opened in.
            found: list[Any] = await _in_thread(lambda: list(twin(*args, **options)))
        except NotImplementedError as exc:
            missing = missing or _unless_ours(exc)
            raise self._not_offered(method, missing) from missing
        self._blocking.add(method)
        return found

    def _method(self, name: str) -> Callable[..., Any] | None:
        found = getattr(self._saver, name, None)
        return found if callable(found) else None

    def _not_offered(self, method: str, reason: BaseException | None) -> NotImplementedError:
        told = f" It says: {reason}" if reason is not None and str(reason) else ""
        return NotImplementedError(
            f"The saver {self._name} offers neither {method}() nor {method[1:]}(), which this needs. Use a version of "
            f"it, or another saver, that does.{told}"
        )


async def _in_thread(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_THREADS)
        _limiter.set(limiter)
    return await run_in_thread(partial(function, *args, **options), limiter=limiter)


async def _items(result: Any) -> AsyncGenerator[Any, None]:
    if inspect.isawaitable(result):
        result = await result
    if not hasattr(result, "__aiter__"):
        for item in result:
            yield item
        return
    iterator = cast("AsyncIterator[Any]", result)
    try:
        async for item in iterator:
            yield item
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()


def _unless_ours(exc: NotImplementedError) -> NotImplementedError:
    """Return the error, unless it tells of something else than a missing method."""
    if isinstance(exc, LangGraphError):
        raise exc
    return exc
