"""Checks a graph when it is compiled, so that a run need not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph_async.constants import RESERVED
from langgraph_async.errors import GraphBuildError
from langgraph_async.pregel.node import PregelNode
from langgraph_async.pregel.policies import retry_policies
from langgraph_async.pregel.suggest import did_you_mean


def check_graph(
    name: str,
    nodes: Mapping[str, PregelNode],
    channels: Mapping[str, Any],
    *,
    inputs: str | Iterable[str],
    outputs: str | Iterable[str],
    streams: str | Iterable[str],
    breakpoints: Iterable[str],
) -> None:
    """Check that names are usable and that everything named exists.

    Raises:
        GraphBuildError: Something does not; the message names it and the nearest name that does.
    """
    for key in (*channels, *nodes):
        if key in RESERVED:
            raise GraphBuildError(f"Name {key!r} in graph {name!r} is reserved; choose another.")
    for node_name, node in nodes.items():
        for key in (*node.triggers, *_names(node.channels)):
            _must_exist(key, channels, f"Node {node_name!r} of graph {name!r} reads channel")
        _check_timeout(node_name, node)
        retry_policies(node.retry_policy, f"node {node_name!r} of graph {name!r}")
    subscribed = {key for node in nodes.values() for key in node.triggers}
    for key in _names(inputs):
        _must_exist(key, channels, f"Graph {name!r} takes its input on channel")
    if not subscribed.intersection(_names(inputs)):
        raise GraphBuildError(f"No node of graph {name!r} subscribes to its input ({', '.join(_names(inputs))}).")
    for key in (*_names(outputs), *_names(streams)):
        _must_exist(key, channels, f"Graph {name!r} shows channel")
    for key in breakpoints:
        if key != "*" and key not in nodes:
            raise GraphBuildError(f"Node {key} not in nodes of graph {name!r}.{did_you_mean(key, nodes)}")


def _check_timeout(name: str, node: PregelNode) -> None:
    if node.timeout is not None and node.action is not None and not node.action.is_async:
        raise GraphBuildError(
            f"Node timeouts are only supported for async nodes. Node '{name}' is sync: make it an async function, or "
            "drop its timeout."
        )


def _must_exist(key: str, channels: Mapping[str, Any], what: str) -> None:
    if key not in channels:
        raise GraphBuildError(f"{what} {key!r}, which does not exist.{did_you_mean(key, channels)}")


def _names(keys: str | Iterable[str]) -> tuple[str, ...]:
    return (keys,) if isinstance(keys, str) else tuple(keys)
