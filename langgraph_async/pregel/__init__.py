"""The engine: runs a graph of nodes and channels, superstep by superstep."""

from langgraph_async.pregel.builder import NodeBuilder
from langgraph_async.pregel.graph import Pregel

__all__ = ["NodeBuilder", "Pregel"]
