"""One row per type: how a value becomes a constructor call in the stored bytes, and how the call is read back.

A call is stored as a MessagePack extension. The code says how the payload is handed over: 0 one argument, 1 a list of
arguments, 2 and 4 keywords, 3 one argument of a class method, 5 the fields of a model; 6 and 7 are arrays and delta
snapshots, which name no type. Bytes equal LangGraph's wherever LangGraph brings the value back as it was. Where it does
not, the row writes another call that LangGraph can make too; a note behind the payload, which LangGraph skips, says
what a call cannot.

Reading never imports by a stored name: what is not in the table, or registered, is refused.

Source: the format of langgraph-checkpoint 4.3, extension codes and type names.
"""

from __future__ import annotations

import builtins
import collections
import datetime as dt
import ipaddress
import pathlib
import re
import types
import uuid
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

import msgpack  # type: ignore[import-untyped]

from langgraph_async.constants import MISSING
from langgraph_async.types import (
    Command,
    GraphOutput,
    Interrupt,
    Overwrite,
    PregelTask,
    Send,
    StateSnapshot,
    StateUpdate,
    TimeoutPolicy,
)

ONE: Final = 0
MANY: Final = 1
NAMED: Final = 2
METHOD: Final = 3
LEGACY_MODEL: Final = 4
MODEL: Final = 5
ARRAY: Final = 6
DELTA: Final = 7

Call: TypeAlias = tuple[int, Any] | tuple[int, Any, Any]
"""Code, payload and, where a call alone does not say everything, a note."""
Encode: TypeAlias = Callable[[Any], Call | Any]
"""From the value to its call, or to another value to be written in its place."""
Decode: TypeAlias = Callable[[int, Any, Any], Any]
"""From code, payload and note (None without one) to the value."""


class Packed(bytes):
    """A payload that is in its stored form already."""

    __slots__ = ()


