"""Callbacks: what handlers of langchain-core learn of a run, and the events of graphs that only our handlers know.

`GraphCallbackHandler` needs the extra ``langchain``; nothing of langchain-core is loaded before it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from langgraph_async.callbacks.events import GraphInterruptEvent, GraphResumeEvent

if TYPE_CHECKING:
    from langgraph_async.callbacks.handler import GraphCallbackHandler

__all__ = ["GraphCallbackHandler", "GraphInterruptEvent", "GraphResumeEvent"]


def __getattr__(name: str) -> Any:
    if name == "GraphCallbackHandler":
        return importlib.import_module("langgraph_async.callbacks.handler").GraphCallbackHandler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
