"""Rows for the classes of users: enums, models, dataclasses, named tuples, attrs and msgspec classes, exceptions,
and subclasses of the builtin data types.

A class gets its row from its kind; whether it may be stored at all is the allow-list's question. Wherever the class has
code of its own that runs when a value is made, the value is rebuilt once while writing, and refused if it came out
different.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from langgraph_async.serde.bare import BareMaker, bare_test
from langgraph_async.serde.ext import (
    KNOWN_MODELS,
    LEGACY_MODEL,
    MANY,
    MODEL,
    NAMED,
    ONE,
    Call,
    Decode,
    Encode,
    Packed,
    Refused,
    Row,
)
from langgraph_async.serde.identity import identical
from langgraph_async.serde.plain import new_packer, pack_plain

MODEL_METHOD: Final = "model_validate_json"
"""LangGraph puts it behind every model, and never reads it."""
FIELDS: Final = "fields"
"""Note of a call that does not give the value back: its fields are set one by one."""


def kind_row(cls: type) -> Row | None:
    """Return the row for a class of a kind that can be stored, or None."""
    for test, make in _KINDS:
        if test(cls):
            encode, decode = make(cls)
            return Row(cls.__module__, cls.__qualname__, encode, decode)
    return None


def _made(decode: Decode, call: Call) -> Any:
    return decode(call[0], call[1], call[2] if len(call) == 3 else None)


def _rebuilt(decode: Decode, call: Call, value: Any) -> bool:
    try:
        twin = _made(decode, call)
    except Exception:  # noqa: BLE001  (the class may raise what it likes: then it is not the way to store it)
        return False
    return identical(twin, value)


def _checked(decode: Decode, value: Any, calls: Iterable[Call]) -> Call:
    """Return the first of `calls` that gives the value back.

    Raises:
        Refused: None does.
    """
    for call in calls:
        if _rebuilt(decode, call, value):
            return call
    raise Refused("its constructor does not give back an equal value, so it cannot be stored; give a Codec for it")


# -- enums, named tuples, subclasses of data types ----------------------------------------------------------


def _enum(cls: Any) -> tuple[Encode, Decode]:
    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        if code != ONE:
            raise Refused("the stored call has not the form an enum is stored in")
        return cls(payload)

    return lambda value: _checked(decode, value, [(ONE, value.value)]), decode


def _is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and callable(getattr(cls, "_asdict", None)) and hasattr(cls, "_fields")


def _namedtuple(cls: Any) -> tuple[Encode, Decode]:
    decode = _keywords(cls)
    return lambda value: _checked(decode, value, [(NAMED, dict(value._asdict()))]), decode


def _keywords(build: Callable[..., Any], *codes: int) -> Decode:
    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        if code not in (codes or (NAMED,)) or type(payload) is not dict:
            raise Refused("the stored call has not the form its class is stored in")
        return build(**payload)

    return decode


_BASES: Final[dict[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes(memoryview(value)),
    bytearray: lambda value: bytes(memoryview(value)),
    OrderedDict: lambda value: dict(dict.items(value)),
    dict: lambda value: dict(dict.items(value)),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: list(tuple.__iter__(value)),
    set: lambda value: list(set.__iter__(value)),
    frozenset: lambda value: list(frozenset.__iter__(value)),
    deque: lambda value: list(deque.__iter__(value)),
}


def _is_data(cls: type) -> bool:
    return any(issubclass(cls, base) for base in _BASES)


def _data(cls: Any) -> tuple[Encode, Decode]:
    plain = next(convert for base, convert in _BASES.items() if issubclass(cls, base))

    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        if code != ONE:
            raise Refused("the stored call has not the form its class is stored in")
        return cls(payload)

    return lambda value: _checked(decode, value, [(ONE, plain(value))]), decode


# -- classes made of fields: dataclasses, attrs, msgspec ----------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
    """The fields of a class.

    Attributes:
        arguments: From field to the name its constructor has for it, None for one it does not take.
        plain: Whether the constructor sets the fields and does nothing else.
        put: How one field is set from outside, frozen or not.
    """

    cls: Any
    arguments: dict[str, str | None]
    plain: bool
    put: Callable[[Any, str, Any], None] = object.__setattr__


def _dataclass(cls: Any) -> tuple[Encode, Decode]:
    fields = dataclasses.fields(cls)
    made = cls.__dataclass_params__.init and "__init__" in vars(cls) and _is_generated(cls)
    hooks = ("__post_init__", "__pydantic_validator__")
    plain = made and all(field.init for field in fields) and not any(hasattr(cls, hook) for hook in hooks)
    shape = _Shape(cls, {field.name: field.name if field.init else None for field in fields}, plain)
    return _fielded(shape)


def _is_generated(cls: Any) -> bool:
    """A constructor made by `dataclass` takes just the fields; one with `InitVar` or written by hand takes others."""
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    code: types.CodeType | None = getattr(cls.__init__, "__code__", None)
    untouched = cls.__new__ is object.__new__ or "__new__" not in vars(cls)
    if code is None or code.co_filename != "<string>" or not untouched:
        return False
    return sorted(_parameters(code)) == sorted(["self", *names])


def _parameters(code: types.CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _attrs(cls: Any) -> tuple[Encode, Decode]:
    fields = cls.__attrs_attrs__
    return _fielded(_Shape(cls, {field.name: field.alias if field.init else None for field in fields}, plain=False))


def _struct(cls: Any) -> tuple[Encode, Decode]:
    put = sys.modules["msgspec"].structs.force_setattr
    plain = not hasattr(cls, "__post_init__")
    return _fielded(_Shape(cls, {name: name for name in cls.__struct_fields__}, plain, put))


def _fielded(shape: _Shape) -> tuple[Encode, Decode]:
    names = {field: argument or field for field, argument in shape.arguments.items()}

    def encode(value: Any) -> Call:
        payload = {argument: getattr(value, field) for field, argument in names.items()}
        if shape.plain and getattr(value, "__dict__", names).keys() <= names.keys():
            return NAMED, payload
        return _checked(decode, value, [(NAMED, payload), (NAMED, payload, FIELDS)])

    def decode(code: int, payload: Any, note: Any) -> Any:
        if code != NAMED or type(payload) is not dict:
            raise Refused("the stored call has not the form its class is stored in")
        unknown = sorted(set(payload) - set(names.values()))
        if unknown:
            raise Refused(f"the class has no field {', '.join(map(repr, unknown))}; keep it, with a default")
        return _set_fields(shape, names, payload) if note == FIELDS else shape.cls(**payload)

    return encode, decode


def _set_fields(shape: _Shape, names: dict[str, str], payload: dict[str, Any]) -> Any:
    """Make the object with its constructor if that works, so that what derives from the fields is there too."""
    given = {argument: payload[argument] for argument in shape.arguments.values() if argument in payload}
    try:
        made = shape.cls(**given)
    except Exception:
        if payload.keys() != set(names.values()):
            raise
        made = object.__new__(shape.cls)
    for field, argument in names.items():
        if argument in payload:
            shape.put(made, field, payload[argument])
    return made


# -- pydantic -----------------------------------------------------------------------------------------------


def _is_model(cls: Any) -> bool:
    return callable(getattr(cls, "model_dump", None)) and hasattr(cls, "__pydantic_fields__")


def _model(cls: Any) -> tuple[Encode, Decode]:
    known = (cls.__module__, cls.__qualname__) in KNOWN_MODELS
    is_bare, bare = (bare_test(cls), BareMaker(cls)) if known else (None, None)

    def encode(value: Any) -> Call:
        if is_bare is not None:
            if is_bare(value) and (packed := pack_plain(new_packer(), value.__dict__)) is not None:
                return MODEL, Packed(packed), MODEL_METHOD
            dump = value.model_dump(warnings=False)
            if _is_settled(value, dump):
                return MODEL, dump, MODEL_METHOD
        return _checked(decode, value, _model_calls(value))

    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        if code not in (MODEL, LEGACY_MODEL) or type(payload) is not dict:
            raise Refused("the stored call has not the form a model is stored in")
        if bare is None:
            return _valid_model(cls, payload)
        made = bare(payload)
        return _valid_message(cls, payload) if made is None else made

    return encode, decode


def _valid_model(cls: Any, payload: dict[str, Any]) -> Any:
    try:
        return cls(**payload)
    except ValueError:
        if not any(field.validation_alias for field in cls.__pydantic_fields__.values()):
            raise
        return cls.model_validate(payload, by_name=True, by_alias=True)


def _valid_message(cls: Any, payload: dict[str, Any]) -> Any:
    try:
        return cls(**payload)
    except ValueError:
        return cls.model_construct(**payload)


_SETTLED: Final = {"content": (str, list), "id": (str, type(None)), "name": (str, type(None))}


def _is_settled(value: Any, dump: dict[str, Any]) -> bool:
    """Tell whether a message of langchain's has nothing that dumping it, or making it again, would change."""
    parts = vars(value)
    if not all(type(parts.get(name)) in kinds for name, kinds in _SETTLED.items()) or value.__pydantic_private__:
        return False
    whole = {**parts, **(value.__pydantic_extra__ or {})}
    pack = new_packer()
    packed = pack_plain(pack, dump)
    return (packed is not None and packed == pack_plain(pack, whole)) or identical(dump, whole)


