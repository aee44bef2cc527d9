"""The callback handler that is told of pauses and of runs that go on. Needs the extra ``langchain``."""

from __future__ import annotations

from collections.abc import Awaitable

from langchain_core.callbacks import BaseCallbackHandler

from langgraph_async.callbacks.events import GraphInterruptEvent, GraphResumeEvent


class GraphCallbackHandler(BaseCallbackHandler):
    """A handler for ``config["callbacks"]`` that learns what happens to the graph, beside what every handler learns.

    Both methods may be async. What they raise is logged, unless the handler has ``raise_error = True``: then it ends
    the run.
    """

    def on_interrupt(self, event: GraphInterruptEvent) -> Awaitable[None] | None:
        """Learn that the run has paused. Told by the outermost graph only."""

    def on_resume(self, event: GraphResumeEvent) -> Awaitable[None] | None:
        """Learn that a graph goes on from a stored checkpoint."""
