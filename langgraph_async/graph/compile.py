"""From a drawing to an engine: nodes, edges and branches become channels and subscriptions to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph_async.channels import (
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
)
from langgraph_async.checkpoint.foreign.saver import as_saver
from langgraph_async.constants import DEFAULT_ERROR_HANDLER, END, ROOT, START, TAG_HIDDEN, branch_channel, join_channel
from langgraph_async.errors import GraphBuildError
from langgraph_async.graph.blueprint import Blueprint, NodeSpec, schema_key
from langgraph_async.graph.branch import BranchSpec, resolver
from langgraph_async.graph.drawing.build import draw
from langgraph_async.graph.drawing.model import Graph
from langgraph_async.graph.validate import check_drawing, check_interrupts, check_renamed
from langgraph_async.graph.writes import InputWriter, NodeWriter, Places
from langgraph_async.hints import mapper, validator
from langgraph_async.pregel.graph import Pregel
from langgraph_async.pregel.node import Join, PregelNode, Router, Schemas, Write
from langgraph_async.pregel.subgraphs import find_subgraphs
from langgraph_async.serde.allowlist import collect_types
from langgraph_async.types import ensure_valid_checkpointer
from langgraph_async.typing import ContextT, InputT, OutputT, StateT


class CompiledStateGraph(Pregel[StateT, ContextT, InputT, OutputT]):
    """A `StateGraph`, ready to run.

    Attributes:
        builder: What it was compiled from.
    """

    def __init__(self, *, builder: Blueprint, **options: Any) -> None:
        super().__init__(**options)
        self.builder = builder

    def get_graph(self, config: Any = None, *, xray: int | bool = False) -> Graph:  # noqa: ARG002
        """Return a drawing of the graph.

        Args:
            config: Not used; there for the signature's sake.
            xray: Draw the inside of subgraphs: of all levels, or of that many.
        """
        return draw(
            self.builder,
            self.nodes,
            interrupt_before=self.interrupt_before_nodes,
            interrupt_after=self.interrupt_after_nodes,
            xray=xray,
        )

    async def aget_graph(self, config: Any = None, *, xray: int | bool = False) -> Graph:
        """Return what `get_graph` returns."""
        return self.get_graph(config, xray=xray)


def compile_graph(
    board: Blueprint,
    *,
    checkpointer: Any,
    cache: Any,
    store: Any,
    interrupt_before: Any,
    interrupt_after: Any,
    debug: bool,
    name: str,
    renamed: Mapping[str, str],
    transformers: Sequence[Any] | None,
    delta_storage: bool,
    step_timeout: Any,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the engine for a drawing; see `StateGraph.compile`.

    Raises:
        GraphBuildError: The drawing cannot run.
        TypeError: `checkpointer` is not a saver.
    """
    ensure_valid_checkpointer(checkpointer)
    before = check_interrupts(interrupt_before, "interrupt_before", name)
    after = check_interrupts(interrupt_after, "interrupt_after", name)
    check_drawing(board, name=name, interrupts=(*before, *after))
    check_renamed(renamed, board.nodes, name)
    parts = translate(board, name=name)
    return CompiledStateGraph(
        builder=board,
        nodes=parts.nodes,
        channels={**parts.channels, **board.managed},
        joins=parts.joins,
        schemas=parts.schemas,
        input_channels=START,
        output_channels=_shown_keys(board, board.output_schema),
        stream_channels=_shown_keys(board, None),
        stream_mode="updates",
        interrupt_before_nodes="*" if interrupt_before == "*" else before,
        interrupt_after_nodes="*" if interrupt_after == "*" else after,
        checkpointer=_with_types(as_saver(checkpointer), board),
        cache=_with_types(cache, board),
        store=store,
        debug=debug,
        name=name,
        context_schema=board.context_schema,
        renamed=dict(renamed),
        stream_transformers=transformers,
        delta_storage=delta_storage,
        step_timeout=step_timeout,
        auto_validate=False,
    )