def _model_calls(value: Any) -> Iterator[Call]:
    """Yield the ways to store a model. Each is worked out only when those before it have failed."""
    cls = type(value)
    if not getattr(cls, "__pydantic_root_model__", False):
        yield MODEL, value.model_dump(warnings=False), MODEL_METHOD
        yield MODEL, value.model_dump(warnings=False, by_alias=True), MODEL_METHOD
    fields = {name: each for name, each in vars(value).items() if name in cls.__pydantic_fields__}
    yield MODEL, {**fields, **(value.__pydantic_extra__ or {})}, MODEL_METHOD


def _is_legacy_model(cls: Any) -> bool:
    return callable(getattr(cls, "dict", None)) and hasattr(cls, "__fields__") and hasattr(cls, "construct")


def _legacy_model(cls: Any) -> tuple[Encode, Decode]:
    decode = _keywords(cls, LEGACY_MODEL)
    return lambda value: _checked(decode, value, [(LEGACY_MODEL, value.dict())]), decode


def _secret(cls: Any) -> tuple[Encode, Decode]:
    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        if code != ONE or type(payload) not in (str, bytes):
            raise Refused("the stored call has not the form a secret is stored in")
        return cls(payload)

    return lambda value: (ONE, value.get_secret_value()), decode


# -- exceptions ---------------------------------------------------------------------------------------------


