"""The serializer: any value to a tag and bytes that LangGraph reads too, and back.

What comes back has the same types and equal values; what cannot, is refused when it is written.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

from langgraph_async.constants import MISSING, Missing
from langgraph_async.errors import ConfigError, SerializationError
from langgraph_async.serde.allowlist import Allowed, Allowlist
from langgraph_async.serde.arrays import array_row, array_row_by_name
from langgraph_async.serde.ext import (
    BUILTIN_ERRORS,
    BY_NAME,
    BY_TYPE,
    DELTA,
    KNOWN_MODELS,
    MANY,
    ONE,
    Refused,
    Row,
    add_row,
)
from langgraph_async.serde.kinds import exception_row, kind_row
from langgraph_async.serde.legacy import loads_json
from langgraph_async.serde.plain import PLAIN, pack_plain, shared_packer
from langgraph_async.serde.standard import STANDARD
from langgraph_async.serde.wire import Decoder, Encoder
from langgraph_async.types import DeltaSnapshot

for _kind, _row in STANDARD:
    add_row(_kind, _row)

_DELTA_ROW: Final = Row("langgraph.types", "DeltaSnapshot", lambda value: (DELTA, value.value), lambda *_: None)
_SINGLE_BYTES: Final = {b"\xc0": None, b"\xc2": False, b"\xc3": True, **{bytes((n,)): n for n in range(0x80)}}
"""What most small values are stored as, and what they are."""
_KEPT_ENCODERS: Final = 8
_KEPT_BYTES: Final = 1 << 20
_HOW: Final = (
    "Types in the state schema are registered by compile(); list others: "
    "serde=JsonPlusSerializer(allowed_msgpack_modules=[{name}])."
)


class UnknownTagError(SerializationError, NotImplementedError):
    """Stored bytes have a tag that this serializer does not read."""


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of a class that the serializer does not know are stored.

    The class is stored under its module and name, as a constructor call, so LangGraph can read it too if
    ``type(*to_args(value))`` is the value.

    Attributes:
        type: The class; its subclasses are not meant.
        to_args: From a value to a tuple of arguments, all of which can be stored.
        from_args: From these arguments to an equal value; by default the class itself.

    Example:
        >>> from string import Template
        >>> templates = Codec(Template, lambda template: (template.template,))
        >>> serde = JsonPlusSerializer(codecs=[templates])
        >>> serde.loads_typed(serde.dumps_typed(Template("hello $name"))).template
        'hello $name'
    """

    type: type[Any]
    to_args: Callable[[Any], tuple[Any, ...]]
    from_args: Callable[..., Any] | None = None

    def row(self) -> Row:
        """Return the row for the serializer's table."""

        def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
            if code != MANY or type(payload) is not list:
                raise Refused("the stored call has not the form its codec stores")
            return (self.from_args or self.type)(*payload)

        return Row(self.type.__module__, self.type.__qualname__, lambda v: (MANY, list(self.to_args(v))), decode)


