"""The engine: runs a graph of nodes and channels, superstep by superstep."""

from langgraph_async.pregel.background import BackgroundRuns, background_runs
from langgraph_async.pregel.builder import NodeBuilder
from langgraph_async.pregel.graph import Pregel
from langgraph_async.pregel.handle import Run

__all__ = ["BackgroundRuns", "NodeBuilder", "Pregel", "Run", "background_runs"]
