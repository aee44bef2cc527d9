"""numpy: arrays as extension 6, and as constructor calls what that would lose.

Extension 6 holds the type as a string, the shape, the order and the bytes. It cannot hold dates, records or objects;
those are written as calls of ``numpy.ndarray`` and ``numpy.fromiter``. numpy is imported only once a value or stored
bytes ask for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from langgraph_async.serde.ext import ARRAY, MANY, NAMED, ONE, Call, Decode, Refused, Row, add_row, many
from langgraph_async.serde.identity import identical

_SIMPLE: Final = re.compile(r"[<>|=]?[biufcSUV][0-9]+")
_DATES: Final = re.compile(r"[<>|=]?[mM]8(\[[0-9A-Za-zμ]+\])?")
_SCALARS: Final = (bool, int, float, complex, str, bytes)
_UNSTORED: Final = frozenset({"void", "object_", "longdouble", "clongdouble", "float128", "complex256"})


def array_row(kind: type) -> Row | None:
    """Return the row for a type of numpy's, or None when values of it cannot be stored."""
    import numpy as np

    if kind is np.ndarray:
        return Row("numpy", "ndarray", encode_array, _decode_call)
    if not issubclass(kind, np.generic) or kind.__name__ in _UNSTORED:
        return None
    if issubclass(kind, (np.datetime64, np.timedelta64)):
        return Row("numpy", kind.__name__, _encode_date, _scalar_reader(kind.__name__))
    # "bool" is Python's own type in numpy 1
    name = "bool_" if kind is np.bool_ else kind.__name__
    return Row("numpy", name, _encode_scalar, _scalar_reader(name)) if getattr(np, name, None) is kind else None


def array_row_by_name(module: str, name: str) -> Row | None:
    """Return the row for a name in stored bytes, or None when it is not one that this module writes."""
    if module != "numpy":
        return None
    if name in _CALLS:
        return _CALLS[name]
    import numpy as np

    kind = getattr(np, name, None)
    return array_row(kind) if isinstance(kind, type) and issubclass(kind, np.generic) else None


# -- scalars ------------------------------------------------------------------------------------------------


def _encode_scalar(value: Any) -> Call:
    plain = value.item()
    if not identical(type(value)(plain), value):
        raise Refused("this value cannot be stored without losing something")
    return ONE, plain


def _encode_date(value: Any) -> Call:
    import numpy as np

    unit, count = np.datetime_data(value.dtype)
    number = int(value.astype("i8"))
    if unit == "generic":
        return (ONE, "NaT") if np.isnat(value) else (ONE, number)
    return MANY, [number, unit if count == 1 else f"{count}{unit}"]


