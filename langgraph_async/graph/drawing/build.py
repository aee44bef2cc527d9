"""Draws a compiled graph without running it: follows the edges from START, as far as they are known beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langgraph_async.constants import END, START
from langgraph_async.graph.blueprint import Blueprint
from langgraph_async.graph.drawing.model import Edge, Graph, Node
from langgraph_async.pregel.node import PregelNode
from langgraph_async.types import All

_LOOP_STEPS: Final = 250
"""How long a loop without a way out is followed; where that ends, a way out is drawn.

After that only nodes that were not seen yet are followed."""


def draw(
    board: Blueprint,
    nodes: Mapping[str, PregelNode],
    *,
    interrupt_before: All | Sequence[str] = (),
    interrupt_after: All | Sequence[str] = (),
    xray: int | bool = False,
) -> Graph:
    """Return a drawing of a compiled graph.

    Nodes that nothing is known to lead to are drawn without edges. A node that nothing leads out of is drawn
    with an edge to END.

    Args:
        board: What the graph was compiled from.
        nodes: Its nodes, in the order of drawing.
        interrupt_before: Nodes that it pauses before.
        interrupt_after: Nodes that it pauses after.
        xray: Draw the inside of subgraphs: of all levels, or of that many.
    """
    walk = _Walk(board)
    walk.run()
    edges = [walk.edges[key] for key in sorted(walk.edges)]
    edges += _ways_out(walk, nodes)
    stops = {"before": interrupt_before, "after": interrupt_after}
    drawn = Graph(edges=edges)
    for name, node in nodes.items():
        target = None if node.action is None else node.action.original
        spec = board.nodes.get(name)
        deferred = spec is not None and spec.defer
        drawn.nodes[name] = Node(name, name, target, _metadata(name, node, stops, deferred=deferred))
    if any(edge.target == END for edge in edges):
        drawn.nodes[END] = Node(END, END)
    return _with_inside(drawn, nodes, xray) if xray else drawn


def _metadata(
    name: str, node: PregelNode, stops: Mapping[str, All | Sequence[str]], *, deferred: bool
) -> dict[str, Any] | None:
    found = dict(node.metadata)
    if deferred:
        found["defer"] = True
    tools = getattr(getattr(node.action, "original", None), "tools_by_name", None)
    if isinstance(tools, Mapping):
        found["__tools"] = list(tools)
    when = [when for when, names in stops.items() if names != "*" and name in names]
    if when:
        found["__interrupt"] = ",".join(when)
    return found or None


@dataclass(slots=True, eq=False)
class _Walk:
    """Goes through the supersteps that the fixed edges lead to; each branch and command is followed once."""

    board: Blueprint
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)
    last: set[str] = field(default_factory=set)
    """Nodes of the last superstep."""
    _plain: dict[str, list[str]] = field(default_factory=dict)
    _waiting: dict[str, list[tuple[tuple[str, ...], str]]] = field(default_factory=dict)
    _arrived: dict[tuple[tuple[str, ...], str], set[str]] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Walk until nothing new is left."""
        for start, end in self.board.edges:
            if end != END:
                self._plain.setdefault(start, []).append(end)
        for starts, end in self.board.waiting_edges:
            for start in starts if end != END else ():
                self._waiting.setdefault(start, []).append((starts, end))
        active, held, step = {START}, set[str](), 0
        while active:
            self.last = active
            following = {name for node in sorted(active) for name in self._follow(node)}
            held |= {name for name in following if self._deferred(name)}
            active = {name for name in following if not self._deferred(name)}
            if not active:
                active, held = held, set()
            step += 1
            if step > _LOOP_STEPS:
                active = {name for name in active if name not in self._asked}

    def _deferred(self, name: str) -> bool:
        spec = self.board.nodes.get(name)
        return spec is not None and spec.defer

    def _follow(self, node: str) -> Iterable[str]:
        for end in self._plain.get(node, ()):
            self._draw(node, end)
            yield end
        for join in self._waiting.get(node, ()):
            arrived = self._arrived.setdefault(join, set())
            arrived.add(node)
            if arrived == set(join[0]):
                for start in join[0]:
                    self._draw(start, join[1])
                self._arrived[join] = set()
                yield join[1]
        if node not in self._asked:
            self._asked.add(node)
            for end, label in self._choices(node):
                self._draw(node, end, label=None if label == end else label, conditional=True)
                if end != END:
                    yield end

    def _choices(self, node: str) -> Iterable[tuple[str, str]]:
        spec = self.board.nodes.get(node)
        if spec is not None:
            yield from spec.ends.items()
        for branch in self.board.branches.get(node, {}).values():
            for result, end in (branch.ends or {}).items():
                yield end, str(result)

    def _draw(self, source: str, target: str, *, label: str | None = None, conditional: bool = False) -> None:
        known = self.edges.get((source, target))
        if known is None or (conditional and not known.conditional):
            self.edges[(source, target)] = Edge(source, target, label, conditional)


def _ways_out(walk: _Walk, order: Iterable[str]) -> list[Edge]:
    sources = {source for source, _ in walk.edges}
    targets = {target for _, target in walk.edges}
    ends = [name for name in order if name in targets and name not in sources]
    if ends:
        return [Edge(name, END) for name in ends]
    if END not in targets and len(walk.last) == 1:
        return [Edge(next(iter(walk.last)), END, conditional=True)]
    return []


# -- the inside of subgraphs --------------------------------------------------------------------------------


def _with_inside(drawn: Graph, nodes: Mapping[str, PregelNode], xray: int | bool) -> Graph:
    deeper = xray - 1 if type(xray) is int else xray
    for name, node in nodes.items():
        drawer = next((getattr(graph, "get_graph", None) for graph in node.subgraphs), None)
        if drawer is not None:
            drawn = _inlined(drawn, name, drawer(xray=deeper))
    return drawn


def _inlined(drawn: Graph, name: str, inner: Graph) -> Graph:
    """Return `drawn` with node `name` replaced by the drawing `inner`, where that has one way in and one way out."""
    if len(inner.nodes) < 2 or inner.first_node() is None or inner.last_node() is None:
        return drawn
    inner = _trimmed(inner)
    first, last = inner.first_node(), inner.last_node()
    if first is None or last is None:
        return drawn
    entry, leave = f"{name}:{first.id}", f"{name}:{last.id}"
    nodes = {key: node for key, node in drawn.nodes.items() if key != name}
    for node in inner.nodes.values():
        nodes[f"{name}:{node.id}"] = replace(node, id=f"{name}:{node.id}")
    edges = [
        replace(
            edge,
            source=leave if edge.source == name else edge.source,
            target=entry if edge.target == name else edge.target,
        )
        for edge in drawn.edges
    ]
    edges += [replace(edge, source=f"{name}:{edge.source}", target=f"{name}:{edge.target}") for edge in inner.edges]
    return Graph(nodes, edges)


def _trimmed(inner: Graph) -> Graph:
    """Return `inner` without START and END, where one node follows the one, and one goes before the other."""
    without_start = inner.without(START)
    if without_start.first_node() is not None:
        inner = without_start
    without_end = inner.without(END)
    if without_end.last_node() is not None:
        inner = without_end
    return inner