class JsonPlusSerializer:
    """Stores values as MessagePack, in the format of LangGraph.

    Reading makes only types of a fixed table (builtin and standard data types, the words of this library, numpy,
    langchain-core messages) and types that are listed; it never imports or calls anything else that bytes name.

    Args:
        pickle_fallback: Store with pickle what cannot be stored otherwise, and read such rows. Whoever can write
            to the database can then run code here.
        allowed_json_modules: Classes that rows with the old tag ``json`` may make, beside those of
            `allowed_msgpack_modules`.
        allowed_msgpack_modules: Classes, or pairs of module and name, that may be stored and read. The classes in
            their fields are allowed with them.
        codecs: How other classes are stored.
        max_depth: Most objects within objects. Lists and dicts have a limit of their own, about 500 within one object.
        max_bytes: Most bytes that are read as one value.

    Raises:
        ConfigError: Everything was to be allowed: that would let stored bytes call any function.
    """

    def __init__(
        self,
        *,
        pickle_fallback: bool = False,
        allowed_json_modules: Iterable[Allowed] | None = None,
        allowed_msgpack_modules: Iterable[Allowed] | Missing | None = MISSING,
        codecs: Iterable[Codec] = (),
        max_depth: int = 150,
        max_bytes: int = 1 << 30,
    ) -> None:
        options: tuple[Any, ...] = (allowed_json_modules, allowed_msgpack_modules)
        for option in options:
            if option is True:  # LangGraph has this
                raise ConfigError(
                    "JsonPlusSerializer cannot allow every type: stored bytes could then call any function. "
                    "List the types that your threads hold."
                )
        listed = allowed_msgpack_modules
        self.pickle_fallback = pickle_fallback
        self._codecs = tuple(codecs)
        self._max_depth = max_depth
        self._max_bytes = max_bytes
        self._set_allowed(
            Allowlist(listed if listed is not None and not isinstance(listed, Missing) else ()),
            Allowlist(allowed_json_modules or ()),
        )

    def _set_allowed(self, allowed: Allowlist, allowed_json: Allowlist) -> None:
        self._allowed = allowed
        self._allowed_json = allowed_json
        own = {codec.type: codec.row() for codec in self._codecs}
        self._rows: dict[type, Row] = {DeltaSnapshot: _DELTA_ROW, **own}
        self._named: dict[tuple[str, str], Row] = {(row.module, row.name): row for row in own.values()}
        self._idle: list[Encoder] = []

    def with_allowlist(self, types: Iterable[Allowed]) -> Self:
        """Return this serializer with more types that it stores and reads; itself when that changes nothing."""
        bigger = self._allowed.extended(types)
        if bigger is self._allowed:
            return self
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._set_allowed(bigger, self._allowed_json)
        return other

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the tag and the bytes of `obj`.

        Raises:
            SerializationError: Some of it would not come back as it is; `path` says where that is.
        """
        if obj is None:
            return "null", b""
        if type(obj) is bytes:
            return "bytes", obj
        if type(obj) is bytearray:
            return "bytearray", bytes(obj)
        try:
            return "msgpack", self._pack(obj)
        except Refused as fault:
            if self.pickle_fallback:
                return "pickle", pickle.dumps(obj)
            raise _write_error(fault, obj) from fault.__cause__

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value that was stored.

        Raises:
            SerializationError: The bytes are malformed, or name a type that is not allowed.
            UnknownTagError: The tag is not one that is read; a `SerializationError` too.
        """
        tag, stored = data
        if len(stored) == 1 and tag == "msgpack" and stored in _SINGLE_BYTES:
            return _SINGLE_BYTES[stored]
        if tag in ("null", "empty"):
            return None
        if len(stored) > self._max_bytes:
            raise SerializationError(
                f"Cannot read a stored value of {len(stored)} bytes: the limit is {self._max_bytes} (max_bytes)."
            )
        return self._load(tag, stored)

    def _load(self, tag: str, stored: bytes) -> Any:
        try:
            match tag:
                case "msgpack":
                    return Decoder(self._row_by_name, self._max_depth).decode(stored)
                case "bytes":
                    return bytes(stored)
                case "bytearray":
                    return bytearray(stored)
                case "json":
                    return loads_json(stored, self._json_row_by_name)
                case "pickle" if self.pickle_fallback:
                    return pickle.loads(stored)
        except Refused as fault:
            raise SerializationError(f"Cannot read a stored value: {fault.reason}") from fault.__cause__
        hint = " Only JsonPlusSerializer(pickle_fallback=True) reads pickle." if tag == "pickle" else ""
        if "+" in tag:
            hint = " It is encrypted: EncryptedSerializer.from_keys(...) reads it."
        raise UnknownTagError(f"Unknown serialization type: {tag}.{hint}")

    # -- rows -----------------------------------------------------------------------------------------------

    def _pack(self, obj: Any) -> bytes:
        shared = shared_packer()
        if shared is not None and type(obj) in PLAIN and (plain := pack_plain(shared, obj)) is not None:
            return plain
        encoder = self._idle.pop() if self._idle else Encoder(self._row_of, self._max_depth)
        packed = encoder.encode(obj)
        if len(packed) < _KEPT_BYTES and len(self._idle) < _KEPT_ENCODERS:
            self._idle.append(encoder)
        return packed

    def _row_of(self, value: Any) -> Row:
        cls = type(value)
        row = self._rows.get(cls)
        if row is None:
            row = BY_TYPE.get(cls) or BY_TYPE.get(type if issubclass(cls, type) else cls) or self._new_row(cls)
            self._rows[cls] = row
        return row

    def _new_row(self, cls: type) -> Row:
        if (cls.__module__, cls.__qualname__) in BUILTIN_ERRORS:
            return exception_row(cls)
        row = array_row(cls) if cls.__module__ == "numpy" else None
        if row is None and (self._allowed.permits(cls) or (cls.__module__, cls.__qualname__) in KNOWN_MODELS):
            row = kind_row(cls)
        if row is not None:
            return row
        name = f"{cls.__module__}.{cls.__qualname__}"
        if kind_row(cls) is None or self._allowed.permits(cls):
            raise Refused(f"values of type {name} cannot be stored. Give a codec: JsonPlusSerializer(codecs=[...])")
        raise Refused(f"type {name} is not registered. {_HOW.format(name=cls.__name__)}")

    def _row_by_name(self, module: str, name: str) -> Row:
        row = self._named.get((module, name))
        if row is not None:
            return row
        return self._known(module, name) or self._listed(module, name, self._allowed) or _not_allowed(module, name)

    def _json_row_by_name(self, module: str, name: str) -> Row:
        row = self._known(module, name) or self._listed(module, name, self._allowed)
        return row or self._listed(module, name, self._allowed_json) or _not_allowed(module, name, "json")

    def _known(self, module: str, name: str) -> Row | None:
        key = (module, name)
        row = self._named.get(key) or BY_NAME.get(key)
        if row is None:
            row = _known_row(module, name)
            if row is not None:
                self._named[key] = row
        return row

    def _listed(self, module: str, name: str, allowed: Allowlist) -> Row | None:
        try:
            found = allowed.find(module, name)
        except (ImportError, AttributeError) as error:
            raise Refused(f"{module}.{name} is allowed, but is not there: {error}") from error
        if found is None:
            return None
        row = (kind_row(found) if isinstance(found, type) else None) or _callable_row(module, name, found)
        if allowed is self._allowed:
            self._named[module, name] = row
        return row


