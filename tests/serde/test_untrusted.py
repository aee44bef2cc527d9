"""Bytes from anywhere: refused with a clear error, never a call, a crash or a blow-up."""

from __future__ import annotations

import contextlib
import sys
import tracemalloc
from typing import Any

import msgpack
import numpy as np
import pytest
import serde_types as user
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_async.errors import ConfigError, SerializationError
from langgraph_async.serde.jsonplus import JsonPlusSerializer

SERDE = JsonPlusSerializer()


def call(code: int, *frame: Any) -> msgpack.ExtType:
    return msgpack.ExtType(code, msgpack.packb(list(frame)))


def read(value: Any, serde: JsonPlusSerializer = SERDE) -> Any:
    return serde.loads_typed(("msgpack", msgpack.packb(value)))


@pytest.mark.parametrize(
    "hostile",
    [
        call(0, "builtins", "len", [1, 2]),
        call(0, "builtins", "eval", "1"),
        call(0, "os", "system", "true"),
        call(1, "subprocess", "run", [["true"]]),
        call(2, "builtins", "open", {"file": "/etc/hostname"}),
        call(3, "datetime", "datetime", 0, "fromtimestamp"),
        call(3, "datetime", "date", "2024-01-01", "fromisoformat"),
        call(0, "builtins", "bytearray", 10**9),
        call(0, "builtins", "bytes", 10**9),
        call(0, "builtins", "tuple", "abc"),
        call(0, "builtins", "type", call(1, "builtins", "ValueError", [])),
        call(1, "builtins", "type", ["X", [], {}]),
        call(1, "builtins", "str", [b"x", "rot13", "strict"]),
        call(1, "builtins", "int", ["9" * 10, 36]),
        call(0, "builtins", "int", "9" * 100_000),
        call(1, "builtins", "complex", ["1"]),
        call(1, "collections", "defaultdict", [call(0, "builtins", "len", []), {}]),
        call(1, "fractions", "Fraction", ["1e99999999"]),
        call(1, "re", "compile", [5, 0]),
        call(2, "builtins", "ValueError", {}),
        call(1, "numpy", "zeros", [10**12]),
        call(2, "numpy", "ndarray", {"shape": [10**12], "dtype": "f8", "buffer": b"", "order": "C"}),
        call(2, "numpy", "ndarray", {"shape": [1], "dtype": "O", "buffer": b"12345678", "order": "C"}),
        call(2, "numpy", "ndarray", {"shape": [10**9], "dtype": "V0", "buffer": b"", "order": "C"}),
        call(1, "numpy", "fromiter", [[1], "i8"]),
        call(1, "numpy", "load", ["/etc/hostname"]),
        call(6, "O", [1], "C", b"12345678"),
        call(6, "<i4", [-1], "C", b"1234"),
        call(6, "<i4", [5], "C", b"1234"),
        call(6, "<i4", [1], "K", b"1234"),
        call(6, "not a type", [1], "C", b"1234"),
        call(0, "langgraph.types", "interrupt", 1),
        call(2, "langgraph.types", "Command", {"no_such": 1}),
        call(5, "pydantic.types", "SecretStr", {"a": 1}),
        call(0, "zoneinfo", "ZoneInfo", "../../etc/passwd"),
        call(0, "serde_types", "Color", "r"),
        call(0, "builtins"),
        call(0, 1, 2, 3),
        msgpack.ExtType(0, b""),
        msgpack.ExtType(0, b"\x01"),
        msgpack.ExtType(99, b"\x93\x01\x02\x03"),
        {call(0, "builtins", "tuple", [[]]): 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_call_that_was_never_written_is_refused(hostile: Any) -> None:
    with pytest.raises(SerializationError):
        read([hostile])


def test_the_error_names_the_type_and_how_to_allow_it() -> None:
    with pytest.raises(SerializationError, match=r'serde_types\.Color.*allowed_msgpack_modules=\[\("serde_types", "Co'):
        read(call(0, "serde_types", "Color", "r"))


def test_reading_imports_nothing_by_a_stored_name() -> None:
    with pytest.raises(SerializationError):
        read(call(0, "this", "s", 1))

    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x92\x01", b"\xc1", b"\x01\x02", b"\xa2\xff\xfe", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x00", b"\x91" * 100_000,
        b"\x81" * 100_000, b"\x81\x90\x01" * 10, b"\x81\x80\x01", b"\x81\x91\x80\x01",
    ],
    ids=lambda data: data[:6].hex(),
)  # fmt: skip
def test_malformed_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        SERDE.loads_typed(("msgpack", data))


def test_arrays_that_claim_more_than_there_is_take_no_memory() -> None:
    hostile = b"\xdd\x00\x0f\xff\xff" * 1000 + bytes(1 << 20)
    tracemalloc.start()
    with pytest.raises(SerializationError):
        SERDE.loads_typed(("msgpack", hostile))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 50 << 20


def _nested(levels: int) -> bytes:
    data = b"\x90"
    for _ in range(levels):
        data = msgpack.packb(
            msgpack.ExtType(0, b"\x93" + msgpack.packb("builtins") + msgpack.packb("tuple") + b"\x91" + data)
        )
    return data


@pytest.mark.parametrize("levels", [200, 3000])
def test_calls_nested_too_deeply_are_refused(levels: int) -> None:
    with pytest.raises(SerializationError, match="nested"):
        SERDE.loads_typed(("msgpack", _nested(levels)))


def test_what_can_be_written_is_not_too_deep_to_be_read() -> None:
    value: Any = ()
    deepest = None
    with pytest.raises(SerializationError, match="nested"):
        while True:
            deepest = SERDE.dumps_typed(value)
            value = (value,)

    assert deepest is not None
    SERDE.loads_typed(deepest)


def test_lists_may_be_nested_hundreds_deep() -> None:
    value: list[Any] = []
    for _ in range(400):
        value = [value]

    assert SERDE.loads_typed(SERDE.dumps_typed(value)) == value


def test_max_depth_and_max_bytes_limit_what_is_read() -> None:
    with pytest.raises(SerializationError, match="nested"):
        JsonPlusSerializer(max_depth=2).loads_typed(("msgpack", _nested(4)))
    with pytest.raises(SerializationError, match="max_bytes"):
        JsonPlusSerializer(max_bytes=3).loads_typed(("bytes", b"1234"))


@pytest.mark.parametrize("tag", ["msgpack+aes", "pickle", "dict", ""])
def test_an_unknown_tag_is_refused(tag: str) -> None:
    with pytest.raises(SerializationError, match="Unknown serialization type"):
        SERDE.loads_typed((tag, b""))
    with pytest.raises(NotImplementedError):
        SERDE.loads_typed((tag, b""))


def test_everything_cannot_be_allowed() -> None:
    with pytest.raises(ConfigError, match="List the types"):
        JsonPlusSerializer(allowed_msgpack_modules=True)  # type: ignore[arg-type]


_REAL = [
    JsonPlusSerializer(allowed_msgpack_modules=user.USER_TYPES).dumps_typed(value)[1]
    for value in (
        [(1, 2), {1, 2}, 2**70], np.arange(3), np.array(["2024"], "M8[D]"), {(1, 2): {b"x": 1.5}}, user.Plain(1, ["x"]),
        np.array([None, 1], dtype=object), user.Model(), ValueError("x"), {frozenset(): "\ud800"},
    )
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.builds(
    lambda data, spots: bytes(spots.get(i, b) for i, b in enumerate(data)),
    st.sampled_from(_REAL), st.dictionaries(st.integers(0, 60), st.integers(0, 255), min_size=1, max_size=4),
)))  # fmt: skip
def test_damaged_bytes_give_a_value_or_the_error_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(SerializationError):
        JsonPlusSerializer(allowed_msgpack_modules=user.USER_TYPES).loads_typed(("msgpack", data))