def _with_types(keeper: Any, board: Blueprint) -> Any:
    """Return a saver or cache, allowed to read back the types that the schemas declare."""
    if not hasattr(keeper, "with_allowlist"):
        return keeper
    types = set[type]()
    for schema in board.declared:
        types |= collect_types(schema)
    return keeper.with_allowlist(types)


def _shown_keys(board: Blueprint, schema: Any) -> str | tuple[str, ...]:
    keys = tuple(board.channels) if schema is None else board.keys_of(schema)
    shown = tuple(key for key in keys if key not in board.managed)
    return ROOT if shown == (ROOT,) else shown


# -- translation --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What the engine is made of."""

    nodes: dict[str, PregelNode]
    channels: dict[str, BaseChannel]
    joins: tuple[Join, ...]
    schemas: Schemas


@dataclass(slots=True, eq=False)
class _Wiring:
    """Edges by the node that they concern, so that each is looked at once."""

    writes: dict[str, list[Write]] = field(default_factory=dict)
    triggers: dict[str, list[str]] = field(default_factory=dict)
    joins: list[Join] = field(default_factory=list)
    barriers: dict[str, BaseChannel] = field(default_factory=dict)


def translate(board: Blueprint, *, name: str = "LangGraph") -> Parts:
    """Return the nodes and channels that a checked drawing stands for.

    Raises:
        GraphBuildError: A node that is not async has a timeout.
    """
    specs = _specs_with_defaults(board)
    places = Places(
        graph=name,
        keys=frozenset(board.channels),
        managed=frozenset(board.managed),
        nodes=frozenset(node for node, spec in specs.items() if not spec.is_error_handler),
        validators=_validators(board, reduced=False),
        defaulted={
            key: channel
            for key, channel in board.channels.items()
            if isinstance(channel, (BinaryOperatorAggregate, DeltaChannel)) and channel.default_factory is not None
        },
    )
    wiring = _wire(board, specs)
    views = _Views(board)
    channels: dict[str, BaseChannel] = {**board.channels, START: EphemeralValue(board.input_schema)}
    nodes: dict[str, PregelNode] = {START: _start_node(board, places, wiring, views)}
    for node, spec in specs.items():
        channels[branch_channel(node)] = LastValueAfterFinish(Any) if spec.defer else EphemeralValue(Any, guard=False)
        nodes[node] = _node(node, spec, board, places, wiring, views)
    channels.update(wiring.barriers)
    for key, channel in channels.items():
        channel.key = key
    return Parts(nodes, channels, tuple(wiring.joins), _schemas(board, views))


def _specs_with_defaults(board: Blueprint) -> dict[str, NodeSpec]:
    if board.defaults.error_handler is None:
        return board.nodes
    handler = NodeSpec(action=board.defaults.error_handler, input_schema=board.state_schema, is_error_handler=True)
    return {**board.nodes, DEFAULT_ERROR_HANDLER: handler}


def _wire(board: Blueprint, specs: Mapping[str, NodeSpec]) -> _Wiring:
    wiring = _Wiring()
    for start, end in board.edges:
        if end != END:
            wiring.writes.setdefault(start, []).append((branch_channel(end), None))
    for (starts, end), on_missing in board.joins.items():
        if end == END:
            continue
        channel = join_channel(starts, end)
        kind = NamedBarrierValueAfterFinish if specs[end].defer else NamedBarrierValue
        wiring.barriers[channel] = kind(str, set(starts))
        wiring.triggers.setdefault(end, []).append(channel)
        wiring.joins.append(Join(channel=channel, starts=starts, end=end, on_missing=on_missing))
        for start in dict.fromkeys(starts):
            wiring.writes.setdefault(start, []).append((channel, start))
    return wiring


class _Views:
    """What each schema of the graph reads: its keys, and how they become an instance. Worked out once per schema."""

    def __init__(self, board: Blueprint) -> None:
        self._board = board
        self._known: dict[Any, tuple[str | tuple[str, ...], Callable[[dict[str, Any]], Any] | None]] = {}

    def of(self, schema: Any) -> tuple[str | tuple[str, ...], Callable[[dict[str, Any]], Any] | None]:
        """Return the channels that `schema` reads and its mapper."""
        key = schema_key(schema)
        found = self._known.get(key)
        if found is None:
            root = self._board.is_root(schema)
            found = self._known[key] = (ROOT, None) if root else (self._board.keys_of(schema), mapper(schema))
        return found


