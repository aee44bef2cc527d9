"""What a node, a router or a caller sees of the channels: plain dicts that nobody else holds.

Containers of the exact types list, dict and set are copied (shallowly), so that a node that appends to
``state["messages"]`` in place changes nothing that a sibling, the next superstep or the caller sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph_async.channels.managed import ManagedValue
from langgraph_async.errors import EmptyChannelError
from langgraph_async.pregel.model import GraphSpec, StepState
from langgraph_async.pregel.node import PregelNode, Write
from langgraph_async.pregel.task import CallTask, RescueTask, Task

_CONTAINERS = frozenset({list, dict, set})


def detached(value: Any) -> Any:
    """Return `value`, copied if it is a plain list, dict or set."""
    return value.copy() if type(value) in _CONTAINERS else value


def unshared(value: Any) -> Any:
    """Return `value` as a node may have it for its own: copied, and if it is a dict, its values detached."""
    return {key: detached(item) for key, item in value.items()} if type(value) is dict else detached(value)


def is_container(value: Any) -> bool:
    """Tell whether readers of `value` get a copy."""
    return type(value) in _CONTAINERS


def read_keys(spec: GraphSpec, state: StepState, keys: Iterable[str]) -> dict[str, Any]:
    """Return the values of those `keys` that have one, managed values included."""
    values, containers = state.values, state.containers
    view: dict[str, Any] = {}
    for key in keys:
        if key in values:
            view[key] = values[key].copy() if key in containers else values[key]
        elif key in spec.managed:
            view[key] = spec.managed[key].get(state)
        elif key not in spec.value_keys:
            channel = state.channels.get(key)
            if channel is not None and channel.is_available():
                view[key] = detached(channel.get())
    return view


def read_all(state: StepState) -> dict[str, Any]:
    """Return all values that nodes may read, without managed ones."""
    values = state.values
    view = values.copy()
    for key in state.containers:
        view[key] = values[key].copy()
    return view


def read_one(spec: GraphSpec, state: StepState, key: str) -> Any:
    """Return one channel's value.

    Raises:
        EmptyChannelError: It has none.
    """
    if key in spec.managed:
        return spec.managed[key].get(state)
    if key in state.values:
        return detached(state.values[key])
    if key in spec.channels and (key in state.channels or key in spec.seeded):
        return detached(state.channels[key].get())
    raise EmptyChannelError(f"Channel {key!r} has no value.")


def node_input(spec: GraphSpec, state: StepState, name: str, node: PregelNode) -> Any:
    """Return what a node that channels triggered is called with.

    Raises:
        EmptyChannelError: It reads a single channel, and that has no value: the node does not run.
    """
    keys = node.channels
    if isinstance(keys, str):
        return read_one(spec, state, keys)
    view = read_all(state) if name in spec.copied else read_keys(spec, state, keys)
    return node.mapper(view) if node.mapper is not None else view


def fresh_input(spec: GraphSpec, state: StepState, task: Task) -> Any:
    """Return what a task is called with, without what its code has changed in it in place."""
    if isinstance(task, RescueTask):
        return fresh_input(spec, state, task.failed)
    if task.send is not None:
        return unshared(task.send.arg)
    return task.input if isinstance(task, CallTask) else node_input(spec, state, task.name, task.node)


def output(spec: GraphSpec, state: StepState, keys: str | tuple[str, ...]) -> Any:
    """Return what a caller sees: the dict of available keys, or for a single key its value (None without one)."""
    if isinstance(keys, str):
        try:
            return read_one(spec, state, keys)
        except EmptyChannelError:
            return None
    return read_keys(spec, state, keys)


def fresh_view(spec: GraphSpec, state: StepState, keys: str | tuple[str, ...], writes: Iterable[Write]) -> Any:
    """Return what a router reads: the channels with the `writes` of its own task applied, on copies.

    Raises:
        EmptyChannelError: `keys` is a single channel without a value.
    """
    wanted = (keys,) if isinstance(keys, str) else keys
    grouped: dict[str, list[Any]] = {}
    for channel, value in writes:
        if channel in wanted:
            grouped.setdefault(channel, []).append(value)
    changed: dict[str, Any] = {}
    gone: set[str] = set()
    for key, values in grouped.items():
        if key in spec.plain and len(values) == 1:
            changed[key] = detached(values[0])
            continue
        channel_copy = state.channels[key].copy()
        channel_copy.key = key
        channel_copy.update(values)
        if channel_copy.is_available():
            changed[key] = detached(channel_copy.get())
        else:
            gone.add(key)
    if isinstance(keys, str):
        return changed[keys] if keys in changed else read_one(spec, state, keys)
    view = read_keys(spec, state, keys)
    view.update(changed)
    for key in gone:
        view.pop(key, None)
    return view


def managed_values(managed: Mapping[str, type[ManagedValue]], state: StepState) -> dict[str, Any]:
    """Return all managed values."""
    return {key: kind.get(state) for key, kind in managed.items()}
