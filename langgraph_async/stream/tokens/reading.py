"""Reads a model's response, passes every item on, and tells its tokens to those who listen for ``messages``."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar, overload

from langgraph_async import ambient
from langgraph_async.constants import MISSING
from langgraph_async.stream.outlet import Outlet, current_outlet
from langgraph_async.stream.tokens.anthropic import MessagesReader
from langgraph_async.stream.tokens.assembly import Assembly
from langgraph_async.stream.tokens.chunks import TokenDelta
from langgraph_async.stream.tokens.openai_chat import ChatReader
from langgraph_async.stream.tokens.openai_responses import ResponsesReader
from langgraph_async.stream.tokens.plain import DictReader, LangchainReader, TextReader
from langgraph_async.stream.tokens.source import Source, check_pieces, short

ItemT = TypeVar("ItemT")

Adapter = Callable[[Any], "str | TokenDelta | Iterable[TokenDelta] | None"]
"""From an item of a response to what it adds to the message: text, one delta or several, or None for nothing."""


_EXPECTED: Final = {
    "tags": "a list of tags",
    "id": "text, or None",
    "adapter": "a function from an item of the response to what it adds",
    "result": "text, a TokenDelta, several TokenDeltas, or None",
}


class _Reader(Protocol):
    provider: str | None

    @staticmethod
    def accepts(item: Any) -> bool: ...

    def __call__(self, item: Any) -> Iterable[TokenDelta]: ...


_READERS: Final[tuple[Callable[[], _Reader], ...]] = (
    TextReader,
    LangchainReader,
    ChatReader,
    ResponsesReader,
    MessagesReader,
    DictReader,
)


class TokenStream(Generic[ItemT]):
    """A response that is read; see `stream_tokens`. It can be read once, by ``async for`` or ``for``."""

    def __init__(
        self,
        response: Any,
        *,
        adapter: Adapter | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        model: str | None = None,
        id: str | None = None,
    ) -> None:
        self._source = Source(response)
        self._adapter = adapter
        self._tags = tags
        self._given = dict(metadata or {})
        self._model = model
        self._id = id
        self._begun = False
        self._reader: _Reader | None = None
        self._outlet: Outlet | None = None
        self._task: ambient.AmbientTask | None = None
        self._metadata: dict[str, Any] | None = None
        self._growing: dict[int, Assembly] = {}
        self._messages: list[Assembly] = []
        self._strange: Any = MISSING

    # -- what came ----------------------------------------------------------------------------------------------

    @property
    def message(self) -> Any:
        """The message as far as it has come, to be returned by the node; streamed already, it is not told again.

        A dict in OpenAI's form: `role`, `content`, `id`; `tool_calls` (with arguments as JSON text), `reasoning` and
        `refusal` if there are any; `usage` and `finish_reason` if the provider said. Of langchain-core's chunks it
        is the message object. Of several choices it is the first.
        """
        if not self._messages:
            self._new(None, 0)
        return self._messages[0].message()

    @property
    def messages(self) -> list[Any]:
        """All messages of the response: one for each choice."""
        return [growing.message() for growing in self._messages]

    async def collect(self) -> Any:
        """Read the response to its end and return `message`."""
        async for _ in self:
            pass
        return self.message

    # -- reading ------------------------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncGenerator[ItemT, None]:
        """Yield the items as they come. A reader of the run that is slow holds this up."""
        self._begin()
        source = self._source
        try:
            await source.open()
            while (item := await source.pull()) is not MISSING:
                self._take(item)
                yield item
                if self._outlet is not None:
                    await self._outlet.room()
            self._check_known()
        finally:
            await self.aclose()

    def __iter__(self) -> Generator[ItemT, None, None]:
        """Yield the items of a blocking response as they come, in a plain node.

        Raises:
            asyncio.CancelledError: The node was cancelled.
        """
        self._begin()
        try:
            for item in self._source.blocking():
                self._check_cancelled()
                self._take(item)
                yield item
                if self._outlet is not None:
                    self._outlet.wait_for_room()
            self._check_known()
        finally:
            self._let_go()
            self._source.close()

    async def aclose(self) -> None:
        """Close the response unless it has ended. A node that returns early does it by itself. Again is no more."""
        if self._source.busy:
            return  # code that outlived the node waits for an item
        self._let_go()
        await self._source.aclose()

    async def __aenter__(self) -> Self:
        """Return the stream."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the response."""
        await self.aclose()

    # -- inside -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._begun:
            raise RuntimeError("This response was read already: a stream of tokens can be read once.")
        if self._source.closed:
            raise RuntimeError("This response was closed before it was read.")
        self._begun = True
        self._outlet = current_outlet("messages", self._tags)
        self._task = ambient.current.get()
        if self._task is not None:
            self._task.keep_open(self)

    def _check_cancelled(self) -> None:
        task = self._task
        if task is not None and task.refusing:
            raise asyncio.CancelledError("The node was cancelled; it cannot read on.")

    def _let_go(self) -> None:
        task, self._task = self._task, None
        self._tell_rest()
        if task is not None:
            task.let_go(self)

    def _take(self, item: Any) -> None:
        for delta in self._deltas(item):
            if delta.model and self._model is None:
                self._model, self._metadata = delta.model, None
            growing = self._assembly(delta)
            growing.add(delta)
            self._tell(growing, growing.to_tell(delta))

    def _tell(self, growing: Assembly, delta: TokenDelta) -> None:
        outlet = self._outlet
        if outlet is None or not delta.tells or growing.told_elsewhere:
            return
        outlet.emit(delta.chunk(growing.id), self._told_metadata(outlet))
        if outlet.closed:
            self._outlet = None

    def _tell_rest(self) -> None:
        if self._outlet is not None and not self._outlet.closed:
            for growing in self._messages:
                self._tell(growing, growing.rest())

    def _deltas(self, item: Any) -> Iterable[TokenDelta]:
        if self._adapter is not None:
            return _as_deltas(self._adapter(item))
        if self._reader is None:
            reader = next((made for made in _READERS if _accepts(made, item)), None)
            if reader is None:
                self._strange = item
                return ()
            self._reader = reader()
        return self._reader(item)

    def _check_known(self) -> None:
        if self._reader is None and self._strange is not MISSING:
            warnings.warn(
                f"stream_tokens found no tokens in what came, such as {short(self._strange)}: nothing was streamed, "
                "and the message is empty. Say what an item adds: stream_tokens(response, adapter=lambda i: i.text).",
                RuntimeWarning,
                stacklevel=3,
            )

    def _assembly(self, delta: TokenDelta) -> Assembly:
        growing = self._growing.get(delta.index)
        if growing is None or (delta.id and growing.known_as and delta.id != growing.known_as):
            growing = self._new(delta.id, delta.index)
            if delta.message is not None and self._outlet is not None:
                # A model of langchain-core tells its tokens by itself, where its callbacks reach the run.
                growing.told_elsewhere = self._outlet.knows(delta.message.id)
        elif growing.known_as is None:
            growing.known_as = delta.id
        return growing

    def _new(self, known_as: str | None, index: int) -> Assembly:
        made = self._growing[index] = Assembly(known_as, index, self._id)
        if not index:
            self._id = None
        self._messages.append(made)
        return made

    def _told_metadata(self, outlet: Outlet) -> dict[str, Any]:
        if self._metadata is None:
            found = {**outlet.metadata, "ls_model_type": "chat", **self._given}
            if self._model is not None:
                found["ls_model_name"] = self._model
            if self._reader is not None and self._reader.provider is not None:
                found.setdefault("ls_provider", self._reader.provider)
            if self._tags:
                found["tags"] = [*found.get("tags", ()), *self._tags]
            self._metadata = found
        return dict(self._metadata)


