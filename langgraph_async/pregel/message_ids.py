"""Gives messages that are written to channels stored as their writes their ids before the writes are stored.

Such a channel is rebuilt from its stored writes each time it is loaded: an id that the reducer made up would be
another one each time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from langgraph_async.channels.appending import long_enough
from langgraph_async.pregel.model import GraphSpec, StepState
from langgraph_async.pregel.node import Write
from langgraph_async.types import Overwrite

_KINDS: Final = frozenset({"human", "ai", "system", "tool", "function", "developer", "user", "assistant"})


def identified(spec: GraphSpec, writes: list[Write]) -> list[Write]:
    """Return the writes with an id on every message that goes to a delta channel; what the caller holds is not changed.

    Messages are langchain-core's, and dicts with `content` and a `role` (or langchain-core's `type`), alone or in a
    list, also inside an `Overwrite`.
    """
    deltas = spec.deltas
    if not deltas:
        return writes
    return [(key, _identified(value)) if key in deltas else (key, value) for key, value in writes]


def settled(spec: GraphSpec, state: StepState, writes: list[Write]) -> list[Write]:
    """Return the writes with all that reducers that append would make up themselves, so that replaying gives the same.

    Only writes to long lists: shorter ones are stored whole, and their writes as they were made.

    Args:
        spec: The graph.
        state: What the writes were made on.
        writes: Not changed.
    """
    settling = spec.settling
    if not settling:
        return writes
    return [(key, _settled(settling.get(key), state.values.get(key), value)) for key, value in writes]


def _settled(settle: Callable[[Any, Any], Any] | None, list_so_far: Any, write: Any) -> Any:
    return write if settle is None or not long_enough(list_so_far) else settle(list_so_far, write)


def _identified(value: Any) -> Any:
    if isinstance(value, Overwrite):
        inner = _identified(value.value)
        return value if inner is value.value else replace(value, value=inner)
    if type(value) is list:
        items = [_one(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return _one(value)


def _one(item: Any) -> Any:
    if isinstance(item, Mapping):
        return {**item, "id": str(uuid4())} if is_message(item) and not item.get("id") else item
    langchain = sys.modules.get("langchain_core.messages")
    if langchain is not None and isinstance(item, langchain.BaseMessage) and not item.id:
        return item.model_copy(update={"id": str(uuid4())})
    return item


def is_message(item: Mapping[Any, Any]) -> bool:
    """Tell whether a dict is a message: `content`, and a `role` or one of langchain-core's types."""
    if "content" not in item:
        return False
    return isinstance(item.get("role"), str) or item.get("type") in _KINDS