class Refused(Exception):
    """A value cannot be stored, or a call cannot be made; the serializer turns this into a `SerializationError`.

    Attributes:
        culprit: The value that was being written.
        path: Where it lies, from the innermost call outwards.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.culprit: Any = None
        self.path: tuple[str, ...] = ()


def _packed_name(name: str) -> bytes:
    packed: Any = msgpack.packb(name)
    assert isinstance(packed, bytes)
    return packed


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """How values of one type are written and read.

    Attributes:
        module: Module that the stored bytes name.
        name: Name in that module.
        head: Both, packed.
    """

    module: str
    name: str
    encode: Encode
    decode: Decode
    head: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = (self.module, self.name)
        object.__setattr__(self, "head", b"".join(map(_packed_name, names)))


def one(build: Callable[[Any], Any], *allowed: type) -> Decode:
    """Return a reader for calls with one argument of one of the types `allowed`."""

    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        if code != ONE or type(payload) not in allowed:
            raise Refused("the stored call has not the form this type is stored in")
        return build(payload)

    return decode


def many(build: Callable[..., Any], *signature: type | tuple[type, ...]) -> Decode:
    """Return a reader for calls with arguments of the types of `signature`, of which later ones may be absent."""

    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        if code != MANY or type(payload) is not list or len(payload) > len(signature):
            raise Refused("the stored call has not the form this type is stored in")
        if not all(isinstance(value, kind) for value, kind in zip(payload, signature, strict=False)):
            raise Refused("an argument of the stored call has not the type it is stored with")
        return build(*payload)

    return decode


def named(build: Callable[..., Any]) -> Decode:
    """Return a reader for calls with keywords."""

    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        if code != NAMED or type(payload) is not dict:
            raise Refused("the stored call has not the form this type is stored in")
        return build(**payload)

    return decode


def by_code(**readers: Decode) -> Decode:
    """Return a reader that leaves each code to its own reader, the keywords being ``one``, ``many``, ``named``."""
    table = {{"one": ONE, "many": MANY, "named": NAMED, "method": METHOD}[key]: each for key, each in readers.items()}

    def decode(code: int, payload: Any, note: Any) -> Any:
        if code not in table:
            raise Refused("the stored call has not the form this type is stored in")
        return table[code](code, payload, note)

    return decode


# -- builtins: what MessagePack itself would change ---------------------------------------------------------

_DECIMAL_DIGITS_BITS: Final = 12_000
"""Longer integers are stored in base 16: Python limits decimal digits, and their cost grows with the square."""


def _encode_int(value: int) -> Call:
    return (ONE, str(value)) if value.bit_length() < _DECIMAL_DIGITS_BITS else (MANY, [hex(value), 16])


def _int_of_base(text: str, base: int) -> int:
    if base != 16:
        raise Refused("an integer is stored in base 10 or 16")
    return int(text, 16)


def _decode_surrogates(data: bytes, encoding: str, errors: str) -> str:
    if (encoding, errors) != ("utf-8", "surrogatepass"):
        raise Refused("text is stored as UTF-8")
    return data.decode("utf-8", "surrogatepass")


def _decode_pairs(pairs: list[Any]) -> dict[Any, Any]:
    return {key: value for key, value in pairs}  # noqa: C416  (a pair is any list of two)


def _encode_memoryview(value: memoryview) -> Call:
    if value.format != "B" or value.ndim != 1:
        raise Refused("only a one-dimensional memoryview of bytes can be stored")
    return ONE, bytes(value)


def _encode_deque(value: collections.deque[Any]) -> Call:
    return (ONE, list(value)) if value.maxlen is None else (MANY, [list(value), value.maxlen])


_EMPTY: Final[tuple[Any, ...]] = (
    *([], {}, set(), frozenset(), (), "", b"", bytearray(), 0, 0.0, 0j, False, None),
    *(collections.deque(), collections.OrderedDict(), collections.Counter()),
)
_SAMPLES: Final[dict[type, Any]] = {type(sample): sample for sample in _EMPTY}
"""Classes that can be stored: as the class of a value."""


def _encode_type(value: type) -> Call:
    if value not in _SAMPLES:
        raise Refused("classes cannot be stored, except the builtin data types")
    return ONE, _SAMPLES[value]


def _decode_type(code: int, payload: Any, note: Any) -> type:  # noqa: ARG001
    if code != ONE or type(payload) not in _SAMPLES:
        raise Refused("classes cannot be stored, except the builtin data types")
    return type(payload)


def _encode_defaultdict(value: collections.defaultdict[Any, Any]) -> Call:
    factory = value.default_factory
    if factory is not None and not (isinstance(factory, type) and factory in _SAMPLES):
        raise Refused(f"its default_factory {factory!r} cannot be stored; only None and builtin data types can")
    return MANY, [factory, dict(value)]


def _decode_defaultdict(factory: Any, values: dict[Any, Any]) -> Any:
    if factory is not None and factory not in _SAMPLES:
        raise Refused("the default_factory is not one that can be stored")
    return collections.defaultdict(factory, values)


# -- dates --------------------------------------------------------------------------------------------------


def _encode_datetime(value: dt.datetime) -> Call:
    zone = value.tzinfo
    plain_zone = zone is None or (type(zone) is dt.timezone and len(_zone_arguments(zone)) == 1)
    if plain_zone and not value.fold:
        return METHOD, value.isoformat(), "fromisoformat"
    names = ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo", "fold")
    return NAMED, {name: getattr(value, name) for name in names}


def _zone_arguments(zone: dt.timezone) -> list[Any]:
    return list(zone.__getinitargs__())  # type: ignore[attr-defined]


def _decode_iso(code: int, payload: Any, note: Any) -> dt.datetime:
    if code != METHOD or note != "fromisoformat" or type(payload) is not str:
        raise Refused("the stored call has not the form this type is stored in")
    return dt.datetime.fromisoformat(payload)


def _encode_time(value: dt.time) -> Call:
    return NAMED, {n: getattr(value, n) for n in ("hour", "minute", "second", "microsecond", "tzinfo", "fold")}


def _encode_zone(value: zoneinfo.ZoneInfo) -> Call:
    if value.key is None:
        raise Refused("a ZoneInfo without a key cannot be stored")
    return ONE, value.key


# -- the words of this library, under the names LangGraph has for them --------------------------------------


def _encode_send(value: Send) -> Call:
    return MANY, [value.node, value.arg] if value.timeout is None else [value.node, value.arg, value.timeout]


def _decode_send(node: str, arg: Any, timeout: TimeoutPolicy | None = None) -> Send:
    return Send(node, arg, timeout=timeout)


def _encode_command(value: Command[Any]) -> Call:
    """LangGraph has no "no answer", and its empty goto is stored as an empty list: a note tells these apart."""
    goto = [] if value.goto == () else value.goto
    resume = None if value.resume is MISSING else value.resume
    payload = {"graph": value.graph, "update": value.update, "resume": resume, "goto": goto}
    note = [*(["resume"] if value.resume is None else []), *(["goto"] if goto == [] and value.goto != () else [])]
    return (NAMED, payload, note) if note else (NAMED, payload)


def _decode_command(code: int, payload: Any, note: Any) -> Command[Any]:
    if code != NAMED or type(payload) is not dict:
        raise Refused("the stored call has not the form this type is stored in")
    given = note if type(note) is list else []
    fields = dict(payload)
    if fields.get("resume") is None and "resume" not in given:
        fields["resume"] = MISSING
    if fields.get("goto") == [] and "goto" not in given:
        fields["goto"] = ()
    return Command(**fields)


def _decode_interrupt(**fields: Any) -> Interrupt[Any]:
    """Older rows have other fields beside these: how and when to resume, which is no longer asked."""
    known = ("value", "id", "response_schema", "ns")
    found = {name: fields[name] for name in known if name in fields}
    return Interrupt(**found)


def _fields_of(*names: str) -> Encode:
    return lambda value: (NAMED, {name: getattr(value, name) for name in names})


def _peer(kind: Any, names: tuple[str, ...], build: Callable[..., Any] | None = None) -> tuple[type, Row]:
    return kind, Row("langgraph.types", kind.__name__, _fields_of(*names), named(build or kind))


# -- the tables ---------------------------------------------------------------------------------------------


def _row(kind: Any, encode: Encode, decode: Decode, name: str | None = None) -> tuple[type, Row]:
    return kind, Row(kind.__module__, name or kind.__name__, encode, decode)


def _listed(kind: Any) -> tuple[type, Row]:
    return _row(kind, lambda value: (ONE, list(value)), one(kind, list))


def _text(kind: Any) -> tuple[type, Row]:
    return _row(kind, lambda value: (ONE, str(value)), one(kind, str))


def _path(kind: Any) -> tuple[type, Row]:
    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        if code != MANY or type(payload) is not list:
            raise Refused("the stored call has not the form this type is stored in")
        return kind(*payload)

    return _row(kind, lambda value: (MANY, list(value.parts)), decode)


_number = (int, float)

BY_TYPE: Final[dict[type, Row]] = dict(
    [
        _row(int, _encode_int, by_code(one=one(int, str), many=many(_int_of_base, str, int))),
        _row(
            str,
            lambda value: (MANY, [value.encode("utf-8", "surrogatepass"), "utf-8", "surrogatepass"]),
            many(_decode_surrogates, bytes, str, str),
        ),
        _row(dict, lambda value: (ONE, [[key, each] for key, each in value.items()]), one(_decode_pairs, list)),
        _row(bytearray, lambda value: (ONE, bytes(value)), one(bytearray, bytes)),
        _row(memoryview, _encode_memoryview, one(memoryview, bytes)),
        _row(complex, lambda value: (MANY, [value.real, value.imag]), many(complex, _number, _number)),
        _row(range, lambda value: (MANY, [value.start, value.stop, value.step]), many(range, int, int, int)),
        _row(slice, lambda value: (MANY, [value.start, value.stop, value.step]), many(slice, object, object, object)),
        _row(type, _encode_type, _decode_type),
        *map(_listed, (tuple, set, frozenset)),
        _row(
            collections.deque,
            _encode_deque,
            by_code(one=one(collections.deque, list), many=many(collections.deque, list, int)),
        ),
        _row(collections.OrderedDict, lambda value: (ONE, dict(value)), one(collections.OrderedDict, dict)),
        _row(collections.Counter, lambda value: (ONE, dict(value)), one(collections.Counter, dict)),
        _row(collections.defaultdict, _encode_defaultdict, many(_decode_defaultdict, object, dict)),
        _row(types.SimpleNamespace, lambda value: (NAMED, dict(vars(value))), named(types.SimpleNamespace)),
        _row(uuid.UUID, lambda value: (ONE, value.hex), one(uuid.UUID, str)),
        _text(Decimal),
        _row(Fraction, lambda value: (MANY, [value.numerator, value.denominator]), many(Fraction, int, int)),
        *map(_text, (ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network)),
        *map(_text, (ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network)),
        *map(_path, (pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath)),
        (
            re.Pattern,
            Row("re", "compile", lambda v: (MANY, [v.pattern, v.flags]), many(re.compile, (str, bytes), int)),
        ),
        _row(dt.datetime, _encode_datetime, by_code(method=_decode_iso, named=named(dt.datetime))),
        _row(dt.date, lambda value: (MANY, [value.year, value.month, value.day]), many(dt.date, int, int, int)),
        _row(dt.time, _encode_time, named(dt.time)),
        _row(
            dt.timedelta,
            lambda value: (MANY, [value.days, value.seconds, value.microseconds]),
            many(dt.timedelta, int, int, int),
        ),
        _row(dt.timezone, lambda value: (MANY, _zone_arguments(value)), many(dt.timezone, dt.timedelta, str)),
        _row(zoneinfo.ZoneInfo, _encode_zone, one(zoneinfo.ZoneInfo, str)),
        (
            Send,
            Row("langgraph.types", "Send", _encode_send, many(_decode_send, str, object, (TimeoutPolicy, type(None)))),
        ),
        (Command, Row("langgraph.types", "Command", _encode_command, _decode_command)),
        _peer(Interrupt, ("value", "id", "response_schema"), _decode_interrupt),
        _peer(Overwrite, ("value", "type")),
        _peer(TimeoutPolicy, ("run_timeout", "idle_timeout", "refresh_on")),
        _peer(PregelTask, PregelTask._fields),
        _peer(StateSnapshot, StateSnapshot._fields),
        _peer(StateUpdate, StateUpdate._fields),
        _peer(GraphOutput, ("value", "interrupts")),
    ]
)
"""Rows by exact type. A type that appears only under special conditions (int, str, dict) is written natively else."""

_PATHS: Final = {row.name: row for kind, row in BY_TYPE.items() if issubclass(kind, pathlib.PurePath)}

BY_NAME: Final[dict[tuple[str, str], Row]] = {
    **{(row.module, row.name): row for row in BY_TYPE.values()},
    **{
        (module, name): row
        for module in ("pathlib", "pathlib._local")  # which of them depends on the version of Python
        for name, row in [*_PATHS.items(), ("Path", BY_TYPE[type(pathlib.Path())])]
    },
    ("builtins", "list"): Row("builtins", "list", lambda value: (ONE, list(value)), one(list, list)),
}
"""Rows by the module and name that stored bytes have for the type."""

BUILTIN_ERRORS: Final[Mapping[tuple[str, str], type[BaseException]]] = {
    ("builtins", kind.__name__): kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}

_RESULTS: Final = ("Result", "ResultBytes")

KNOWN_MODELS: Final = frozenset(
    {
        *(
            (f"langchain_core.messages.{module}", f"{name}{suffix}")
            for module, name in (
                ("base", "BaseMessage"),
                ("human", "HumanMessage"),
                ("ai", "AIMessage"),
                ("system", "SystemMessage"),
                ("chat", "ChatMessage"),
                ("tool", "ToolMessage"),
                ("function", "FunctionMessage"),
            )
            for suffix in ("", "Chunk")
        ),
        ("langchain_core.messages.modifier", "RemoveMessage"),
        ("langchain_core.documents.base", "Document"),
        ("pydantic.types", "SecretStr"),
        ("pydantic.types", "SecretBytes"),
        ("http", "HTTPMethod"),
        ("http", "HTTPStatus"),
        *(("urllib.parse", f"{name}{suffix}") for name in ("Defrag", "Parse", "Split") for suffix in _RESULTS),
    }
)
"""Classes of seldom used modules that need no registration; imported when an object of one is read."""


def add_row(kind: type, row: Row) -> None:
    """Make `kind` storable for every serializer. For types of this library that live on higher floors.

    Users give ``JsonPlusSerializer(codecs=[...])`` instead.
    """
    BY_TYPE[kind] = row
    BY_NAME[row.module, row.name] = row