def _accepts(reader: Any, item: Any) -> bool:
    return bool(reader.accepts(item))


def _as_deltas(found: str | TokenDelta | Iterable[TokenDelta] | None) -> Iterable[TokenDelta]:
    if found is None:
        return ()
    if isinstance(found, str):
        return (TokenDelta(text=found),)
    deltas = (found,) if isinstance(found, TokenDelta) else tuple(found) if isinstance(found, Iterable) else (found,)
    wrong = [delta for delta in deltas if not isinstance(delta, TokenDelta)]
    if wrong:
        raise TypeError(f"The adapter of stream_tokens returned {short(found)}: expected {_EXPECTED['result']}.")
    return deltas


@overload
def stream_tokens(
    response: AsyncIterable[ItemT] | Awaitable[AsyncIterable[ItemT]],
    *,
    adapter: Adapter | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    model: str | None = None,
    id: str | None = None,
) -> TokenStream[ItemT]: ...


@overload
def stream_tokens(
    response: Iterable[ItemT],
    *,
    adapter: Adapter | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    model: str | None = None,
    id: str | None = None,
) -> TokenStream[ItemT]: ...


@overload
def stream_tokens(
    response: Any,
    *,
    adapter: Adapter | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    model: str | None = None,
    id: str | None = None,
) -> TokenStream[Any]: ...


def stream_tokens(
    response: Any,
    *,
    adapter: Adapter | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    model: str | None = None,
    id: str | None = None,
) -> TokenStream[Any]:
    """Read a model's response, and tell its tokens to whoever streams ``messages``.

    Iterating gives every item of the response, unchanged; each was told before it is given. Outside of a run, or
    when nobody listens, that is all that happens. While the reader of the run is behind, the response is not read
    on. If the node ends before the response, the response is closed.

    Args:
        response: What an SDK returns for ``stream=True``: chat completions or responses of `openai` (and what speaks
            like it), messages of `anthropic`, their stream helpers, or an awaitable of one of them. Also any
            iterator, async or blocking, of text, of dicts with `content`, or of langchain-core's chunks.
        adapter: Says what an item adds to the message, for other responses: the text, a `TokenDelta` or several, or
            None.
        tags: Added to the metadata's tags; with ``"nostream"`` nothing is told.
        metadata: Added to the metadata.
        model: The model's name, for the metadata's `ls_model_name`; by default what the response says.
        id: The message's id; by default the provider's, if it is long enough to be unique.

    Raises:
        TypeError: `response` cannot be iterated, or is whole already; or another argument cannot be used.

    Example:
        >>> import asyncio
        >>> async def model():
        ...     yield "Hel"
        ...     yield "lo"
        >>> async def node(state):
        ...     stream = stream_tokens(model())
        ...     async for token in stream:
        ...         print(token)
        ...     return stream.message["content"]
        >>> asyncio.run(node({}))
        Hel
        lo
        'Hello'
    """
    check_pieces(response)
    for name, given, kind in (("tags", tags, (list, tuple, set, frozenset)), ("id", id, (str, type(None)))):
        if not isinstance(given, kind):
            raise TypeError(f"stream_tokens(..., {name}={given!r}): expected {_EXPECTED[name]}.")
    if adapter is not None and not callable(adapter):
        raise TypeError(f"stream_tokens(..., adapter={adapter!r}): expected {_EXPECTED['adapter']}.")
    return TokenStream(response, adapter=adapter, tags=tags, metadata=metadata, model=model, id=id)
