"""Which graph, and which place of a thread, a config names for reading or editing a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langgraph_async import ambient
from langgraph_async.checkpoint.base import BaseCheckpointSaver
from langgraph_async.config import RunConfig, RunnableConfig, ensure_config, parse_config
from langgraph_async.constants import CHECKPOINT_ID, CHECKPOINT_MAP, CHECKPOINT_NS, CONF, NS_SEP, THREAD_ID
from langgraph_async.errors import ConfigError, MissingCoordinateError
from langgraph_async.pregel.namespace import memory_namespace, memory_of, memory_path, without_ids
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.suggest import did_you_mean
from langgraph_async.pregel.task import Task

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel


@dataclass(frozen=True, slots=True)
class Address:
    """A place of a thread, and the graph whose state is there.

    Attributes:
        graph: The graph, or the subgraph that the namespace belongs to.
        saver: Where its checkpoints are; a subgraph's are with those of the root.
        config: The config, parsed.
        thread_id: The thread.
        ns: Namespace as it is stored.
        checkpoint_id: The checkpoint that was named, or None for the newest.
        path: Memory namespace of the graph: node names, and which of several parallel sends.
    """

    graph: Pregel
    saver: BaseCheckpointSaver[Any]
    config: RunConfig
    thread_id: str
    ns: str
    checkpoint_id: str | None
    path: str

    def place(self, checkpoint_id: str | None = None) -> RunnableConfig:
        """Return the config that names a checkpoint of this place for the saver; None names the newest."""
        coordinates = {**self.config.configurable, THREAD_ID: self.thread_id, CHECKPOINT_NS: self.ns}
        coordinates.pop(CHECKPOINT_ID, None)
        coordinates.pop(CHECKPOINT_MAP, None)
        if checkpoint_id is not None:
            coordinates[CHECKPOINT_ID] = checkpoint_id
        return {"metadata": self.config.given.get("metadata") or {}, CONF: coordinates}

    def shown(self, checkpoint_id: str, parents: Mapping[str, str]) -> RunnableConfig:
        """Return the config that names a checkpoint of this place for users.

        Args:
            checkpoint_id: The checkpoint.
            parents: Namespace of each enclosing graph to the checkpoint that it stood at.
        """
        coordinates: dict[str, Any] = {
            THREAD_ID: self.thread_id,
            CHECKPOINT_NS: self.ns,
            CHECKPOINT_ID: checkpoint_id,
        }
        if parents:
            coordinates[CHECKPOINT_MAP] = {**parents, self.ns: checkpoint_id}
        return {CONF: coordinates}

    def at(self, checkpoint_id: str | None) -> Address:
        """Return the address of another checkpoint of the same place."""
        return replace(self, checkpoint_id=checkpoint_id)

    def below(self, graph: Pregel, task: Task, ns: str) -> Address:
        """Return the address of the newest state of a subgraph that a task of this place calls."""
        path = memory_namespace(self.path, task.known_as, task.instance)
        own = path if graph.checkpointer is True else ns
        return replace(self, graph=graph, ns=own, checkpoint_id=None, path=path)

    def next_version(self, current: Any) -> Any:
        """Return the channel version that follows."""
        return self.saver.get_next_version(current, None)


def locate(graph: Pregel, config: RunnableConfig, *, strict: bool) -> Address:
    """Return the place that `config` names.

    A namespace is looked up among the subgraphs of `graph`, which share its saver. Inside a node, a graph without
    a saver of its own has that of the run, and then the namespace is its own.

    Args:
        graph: The graph that was asked.
        config: Names the thread, and optionally a namespace and a checkpoint.
        strict: Refuse a namespace that belongs to no known subgraph, instead of taking it as it is.

    Raises:
        ConfigError: There is no saver; or, with `strict`, no such subgraph.
        MissingCoordinateError: The config names no thread.
        RuntimeError: A graph that keeps memory of its own is asked as a root.
    """
    task = _running(graph)
    saver = task.run.saver if task is not None else graph.checkpointer
    if saver is True:
        raise RuntimeError("checkpointer=True cannot be used for root graphs.")
    if not saver:
        raise ConfigError(
            f"No checkpointer set: graph {graph.name!r} keeps no state between runs. Pass "
            "compile(checkpointer=InMemorySaver()) or a database saver."
        )
    parsed = parse_config(ensure_config(graph.config, config, inherited=task.config if task is not None else None))
    if parsed.thread_id is None:
        raise MissingCoordinateError(
            f"Graph {graph.name!r} was asked for a state without a thread. Pass "
            "config={'configurable': {'thread_id': '...'}}.",
            name=THREAD_ID,
        )
    ns = parsed.checkpoint_ns
    target = graph
    if ns and task is None:
        target = _owner(graph, ns, strict=strict)
    if target.checkpointer is True:
        ns = memory_of(ns)
    wanted = parsed.checkpoint_id or parsed.checkpoint_map.get(parsed.checkpoint_ns)
    return Address(target, saver, parsed, parsed.thread_id, ns, wanted, memory_path(ns))


def _running(graph: Pregel) -> TaskScope | None:
    if graph.checkpointer not in (None, True):
        return None
    task = ambient.current.get()
    return task if isinstance(task, TaskScope) else None


def _owner(graph: Pregel, ns: str, *, strict: bool) -> Pregel:
    path = without_ids(ns)
    for _, found in subgraphs_of(graph, namespace=path, recurse=True):
        return found
    if strict:
        known = [name for name, _ in subgraphs_of(graph, recurse=True)]
        raise ConfigError(
            f"Subgraph {path} not found: graph {graph.name!r} has no graph at checkpoint_ns {ns!r} that it is known "
            f"to call.{did_you_mean(path, known)} Nothing was stored."
        )
    return graph


def subgraph_of(graph: Pregel, name: str) -> Pregel | None:
    """Return the graph that a node is known to call first, among those that keep state; None without one."""
    node = graph.nodes.get(name)
    if node is None:
        return None
    return next((inner for inner in node.subgraphs if inner.checkpointer is not False), None)


def subgraphs_of(graph: Pregel, *, namespace: str | None = None, recurse: bool = False) -> Iterator[tuple[str, Pregel]]:
    """Yield the graphs that nodes are known to call, with the path of node names that leads to them.

    Of a node that calls several, the first counts; graphs that never keep state are left out.

    Args:
        graph: The graph around them.
        namespace: Only the graph at this path.
        recurse: Look into graphs inside graphs.
    """
    first, _, rest = (namespace or "").partition(NS_SEP)
    for name in graph.nodes:
        if namespace and name != first:
            continue
        inner = subgraph_of(graph, name)
        if inner is None:
            continue
        if not rest:
            yield name, inner
        if recurse and (rest or not namespace):
            for path, found in subgraphs_of(inner, namespace=rest or None, recurse=True):
                yield f"{name}{NS_SEP}{path}", found
