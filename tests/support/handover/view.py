"""What a library shows of a thread, as plain values that can be compared and stored as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID = re.compile(rf"{_UUID}|\b[0-9a-f]{{32}}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(\+00:00|Z)?")


async def view(graph: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return all that a graph shows of a thread: its state with those of nested graphs, and its history."""
    state = await graph.aget_state(config, subgraphs=True)
    found = {"state": plain(state), "history": await _history(graph, config)}
    for ns, nested in _nested(state).items():
        found[f"history of {ns}"] = await _history(graph, nested)
    return found


async def _history(graph: Any, config: dict[str, Any]) -> Any:
    return [plain(state) async for state in graph.aget_state_history(config)]


def _nested(state: Any) -> dict[str, dict[str, Any]]:
    """Return the namespaces of the nested graphs that a state shows, with configs for their histories."""
    found: dict[str, dict[str, Any]] = {}
    for task in state.tasks:
        if getattr(task.state, "config", None):
            place = task.state.config["configurable"]
            kept = {"thread_id": place["thread_id"], "checkpoint_ns": place["checkpoint_ns"]}
            found[place["checkpoint_ns"]] = {"configurable": kept}
            found |= _nested(task.state)
    return found


def plain(value: Any) -> Any:
    """Return a value as JSON could have it: what is no JSON value becomes a tagged list."""
    if isinstance(value, str) or value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, Mapping):
        items = sorted(value.items(), key=lambda item: (len(str(item[0])), str(item[0])))
        return {str(key): plain(item) for key, item in items}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = {f: plain(getattr(value, f)) for f in value._fields}
        if type(value).__name__ == "PregelTask" and fields["error"] is not None:
            fields["error"] = value.error if isinstance(value.error, str) else repr(value.error)
        return fields
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, BaseException):
        return ["error", type(value).__name__]
    return _object(value)


def _object(value: Any) -> Any:
    name = type(value).__name__
    if isinstance(value, (set, frozenset)):
        return [name, sorted(map(repr, value))]
    if name == "Interrupt":
        return [name, plain(value.value), value.id]
    if name == "Send":
        return [name, value.node, plain(value.arg)]
    if hasattr(value, "model_dump"):
        return [name, plain(value.model_dump())]
    if hasattr(value, "tolist"):
        return [name, plain(value.tolist())]
    return [name, repr(value)]


def settled(shown: Any, *, numbered: bool = True) -> Any:
    """Return what was shown without times, and with ids replaced; if numbered, by the order in which they appear."""
    names: dict[str, str] = {}
    text = _TIME.sub("<time>", json.dumps(shown))
    if not numbered:
        return json.loads(_ID.sub("<id>", text))
    return json.loads(_ID.sub(lambda m: names.setdefault(m[0], f"id{len(names)}"), text))


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Return where two plain values differ, one line for each place."""
    if isinstance(one, dict) and isinstance(other, dict):
        lines = [f"{path}[{key!r}]: {one[key]!r} / -" for key in one if key not in other]
        lines += [f"{path}[{key!r}]: - / {other[key]!r}" for key in other if key not in one]
        both = [key for key in one if key in other]
        return lines + [line for key in both for line in differences(one[key], other[key], f"{path}[{key!r}]")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{path}[{i}]")]
    return [] if one == other and type(one) is type(other) else [f"{path}: {one!r} / {other!r}"]
