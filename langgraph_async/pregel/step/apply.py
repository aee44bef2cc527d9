"""Pending writes to channels, all at once.

In: the tasks of a superstep with their writes. Out: the changed `StepState`. It may not await or do I/O; the only
user code it calls is reducers and, for validating schemas, the check of a reduced value. When one of them raises,
the state is half changed and must be thrown away: what is stored is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langgraph_async.constants import ERROR, ERROR_SOURCE_NODE, INTERRUPT, NO_WRITES, PUSH, RESUME, RETURN
from langgraph_async.errors import InvalidUpdateError, ReducerError
from langgraph_async.pregel.model import GraphSpec, StepState
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.step_values import refresh_value
from langgraph_async.pregel.task import Task
from langgraph_async.pregel.view import is_container

_NOT_CHANNELS = frozenset({NO_WRITES, PUSH, RESUME, INTERRUPT, RETURN, ERROR, ERROR_SOURCE_NODE})


def apply_tasks(
    spec: GraphSpec,
    state: StepState,
    tasks: list[Task],
    next_version: Callable[[Any], Any],
    *,
    loose: Iterable[Write] = (),
) -> set[str]:
    """Apply the writes of a superstep's tasks and return the channels that changed and have a value.

    Nodes are applied by name, then sends in the order of the sends, whatever the order in which they finished;
    last come the `loose` writes, which belong to no task (an input). Without any task nothing is consumed,
    cleared or finished.

    Raises:
        ReducerError: A reducer raised, or its result does not fit the schema.
        InvalidUpdateError: The writes of several tasks cannot be taken together.
    """
    if len(tasks) > 1:
        tasks = sorted(tasks, key=_order)
    _mark_seen(state, tasks)
    version = next_version(state.newest)
    changed = _Changes(spec, state, version)
    if spec.consuming:
        for trigger in {t for task in tasks for t in task.triggers if t in spec.consuming}:
            if state.channels[trigger].consume():
                changed.note(trigger, updated=False)
    grouped = group_writes(tasks)
    if loose:
        for key, value in loose:
            if key not in _NOT_CHANNELS:
                grouped.setdefault(key, []).append(value)
    changed.write_all(grouped, tasks)
    if tasks:
        _close_step(spec, state, changed, grouped)
    state.updated = changed.updated
    return changed.updated


def _mark_seen(state: StepState, tasks: Iterable[Task]) -> None:
    versions, seen = state.versions, state.seen
    for task in tasks:
        mark = seen.get(task.name)
        fresh = {trigger: versions[trigger] for trigger in task.triggers if trigger in versions}
        if mark is None or fresh:
            seen[task.name] = {**mark, **fresh} if mark else fresh


def _close_step(spec: GraphSpec, state: StepState, changed: _Changes, grouped: dict[str, list[Any]]) -> None:
    changed.clear(state.holding.difference(grouped))
    if spec.finishing and not any(key in spec.triggers for key in changed.updated):
        for key in spec.finishing:
            channel = state.channels.get(key)
            if channel is not None and channel.finish():
                changed.note(key)


def group_writes(tasks: Iterable[Task]) -> dict[str, list[Any]]:
    """Return the values written to each channel, in the order of the tasks."""
    grouped: dict[str, list[Any]] = {}
    for task in tasks:
        for key, value in task.writes:
            if key in _NOT_CHANNELS:
                continue
            if key in grouped:
                grouped[key].append(value)
            else:
                grouped[key] = [value]
    return grouped


def _order(task: Task) -> tuple[int, str, int]:
    return task.order


class _Changes:
    """Collects what a superstep changes, and keeps the state's look-up tables true to the channels."""

    __slots__ = ("_spec", "_state", "_version", "updated")

    def __init__(self, spec: GraphSpec, state: StepState, version: Any) -> None:
        self._spec = spec
        self._state = state
        self._version = version
        self.updated: set[str] = set()

    def write_all(self, grouped: Mapping[str, Sequence[Any]], tasks: Sequence[Task]) -> None:
        """Give the channels the values written to them.

        Keys that simply keep the last value, and channels that only trigger nodes, take a short way: wide states
        have hundreds of the former, and every superstep has some of the latter.
        """
        plain, pulses, state = self._spec.plain, self._spec.pulses, self._state
        channels, shown, containers = state.channels, state.values, state.containers
        short: list[str] = []
        for key, values in grouped.items():
            if key in pulses:
                channels[key].update(values)
                state.holding.add(key)
                short.append(key)
                continue
            if key not in plain or len(values) != 1:
                self.write(key, values, tasks)
                continue
            channels[key].update(values)
            value = shown[key] = values[0]
            if is_container(value):
                containers.add(key)
            else:
                containers.discard(key)
            short.append(key)
        if short:
            self._mark(short)
            self.updated.update(short)

    def clear(self, keys: Iterable[str]) -> None:
        """Tell channels that nothing was written to them."""
        pulses, channels = self._spec.pulses, self._state.channels
        gone: list[str] = []
        for key in keys:
            if not channels[key].update(()):
                continue
            if key in pulses:
                gone.append(key)
            else:
                self.note(key)
        if gone:
            self._mark(gone)
            self._state.holding.difference_update(gone)

    def _mark(self, keys: Sequence[str]) -> None:
        state = self._state
        state.versions.update(dict.fromkeys(keys, self._version))
        state.newest = self._version
        state.dirty.update(keys)

    def write(self, key: str, values: Sequence[Any], tasks: Sequence[Task]) -> None:
        """Give a channel the values written to it."""
        if key not in self._spec.channels:
            raise InvalidUpdateError(f"Graph {self._spec.name!r} has no channel {key!r} to write to.")
        channel = self._state.channels[key]
        try:
            changed = channel.update(values)
        except InvalidUpdateError as exc:
            raise self._explained(exc, key, tasks) from exc.__cause__
        except Exception as exc:
            raise self._explained(ReducerError(f"The reducer of key {key!r} raised {exc!r}."), key, tasks) from exc
        if changed:
            self.note(key)
            if key in self._spec.validated:
                self._check(key, tasks)

    def _check(self, key: str, tasks: Sequence[Task]) -> None:
        schemas = self._spec.schemas
        if schemas is None or key not in self._state.values:
            return
        try:
            schemas.result_validators[key](self._state.values[key])
        except Exception as exc:
            error = ReducerError(f"The value of key {key!r} does not fit the state schema: {exc}")
            raise self._explained(error, key, tasks) from exc

    def _explained(self, exc: InvalidUpdateError, key: str, tasks: Sequence[Task]) -> InvalidUpdateError:
        writers = tuple(dict.fromkeys(t.name for t in tasks if any(k == key for k, _ in t.writes)))
        exc.key, exc.nodes = key, writers
        named = ", ".join(map(repr, writers)) or "the input"
        exc.args = (f"{exc}\nIn graph {self._spec.name!r}, key {key!r}, written by {named}.",)
        return exc

    def note(self, key: str, *, updated: bool = True) -> None:
        """Give a channel its new version, and refresh what is known about its value."""
        state, spec = self._state, self._spec
        state.versions[key] = state.newest = self._version
        state.dirty.add(key)
        available = state.channels[key].is_available()
        if available and updated:
            self.updated.add(key)
        if key in spec.reactive:
            if available:
                state.holding.add(key)
            else:
                state.holding.discard(key)
        if key in spec.value_keys:
            refresh_value(state, key, available=available)
