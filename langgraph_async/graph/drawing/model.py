"""A drawing of a graph: nodes and edges, without anything that runs."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from langgraph_async.graph.drawing.mermaid import mermaid_text


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a drawing.

    Attributes:
        id: Unique in the drawing; a node inside a subgraph has the subgraph's name and a colon before its own.
        name: What is written on it.
        data: What was added to the graph as the node, or None for START and END.
        metadata: What is written under its name.
    """

    id: str
    name: str
    data: Any = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of a drawing.

    Attributes:
        source: Id of a node.
        target: Id of a node.
        data: Its label, or None.
        conditional: Whether it is taken only at times.
    """

    source: str
    target: str
    data: str | None = None
    conditional: bool = False


@dataclass(slots=True)
class Graph:
    """A drawing.

    Attributes:
        nodes: Id to node, in the order of drawing.
        edges: In the order of drawing.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def first_node(self) -> Node | None:
        """Return the one node that no edge leads to, or None when there is not exactly one."""
        return self._only({edge.target for edge in self.edges})

    def last_node(self) -> Node | None:
        """Return the one node that no edge leaves, or None when there is not exactly one."""
        return self._only({edge.source for edge in self.edges})

    def _only(self, excluded: Set[str]) -> Node | None:
        found = [node for node_id, node in self.nodes.items() if node_id not in excluded]
        return found[0] if len(found) == 1 else None

    def without(self, node_id: str) -> Graph:
        """Return the drawing without a node and its edges."""
        return Graph(
            {key: node for key, node in self.nodes.items() if key != node_id},
            [edge for edge in self.edges if node_id not in (edge.source, edge.target)],
        )

    def draw_mermaid(self, *, with_styles: bool = True, curve_style: str = "linear") -> str:
        """Return the drawing as Mermaid text.

        Args:
            with_styles: Set colours, and mark the first and the last node.
            curve_style: Mermaid's name for the shape of the edges.
        """
        first, last = self.first_node(), self.last_node()
        return mermaid_text(
            {node.id: (node.name, node.metadata) for node in self.nodes.values()},
            [(edge.source, edge.target, edge.data, edge.conditional) for edge in self.edges],
            first=first.id if first else None,
            last=last.id if last else None,
            with_styles=with_styles,
            curve_style=curve_style,
        )

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return the drawing as dicts of plain values: ids, metadata, sources, targets and labels."""
        return {
            "nodes": [
                {
                    "id": node.id,
                    **({} if node.data is None else {"type": "runnable", "data": _describe(node)}),
                    **({"metadata": dict(node.metadata)} if node.metadata else {}),
                }
                for node in self.nodes.values()
            ],
            "edges": [
                {
                    "source": edge.source,
                    "target": edge.target,
                    **({"data": edge.data} if edge.data is not None else {}),
                    **({"conditional": True} if edge.conditional else {}),
                }
                for edge in self.edges
            ],
        }


def _describe(node: Node) -> dict[str, Any]:
    target = node.data
    named = target if hasattr(target, "__qualname__") else type(target)
    return {"id": [*named.__module__.split("."), named.__qualname__], "name": node.name}
