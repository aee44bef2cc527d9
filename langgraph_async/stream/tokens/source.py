"""What a response is read from: opened when it is first needed, closed when it is left early."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

from langgraph_async.aio.threads import run_in_thread
from langgraph_async.constants import MISSING

_AT_HAND: Final = (list, tuple)
"""Items that are there already; what comes from anything else that blocks is awaited in a worker thread."""


class Source:
    """A response: something to iterate, a context manager or an awaitable of it.

    Attributes:
        busy: An item is awaited just now.
        closed: It was closed.
    """

    __slots__ = ("_async", "_ended", "_items", "_manager", "_response", "busy", "closed")

    def __init__(self, response: Any) -> None:
        self._response = response
        self._manager: Any = None
        self._items: Any = None
        self._async = False
        self._ended = False
        self.closed = False
        self.busy = False

    async def open(self) -> None:
        """Await, enter and begin to iterate it, as far as it wants that."""
        if inspect.isawaitable(self._response):
            self._response = await self._response
        if hasattr(type(self._response), "__aenter__") and not hasattr(type(self._response), "__aiter__"):
            self._manager, self._response = self._response, await self._response.__aenter__()
        check_pieces(self._response)
        if hasattr(type(self._response), "__aiter__"):
            self._items, self._async = aiter(self._response), True
        else:
            self._items = iter(self._response)

    async def pull(self) -> Any:
        """Return the next item, or MISSING at the end."""
        items = self._items
        self.busy = True
        try:
            if self._async:
                item = await anext(items, MISSING)
            elif isinstance(self._response, _AT_HAND):
                item = next(items, MISSING)
            else:
                item = await run_in_thread(next, items, MISSING)
        finally:
            self.busy = False
        self._ended = item is MISSING
        return item

    def blocking(self) -> Iterator[Any]:
        """Yield the items of a response that blocks.

        Raises:
            TypeError: The response does not block: it is for ``async for``.
        """
        if not hasattr(type(self._response), "__iter__"):
            raise TypeError(
                f"A {type(self._response).__name__} cannot be read with `for`: use `async for`, in an async node."
            )
        self._items = iter(self._response)
        yield from self._items
        self._ended = True

    async def aclose(self) -> None:
        """Close what is open, unless it has ended by itself."""
        if self.closed:
            return
        self.closed = True
        if not self._ended:
            for thing in (self._items, self._response):
                await _aclose(thing)
        if self._manager is not None:
            await self._manager.__aexit__(None, None, None)

    def close(self) -> None:
        """Close a response that blocks, unless it has ended by itself."""
        if self.closed:
            return
        self.closed = True
        if not self._ended and hasattr(self._response, "close"):
            self._response.close()


async def _aclose(thing: Any) -> None:
    found: Any = None
    if callable(close := getattr(thing, "aclose", None)):
        found = close()
    elif callable(close := getattr(thing, "close", None)):
        at_once = inspect.iscoroutinefunction(close) or inspect.iscoroutine(thing)
        found = close() if at_once else await run_in_thread(close)
    if inspect.isawaitable(found):
        await found


def check_pieces(response: Any) -> None:
    """Refuse a response that does not come in pieces.

    Raises:
        TypeError: It cannot be iterated, or only as text, dicts and models can.
    """
    kind = type(response)
    whole = isinstance(response, (str, bytes, Mapping)) or hasattr(kind, "model_fields")  # pydantic's give their fields
    names = ("__aiter__", "__aenter__") if whole else ("__aiter__", "__iter__", "__aenter__")
    if not inspect.isawaitable(response) and not any(hasattr(kind, name) for name in names):
        raise TypeError(
            f"stream_tokens reads a response that comes in pieces, got {kind.__name__}: {short(response)}. "
            "Ask for one with stream=True."
        )


def short(thing: Any) -> str:
    """Return what a thing looks like, for messages."""
    text = repr(thing)
    return text if len(text) <= 200 else text[:200] + "..."