def _known_row(module: str, name: str) -> Row | None:
    """Return the row of a type that needs no registration and is not in the table, because it is seldom needed."""
    if (module, name) in BUILTIN_ERRORS:
        return exception_row(BUILTIN_ERRORS[module, name])
    if (module, name) in KNOWN_MODELS:
        try:
            return kind_row(getattr(importlib.import_module(module), name))
        except (ImportError, AttributeError) as error:
            raise Refused(f"reading a {module}.{name} needs {module.partition('.')[0]} ({error})") from error
    try:
        return array_row_by_name(module, name)
    except ImportError:
        raise Refused("reading numpy values needs numpy; pip install numpy") from None


def _callable_row(module: str, name: str, build: Callable[..., Any]) -> Row:
    """Return a row for something that a user listed and that is not of a known kind: it is just called."""

    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        if code == ONE:
            return build(payload)
        return build(*payload) if code == MANY else build(**payload)

    def encode(value: Any) -> Any:
        raise Refused(f"values of type {type(value).__name__} cannot be stored")

    return Row(module, name, encode, decode)


def _not_allowed(module: str, name: str, option: str = "msgpack") -> Row:
    raise Refused(
        f"it names {module}.{name}, which is not a known type. If your threads hold it: put it into the state schema, "
        f'or use serde=JsonPlusSerializer(allowed_{option}_modules=[("{module}", "{name}")]).'
    )


def _write_error(fault: Refused, obj: Any) -> SerializationError:
    where = f" at {' -> '.join(fault.path)}" if fault.path else ""
    culprit = obj if fault.culprit is None else fault.culprit
    return SerializationError(
        f"Cannot store a value of type {type(culprit).__name__}{where}: {fault.reason}", path=fault.path
    )


__all__ = ["Codec", "JsonPlusSerializer", "UnknownTagError"]
