"""Builds nodes of a raw `Pregel` graph by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from langgraph_async.constants import TASKS
from langgraph_async.errors import GraphBuildError, InvalidUpdateError
from langgraph_async.pregel.call import Action, in_sequence, prepare
from langgraph_async.pregel.node import PregelNode, Write
from langgraph_async.pregel.policies import checked_cache, checked_limit
from langgraph_async.pregel.subgraphs import find_subgraphs
from langgraph_async.types import CachePolicy, Limiter, RetryPolicy, TimeoutPolicy

_OUTPUT: Any = object()


@dataclass(frozen=True, slots=True, eq=False)
class ChannelWriteEntry:
    """One write of a node: which channel, and what.

    Attributes:
        channel: The channel.
        value: What to write; by default the node's output.
        skip_none: Write nothing when the value is None.
        mapper: Turns the value into what is written.
    """

    channel: str
    value: Any = _OUTPUT
    skip_none: bool = False
    mapper: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Writer:
    entries: tuple[ChannelWriteEntry, ...]

    def __call__(self, output: Any) -> Sequence[Write]:
        writes: list[Write] = []
        for entry in self.entries:
            value = output if entry.value is _OUTPUT else entry.value
            if entry.mapper is not None:
                value = entry.mapper(value)
            if value is not None or not entry.skip_none:
                writes.append((entry.channel, value))
        return writes


class NodeBuilder:
    """Describes a node of a raw graph, step by step; every method returns the builder.

    Example:
        >>> node = NodeBuilder().subscribe_only("question").do(str.upper).write_to("answer")
    """

    def __init__(self) -> None:
        self._channels: str | list[str] | None = None
        self._triggers: list[str] = []
        self._tags: list[str] = []
        self._metadata: dict[str, Any] = {}
        self._entries: list[ChannelWriteEntry] = []
        self._actions: list[Any] = []
        self._retry: list[RetryPolicy] = []
        self._cache: CachePolicy | None = None
        self._timeout: TimeoutPolicy | None = None
        self._limit: Limiter | None = None

    def subscribe_only(self, channel: str) -> Self:
        """Run when `channel` changes, with its value as the input.

        Raises:
            GraphBuildError: Other channels are read already.
        """
        if self._channels is not None:
            raise GraphBuildError(f"Cannot subscribe only to {channel!r}: the node reads {self._channels!r} already.")
        self._channels = channel
        self._triggers.append(channel)
        return self

    def subscribe_to(self, *channels: str, read: bool = True) -> Self:
        """Run when one of `channels` changes; with `read`, they are part of the input, which is a dict.

        Raises:
            GraphBuildError: The node reads a single channel.
        """
        if read:
            self.read_from(*channels)
        self._triggers.extend(c for c in channels if c not in self._triggers)
        return self

    def read_from(self, *channels: str) -> Self:
        """Add `channels` to the input, which is a dict.

        Raises:
            GraphBuildError: The node reads a single channel.
        """
        if isinstance(self._channels, str):
            raise GraphBuildError(f"Cannot read {channels!r}: the node reads only {self._channels!r}.")
        current = self._channels or []
        self._channels = [*current, *(c for c in channels if c not in current)]
        return self

    def do(self, action: Any) -> Self:
        """Call `action` with the input; given more than once, each is called with what the one before returned."""
        self._actions.append(action)
        return self

    def write_to(self, *channels: str | ChannelWriteEntry, **values: Any) -> Self:
        """Write the output to `channels`, and to each named channel a constant, or what a callable makes of it."""
        for channel in channels:
            entry = channel if isinstance(channel, ChannelWriteEntry) else ChannelWriteEntry(channel)
            self._entries.append(entry)
        for name, value in values.items():
            if callable(value):
                self._entries.append(ChannelWriteEntry(name, mapper=value))
            else:
                self._entries.append(ChannelWriteEntry(name, value))
        for entry in self._entries:
            if entry.channel == TASKS:
                raise InvalidUpdateError(f"Cannot write to the reserved channel TASKS ({TASKS!r}); return a Send.")
        return self

    def meta(self, *tags: str, **metadata: Any) -> Self:
        """Add tags and metadata to the task's config."""
        self._tags.extend(tags)
        self._metadata.update(metadata)
        return self

    def add_retry_policies(self, *policies: RetryPolicy) -> Self:
        """Add retry policies; the first that matches an error counts."""
        self._retry.extend(policies)
        return self

    def add_cache_policy(self, policy: CachePolicy) -> Self:
        """Cache results."""
        self._cache = checked_cache(policy, "a node")
        return self

    def set_timeout(self, timeout: float | timedelta | TimeoutPolicy | None) -> Self:
        """Bound each attempt: seconds, timedelta or policy."""
        self._timeout = TimeoutPolicy.coerce(timeout)
        return self

    def set_limit(self, limit: Limiter | None) -> Self:
        """Bound how often it may start and how many of it may run at once.

        Raises:
            GraphBuildError: `limit` is no limiter.
        """
        self._limit = checked_limit(limit, "a node")
        return self

    def build(self) -> PregelNode:
        """Return the node.

        Raises:
            GraphBuildError: It subscribes to nothing.
        """
        if not self._triggers:
            raise GraphBuildError("A node must subscribe to a channel: call subscribe_only() or subscribe_to().")
        channels = self._channels
        return PregelNode(
            triggers=tuple(self._triggers),
            channels=channels if isinstance(channels, str) else tuple(channels or ()),
            action=_sequence(self._actions),
            write=_Writer(tuple(self._entries)),
            tags=tuple(self._tags),
            metadata=dict(self._metadata),
            retry_policy=tuple(self._retry),
            cache_policy=self._cache,
            timeout=self._timeout,
            limit=self._limit,
            subgraphs=tuple(g for action in self._actions for g in find_subgraphs(action)),
        )


def _sequence(actions: list[Any]) -> Action | None:
    if not actions:
        return None
    steps = tuple(prepare(action) for action in actions)
    return steps[0] if len(steps) == 1 else in_sequence(steps)
