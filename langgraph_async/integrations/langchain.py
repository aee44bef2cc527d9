"""Compiled graphs as Runnables of langchain-core. Needs the extra ``langchain``.

The other way round nothing is needed: a Runnable is a node like any other, and finds the node's config.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar, cast
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.runnables.config import DEFAULT_RECURSION_LIMIT
from langchain_core.tracers._streaming import _StreamingCallbackHandler

from langgraph_async.pregel.graph import Pregel

T = TypeVar("T")


class GraphRunnable(Runnable[Any, Any]):
    """A compiled graph as a Runnable: for pipes, batches, ``astream_events`` and tracing.

    It takes what the graph's methods take. Callback handlers see the graph as one run, its nodes as runs inside.

    Args:
        graph: The compiled graph.

    Attributes:
        graph: That graph.
    """

    def __init__(self, graph: Pregel[Any, Any, Any, Any]) -> None:
        self.graph = graph
        self.name = graph.get_name()

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name of the Runnable: that of the graph."""
        return super().get_name(suffix, name=name or self.graph.get_name())

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the JSON schema of the graph's input."""
        return self.graph.get_input_jsonschema(config)

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the JSON schema of the graph's output."""
        return self.graph.get_output_jsonschema(config)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the graph and return its output; not on a running event loop."""
        return self.graph.invoke(input, _config(config), **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the graph and return its output; see the graph's ``ainvoke``."""
        return await self.graph.ainvoke(input, _config(config), **kwargs)

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        """Run the graph and yield what happens in it; not on a running event loop."""
        yield from self.graph.stream(input, _config(config), **kwargs)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        """Run the graph and yield what happens in it; see the graph's ``astream``."""
        given = _config(config)
        parts = self.graph.astream(input, given, **kwargs)
        shown: AsyncIterator[Any] = parts
        for handler in _streaming(given.get("callbacks")):
            shown = handler.tap_output_aiter(given["run_id"], shown)
        try:
            async for part in shown:
                yield part
        finally:
            await parts.aclose()

    def astream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Yield the events of the run, and of all Runnables in it.

        With ``version="v1"`` or ``"v2"``, langchain-core's events, as an async iterator; ``"v3"`` gives the graph's own
        run stream, to be awaited.
        """
        if kwargs.get("version") == "v3":
            return cast("Any", self.graph).astream_events(input, _config(config), **kwargs)
        return super().astream_events(input, config, **kwargs)


def as_runnable(graph: Pregel[Any, Any, Any, Any]) -> GraphRunnable:
    """Return a compiled graph as a Runnable of langchain-core.

    Raises:
        TypeError: It is no compiled graph.

    Example:
        >>> from langgraph_async import START, MessagesState, StateGraph
        >>> builder = StateGraph(MessagesState)
        >>> _ = builder.add_node("echo", lambda state: {"messages": state["messages"][-1:]}).add_edge(START, "echo")
        >>> chain = as_runnable(builder.compile(name="echoing")) | (lambda state: len(state["messages"]))
        >>> chain.invoke({"messages": [{"role": "user", "content": "hi", "id": "1"}]})
        1
    """
    if not isinstance(graph, Pregel):
        raise TypeError(f"as_runnable takes a compiled graph, got {graph!r}. A builder has compile().")
    return GraphRunnable(graph)


def _config(config: RunnableConfig | None) -> Any:
    """Return a config for the graph, whose run has an id that is known before it begins."""
    given: dict[str, Any] = {**ensure_config(config)}
    if given.get("recursion_limit") == DEFAULT_RECURSION_LIMIT:
        # What every Runnable's config has unless somebody chose otherwise; it does not count supersteps.
        del given["recursion_limit"]
    if given.get("run_id") is None:
        given["run_id"] = uuid4()
    return given


def _streaming(callbacks: Any) -> list[Any]:
    handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks or []
    return [handler for handler in handlers if isinstance(handler, _StreamingCallbackHandler)]


__all__ = ["GraphRunnable", "as_runnable"]
