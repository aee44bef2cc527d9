"""The checks that `compile` makes: every name that is used must be there, and there must be a way in.

Each fault is an error that says where it is and which name was probably meant. Work is proportional to the drawing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from langgraph_async.constants import DEFAULT_ERROR_HANDLER, END, START
from langgraph_async.errors import GraphBuildError
from langgraph_async.graph.blueprint import Blueprint
from langgraph_async.pregel.suggest import did_you_mean


def check_drawing(board: Blueprint, *, name: str = "LangGraph", interrupts: Collection[str] = ()) -> None:
    """Check that the drawing can run.

    Args:
        board: The drawing.
        name: What the graph is called, for messages.
        interrupts: Names that must be nodes.

    Raises:
        GraphBuildError: It cannot.
    """
    _check_sources(board, name)
    _check_targets(board, name)
    for interrupt in interrupts:
        if interrupt not in board.nodes:
            raise GraphBuildError(
                f"Interrupt node `{interrupt}` not found in graph {name!r}.{did_you_mean(interrupt, board.nodes)}"
            )
    if board.defaults.error_handler is not None and DEFAULT_ERROR_HANDLER in board.nodes:
        raise GraphBuildError(
            f"Node `{DEFAULT_ERROR_HANDLER}` already present in graph {name!r}: it is the name of the default error "
            "handler. Rename the node."
        )


def _check_sources(board: Blueprint, name: str) -> None:
    entered = False
    for source in _sources(board):
        if source == START:
            entered = True
        elif source not in board.nodes:
            raise GraphBuildError(
                f"Found edge starting at unknown node '{source}' in graph {name!r}."
                f"{did_you_mean(source, {*board.nodes, START})}"
            )
    if not entered:
        first = next(iter(board.nodes), "first_node")
        raise GraphBuildError(
            f"Graph must have an entrypoint: add at least one edge from START to another node of graph {name!r}, for "
            f"example add_edge(START, {first!r})."
        )


def _sources(board: Blueprint) -> Iterator[str]:
    for start, _ in board.edges:
        yield start
    for starts, _ in board.waiting_edges:
        yield from starts
    yield from board.branches


def _check_targets(board: Blueprint, name: str) -> None:
    nodes = board.nodes
    for target, whence in _targets(board):
        if target != END and target not in nodes:
            raise GraphBuildError(
                f"Found edge ending at unknown node `{target}` in graph {name!r} ({whence})."
                f"{did_you_mean(target, {*nodes, END})}"
            )
    for source, branches in board.branches.items():
        for branch in branches.values():
            for target in (branch.ends or {}).values():
                if target != END and target not in nodes:
                    raise GraphBuildError(
                        f"At '{source}' node, '{branch.name}' branch found unknown target '{target}' in graph "
                        f"{name!r}.{did_you_mean(target, {*nodes, END})}"
                    )


def _targets(board: Blueprint) -> Iterator[tuple[str, str]]:
    for start, end in board.edges:
        yield end, f"the edge from {start!r}"
    for starts, end in board.waiting_edges:
        yield end, f"the edge from {list(starts)!r}"
    for node, spec in board.nodes.items():
        for end in spec.ends:
            yield end, f"declared as a destination of node {node!r}"


def check_interrupts(value: Any, option: str, name: str) -> Sequence[str]:
    """Return the names in an interrupt option; none of them for ``"*"``.

    Raises:
        GraphBuildError: The option is a string other than ``"*"``.
    """
    if value is None or value == "*":
        return ()
    if isinstance(value, str):
        raise GraphBuildError(f"{option} of graph {name!r} must be a list of node names or '*', got {value!r}.")
    return tuple(value)


def check_renamed(renamed: Mapping[str, str], nodes: Collection[str], name: str) -> None:
    """Check what `compile` was told about renamed nodes.

    Raises:
        GraphBuildError: A new name is no node, or an old name still is one.
    """
    for old, new in renamed.items():
        if new not in nodes:
            raise GraphBuildError(
                f"renamed={{{old!r}: {new!r}}}: {new!r} is no node of graph {name!r}.{did_you_mean(new, nodes)}"
            )
        if old in nodes:
            raise GraphBuildError(
                f"renamed={{{old!r}: {new!r}}}: {old!r} is still a node of graph {name!r}. Only names that are gone "
                "can be renamed."
            )
