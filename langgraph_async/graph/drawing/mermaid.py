"""Mermaid text of a drawing.

Source: https://mermaid.js.org/syntax/flowchart.html. The layout of the text is the one that LangGraph's users know,
so that drawings in documents and tests stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_EMPHASIS: Final = ("*", "_", "`")
_LABEL_WORDS: Final = 9
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_CLASSES: Final = (
    "\tclassDef default fill:#f2f0ff,line-height:1.2",
    "\tclassDef first fill-opacity:0",
    "\tclassDef last fill:#bfb6fc",
)

_Nodes = Mapping[str, tuple[str, Mapping[str, Any] | None]]
_Edges = Sequence[tuple[str, str, str | None, bool]]


def mermaid_text(
    nodes: _Nodes, edges: _Edges, *, first: str | None, last: str | None, with_styles: bool, curve_style: str
) -> str:
    """Return a flowchart.

    Args:
        nodes: Id to name and metadata; the part of an id before its last colon is the subgraph that it stands in.
        edges: Source, target, label, and whether the edge is conditional.
        first: Id of the node to mark as the first, if any.
        last: Id of the node to mark as the last, if any.
        with_styles: Set colours and marks.
        curve_style: Mermaid's name for the shape of the edges.
    """
    head = ["---", "config:", "  flowchart:", f"    curve: {curve_style}", "---"] if with_styles else []
    marks = {first: "first", last: "last"} if with_styles else {}
    node_groups: dict[str, list[str]] = {"": []}
    for node_id, (name, metadata) in nodes.items():
        node_groups.setdefault(_group(node_id), []).append(_node(node_id, name, metadata, marks.get(node_id)))
    edge_groups: dict[str, list[str]] = {"": []}
    for source, target, label, conditional in edges:
        edge_groups.setdefault(_common(source, target), []).append(_edge(source, target, label, conditional))
    lines = [*head, "graph TD;", *_section("", node_groups, edge_groups)]
    return "\n".join([*lines, *(_CLASSES if with_styles else ())]) + "\n"


def _section(prefix: str, nodes: Mapping[str, list[str]], edges: Mapping[str, list[str]]) -> Iterator[str]:
    yield from nodes.get(prefix, ())
    yield from edges.get(prefix, ())
    for inner in _inside(prefix, (*edges, *nodes)):
        if any(key == inner or key.startswith(f"{inner}:") for key in nodes):
            yield f"\tsubgraph {inner.rsplit(':', 1)[-1]}"
            yield from _section(inner, nodes, edges)
            yield "\tend"
        else:  # an edge from a node to itself, which is no subgraph
            yield from edges[inner]


def _inside(prefix: str, groups: Sequence[str]) -> list[str]:
    """Return the groups one level below `prefix`, those with edges first."""
    start = f"{prefix}:" if prefix else ""
    inner = (group for group in groups if group.startswith(start) and group != prefix)
    return list(dict.fromkeys(start + group[len(start) :].split(":", 1)[0] for group in inner))


def _group(node_id: str) -> str:
    return node_id.rpartition(":")[0]


def _common(source: str, target: str) -> str:
    parts: list[str] = []
    for one, other in zip(source.split(":"), target.split(":"), strict=False):
        if one != other:
            break
        parts.append(one)
    return ":".join(parts)


def _node(node_id: str, name: str, metadata: Mapping[str, Any] | None, mark: str | None) -> str:
    label = f"<p>{name}</p>" if name.startswith(_EMPHASIS) and name.endswith(_EMPHASIS) else name
    if metadata:
        lines = "\n".join(f"{key} = {value}" for key, value in metadata.items())
        label = f"{label}<hr/><small><em>{lines}</em></small>"
    shape = f"([{label}]):::{mark}" if mark else f"({label})"
    return f"\t{_escaped(node_id)}{shape}"


def _edge(source: str, target: str, label: str | None, conditional: bool) -> str:
    if label is None:
        arrow = "-.->" if conditional else "-->"
    else:
        words = label.split()
        if len(words) > _LABEL_WORDS:
            rows = (words[i : i + _LABEL_WORDS] for i in range(0, len(words), _LABEL_WORDS))
            label = "&nbsp<br>&nbsp".join(" ".join(row) for row in rows)
        text = f"&nbsp;{label}&nbsp;"
        arrow = f"-. {text} .->" if conditional else f"-- {text} -->"
    return f"\t{_escaped(source)} {arrow} {_escaped(target)};"


def _escaped(node_id: str) -> str:
    return "".join(c if c in _PLAIN else f"\\{ord(c):x}" for c in node_id)
