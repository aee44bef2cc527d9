"""Who listens to a run, and for what.

A run has a sink of its own when it is streamed, and those of the graphs around it that asked for subgraphs. What
nobody wants is never built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from langgraph_async.pregel.outlet import TaskOutlet, message_id, muted, refuse
from langgraph_async.stream.wanted import Wanted
from langgraph_async.stream.writer import ChunkWriter, Drained

if TYPE_CHECKING:
    from langgraph_async.pregel.scope import TaskScope

Item = tuple[tuple[str, ...], str, Any]
"""Namespace levels, mode, payload."""


@dataclass(slots=True, eq=False)
class Sink:
    """One listener.

    Attributes:
        put: Takes an item that the engine tells; never blocks, never refuses.
        put_chunk: Takes an item that a node wrote; never blocks, refuses when far too many are waiting.
        bus: What a writer drains, or None for a listener that takes everything at once.
        wanted: The modes.
        subgraphs: Whether graphs inside the one that is streamed are listened to as well.
        shown: Ids of the questions that were already shown, so that one that passes through several graphs is
            shown once, where it was asked.
        messages: Ids of the messages that were told, or that a node was given.
    """

    put: Callable[[Item], None]
    put_chunk: Callable[[Item], None]
    bus: Drained | None
    wanted: Wanted
    subgraphs: bool
    shown: set[str] = field(default_factory=set)
    messages: set[str] = field(default_factory=set)


def plain_sink(take: Callable[[tuple[str, ...], str, Any], Any], modes: frozenset[str], *, subgraphs: bool) -> Sink:
    """Return a listener that takes everything at once: namespace levels, mode and payload of each item."""

    def put(item: Item) -> None:
        take(*item)

    return Sink(put=put, put_chunk=put, bus=None, wanted=Wanted.of(modes), subgraphs=subgraphs)


class Sinks:
    """The listeners of one run of one graph.

    Attributes:
        all: The sinks.
        keys: The channels that `values` and `updates` show, in order; a single name means the bare value.
        key_set: The same as a set.
        result_keys: The channels that the run returns; not always those it shows.
        result_set: The same as a set.
        values, updates, custom, messages, tools, tasks, checkpoints: Whether anybody wants these.
        buses: Where readers fetch what they listen to.
    """

    __slots__ = (
        "all",
        "buses",
        "checkpoints",
        "custom",
        "key_set",
        "keys",
        "messages",
        "result_keys",
        "result_set",
        "tasks",
        "tools",
        "updates",
        "values",
    )

    def __init__(
        self, sinks: tuple[Sink, ...], keys: str | tuple[str, ...], result_keys: str | tuple[str, ...]
    ) -> None:
        self.all = sinks
        self.buses = tuple(s.bus for s in sinks if s.bus is not None)
        self.keys = keys
        self.key_set = _as_set(keys)
        self.result_keys = result_keys
        self.result_set = self.key_set if result_keys == keys else _as_set(result_keys)
        self.values = any(s.wanted.values for s in sinks)
        self.updates = any(s.wanted.updates for s in sinks)
        self.custom = any(s.wanted.custom for s in sinks)
        self.messages = any(s.wanted.messages for s in sinks)
        self.tools = any(s.wanted.tools for s in sinks)
        self.tasks = any(s.wanted.any_tasks for s in sinks)
        self.checkpoints = any(s.wanted.any_checkpoints for s in sinks)

    def for_nested(self) -> tuple[Sink, ...]:
        """Return the sinks that listen to graphs inside this one too."""
        return tuple(s for s in self.all if s.subgraphs)

    async def room(self) -> None:
        """Return when no listener has much to read: what is neither a superstep of a stream's graph nor a node's
        chunk waits here.
        """
        for bus in self.buses:
            await bus.room()

    def chunk_writer(self, scope: TaskScope) -> ChunkWriter:
        """Return a writer of custom chunks for one attempt of a task."""
        levels = scope.run.ns_levels
        listening = [s for s in self.all if s.wanted.custom]
        # Tokens and tool events are chunks, too: who tells these waits for their reader by the same writer.
        buses = tuple(
            s.bus for s in self.all if s.bus is not None and (s.wanted.custom or s.wanted.messages or s.wanted.tools)
        )

        def emit(chunk: Any) -> None:
            for sink in listening:
                sink.put_chunk((levels, "custom", chunk))

        return ChunkWriter(emit, buses, node=scope.task.name, loop=scope.run.event_loop)

    def tell(self, scope: TaskScope, mode: Literal["messages", "tools"], payload: Any) -> None:
        """Tell something of messages (with its metadata) or tools; see `TaskScope.emit_message`."""
        if not getattr(self, mode):
            return
        if scope.closed:
            refuse(scope, mode)
            return
        if muted(scope):
            return
        scope.sign()
        known = message_id(payload[0]) if mode == "messages" else None
        for sink in self.all:
            if getattr(sink.wanted, mode):
                if known is not None:
                    sink.messages.add(known)
                sink.put_chunk((scope.run.ns_levels, mode, payload))

    def outlet(self, scope: TaskScope, mode: Literal["messages", "tools"], tags: Sequence[str]) -> TaskOutlet | None:
        """Return where one attempt of a task tells of messages or tools; None when nobody listens."""
        if not getattr(self, mode) or muted(scope, tags):
            return None
        listening = [sink for sink in self.all if getattr(sink.wanted, mode)]
        buses = [sink.bus for sink in listening if sink.bus is not None]
        return TaskOutlet(scope, mode, buses, [sink.messages for sink in listening])


def _as_set(keys: str | tuple[str, ...]) -> frozenset[str]:
    return frozenset((keys,) if isinstance(keys, str) else keys)
