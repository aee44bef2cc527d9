"""From a state schema to channels: what each annotated field means."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_origin

from langgraph_async.channels import BaseChannel, BinaryOperatorAggregate, DeltaChannel, LastValue
from langgraph_async.channels.managed import ManagedValue, is_managed_value
from langgraph_async.constants import MISSING, ROOT
from langgraph_async.errors import SchemaError
from langgraph_async.hints import Field, HintError, annotated, schema_fields, schema_kind, unqualified


class Declared(NamedTuple):
    """What a schema declares, by key, in the order of its fields."""

    channels: dict[str, BaseChannel]
    managed: dict[str, type[ManagedValue]]


def channels_of(schema: Any) -> Declared:
    """Return the channels and managed values that `schema` declares; a new channel for each key.

    A field is, by the first of these that holds: a managed value, if that is its last `Annotated` extra; the
    channel among its extras, given as an instance or as a class; a channel that combines writes, if the last
    extra is a function of two values; a channel that keeps the last value. The default of a combining field is
    the channel's first value. A schema without fields is one channel, `__root__`.

    Raises:
        SchemaError: An annotation cannot be resolved, a reducer does not take two values, a channel class
            cannot be made from a type alone, or a root is a managed value.
    """
    name = getattr(schema, "__qualname__", None) or repr(schema)
    if schema_kind(schema) == "root":
        found = channel_of(Field(ROOT, unqualified(schema)[0]), name)
        if not isinstance(found, BaseChannel):
            raise SchemaError(f"Schema {name}: a managed value cannot be the whole state; make it a field of one")
        return Declared({ROOT: found}, {})
    try:
        fields = schema_fields(schema)
    except HintError as exc:
        raise SchemaError(f"Schema {name}: {exc}") from exc
    declared = Declared({}, {})
    for field in fields.values():
        if field.name == "__slots__":
            continue
        found = channel_of(field, name)
        if isinstance(found, BaseChannel):
            declared.channels[field.name] = found
        else:
            declared.managed[field.name] = found
    return declared


def channel_of(field: Field, schema: str) -> BaseChannel | type[ManagedValue]:
    """Return the channel or the managed value that `field` of the schema named `schema` declares.

    Raises:
        SchemaError: See `channels_of`.
    """
    typ, extras = annotated(field.hint)
    if extras and is_managed_value(extras[-1]):
        return extras[-1]
    for extra in extras:
        if isinstance(extra, BaseChannel):
            return _from_instance(extra, typ, field)
        if inspect.isclass(extra) and issubclass(extra, BaseChannel):
            return _from_class(extra, typ, field, schema)
    if extras and callable(extras[-1]):
        _check_reducer(extras[-1], field, schema)
        return BinaryOperatorAggregate(typ, extras[-1], key=field.name, **_first_value(field))
    return LastValue(typ, field.name)


def _first_value(field: Field) -> dict[str, Any]:
    default = MISSING if field.default is dataclasses.MISSING else field.default
    return {"default": default, "default_factory": field.default_factory}


def _from_instance(channel: BaseChannel, typ: Any, field: Field) -> BaseChannel:
    if isinstance(channel, DeltaChannel):
        return channel.declared(typ, key=field.name, **_first_value(field))
    if type(channel) is BinaryOperatorAggregate and channel.default_factory is None:
        return BinaryOperatorAggregate(channel.typ, channel.operator, key=field.name, **_first_value(field))
    own = channel.copy()  # the instance in the annotation may stand in several fields, and has no key of its own
    own.key = field.name
    return own


def _from_class(kind: Callable[[Any], BaseChannel], typ: Any, field: Field, schema: str) -> BaseChannel:
    try:
        channel = kind(get_origin(typ) or typ)
    except TypeError as exc:
        raise SchemaError(
            f"Field '{field.name}' of schema {schema}: {exc}. Put an instance in the annotation: "
            f"`Annotated[..., {getattr(kind, '__name__', kind)}(...)]`."
        ) from exc
    channel.key = field.name
    return channel


def _check_reducer(reducer: Callable[..., Any], field: Field, schema: str) -> None:
    try:
        signature = inspect.signature(reducer)
    except ValueError as exc:
        if not inspect.isclass(reducer):
            return  # a function written in C that does not tell; calls of it will
        raise _invalid_reducer(repr(reducer), field, schema) from exc
    if _positional(list(signature.parameters.values())) != 2 or not _takes_two(signature):
        raise _invalid_reducer(str(signature), field, schema)


def _invalid_reducer(got: str, field: Field, schema: str) -> SchemaError:
    return SchemaError(
        f"Invalid reducer signature. Expected (a, b) -> c. Got {got}. "
        f"It is the last thing in the annotation of field '{field.name}' of schema {schema}."
    )


def _positional(parameters: Sequence[inspect.Parameter]) -> int:
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _takes_two(signature: inspect.Signature) -> bool:
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True
