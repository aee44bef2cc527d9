"""Messages of langchain's that hold only text, and dicts of anything: written without dumping, made without validating.

Nearly all are such, and a conversation is read again with each turn: validating it takes several times as long as
reading the bytes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

_OPEN_FIELDS: Final = frozenset({"content", "additional_kwargs", "response_metadata", "type", "id", "name"})


def bare_test(cls: Any) -> Callable[[Any], bool]:
    """Return a test whether a message of langchain's has only text and dicts of anything: then it need not be dumped.

    What has a type within (the calls of tools, the usage) may be cut to that type when the message is made again.
    """
    fields = cls.__pydantic_fields__
    own = cls.__pydantic_decorators__
    changed = own.field_serializers or own.model_serializers or own.computed_fields
    if changed or not fields.keys() >= _OPEN_FIELDS or any(field.exclude for field in fields.values()):
        return lambda value: False  # noqa: ARG005
    order = ("content", "additional_kwargs", "response_metadata", "id", "name", "type")
    parts_of = operator.itemgetter(*order, *(fields.keys() - _OPEN_FIELDS))

    def is_bare(value: Any) -> bool:
        parts = value.__dict__
        try:
            content, keywords, metadata, ident, name, _, *typed = parts_of(parts)
        except KeyError:
            return False
        return (
            type(content) is str
            and type(keywords) is dict
            and type(metadata) is dict
            and (ident is None or type(ident) is str)
            and (name is None or type(name) is str)
            and len(parts) == len(fields)
            and not any(typed)
            and not value.__pydantic_private__
            and not value.__pydantic_extra__
        )

    return is_bare


_PARSED: Final = ("tool_calls", "function_call")
"""Entries of `additional_kwargs` that a message may be completed from when it is made."""
_USAGE: Final = "usage_metadata"
_SHAPES: Final = 64
"""Shapes of `usage_metadata` that are remembered."""
_PARTS: Final = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")


class BareMaker:
    """Makes a message of langchain's of what is stored of it, if that takes no more than setting its fields.

    The first message of each shape is made both ways: if its constructor makes anything else of it, the constructor
    makes all of that shape.

    Args:
        cls: Class of the message.
    """

    def __init__(self, cls: Any) -> None:
        fields = cls.__pydantic_fields__
        self._cls = cls
        self._fits = fields.keys() >= _OPEN_FIELDS
        self._order = tuple(fields)
        self._kind = fields["type"].default if self._fits else None
        rest = {name: field for name, field in fields.items() if name not in (*_OPEN_FIELDS, _USAGE)}
        self._texts = [name for name, field in rest.items() if field.is_required() and field.annotation is str]
        self._usual = [
            (name, field.get_default(call_default_factory=True))
            for name, field in rest.items()
            if name not in self._texts
        ]
        self._agreed: dict[Any, bool] = {}

    def __call__(self, payload: dict[str, Any]) -> Any:
        """Return the message, or None where its constructor must make it."""
        if not self._fits or tuple(payload) != self._order or not self._is_bare(payload):
            return None
        shape = _shape(payload.get(_USAGE))
        agrees = self._agreed.get(shape)
        if agrees is None:
            if shape is False or len(self._agreed) >= _SHAPES:
                return None
            agrees = self._agreed[shape] = self._agrees(payload)
        return _filled(self._cls, payload) if agrees else None

    def _agrees(self, payload: dict[str, Any]) -> bool:
        try:
            validated = self._cls(**payload)
        except ValueError:
            return False
        return _same(_filled(self._cls, payload), validated)

    def _is_bare(self, payload: dict[str, Any]) -> bool:
        keywords, ident, name = payload["additional_kwargs"], payload["id"], payload["name"]
        if (
            type(payload["content"]) is not str
            or type(keywords) is not dict
            or type(payload["response_metadata"]) is not dict
            or not (ident is None or type(ident) is str)
            or not (name is None or type(name) is str)
            or payload["type"] != self._kind
            or (keywords and any(map(keywords.get, _PARSED)))
        ):
            return False
        for part, usual in self._usual:
            if payload[part] != usual or type(payload[part]) is not type(usual):
                return False
        return not self._texts or all(type(payload[part]) is str for part in self._texts)


def _shape(usage: Any) -> Any:
    """Return what tells counts with other names from these; False if they are no counts."""
    if usage is None:
        return None
    if type(usage) is not dict:
        return False
    found: list[Any] = []
    for name, count in usage.items():
        if type(count) is int:
            found.append(name)
        elif type(count) is dict and all(type(each) is int for each in count.values()):
            found.append((name, *count))
        else:
            return False
    return tuple(found)


def _filled(cls: Any, payload: dict[str, Any]) -> Any:
    made = cls.__new__(cls)
    put = object.__setattr__
    put(made, "__dict__", payload)
    put(made, "__pydantic_fields_set__", set(payload))
    put(made, "__pydantic_extra__", {})
    put(made, "__pydantic_private__", None)
    return made


def _same(one: Any, other: Any) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _PARTS) and list(vars(one)) == list(vars(other))