def _scalar_reader(name: str) -> Decode:
    def decode(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
        import numpy as np

        arguments = [payload] if code == ONE else payload if code == MANY else None
        if type(arguments) is not list or not all(type(each) in _SCALARS for each in arguments):
            raise Refused("the stored call has not the form this type is stored in")
        return getattr(np, name)(*arguments)

    return decode


# -- arrays -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Items:
    """The items of an object array, in one dimension."""

    items: list[Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Reshaped:
    """An object array: its items, and how they are laid out."""

    items: _Items
    shape: list[int]
    order: str


def encode_array(value: Any) -> Call | _Reshaped:
    """Return the call for an array: extension 6 where the type's string says all of the type."""
    dtype = value.dtype
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    shape = list(value.shape)
    if dtype.hasobject:
        if dtype.names is not None or dtype.kind != "O":
            raise Refused("records with objects in them cannot be stored")
        return _Reshaped(_Items(value.ravel(order).tolist()), shape, order)
    if dtype.itemsize and _SIMPLE.fullmatch(dtype.str) and dtype.names is None and dtype.subdtype is None:
        return ARRAY, [dtype.str, shape, order, value.tobytes(order)]
    payload = {"shape": shape, "dtype": _describe(dtype), "buffer": value.tobytes(order), "order": order}
    return NAMED, payload


def _describe(dtype: Any) -> Any:
    import numpy as np

    if dtype.names is None and dtype.subdtype is None:
        described: Any = dtype.str
    elif dtype.subdtype is not None:
        described = (_describe(dtype.subdtype[0]), dtype.subdtype[1])
    else:
        fields: Mapping[str, Any] = dtype.fields
        names = list(dtype.names or ())
        described = {
            "names": names,
            "formats": [_describe(fields[name][0]) for name in names],
            "offsets": [fields[name][1] for name in names],
            "itemsize": dtype.itemsize,
        }
    if np.dtype(described) != dtype:
        raise Refused(f"arrays of {dtype!r} cannot be stored")
    return described


def _fromiter(items: list[Any], dtype: str) -> Any:
    import numpy as np

    if dtype != "O":
        raise Refused("only object arrays are stored item by item")
    array = np.empty(len(items), dtype="O")
    for position, item in enumerate(items):
        array[position] = item
    return array


def _reshape(array: Any, shape: list[Any], order: Any) -> Any:
    import numpy as np

    if type(array) is not np.ndarray:
        raise Refused("only arrays are reshaped")
    return array.reshape(_checked_shape(shape, array.size), order=order)


def _checked_shape(shape: list[Any], size: int) -> list[int]:
    if not all(type(extent) is int and extent >= 0 for extent in shape) or math.prod(shape) != size:
        raise Refused("the stored shape does not fit the stored items")
    return shape


def decode_array(payload: Any) -> Any:
    """Return the array of an extension 6. It can be written to, and owns its memory.

    Raises:
        Refused: The payload is not that of an array.
    """
    import numpy as np

    if type(payload) is not list or len(payload) != 4 or type(payload[3]) is not bytes:
        raise Refused("the stored array has not the form arrays are stored in")
    dtype, shape, order, data = payload
    if type(dtype) is not str or not (_SIMPLE.fullmatch(dtype) or _DATES.fullmatch(dtype)) or order not in ("C", "F"):
        raise Refused("the stored array has a type or an order that arrays are not stored with")
    return _from_buffer(np.dtype(dtype), shape, order, data)


def _from_buffer(dtype: Any, shape: Any, order: str, data: bytes) -> Any:
    import numpy as np

    if dtype.hasobject or type(shape) is not list or order not in ("C", "F"):
        raise Refused("the stored array has not the form arrays are stored in")
    if dtype.itemsize:
        _checked_shape(shape, len(data) // dtype.itemsize)
    elif data or math.prod(_checked_shape(shape, math.prod(shape))) > _MOST_EMPTY_ITEMS:
        raise Refused("the stored shape does not fit the stored items")
    return np.ndarray(shape, dtype, bytearray(data), order="F" if order == "F" else "C")


_MOST_EMPTY_ITEMS: Final = 1_000_000


def _decode_call(code: int, payload: Any, note: Any) -> Any:  # noqa: ARG001
    import numpy as np

    if code != NAMED or type(payload) is not dict or set(payload) != {"shape", "dtype", "buffer", "order"}:
        raise Refused("the stored call has not the form this type is stored in")
    if type(payload["buffer"]) is not bytes:
        raise Refused("the stored array has no bytes")
    return _from_buffer(np.dtype(payload["dtype"]), payload["shape"], payload["order"], payload["buffer"])


_FROM_ITEMS: Final = Row("numpy", "fromiter", lambda value: (MANY, [value.items, "O"]), many(_fromiter, list, str))
_RESHAPE: Final = Row(
    "numpy",
    "reshape",
    lambda value: (MANY, [value.items, value.shape, value.order]),
    many(_reshape, object, list, str),
)
_CALLS: Final = {
    "ndarray": Row("numpy", "ndarray", encode_array, _decode_call),
    "fromiter": _FROM_ITEMS,
    "reshape": _RESHAPE,
}
add_row(_Items, _FROM_ITEMS)
add_row(_Reshaped, _RESHAPE)