def _start_node(board: Blueprint, places: Places, wiring: _Wiring, views: _Views) -> PregelNode:
    keys = frozenset(key for key in board.keys_of(board.input_schema) if key not in board.managed)
    return PregelNode(
        triggers=(START,),
        channels=START,
        write=InputWriter(places, keys),
        edges=tuple(wiring.writes.get(START, ())),
        routers=_routers(board.branches.get(START, {}).values(), board.state_schema, places, views),
        tags=(TAG_HIDDEN,),
    )


def _node(name: str, spec: NodeSpec, board: Blueprint, places: Places, wiring: _Wiring, views: _Views) -> PregelNode:
    defaults = board.defaults
    timeout = spec.timeout or defaults.timeout
    if timeout is not None and not spec.action.is_async:
        raise GraphBuildError(
            f"Node timeouts are only supported for async nodes: node {name!r} of graph {places.graph!r} is a sync "
            "function, which cannot be stopped. Make it an async function, or give it no timeout."
        )
    channels, view = views.of(spec.input_schema)
    subgraphs = find_subgraphs(spec.runnable)
    handler = spec.error_handler_node
    if handler is None and not spec.is_error_handler and defaults.error_handler is not None:
        handler = DEFAULT_ERROR_HANDLER
    return PregelNode(
        triggers=(branch_channel(name), *wiring.triggers.get(name, ())),
        channels=channels,
        action=spec.action,
        mapper=view,
        write=NodeWriter(places, name, frozenset().union(*(_declared_keys(graph) for graph in subgraphs))),
        edges=tuple(wiring.writes.get(name, ())),
        routers=_routers(board.branches.get(name, {}).values(), spec.input_schema, places, views),
        metadata=spec.metadata or {},
        retry_policy=(defaults.retry_policy if spec.retry_policy is None else spec.retry_policy) or (),
        cache_policy=spec.cache_policy or (None if spec.is_error_handler else defaults.cache_policy),
        timeout=timeout,
        error_handler=handler,
        is_error_handler=spec.is_error_handler,
        subgraphs=subgraphs,
        trace_policy=spec.trace_policy,
        limit=spec.limit,
    )


def _declared_keys(graph: Pregel) -> frozenset[str]:
    return graph.schemas.state_keys if graph.schemas is not None else frozenset(graph.channels)


def _routers(branches: Iterable[BranchSpec], schema: Any, places: Places, views: _Views) -> tuple[Router, ...]:
    found: list[Router] = []
    for branch in branches:
        channels, view = views.of(schema if branch.input_schema is None else branch.input_schema)
        found.append(
            Router(
                name=branch.name,
                action=branch.path,
                channels=channels,
                mapper=view,
                resolve=resolver(branch, places),
            )
        )
    return tuple(found)


def _validators(board: Blueprint, *, reduced: bool) -> dict[str, Callable[[Any], Any]]:
    """Return, per key, the check of the schema that declared it first, where that schema validates."""
    found: dict[str, Callable[[Any], Any]] = {}
    by_schema: dict[Any, Mapping[str, Callable[[Any], Any]]] = {}
    for key, channel in board.channels.items():
        owner = board.owners[key]
        checks = by_schema.get(schema_key(owner))
        if checks is None:
            checks = by_schema[schema_key(owner)] = validator(owner)
        check = checks.get(key)
        if check is not None and isinstance(channel, LastValue) is not reduced:
            found[key] = check
    return found


def _schemas(board: Blueprint, views: _Views) -> Schemas:
    return Schemas(
        state=board.state_schema,
        input=board.input_schema,
        output=board.output_schema,
        context=board.context_schema,
        state_keys=frozenset(board.channels),
        state_mapper=views.of(board.state_schema)[1],
        output_mapper=views.of(board.output_schema)[1],
        result_validators=_validators(board, reduced=True),
    )
