"""The `messages` key: a list of chat messages that is merged by id.

A message is either a plain dict, ``{"role": "user", "content": "hi", "id": "..."}``, or a langchain-core message
object. langchain-core is never imported for dicts; where there are objects it is loaded already. A list holds one
kind: when objects meet dicts, the dicts become objects.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, TypeAlias, overload
from uuid import uuid4

from typing_extensions import TypedDict

from langgraph_async.channels.accumulation import overwritten
from langgraph_async.channels.appending import Appending, declare_appending
from langgraph_async.constants import MISSING, REMOVE_ALL_MESSAGES
from langgraph_async.graph.openai_form import in_openai_form, request_form
from langgraph_async.graph.state import StateGraph
from langgraph_async.warnings import LangGraphDeprecatedSinceV10

Message: TypeAlias = Any
"""A dict with `role` and `content`, or a langchain-core message."""
Messages: TypeAlias = list[Message] | Message

_LANGCHAIN: Final = "langchain_core.messages"
_ROLES: Final = {"human": "user", "ai": "assistant"}
_OPENAI: Final = "langchain-openai"


def RemoveMessage(id: str) -> dict[str, Any]:  # noqa: N802 - stands for the class of that name
    """Return the dict that, written to a messages key, removes the message with this id.

    ``RemoveMessage(id=REMOVE_ALL_MESSAGES)`` removes all that came before it. langchain-core's class of the same name
    works as well.
    """
    return {"role": "remove", "content": "", "id": id}


@overload
def add_messages(left: Messages, right: Messages, *, format: str | None = None) -> list[Message]: ...


@overload
def add_messages(*, format: str | None = None) -> Callable[[Messages, Messages], list[Message]]: ...


def add_messages(
    left: Messages | None = None, right: Messages | None = None, *, format: str | None = None
) -> list[Message] | Callable[[Any, Any], list[Message]]:
    """Merge two lists of messages by id: the reducer of `MessagesState`.

    A message of `right` whose id is in `left` takes its place, a removal takes it out, others are appended.
    Messages without id get one. Neither list, nor a message in it, is changed.

    Args:
        left: What is there: a list, or one message. Strings and (role, content) tuples count as messages.
        right: What comes in.
        format: ``"langchain-openai"`` brings contents into OpenAI's form: blocks of text become one text, images
            `image_url` blocks, calls of tools `tool_calls`, and their results messages of their own.

    Returns:
        A new list; without `left` and `right`, a reducer with this `format`.

    Raises:
        ValueError: Only one side is given, `format` is unknown, or a removal names an unknown id.
    """
    if format not in (None, _OPENAI):
        raise ValueError(f"Unrecognized format={format!r}. Expected {_OPENAI!r} or None.")
    if left is None and right is None:
        return partial(_add_messages, format=format)
    if left is None or right is None:
        given, missing = ("right", "left") if left is None else ("left", "right")
        raise ValueError(
            f"Must specify non-null arguments for both 'left' and 'right'. Only {given} was given; {missing} is None."
        )
    return _add_messages(left, right, format=format)


def _add_messages(left: Messages, right: Messages, *, format: str | None) -> list[Message]:
    merged = _merge(*_same_kind(_listed(left), _listed(right)))
    return merged if format is None else _openai_format(merged)


def _merge(left: list[Message], right: list[Message]) -> list[Message]:
    for index in range(len(right) - 1, -1, -1):
        if _is_removal(right[index]) and _id(right[index]) == REMOVE_ALL_MESSAGES:
            return _merge([], right[index + 1 :]) if index + 1 < len(right) else []
    merged = list(left)
    places = {key: place for place, key in enumerate(_ids(merged))}
    removed: set[str] = set()
    for message in right:
        key = _id(message)
        if _is_removal(message):
            if key not in places:
                raise ValueError(f"Attempting to delete a message with an ID that doesn't exist ('{key}')")
            removed.add(key)
            continue
        removed.discard(key)
        if key in places:
            merged[places[key]] = message
        else:
            places[key] = len(merged)
            merged.append(message)
    return [message for message in merged if _id(message) not in removed] if removed else merged


def messages_delta_reducer(state: Sequence[Message], writes: Sequence[Messages]) -> list[Message]:
    """Merge all writes of a superstep at once: the reducer for ``DeltaChannel``.

    Like `add_messages`, but removals of unknown ids are passed over, and messages keep the ids that they have, so
    that replaying the same writes gives the same list.
    """
    flat = [item for write in writes for item in (write if isinstance(write, list) else [write])]
    left, right = _same_kind(list(state), flat, assign=False)
    merged: dict[Any, Message] = {}
    for message in [*left, *right]:
        key = _id(message)
        if not _is_removal(message):
            merged[object() if key is None else key] = message
        elif key == REMOVE_ALL_MESSAGES:
            merged.clear()
        else:
            merged.pop(key, None)
    return list(merged.values())


# -- stored as what was appended ----------------------------------------------------------------------------


def _settle(left: Any, write: Messages) -> Messages:
    """Return a write with what `add_messages` would make of it: ids, and messages for shorthands."""
    items = _listed(write)
    if _settled(items) or overwritten(write) is not MISSING:
        return write
    try:
        return _same_kind(left[-1:] if isinstance(left, list) else [], items)[1]
    except Exception:  # noqa: BLE001 - no messages: the reducer will say so
        return write


def _settled(value: Any) -> bool:
    return None not in _ids(_listed(value))


def _replay(value: Any, writes: Sequence[Messages]) -> list[Message]:
    """Fold one write after the other, without looking at all of the list for each; all at once if that is the same."""
    at_once = _merged_at_once(_listed(value), [message for write in writes for message in _listed(write)])
    if at_once is not None:
        return at_once
    merged = value
    index: dict[Any, Message] | None = None
    for write in writes:
        right = _listed(write)
        if index and _uniform([next(iter(index.values())), *right]) and _absorbed(index, right):
            continue
        merged = _add_messages(merged if index is None else list(index.values()), right, format=None)
        index = dict(zip(_ids(merged), merged, strict=True))
        if len(index) < len(merged):
            index = None  # ids that stand for several messages, which `Overwrite` can bring in
    return merged if index is None else list(index.values())


def _merged_at_once(left: list[Message], right: list[Message]) -> list[Message] | None:
    """Merge messages that have ids, need no conversion and remove nothing; None if that is not all there is to it."""
    if not _uniform([*left, *right]) or any(map(_is_removal, right)):
        return None
    index = dict(zip(_ids(left), left, strict=True))
    if len(index) < len(left):
        return None
    index.update(zip(_ids(right), right, strict=True))
    return None if None in index else list(index.values())


def _absorbed(index: dict[Any, Message], right: list[Message]) -> bool:
    """Merge messages into others by id, if nothing about it is special; otherwise change nothing."""
    ids = _ids(right)
    if None in ids or REMOVE_ALL_MESSAGES in ids or len(set(ids)) < len(ids):
        return False
    if any(_is_removal(message) and key not in index for key, message in zip(ids, right, strict=True)):
        return False
    for key, message in zip(ids, right, strict=True):
        if _is_removal(message):
            del index[key]
        else:
            index[key] = message
    return True


declare_appending(add_messages, Appending(settle=_settle, settled=_settled, replay=_replay))


# -- one kind of message ------------------------------------------------------------------------------------


def one_message(item: Message) -> Message:
    """Return one message in the form in which `add_messages` keeps it, without giving it an id."""
    return _same_kind([], [item], assign=False)[1][0]


def _listed(side: Messages) -> list[Message]:
    return list(side) if isinstance(side, list) else [side]


def _same_kind(
    left: list[Message], right: list[Message], *, assign: bool = True
) -> tuple[list[Message], list[Message]]:
    both = [*left, *right]
    if _uniform(both) and None not in _ids(both):
        return left, right
    convert = _to_object if _wants_objects(left, right) else _to_dict
    finish = _with_id if assign else _as_it_is
    return [finish(convert(item)) for item in left], [finish(convert(item)) for item in right]


def _uniform(messages: list[Message]) -> bool:
    """Tell whether messages are of one kind and need no conversion: nearly always; each class is looked at once."""
    kinds = set(map(type, messages))
    return kinds == {dict} or _are_objects(kinds, chunks=False)


def _are_objects(kinds: set[type], *, chunks: bool) -> bool:
    langchain = sys.modules.get(_LANGCHAIN)
    return langchain is not None and all(
        issubclass(kind, langchain.BaseMessage) and (chunks or not issubclass(kind, langchain.BaseMessageChunk))
        for kind in kinds
    )


def _ids(messages: list[Message]) -> list[Any]:
    kinds = set(map(type, messages))
    if kinds == {dict}:
        return [message.get("id") or None for message in messages]
    if _are_objects(kinds, chunks=True):
        return [message.id or None for message in messages]
    return [_id(message) for message in messages]


def _wants_objects(*sides: list[Message]) -> bool:
    items = [item for side in sides for item in side if not _is_removal(item)]
    if any(not isinstance(item, (str, tuple, Mapping)) for item in items):
        return True
    # Shorthands have no form of their own: they become what the process works with.
    return _LANGCHAIN in sys.modules and bool(items) and all(isinstance(item, (str, tuple)) for item in items)


def _to_object(item: Message) -> Message:
    langchain = sys.modules.get(_LANGCHAIN)
    if _is_removal(item):
        return item
    if langchain is None or not isinstance(item, (str, tuple, Mapping, langchain.BaseMessage)):
        return _to_dict(item)
    (message,) = langchain.convert_to_messages([dict(item) if isinstance(item, Mapping) else item])
    if isinstance(message, langchain.BaseMessageChunk):
        message = langchain.message_chunk_to_message(message)
    return message


def _to_dict(item: Message) -> Message:
    if isinstance(item, str):
        return {"role": "user", "content": item}
    if isinstance(item, tuple) and len(item) == 2:
        role, content = item
        return {"role": _ROLES.get(role, role), "content": content}
    if isinstance(item, Mapping) or _is_removal(item):
        return item
    raise ValueError(
        "Expected a message: a dict with role and content, a string, a (role, content) tuple or a langchain-core "
        f"message; got {item!r}."
    )


def _with_id(message: Message) -> Message:
    if _id(message) is not None:
        return message
    if isinstance(message, Mapping):
        return {**message, "id": str(uuid4())}
    return message.model_copy(update={"id": str(uuid4())})


def _as_it_is(message: Message) -> Message:
    return message


def _id(message: Message) -> Any:
    plain = type(message) is dict or isinstance(message, Mapping)  # the first spares most of them the second
    found = message.get("id") if plain else getattr(message, "id", None)
    return found or None


def _is_removal(message: Message) -> bool:
    if type(message) is dict or isinstance(message, Mapping):
        return bool(message.get("role", message.get("type")) == "remove")
    return bool(getattr(message, "type", None) == "remove")


def _openai_format(messages: list[Message]) -> list[Message]:
    if all(isinstance(message, Mapping) for message in messages):
        return _with_new_ids([made for message in messages for made in in_openai_form(message)])
    from langchain_core import messages as langchain

    return list(langchain.convert_to_messages(langchain.convert_to_openai_messages(messages, include_id=True)))


def _with_new_ids(messages: list[Message]) -> list[Message]:
    return [_with_id(message) for message in messages]


def openai_messages(messages: Messages) -> list[dict[str, Any]]:
    """Return messages as a request to OpenAI's chat completions, and to what speaks like it, takes them.

    The state's messages have ids, and what `stream_tokens` gives has usage and more, which a request must not have.
    Content blocks are converted as by ``add_messages(format="langchain-openai")``.

    Args:
        messages: Dicts, langchain-core's messages, strings (of the user) and (role, content) tuples.
    """
    made: list[dict[str, Any]] = []
    for item in _listed(messages):
        message = one_message(item)
        if isinstance(message, Mapping):
            made.extend(request_form(message))
        else:
            from langchain_core import messages as langchain

            made.extend(langchain.convert_to_openai_messages([message]))
    return made


# -- states -------------------------------------------------------------------------------------------------


class MessagesState(TypedDict):
    """A state with one key: `messages`, merged by `add_messages`."""

    messages: Annotated[list[Any], add_messages]


class MessageGraph(StateGraph):
    """Deprecated: a graph whose whole state is a list of messages. Use `StateGraph` with a `messages` key."""

    def __init__(self) -> None:
        warnings.warn(
            "MessageGraph is deprecated and will be removed. Please use `StateGraph` with a `messages` key instead.",
            LangGraphDeprecatedSinceV10,
            stacklevel=2,
        )
        schema: Any = Annotated[list[Any], add_messages]
        super().__init__(schema)


__all__ = [
    "REMOVE_ALL_MESSAGES",
    "MessageGraph",
    "Messages",
    "MessagesState",
    "RemoveMessage",
    "add_messages",
    "messages_delta_reducer",
    "openai_messages",
]
