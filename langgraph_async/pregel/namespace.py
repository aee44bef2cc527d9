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


def memory_namespace(graph_path: str, node: str, instance: int) -> str:
    """Return where a graph with memory of its own keeps it: the path of node names, without task ids.

    Args:
        graph_path: The same for the graph that calls it, ``""`` for the root.
        node: Node that calls it.
        instance: Which of several parallel sends to that node, counted from 0: each has a memory of its own.
    """
    own = f"{node}{NS_END}{instance}" if instance else node
    return f"{graph_path}{NS_SEP}{own}" if graph_path else own


def memory_path(namespace: str) -> str:
    """Return `namespace` without task ids and call counters, but with what tells apart parallel sends."""
    return NS_SEP.join(_without_task_id(part) for part in namespace.split(NS_SEP) if not part.isdigit())


def memory_of(namespace: str) -> str:
    """Return the memory namespace that is meant by one that may still hold task ids.

    What tells apart parallel sends, and the last call counter, stay.
    """
    above, _, count = namespace.rpartition(NS_SEP)
    return f"{memory_path(above)}{NS_SEP}{count}" if above and count.isdigit() else memory_path(namespace)


def _without_task_id(part: str) -> str:
    name, _, rest = part.partition(NS_END)
    return part if rest.isdigit() else name


def levels(namespace: str) -> tuple[str, ...]:
    """Return the namespace as the tuple that stream parts carry; ``()`` for the root."""
    return tuple(namespace.split(NS_SEP)) if namespace else ()
