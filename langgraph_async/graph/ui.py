"""Components of a user interface, as messages: sent while a node runs, kept in the state under their ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast
from uuid import uuid4

from typing_extensions import TypedDict

from langgraph_async import ambient


class UIMessage(TypedDict):
    """A component to show: its `name`, its `props`, and in `metadata` what it belongs to (`message_id`)."""

    type: Literal["ui"]
    id: str
    name: str
    props: dict[str, Any]
    metadata: dict[str, Any]


class RemoveUIMessage(TypedDict):
    """Takes the component of this id away."""

    type: Literal["remove-ui"]
    id: str


AnyUIMessage: TypeAlias = UIMessage | RemoveUIMessage


def push_ui_message(
    name: str,
    props: dict[str, Any],
    *,
    id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    message: Any = None,
    state_key: str | None = "ui",
    merge: bool = False,
) -> UIMessage:
    """Send a component now to whoever streams ``custom``, and write it to the state with what the node returns.

    Args:
        name: Of the component.
        props: What it is given.
        id: Of the component; by default a new one. A known id changes the component that has it.
        metadata: Added to its metadata.
        message: The message it belongs to: its id becomes the metadata's `message_id`.
        state_key: Where it is written, with `ui_message_reducer`; None writes it nowhere.
        merge: Add `props` to those of the component of this id, instead of replacing them.

    Raises:
        InvalidUpdateError: The state has no such key.
        RuntimeError: Called outside of a node.
    """
    config = ambient.running_task("push_ui_message").config
    about: dict[str, Any] = {
        "merge": merge,
        "run_id": config.get("run_id"),
        "tags": config.get("tags"),
        "name": config.get("run_name"),
        **(metadata or {}),
    }
    belongs_to = message.get("id") if isinstance(message, Mapping) else getattr(message, "id", None)
    if belongs_to:
        about["message_id"] = belongs_to
    made = UIMessage(type="ui", id=id or str(uuid4()), name=name, props=props, metadata=about)
    _send(made, state_key)
    return made


def delete_ui_message(id: str, *, state_key: str | None = "ui") -> RemoveUIMessage:
    """Take a component away, in the stream now and in the state with what the node returns.

    Raises:
        InvalidUpdateError: The state has no such key.
        RuntimeError: Called outside of a node.
    """
    made = RemoveUIMessage(type="remove-ui", id=id)
    _send(made, state_key)
    return made


def _send(message: AnyUIMessage, state_key: str | None) -> None:
    task = ambient.running_task("push_ui_message")
    if state_key:
        task.push_write(state_key, message)
    task.runtime.stream_writer(message)


def ui_message_reducer(
    left: list[AnyUIMessage] | AnyUIMessage, right: list[AnyUIMessage] | AnyUIMessage
) -> list[AnyUIMessage]:
    """Merge two lists of components by id: the reducer for the key that `push_ui_message` writes to.

    A component whose id is known takes the other's place; one with ``metadata["merge"]`` keeps the other's props where
    it has none of its own. Neither list, nor a component in it, is changed.

    Raises:
        ValueError: A removal names an unknown id.
    """
    merged: dict[str, AnyUIMessage] = {item["id"]: item for item in _listed(left)}
    removed: set[str] = set()
    for item in _listed(right):
        id = item["id"]
        if item["type"] == "remove-ui":
            if id not in merged:
                raise ValueError(f"Attempting to delete an UI message with an ID that doesn't exist ('{id}')")
            removed.add(id)
            continue
        removed.discard(id)
        known = merged.get(id)
        if known is not None and known["type"] == "ui" and item["metadata"].get("merge"):
            merged[id] = {**item, "props": {**known["props"], **item["props"]}}
        else:
            merged[id] = item
    return [item for id, item in merged.items() if id not in removed]


def _listed(side: Any) -> list[AnyUIMessage]:
    return cast("list[AnyUIMessage]", side if isinstance(side, list) else [side])


__all__ = [
    "AnyUIMessage",
    "RemoveUIMessage",
    "UIMessage",
    "delete_ui_message",
    "push_ui_message",
    "ui_message_reducer",
]
