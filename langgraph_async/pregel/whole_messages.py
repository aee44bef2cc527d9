"""Finds the messages that tasks are given and that they return, for those who listen for ``messages``.

A message that a task was given is known; one that it returns is told, whole, unless it is known: as it came in, or
token by token. It is told with the id under which it gets into the state. Only looked for when somebody listens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from langgraph_async.channels.accumulation import overwritten
from langgraph_async.constants import END, MISSING, PREVIOUS, RETURN, ROOT
from langgraph_async.hints import fields_of_instance
from langgraph_async.pregel.message_ids import is_message
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.outlet import message_id, metadata_of, muted
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.task import CallTask
from langgraph_async.types import Overwrite

_WHOLE: Final = frozenset({RETURN, END, PREVIOUS, ROOT})
"""Channels that take what a function returns as it is; its fields are looked through, like those of a state."""
_REMOVAL: Final = "remove"


def note_input(scope: TaskScope) -> None:
    """Remember the messages that a task is given, so that they are not told when it returns them."""
    given = scope.task.input
    values = [*given[0], *given[1].values()] if isinstance(scope.task, CallTask) else [given]
    known = [found for value in values for message in _within(value) if (found := message_id(message)) is not None]
    if known:
        for sink in scope.run.sinks.all:
            if sink.wanted.messages:
                sink.messages.update(known)


def told(scope: TaskScope, writes: Sequence[Write]) -> list[Write]:
    """Tell the messages in a task's writes, and return the writes with an id on every one of them.

    What the node holds is not changed. Call it in the event loop's thread.
    """
    if scope.paused or muted(scope):
        return list(writes)  # a task that asks gives its result another time
    settling, values = scope.run.spec.settling, scope.state.values
    give_id = _GiveId()
    changed: list[Write] = []
    for key, value in writes:
        settle = settling.get(key)
        value = settle(values.get(key), value) if settle is not None else value  # noqa: PLW2901
        changed.append((key, _identified(value, give_id, deep=key in _WHOLE)))
    for key, value in changed:
        inner = overwritten(value)
        look = _within if key in _WHOLE else _listed
        for message in look(value if inner is MISSING else inner):
            _tell(scope, message)
    return changed


def _tell(scope: TaskScope, message: Any) -> None:
    known = message_id(message) or str(uuid4())
    if _kind(message) == _REMOVAL:
        return
    for sink in scope.run.sinks.all:
        if sink.wanted.messages and known not in sink.messages:
            sink.messages.add(known)
            shown = dict(message) if type(message) is dict else message  # the reader may change it
            sink.put((scope.run.ns_levels, "messages", (shown, metadata_of(scope))))


def _within(value: Any) -> Iterator[Any]:
    """Yield the messages in what a node takes or returns: itself, its items, its fields, and the items of those."""
    if _is_message(value) or isinstance(value, (list, tuple)):
        yield from _listed(value)
    else:
        for _, part in _fields(value):
            yield from _listed(part)


def _listed(value: Any) -> Iterator[Any]:
    """Yield the messages in one value: itself, or its items."""
    if _is_message(value):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (item for item in value if _is_message(item))


def _fields(value: Any) -> Sequence[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if value is None or isinstance(value, (str, int, float)):
        return ()
    return fields_of_instance(value) or ()


def _is_message(value: Any) -> bool:
    if isinstance(value, Mapping):
        return is_message(value)
    langchain = sys.modules.get("langchain_core.messages")
    return langchain is not None and isinstance(value, langchain.BaseMessage)


def _kind(message: Any) -> Any:
    if isinstance(message, Mapping):
        return message.get("role", message.get("type"))
    return getattr(message, "type", None)


# -- ids ----------------------------------------------------------------------------------------------------


class _GiveId:
    """Returns a message with an id, for the same message the same one."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}

    def __call__(self, item: Any) -> Any:
        if not _is_message(item) or message_id(item) is not None or _kind(item) == _REMOVAL:
            return item
        if id(item) not in self._made:
            fresh = str(uuid4())
            made = {**item, "id": fresh} if isinstance(item, Mapping) else item.model_copy(update={"id": fresh})
            self._made[id(item)] = (item, made)  # which keeps `item`, and so its address, alive
        return self._made[id(item)][1]


def _identified(value: Any, give_id: Callable[[Any], Any], *, deep: bool) -> Any:
    if _is_message(value):
        return give_id(value)
    if type(value) in (list, tuple):
        items = [give_id(item) for item in value]
        return type(value)(items) if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, Overwrite):
        inner = _identified(value.value, give_id, deep=deep)
        return value if inner is value.value else replace(value, value=inner)
    if deep and type(value) is dict:
        fields = {key: _identified(part, give_id, deep=False) for key, part in value.items()}
        return fields if any(fields[key] is not part for key, part in value.items()) else value
    return value
