"""Takes the tokens of langchain-core's chat models to those who stream ``messages``. Needs the extra ``langchain``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.tracers._streaming import _StreamingCallbackHandler

from langgraph_async import ambient
from langgraph_async.constants import TAG_HIDDEN, TAG_NOSTREAM
from langgraph_async.stream.outlet import Outlet

T = TypeVar("T")


class _ModelCall:
    """One call of a model: who listens to the task in which it was made, and whether a token has come."""

    __slots__ = ("loop", "metadata", "outlet", "streamed")

    def __init__(self, outlet: Outlet, loop: Any, metadata: dict[str, Any]) -> None:
        self.outlet = outlet
        self.loop = loop
        self.metadata = metadata
        self.streamed = False


class TokenHandler(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
    """Tells tokens as they come, and whole messages of models that do not stream.

    That it is a streaming handler makes langchain-core's models stream even where a node calls ``ainvoke``. It asks
    for the running task when a model is called, so one handler serves all graphs below the one that has it.
    """

    run_inline = True
    raise_error = True

    def __init__(self) -> None:
        self._calls: dict[UUID, _ModelCall] = {}

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[T]) -> AsyncIterator[T]:  # noqa: ARG002
        """Return the output as it is."""
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[T]) -> Iterator[T]:  # noqa: ARG002
        """Return the output as it is."""
        return output

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        messages: list[list[BaseMessage]],  # noqa: ARG002
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,  # noqa: ARG002
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Note in which task a model is called."""
        scope: Any = ambient.current.get()
        if scope is None or not metadata or not {TAG_NOSTREAM, TAG_HIDDEN}.isdisjoint(tags or ()):
            return
        shown = [tag for tag in tags or () if not tag.startswith("seq:step")]
        outlet = scope.outlet("messages", tags or ())
        if outlet is not None:
            told = {**metadata, "tags": shown} if shown else metadata
            self._calls[run_id] = _ModelCall(outlet, scope.event_loop, told)

    async def on_llm_new_token(
        self,
        token: Any,  # noqa: ARG002
        *,
        chunk: Any = None,
        run_id: UUID,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Tell a chunk, and wait for a reader that does not keep up."""
        call = self._calls.get(run_id)
        if call is None or not isinstance(chunk, ChatGenerationChunk):
            return
        call.streamed = True
        call.outlet.emit(chunk.message, call.metadata)
        if call.loop is asyncio.get_running_loop():
            await call.outlet.room()

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Tell the message of a model that gave no chunks."""
        call = self._calls.pop(run_id, None)
        if call is None or call.streamed:
            return
        for generations in response.generations:
            if generations and isinstance(generations[0], ChatGeneration):
                call.outlet.emit(generations[0].message, call.metadata)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Forget the call."""
        self._calls.pop(run_id, None)


def _alive(*args: Any, **kwargs: Any) -> None:  # noqa: ARG001
    scope: Any = ambient.current.get()
    if scope is not None:
        scope.sign()


class SignHandler(BaseCallbackHandler):
    """Takes whatever a Runnable in a node tells for a sign of life, which the node's idle limit goes by."""

    run_inline = True
    on_chain_start = on_chain_end = on_chain_error = staticmethod(_alive)
    on_llm_start = on_chat_model_start = on_llm_new_token = on_llm_end = on_llm_error = staticmethod(_alive)
    on_tool_start = on_tool_end = on_tool_error = on_text = on_custom_event = staticmethod(_alive)
    on_retriever_start = on_retriever_end = on_retriever_error = on_retry = staticmethod(_alive)
