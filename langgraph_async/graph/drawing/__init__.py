"""Drawings of graphs, and their texts."""

from langgraph_async.graph.drawing.model import Edge, Graph, Node

__all__ = ["Edge", "Graph", "Node"]
