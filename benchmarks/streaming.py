"""What does streaming cost: chunks that a node writes, values and updates of each step, tokens of a chat model?"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from typing_extensions import TypedDict

from benchmarks.measure import Case, Library, Sampler, UnavailableError, repeated
from benchmarks.report import main

CHUNKS = 10_000
TOKENS = 1_000
STEPS = 100


class State(TypedDict):
    number: int


def tokens_model() -> Any:
    """Return a chat model that gives a number of equal tokens, as fast as they are taken."""
    try:
        from langchain_core.language_models.chat_models import BaseChatModel
        from langchain_core.messages import AIMessageChunk
        from langchain_core.outputs import ChatGenerationChunk, ChatResult
    except ImportError as exc:
        raise UnavailableError("a chat model needs langchain_core") from exc

    class Tokens(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "tokens"

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
            raise NotImplementedError

        async def _astream(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> AsyncIterator[ChatGenerationChunk]:
            for _ in range(TOKENS):
                chunk = ChatGenerationChunk(message=AIMessageChunk(content="word "))
                if run_manager is not None:
                    await run_manager.on_llm_new_token("word ", chunk=chunk)
                yield chunk

    return Tokens()


def counted(graph: Any, per_run: int, **options: Any) -> Sampler:
    """Return what reads a stream to its end, and checks how many items it had."""

    async def run() -> None:
        count = 0
        async for _ in graph.astream({"number": 0}, {"recursion_limit": STEPS + 10}, **options):
            count += 1
        assert count == per_run

    return repeated(run, per_run)


def prepare_chunks(library: Library) -> Sampler:
    async def node(state: State, writer) -> dict[str, Any]:
        drain = getattr(writer, "drain", partial(asyncio.sleep, 0))
        for number in range(CHUNKS):
            writer(number)
            if number % 100 == 0:
                await drain()
        return {"number": 1}

    builder = library.StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(library.START, "node")
    return counted(builder.compile(), CHUNKS, stream_mode="custom")


def prepare_steps(library: Library, mode: str) -> Sampler:
    async def node(state: State) -> dict[str, Any]:
        return {"number": state["number"] + 1}

    builder = library.StateGraph(State)
    names = [f"node_{place}" for place in range(STEPS)]
    for name in names:
        builder.add_node(name, node)
    for start, end in itertools.pairwise([library.START, *names, library.END]):
        builder.add_edge(start, end)
    return counted(builder.compile(), STEPS + (mode == "values"), stream_mode=mode)


def prepare_tokens(library: Library) -> Sampler:
    model = tokens_model()

    async def node(state: State) -> dict[str, Any]:
        await model.ainvoke("hi")
        return {"number": 1}

    builder = library.StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(library.START, "node")
    # After the last token the model gives an empty one, to say so.
    return counted(builder.compile(), TOKENS + 1, stream_mode="messages")


CASES = [
    Case("streaming", "custom chunks", "chunk", prepare_chunks),
    Case("streaming", "values", "step", partial(prepare_steps, mode="values")),
    Case("streaming", "updates", "step", partial(prepare_steps, mode="updates")),
    Case("streaming", "tokens of a langchain model", "token", prepare_tokens),
]

if __name__ == "__main__":
    main(CASES)