def exception_row(cls: Any) -> Row:
    """Return the row for a class of exceptions: its arguments, and as a note the attributes set on it."""

    def decode(code: int, payload: Any, note: Any) -> Any:
        if code != MANY or type(payload) is not list:
            raise Refused("the stored call has not the form an exception is stored in")
        made = cls(*payload)
        if type(note) is dict and not note.keys() & {"__class__", "__dict__"}:
            made.__setstate__(note)
        return made

    def encode(value: Any) -> Call:
        reduced: Any = value.__reduce__()
        if type(reduced) is not tuple or len(reduced) not in (2, 3) or reduced[0] is not cls:
            raise Refused("it has a pickle form of its own")
        state = reduced[2] if len(reduced) == 3 else None
        call: Call = (MANY, list(reduced[1]), dict(state)) if state else (MANY, list(reduced[1]))
        if not _same_exception(decode, call, value):
            raise Refused("its constructor does not give back an equal exception")
        return call

    return Row(cls.__module__, cls.__qualname__, encode, decode)


def _same_exception(decode: Decode, call: Call, value: BaseException) -> bool:
    try:
        twin = _made(decode, call)
    except Exception:  # noqa: BLE001  (as above)
        return False
    return type(twin) is type(value) and identical(twin.args, value.args) and identical(vars(twin), vars(value))


def _exception(cls: Any) -> tuple[Encode, Decode]:
    row = exception_row(cls)
    return row.encode, row.decode


_KINDS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], tuple[Encode, Decode]]], ...]] = (
    (lambda cls: issubclass(cls, enum.Enum), _enum),
    (_is_model, _model),
    (lambda cls: callable(getattr(cls, "get_secret_value", None)), _secret),
    (_is_legacy_model, _legacy_model),
    (_is_namedtuple, _namedtuple),
    (lambda cls: issubclass(cls, BaseException), _exception),
    (dataclasses.is_dataclass, _dataclass),
    (lambda cls: hasattr(cls, "__attrs_attrs__"), _attrs),
    (lambda cls: hasattr(cls, "__struct_fields__"), _struct),
    (_is_data, _data),
)
