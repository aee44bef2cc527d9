"""The three objects that carry everything through the engine.

`GraphSpec` is made once, when a graph is compiled; `RunScope` lives as long as one run of one graph;
`StepState` is the state that supersteps change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langgraph_async.aio.clock import SYSTEM_CLOCK, Clock
from langgraph_async.channels.appending import Appending
from langgraph_async.channels.base import BaseChannel
from langgraph_async.channels.delta import DeltaChannel
from langgraph_async.channels.ephemeral import EphemeralValue
from langgraph_async.channels.last_value import LastValue
from langgraph_async.channels.managed import ManagedValue
from langgraph_async.channels.reducer import BinaryOperatorAggregate
from langgraph_async.channels.untracked import UntrackedValue
from langgraph_async.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, PendingWrite
from langgraph_async.config import RunConfig
from langgraph_async.constants import INPUT, MISSING, START, TASKS
from langgraph_async.pregel.node import Join, PregelNode, Schemas
from langgraph_async.runtime import RunControl, Runtime
from langgraph_async.types import CachePolicy, Durability, RetryPolicy

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from langgraph_async.aio.limiter import Limiter
    from langgraph_async.aio.standby import Standby
    from langgraph_async.callbacks.port import Tracing
    from langgraph_async.pregel.lease import Lease
    from langgraph_async.pregel.replay import Answers, Replay
    from langgraph_async.pregel.scope import TaskScope
    from langgraph_async.pregel.sinks import Sinks
    from langgraph_async.pregel.task import Task

_INTERNAL = frozenset({START, TASKS, INPUT})


@dataclass(frozen=True, slots=True, eq=False)
class GraphSpec:
    """What a compiled graph is, and everything about it that does not depend on a run.

    Attributes:
        triggers: Channel to the nodes that its update makes run, in the order of the nodes.
        output_keys: Channels of the output, in order; a single name means the bare value.
        stream_keys: Channels of a state read, likewise.
        value_keys: Channels whose values nodes read as a dict.
        seeded: Channels that have a value before anything was written.
        reactive: Channels for which "others were written, you were not" can change something.
        consuming: Channels that change when they have triggered a task.
        finishing: Channels that change when the run is about to end.
        copied: Nodes that read exactly `value_keys`.
        untracked: Channels that are never stored.
        validated: Channels whose reduced value the schema checks.
        plain: Channels of `value_keys` that keep the last value and do nothing else.
        pulses: Channels that trigger nodes, hold a value for one superstep, and that nobody reads.
        deltas: Channels that are declared as stored as their writes.
        reducers: Channels that combine their writes with a function of two values.
        appending: Those of them whose function is known to append to a list.
        settling: Those of these whose function would make up parts of what it appends, such as ids.
        delta_storage: Whether the channels in `appending` may be stored as their writes.
        retry_policy: For nodes without policies of their own.
        cache_policy: For called functions without a policy of their own.
        caching: Nodes whose results are cached, and how.
    """

    name: str
    nodes: Mapping[str, PregelNode]
    channels: Mapping[str, BaseChannel]
    managed: Mapping[str, type[ManagedValue]]
    triggers: Mapping[str, tuple[str, ...]]
    input_keys: str | tuple[str, ...]
    output_keys: str | tuple[str, ...]
    stream_keys: str | tuple[str, ...]
    value_keys: frozenset[str]
    seeded: tuple[str, ...]
    reactive: frozenset[str]
    consuming: frozenset[str]
    finishing: tuple[str, ...]
    copied: frozenset[str]
    untracked: frozenset[str]
    validated: frozenset[str]
    plain: frozenset[str]
    pulses: frozenset[str]
    deltas: tuple[str, ...]
    reducers: tuple[str, ...]
    appending: Mapping[str, Appending]
    settling: Mapping[str, Callable[[Any, Any], Any]]
    delta_storage: bool
    joins: tuple[Join, ...]
    renamed: Mapping[str, str]
    schemas: Schemas | None
    retry_policy: tuple[RetryPolicy, ...] = ()
    cache_policy: CachePolicy | None = None
    caching: Mapping[str, CachePolicy] = field(default_factory=dict)


def make_spec(
    *,
    name: str,
    nodes: Mapping[str, PregelNode],
    channels: Mapping[str, BaseChannel],
    managed: Mapping[str, type[ManagedValue]],
    input_keys: str | tuple[str, ...],
    output_keys: str | tuple[str, ...],
    stream_keys: str | tuple[str, ...],
    joins: tuple[Join, ...],
    renamed: Mapping[str, str],
    schemas: Schemas | None,
    retry_policy: tuple[RetryPolicy, ...] = (),
    cache_policy: CachePolicy | None = None,
    delta_storage: bool = True,
) -> GraphSpec:
    """Work out everything about a graph that does not depend on a run."""
    triggers: dict[str, list[str]] = {}
    for node_name, node in nodes.items():
        for channel in node.triggers:
            triggers.setdefault(channel, []).append(node_name)
    read = _read_by_nodes(nodes).union(_as_keys(output_keys), _as_keys(stream_keys))
    value_keys = frozenset(key for key in read if key in channels and key not in _INTERNAL)
    kinds = {key: type(channel) for key, channel in channels.items()}
    reducers = {key: channel for key, channel in channels.items() if isinstance(channel, BinaryOperatorAggregate)}
    appending = {
        key: known
        for key, channel in reducers.items()
        if type(channel) is BinaryOperatorAggregate and (known := channel.appending) is not None
    }
    return GraphSpec(
        name=name,
        nodes=nodes,
        channels=channels,
        managed=managed,
        triggers={channel: tuple(names) for channel, names in triggers.items()},
        input_keys=input_keys,
        output_keys=output_keys,
        stream_keys=stream_keys,
        value_keys=value_keys,
        seeded=tuple(
            key
            for key, declared in channels.items()
            if key in value_keys and declared.from_checkpoint(MISSING).is_available()
        ),
        reactive=frozenset(key for key, kind in kinds.items() if kind.reacts_to_empty),
        consuming=frozenset(key for key, kind in kinds.items() if kind.consume is not BaseChannel.consume),
        finishing=tuple(key for key, kind in kinds.items() if kind.finish is not BaseChannel.finish),
        copied=frozenset(
            node_name
            for node_name, node in nodes.items()
            if isinstance(node.channels, tuple) and frozenset(node.channels) == value_keys
        ),
        untracked=frozenset(key for key, channel in channels.items() if isinstance(channel, UntrackedValue)),
        pulses=frozenset(
            key
            for key, declared in channels.items()
            if type(declared) is EphemeralValue and not declared.guard and key not in value_keys
        ),
        plain=frozenset(key for key in value_keys if type(channels[key]) is LastValue),
        deltas=tuple(key for key, channel in channels.items() if isinstance(channel, DeltaChannel)),
        reducers=tuple(reducers),
        appending=appending,
        settling={key: known.settle for key, known in appending.items() if known.settle is not None},
        delta_storage=delta_storage,
        validated=frozenset(schemas.result_validators) if schemas is not None else frozenset(),
        joins=joins,
        renamed=renamed,
        schemas=schemas,
        retry_policy=retry_policy,
        cache_policy=cache_policy,
        caching=_caching(nodes, cache_policy),
    )


def _read_by_nodes(nodes: Mapping[str, PregelNode]) -> set[str]:
    """Return the channels that nodes, and their routers, are given the values of."""
    read: set[str] = set()
    for node in nodes.values():
        if isinstance(node.channels, tuple):
            read.update(node.channels)
        for router in node.routers:
            read.update(_as_keys(router.channels))
    return read


def _caching(nodes: Mapping[str, PregelNode], default: CachePolicy | None) -> dict[str, CachePolicy]:
    found = {name: node.cache_policy or (None if node.is_error_handler else default) for name, node in nodes.items()}
    return {name: policy for name, policy in found.items() if policy is not None and name != START}


def _as_keys(keys: str | tuple[str, ...]) -> tuple[str, ...]:
    return (keys,) if isinstance(keys, str) else keys


class LiveChannels(dict[str, BaseChannel]):
    """The channels of a run; one that nobody touched yet is made when it is first asked for."""

    __slots__ = ("_declared",)

    def __init__(self, declared: Mapping[str, BaseChannel]) -> None:
        super().__init__()
        self._declared = declared

    def __missing__(self, key: str) -> BaseChannel:
        channel = self._declared[key].from_checkpoint(MISSING)
        channel.key = key
        self[key] = channel
        return channel


@dataclass(slots=True, eq=False)
class StepState:
    """Where a run of one graph stands.

    Attributes:
        step: Number of the superstep that comes next.
        checkpoint_id: Checkpoint that it starts from.
        version_format: Format version of that checkpoint; old ones compute task ids differently.
        channels: Channels touched so far.
        values: Values of the channels in `GraphSpec.value_keys` that have one.
        containers: Keys of `values` that hold a plain list, dict or set, which readers get a copy of.
        holding: Reactive channels that have a value.
        versions: Version of every channel ever written.
        newest: The greatest of them, or None.
        seen: Node to the channel versions it last ran on; the inner dicts are replaced, never changed.
        updated: What the last superstep changed, or None when that is not known.
        pending: Stored writes that belong to the checkpoint.
        metadata: Of the checkpoint.
        parent_id: Id of the checkpoint's parent, or None.
        stored: Whether the checkpoint is stored, or will be.
        old_names: Node to the name under which the checkpoint knows it, where it was renamed since.
        old_channels: The same for channels of edges and joins.
        remaining_steps: Supersteps that this run may still take, the one being planned or run included.
        dirty: Channels that got a new version since the last checkpoint.
        stored_values: What the channels stored in that checkpoint.
        tasks: Tasks of the superstep, in the order of the plan.
    """

    step: int
    checkpoint_id: str
    version_format: int
    channels: LiveChannels
    values: dict[str, Any]
    containers: set[str]
    holding: set[str]
    versions: dict[str, Any]
    newest: Any
    seen: dict[str, dict[str, Any]]
    updated: set[str] | None
    pending: list[PendingWrite]
    metadata: CheckpointMetadata
    parent_id: str | None
    stored: bool
    old_names: dict[str, str] = field(default_factory=dict)
    old_channels: dict[str, str] = field(default_factory=dict)
    remaining_steps: int = 0
    dirty: set[str] = field(default_factory=set)
    stored_values: dict[str, Any] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class RunScope:
    """One run of one graph.

    Attributes:
        spec: The graph.
        config: The parsed config.
        ns: Namespace of this graph, ids included; ``""`` for a root.
        ns_levels: The same as a tuple.
        parent: The task in which this graph was called, or None for a root.
        saver: Where checkpoints go, or None.
        durability: When they go there.
        sinks: Who listens to this run.
        answers: Answers to questions, shared with nested runs.
        replay: What a run from an old checkpoint still has to find, shared with nested runs; or None.
        runtime: What nodes are given; completed for each task.
        control: The request to stop.
        limiter: Bounds the tasks that run at once, shared with nested runs; or None.
        checkpoint_map: Namespace of each enclosing graph to its checkpoint id.
        interrupt_before, interrupt_after: Static breakpoints: node names, or ``"*"``.
        next_version: From the newest channel version to the next.
        thread_ident: Thread in which the event loop runs.
        event_loop: That loop.
        leases: Holds on threads that this run and those around it have.
        store: What nodes find as the store, or None.
        cache: Where results are kept, shared with nested runs; or None.
        saving: What stores the run, or None without a saver.
        clock: What waits between attempts, and limits of time, go by.
        step_timeout: Seconds that a superstep may take, or None.
        standby: Where code begins that may need a task of its own, once some has.
        tracing: What tells callback handlers of the run, or None.
    """

    spec: GraphSpec
    config: RunConfig
    ns: str
    ns_levels: tuple[str, ...]
    parent: TaskScope | None
    saver: BaseCheckpointSaver[Any] | None
    durability: Durability
    sinks: Sinks
    answers: Answers
    replay: Replay | None
    runtime: Runtime[Any]
    control: RunControl
    limiter: Limiter | None
    checkpoint_map: dict[str, str]
    interrupt_before: frozenset[str] | str
    interrupt_after: frozenset[str] | str
    next_version: Callable[[Any], Any]
    store: Any = None
    cache: Any = None
    thread_ident: int = 0
    event_loop: AbstractEventLoop | None = None
    leases: tuple[Lease, ...] = ()
    saving: Any = None
    clock: Clock = SYSTEM_CLOCK
    step_timeout: float | None = None
    tracing: Tracing | None = None
    standby: Standby | None = None

    @property
    def is_root(self) -> bool:
        """Whether no other graph of this library called this run."""
        return self.parent is None

    @property
    def forgets_its_end(self) -> bool:
        """Whether nobody can come back to where the run ended: it had no memory, and was stored at its end only."""
        return self.parent is not None and self.durability == "exit" and self.ns.startswith(self.parent.task.ns)
