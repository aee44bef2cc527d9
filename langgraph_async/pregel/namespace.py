"""Checkpoint namespaces: which graph, inside which task of which graph, as text.

The root is ``""``. A graph called by a task lives in ``<node>:<task id>`` below its parent's namespace, levels
separated by ``|``; further graph calls of the same task add ``|1``, ``|2``, ... A graph with memory of its own
leaves the task ids out. Source: LangGraph's format, which is on disk.
"""

from __future__ import annotations

from langgraph_async.constants import NS_END, NS_SEP


def task_namespace(graph_ns: str, node: str, task_id: str) -> str:
    """Return the namespace of a task of the graph in `graph_ns`."""
    own = f"{node}{NS_END}{task_id}"
    return f"{graph_ns}{NS_SEP}{own}" if graph_ns else own


def node_namespace(graph_ns: str, node: str) -> str:
    """Return the part of a task's namespace that its id is computed from."""
    return f"{graph_ns}{NS_SEP}{node}" if graph_ns else node


def nth_call(namespace: str, count: int) -> str:
    """Return the namespace of a task's `count`-th graph call, counted from 0."""
    return f"{namespace}{NS_SEP}{count}" if count else namespace


def without_ids(namespace: str) -> str:
    """Return `namespace` without task ids and call counters: the path of node names."""
    parts = (part.split(NS_END, 1)[0] for part in namespace.split(NS_SEP))
    return NS_SEP.join(part for part in parts if not part.isdigit())


def with_memory(namespace: str, instance: int) -> str:
    """Return where a graph with memory of its own keeps it.

    Args:
        namespace: Namespace of the calling task, ids included.
        instance: Which of several parallel sends to the same node this is, counted from 0.
    """
    path = without_ids(namespace)
    return f"{path}{NS_END}{instance}" if instance else path


def memory_of(namespace: str) -> str:
    """Return where a graph with memory of its own keeps it, from a namespace that may still hold task ids.

    What tells apart parallel sends and repeated calls stays.
    """
    parts = namespace.split(NS_SEP)
    count = f"{NS_SEP}{parts.pop()}" if len(parts) > 1 and parts[-1].isdigit() else ""
    _, _, last = parts[-1].partition(NS_END)
    instance = f"{NS_END}{last}" if last.isdigit() else ""
    return f"{without_ids(NS_SEP.join(parts))}{instance}{count}"


def levels(namespace: str) -> tuple[str, ...]:
    """Return the namespace as the tuple that stream parts carry; ``()`` for the root."""
    return tuple(namespace.split(NS_SEP)) if namespace else ()
