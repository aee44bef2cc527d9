"""Conditional edges: a function looks at the state after its node ran, and its result says where to go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph_async.constants import END, START, TASKS, branch_channel
from langgraph_async.errors import GraphBuildError, InvalidUpdateError, RouteError, UnmappedRouteError
from langgraph_async.graph.signature import first_parameter_schema, literal_results
from langgraph_async.graph.writes import Places, check_send
from langgraph_async.pregel.call import Action, prepare
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.suggest import did_you_mean
from langgraph_async.types import Send


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BranchSpec:
    """A conditional edge as it was drawn.

    Attributes:
        source: The node it leaves.
        name: What the function is called; unique among the branches of `source`.
        path: The function.
        ends: From its results to node names, or None when it returns node names.
        input_schema: What its first parameter is declared with, or None for the schema of its source.
    """

    source: str
    name: str
    path: Action
    ends: Mapping[Any, str] | None
    input_schema: Any = None


def branch_of(source: str, path: Any, path_map: Any) -> BranchSpec:
    """Return the conditional edge from `source` along `path`.

    Raises:
        GraphBuildError: `path` cannot be called, or `path_map` is neither a dict nor a list of names.
    """
    action = prepare(path, run_sync="inline")
    return BranchSpec(
        source=source,
        name=action.name or "condition",
        path=action,
        ends=_ends(path, path_map, f"{action.name!r} on node {source!r}"),
        input_schema=first_parameter_schema(path),
    )


def _ends(path: Any, path_map: Any, where: str) -> Mapping[Any, str] | None:
    if path_map is None:
        names = literal_results(path)
        return {name: name for name in names} or None
    if isinstance(path_map, Mapping):
        return dict(path_map)
    if isinstance(path_map, str) or not isinstance(path_map, Sequence):
        raise GraphBuildError(
            f"path_map of branch {where} must be a dict from results to node names, or a list of node names; got "
            f"{path_map!r}."
        )
    return {name: name for name in path_map}


def resolver(branch: BranchSpec, places: Places) -> Callable[[Any], Sequence[Write]]:
    """Return the function that turns the results of `branch` into writes."""
    return _Resolver(branch.name, branch.source, branch.ends, places)


@dataclass(frozen=True, slots=True, eq=False)
class _Resolver:
    name: str
    source: str
    ends: Mapping[Any, str] | None
    places: Places

    def __call__(self, result: Any) -> Sequence[Write]:
        results = result if isinstance(result, (list, tuple)) else (result,)
        writes: list[Write] = []
        for item in results:
            target = item if isinstance(item, Send) or self.ends is None else self._mapped(item)
            if isinstance(target, Send):
                check_send(target, self.places, f"Branch {self.name!r} of node {self.source!r}")
                writes.append((TASKS, target))
            elif self._leads_on(target):
                writes.append((branch_channel(target), None))
        return writes

    def _mapped(self, item: Any) -> Any:
        assert self.ends is not None
        try:
            return self.ends[item]
        except (KeyError, TypeError):  # TypeError: not hashable
            raise UnmappedRouteError(
                f"{self._where()} returned {item!r}, which its path_map does not have. Add it to path_map, or to the "
                f"Literal that the function is declared to return.{did_you_mean(item, map(str, self.ends))}"
            ) from None

    def _leads_on(self, target: Any) -> bool:
        if target is None or target == START:
            raise RouteError(
                f"Branch did not return a valid destination: {self._where()} gave {target!r}. Return the name of a "
                "node, a Send, a list of them, or END."
            )
        if not isinstance(target, str):
            raise RouteError(
                f"Branch did not return a valid destination: {self._where()} gave {target!r}, a "
                f"{type(target).__name__}. Return names, or give a path_map."
            )
        if target != END and target not in self.places.nodes:
            raise InvalidUpdateError(
                f"{self._where()} goes to unknown node {target!r}.{did_you_mean(target, {*self.places.nodes, END})}"
            )
        return target != END

    def _where(self) -> str:
        return f"Branch {self.name!r} of node {self.source!r} in graph {self.places.graph!r}"
