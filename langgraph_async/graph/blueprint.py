"""What a graph is before it is compiled: the names and declarations that `StateGraph` collects."""

from __future__ import annotations

import warnings
from collections.abc import KeysView, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from langgraph_async.channels import BaseChannel, LastValue
from langgraph_async.constants import BRANCH_PREFIX, JOIN_PREFIX, RESERVED, ROOT, START, TASKS
from langgraph_async.errors import SchemaError
from langgraph_async.graph.branch import BranchSpec
from langgraph_async.graph.schema import channels_of
from langgraph_async.pregel.call import Action
from langgraph_async.types import CachePolicy, Limiter, RetryPolicy, TimeoutPolicy, TracePolicy

OnMissing: TypeAlias = Literal["error", "skip"]
Edge: TypeAlias = tuple[str, str]
WaitingEdge: TypeAlias = tuple[tuple[str, ...], str]

_NOT_KEYS: Final = RESERVED | {START, TASKS}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeSpec:
    """A node as it was added.

    Attributes:
        action: What it does.
        input_schema: What it reads of the state.
        metadata: Merged into the metadata of its tasks' config.
        retry_policy: Policies of its own; the first that matches an error counts. None takes the graph's default.
        cache_policy: A policy of its own, or None for the graph's default.
        timeout: A policy of its own, or None for the graph's default.
        ends: Where its commands may go, with labels: for validation and drawings. Empty if not declared.
        defer: Whether it waits until nothing else is left to run.
        error_handler_node: Name of the node that takes over when it fails, or None.
        is_error_handler: Whether it is such a node itself.
        trace_policy: What tracers record of it.
        limit: A limit that it shares with whatever has the same object, or None.
    """

    action: Action
    input_schema: Any
    metadata: Mapping[str, Any] | None = None
    retry_policy: tuple[RetryPolicy, ...] | None = None
    cache_policy: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    ends: Mapping[str, str] = field(default_factory=dict)
    defer: bool = False
    error_handler_node: str | None = None
    is_error_handler: bool = False
    trace_policy: TracePolicy | None = None
    limit: Limiter | None = None

    @property
    def runnable(self) -> Any:
        """What was handed over as the node."""
        return self.action.original


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeDefaults:
    """Policies for nodes that have none of their own."""

    retry_policy: tuple[RetryPolicy, ...] | None = None
    cache_policy: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    error_handler: Action | None = None


