"""What a node is to the engine: when it runs, what it reads, what it does, and what its result writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langgraph_async.constants import TAG_HIDDEN
from langgraph_async.pregel.call import Action
from langgraph_async.types import CachePolicy, Limiter, RetryPolicy, TimeoutPolicy, TracePolicy

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel

Write: TypeAlias = tuple[str, Any]
"""Channel and value."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Router:
    """A routing function that runs after its node, in the same task, on the state with the node's writes applied.

    Attributes:
        name: The branch's name, for messages.
        action: The function; its input is the fresh state.
        channels: What it reads: one channel (its value) or several (a dict of those that have a value).
        mapper: Turns that dict into the schema it expects, or None.
        resolve: Turns its result into writes.
    """

    name: str
    action: Action
    channels: str | tuple[str, ...]
    resolve: Callable[[Any], Sequence[Write]]
    mapper: Callable[[dict[str, Any]], Any] | None = None


def no_writes(output: Any) -> Sequence[Write]:  # noqa: ARG001
    """Write nothing, whatever the output is."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class PregelNode:
    """One node of a compiled graph.

    Attributes:
        triggers: Channels whose update makes it run.
        channels: What it reads: one channel (its value is the input) or several (the input is a dict of those
            that have a value). A single channel without a value keeps the node from running.
        action: What it does with its input, or None to pass the input on as output.
        mapper: Turns the dict read into the schema the action expects, or None.
        write: Turns an output into writes: state updates, commands, sends. Raises `InvalidUpdateError` for an
            output that the state cannot take, `ParentCommand` for a command to an enclosing graph.
        edges: Writes that are made whatever the output is.
        routers: Run after `write`, in order.
        tags: For traces; the hidden tag keeps the node out of streams.
        metadata: Merged into the metadata of the task's config.
        cache_policy: How its results are cached, or None.
        error_handler: Name of the node that takes over when this one fails, or None.
        subgraphs: Graphs that the action is known to call.
        trace_policy: What tracers record of its input and output, or None for all of it.
        limit: How often it may start and how many of its attempts may run at once, shared with whatever has the same
            object; or None.
    """

    triggers: tuple[str, ...]
    channels: str | tuple[str, ...]
    action: Action | None = None
    mapper: Callable[[dict[str, Any]], Any] | None = None
    write: Callable[[Any], Sequence[Write]] = no_writes
    edges: tuple[Write, ...] = ()
    routers: tuple[Router, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    retry_policy: tuple[RetryPolicy, ...] = ()
    cache_policy: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    error_handler: str | None = None
    is_error_handler: bool = False
    subgraphs: tuple[Pregel, ...] = ()
    trace_policy: TracePolicy | None = None
    limit: Limiter | None = None

    @property
    def hidden(self) -> bool:
        """Whether streams leave the node out."""
        return TAG_HIDDEN in self.tags


@dataclass(frozen=True, slots=True)
class Join:
    """An edge from several nodes to one, which runs when all of them have.

    Attributes:
        channel: The barrier channel.
        starts: The sources, in the order of the edge.
        end: The target.
        on_missing: What it means when the run ends and only some sources ran.
    """

    channel: str
    starts: tuple[str, ...]
    end: str
    on_missing: Literal["error", "skip"] = "error"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schemas:
    """The types a graph was declared with, and what follows from them.

    Attributes:
        state, input, output, context: The declared types, or None.
        state_keys: All keys that a node may write.
        output_mapper, state_mapper: Turn a dict of values into an instance of the schema, or None.
        result_validators: For reduced keys of a validating schema: checks the value after the step.
        command: Turns a `Command` that is given as the input of a run into writes, or None for a graph without
            a schema, where keys are channels.
    """

    state: Any = None
    input: Any = None
    output: Any = None
    context: Any = None
    state_keys: frozenset[str] = frozenset()
    output_mapper: Callable[[dict[str, Any]], Any] | None = None
    state_mapper: Callable[[dict[str, Any]], Any] | None = None
    result_validators: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    command: Callable[[Any], Sequence[Write]] | None = None
