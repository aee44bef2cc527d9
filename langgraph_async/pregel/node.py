"""What a node is to the engine: when it runs, what it reads, what it does, and what its result writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langgraph_async.constants import TAG_HIDDEN
from langgraph_async.pregel.call import Action
from langgraph_async.types import CachePolicy, RetryPolicy, TimeoutPolicy

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel

Write: TypeAlias = tuple[str, Any]
"""Channel and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
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
        error_handler: Name of the node that takes over when this one fails, or None.
        subgraphs: Graphs that the action is known to call.
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

    @property
    def hidden(self) -> bool:
        """Whether streams leave the node out."""
        return TAG_HIDDEN in self.tags


@dataclass(frozen=True, slots=True)
class Join:
    """A barrier: a node that waits until several others have run.

    Attributes:
        channel: The barrier channel, see `join_channel`.
        starts: The nodes that are waited for, in the order of the edge.
        end: The node that waits.
        on_missing: What to do when the run would end while some of `starts`, but not all, have run.
    """

    channel: str
    starts: tuple[str, ...]
    end: str
    on_missing: Literal["error", "skip"] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schemas:
    """The types a graph was declared with, and what turns dicts of channel values into them.

    Attributes:
        state: Type of the state.
        input: Type of the input.
        output: Type of the output.
        context: Type of the run's context, or None.
        state_keys: Every channel that a node may write, those of private schemas included.
        state_mapper: From a dict of all state keys to the state's type, or None to leave it a dict.
        output_mapper: The same for the output.
        result_validators: For reduced keys: checks the value that the reducer gave, and returns it converted;
            raises what the schema's own validation raises.
    """

    state: Any
    input: Any
    output: Any
    context: Any = None
    state_keys: frozenset[str] = frozenset()
    state_mapper: Callable[[dict[str, Any]], Any] | None = None
    output_mapper: Callable[[dict[str, Any]], Any] | None = None
    result_validators: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