class Blueprint:
    """The collected names of a graph, in the order in which they were added.

    Attributes:
        state_schema: Type of the state.
        input_schema: Type of the input.
        output_schema: Type of the output.
        context_schema: Type of the run's context, or None.
        nodes: Name to `NodeSpec`.
        branches: Source to branch name to `BranchSpec`.
        channels: State key to channel, over all schemas.
        managed: State key to managed value, over all schemas.
        schemas: `schema_key` of a schema, usually the schema itself, to its keys.
        declared: The schemas, in the order in which they were registered.
        defaults: Policies for nodes that have none.
        compiled: Whether `compile` was called.
    """

    def __init__(self, state_schema: Any, context_schema: Any, input_schema: Any, output_schema: Any) -> None:
        self.state_schema = state_schema
        self.input_schema = state_schema if input_schema is None else input_schema
        self.output_schema = state_schema if output_schema is None else output_schema
        self.context_schema = context_schema
        self.nodes: dict[str, NodeSpec] = {}
        self.branches: dict[str, dict[str, BranchSpec]] = {}
        self.channels: dict[str, BaseChannel] = {}
        self.managed: dict[str, Any] = {}
        self.schemas: dict[Any, dict[str, Any]] = {}
        self.declared: list[Any] = []
        self.owners: dict[str, Any] = {}
        """Channel key to the schema that declared it first."""
        self.defaults = NodeDefaults()
        self.compiled = False
        self._edges: dict[Edge, None] = {}
        self._waiting: dict[WaitingEdge, OnMissing] = {}
        self.register_schema(self.state_schema)
        self.register_schema(self.input_schema, allow_managed=False)
        self.register_schema(self.output_schema, allow_managed=False)

    @property
    def edges(self) -> KeysView[Edge]:
        """Pairs of start and end, in the order in which they were added. Compares equal to a set."""
        return self._edges.keys()

    @property
    def waiting_edges(self) -> KeysView[WaitingEdge]:
        """Pairs of starts and end. Compares equal to a set."""
        return self._waiting.keys()

    @property
    def joins(self) -> Mapping[WaitingEdge, OnMissing]:
        """Waiting edges, and what to do when one of them is never completed."""
        return self._waiting

    def register_schema(self, schema: Any, *, allow_managed: bool = True) -> None:
        """Make the keys of `schema` channels of the graph.

        Raises:
            SchemaError: A key cannot be declared like that, or was declared differently by another schema.
        """
        known = self.schemas.get(schema_key(schema))
        if known is None:
            known = self._declare(schema)
        managed = [key for key in known if key in self.managed]
        # A graph whose input or output is its whole state leaves the managed values out; a schema made for the
        # purpose must not have any.
        if managed and not allow_managed and schema is not self.state_schema:
            names = ", ".join(sorted(managed))
            raise SchemaError(
                f"Invalid managed channels detected in {_name(schema)}: {names}. Managed values are given by the "
                "engine and cannot be part of an input or output schema."
            )

    def _declare(self, schema: Any) -> dict[str, Any]:
        if not isinstance(schema, type) and not hasattr(schema, "__origin__") and not hasattr(schema, "__args__"):
            warnings.warn(
                f"Invalid state_schema: {schema!r}. Expected a TypedDict, dataclass, pydantic model, msgspec Struct "
                "or a type.",
                UserWarning,
                stacklevel=5,
            )
        channels, managed = channels_of(schema)
        for key, channel in channels.items():
            _check_key(key, schema)
            self._add_channel(key, channel, schema)
        for key, value in managed.items():
            _check_key(key, schema)
            if self.managed.setdefault(key, value) is not value:
                raise SchemaError(f"Managed value {key!r} already exists with a different type{_at(schema)}.")
        found: dict[str, Any] = {**channels, **managed}
        self.schemas[schema_key(schema)] = found
        self.declared.append(schema)
        return found

    def _add_channel(self, key: str, channel: BaseChannel, schema: Any) -> None:
        known = self.channels.get(key)
        if known is None:
            self.channels[key] = channel
            self.owners[key] = schema
        elif known != channel and not isinstance(channel, LastValue):
            raise SchemaError(
                f"Channel {key!r} already exists with a different type: {_name(self.owners[key])} declares a "
                f"{type(known).__name__}, {_name(schema)} a different {type(channel).__name__}. Give both the same "
                "reducer, or none to one of them."
            )

    def keys_of(self, schema: Any) -> tuple[str, ...]:
        """Return the keys of a registered schema, managed ones included."""
        return tuple(self.schemas[schema_key(schema)])

    def is_root(self, schema: Any) -> bool:
        """Tell whether a registered schema is one value instead of a set of keys."""
        return ROOT in self.schemas[schema_key(schema)]


def _check_key(key: str, schema: Any) -> None:
    if key in _NOT_KEYS or key.startswith((BRANCH_PREFIX, JOIN_PREFIX)):
        raise SchemaError(f"{key!r} is a reserved name and cannot be a state key{_at(schema)}. Rename the key.")


def _at(schema: Any) -> str:
    return f" (in {_name(schema)})"


def _name(schema: Any) -> str:
    return str(getattr(schema, "__name__", None) or repr(schema))


def schema_key(schema: Any) -> Any:
    """Return what stands for `schema` in a dict: itself, or its identity when an annotation in it has no hash."""
    try:
        hash(schema)
    except TypeError:
        return "unhashable", id(schema)
    return schema
