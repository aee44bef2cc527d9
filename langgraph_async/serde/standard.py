"""Rows for further types of the standard library, as constructor calls that LangGraph can make, too."""

from __future__ import annotations

import collections
import time
import types
from array import array
from collections.abc import Mapping
from typing import Any, Final

from langgraph_async.serde.ext import MANY, ONE, Call, Refused, Row, many, one


def _decode_chain(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
    if code != MANY or type(payload) is not list or not all(isinstance(each, Mapping) for each in payload):
        raise Refused("the stored call has not the form this type is stored in")
    return collections.ChainMap(*payload)


def _decode_proxy(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
    if code != ONE or not isinstance(payload, Mapping):
        raise Refused("the stored call has not the form this type is stored in")
    return types.MappingProxyType(payload)


def _encode_proxy(value: Any) -> Call:
    return ONE, value.copy()  # of the mapping's own type, which a proxy does not show


def _encode_time(value: time.struct_time) -> Call:
    return MANY, [list(value), {"tm_zone": value.tm_zone, "tm_gmtoff": value.tm_gmtoff}]


def _decode_time(fields: list[Any], zone: dict[str, Any]) -> time.struct_time:
    return time.struct_time(fields, zone)


def _encode_data(value: Any) -> Call:
    if len(vars(value)) > 1:
        raise Refused("it has attributes beside its data, which would be lost")
    return ONE, value.data


def _row(kind: Any, encode: Any, decode: Any) -> tuple[type, Row]:
    return kind, Row(kind.__module__, kind.__name__, encode, decode)


STANDARD: Final[tuple[tuple[type, Row], ...]] = (
    _row(array, lambda value: (MANY, [value.typecode, value.tolist()]), many(array, str, list)),
    _row(collections.ChainMap, lambda value: (MANY, list(value.maps)), _decode_chain),
    _row(collections.UserDict, _encode_data, one(collections.UserDict, dict)),
    _row(collections.UserList, _encode_data, one(collections.UserList, list)),
    _row(collections.UserString, _encode_data, one(collections.UserString, str)),
    _row(time.struct_time, _encode_time, many(_decode_time, list, dict)),
    (types.MappingProxyType, Row("types", "MappingProxyType", _encode_proxy, _decode_proxy)),
    (types.EllipsisType, Row("types", "EllipsisType", lambda _: (MANY, []), many(types.EllipsisType))),
)
"""Rows by exact type."""

__all__ = ["STANDARD"]
