"""MessagePack with constructor calls: the bytes behind the tag ``msgpack``.

What is plain all the way down is packed in one go (`plain`). Anything else goes through the C packer, which calls
back only for what it does not know. Three things it would change silently: a bytearray or memoryview (it writes them
as bytes), a tuple or other unusual key of a dict (it would call back without saying that it is a key), and half a
surrogate pair (it gives up). None is looked for in advance: when the written bytes could hold one, the value is
looked through, and only if there really is one it is written again with care, value by value in Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NoReturn

import msgpack  # type: ignore[import-untyped]

from langgraph_async.serde.arrays import decode_array
from langgraph_async.serde.ext import ARRAY, DELTA, Packed, Refused, Row
from langgraph_async.serde.plain import hides, may_hide, new_packer, pack_plain, shared_packer
from langgraph_async.types import DeltaSnapshot

_LARGE_ARRAY: Final = (0xDC, 0xDD)
_LEAVES: Final = frozenset({float, bool, type(None), bytes})
_CONTAINERS: Final = frozenset({list, dict})
_BUFFER_BYTES: Final = 4096
_CALL: Final = b"\x93"
_NOTED_CALL: Final = b"\x94"


class _CareNeeded(Exception):
    """The value holds something that the C packer changes."""


class Encoder:
    """Writes one value at a time. Not to be shared between threads while it works.

    Args:
        find_row: From a value to the row of its type; raises `Refused` when there is none.
        max_depth: Most calls within calls.
    """

    def __init__(self, find_row: Callable[[Any], Row], max_depth: int) -> None:
        self._find_row = find_row
        self._max_depth = max_depth
        self._quick: list[Any] = []
        self._careful: list[Any] = []
        self._pack = new_packer()
        self._tries_plain = shared_packer() is None  # else the serializer has tried before it asks here
        self._depth = 0
        self._care = False
        self._called = False
        self._errors_whole = False

    def encode(self, value: Any) -> bytes:
        """Return the bytes of `value`.

        Raises:
            Refused: Some of it cannot be stored; `path` says where it is.
        """
        if self._tries_plain and (plain := pack_plain(self._pack, value)) is not None:
            return plain
        self._depth, self._care, self._errors_whole = 0, False, False
        try:
            return self._frame(value)
        except _CareNeeded:
            self._depth, self._care, self._errors_whole = 0, True, False
        except RecursionError:
            raise Refused("it is nested too deeply, or holds itself") from None
        try:
            return self._frame(value)
        except RecursionError:
            raise Refused("it is nested too deeply, or holds itself") from None

    def _frame(self, value: Any) -> bytes:
        depth = self._checked_depth()
        called, self._called = self._called, False
        self._depth = depth + 1
        try:
            if self._care:
                packed: bytes = self._packer(self._careful, depth).pack(self._plain(value))
                return packed
            packed = self._packer(self._quick, depth).pack(value)
            if (self._called or may_hide(packed)) and hides(value):
                raise _CareNeeded
            return packed
        except UnicodeEncodeError:
            raise _CareNeeded from None
        except Refused as fault:
            fault.path = (*_locate(value, fault.culprit), *fault.path)
            raise
        except (ValueError, OverflowError, TypeError) as error:
            raise Refused(f"MessagePack cannot hold it ({error}); is it nested too deeply, or in itself?") from error
        finally:
            self._depth, self._called = depth, called

    def _checked_depth(self) -> int:
        if self._depth > self._max_depth:
            raise Refused(f"more than {self._max_depth} objects are nested in one another, or it holds itself")
        return self._depth

    def _packer(self, packers: list[Any], depth: int) -> Any:
        while len(packers) <= depth:
            quick = packers is self._quick
            options: dict[str, Any] = {"strict_types": True, "default": self._call} if quick else {}
            packers.append(msgpack.Packer(use_bin_type=True, buf_size=_BUFFER_BYTES, **options))
        return packers[depth]

    def _call(self, value: Any) -> Any:
        """Write a value that is not native to MessagePack. The C packer calls this."""
        self._called = True
        if type(value) is int and not self._care:
            raise _CareNeeded
        try:
            if isinstance(value, BaseException):
                return self._exception(value)
            row = self._find_row(value)
            call = _encoded(row, value)
            return self._extension(row, call) if type(call) is tuple else self._call(call)
        except Refused as fault:
            fault.culprit = value
            if type(value) is dict and len(fault.path) > 1:  # written as pairs: say which key, not which pair
                fault.path = (_step(list(value)[int(fault.path[0])]), *fault.path[2:])
            raise

    def _extension(self, row: Row, call: Any) -> Any:
        code = call[0]
        if code in (ARRAY, DELTA):
            return _ext(code, self._frame(call[1]))
        payload = call[1]
        body = payload if type(payload) is Packed else pack_plain(self._pack, payload)
        if body is None:
            body = self._frame(payload)
        else:  # reading it takes a frame all the same
            self._checked_depth()
        if len(call) == 2:
            return _ext(code, b"".join((_CALL, row.head, body)))
        note = call[2]
        tail = _packed_note(note) if type(note) is str else self._frame(note)
        return _ext(code, b"".join((_NOTED_CALL, row.head, body, tail)))

    def _exception(self, value: BaseException) -> Any:
        """Write an exception as a call if all of it can be, else as LangGraph does: its `repr`.

        An exception is stored to say what went wrong; that must never fail itself.
        """
        outer, self._errors_whole = self._errors_whole, True
        try:
            row = self._find_row(value)
            return self._extension(row, _encoded(row, value))
        except Refused:
            if outer:
                raise
            return _safe_repr(value)
        finally:
            self._errors_whole = outer

    def _plain(self, value: Any) -> Any:
        """Return `value` made of types that the C packer cannot mistake."""
        kind = type(value)
        if kind in _LEAVES:
            return value
        if kind is str:
            return value if _is_text(value) else self._call(value)
        if kind is int:
            return value if -(2**63) <= value < 2**64 else self._call(value)
        if kind is list:
            return [self._plain(each) for each in value]
        if kind is dict and all(map(_is_native_key, value)):
            return {key: self._plain(each) for key, each in value.items()}
        written = self._call(value)
        return written if type(written) is msgpack.ExtType else self._plain(written)


def _ext(code: int, data: bytes) -> Any:
    return tuple.__new__(msgpack.ExtType, (code, data))  # without its checks: both are known to be right


@functools.cache
def _packed_note(note: str) -> bytes:
    packed: Any = msgpack.packb(note)
    assert isinstance(packed, bytes)
    return packed


def _encoded(row: Row, value: Any) -> Any:
    try:
        return row.encode(value)
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"taking it apart raised {type(error).__name__}: {error}") from error


def _safe_repr(value: BaseException) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (a repr of a user's)
        return f"{type(value).__name__}()"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_native_key(key: Any) -> bool:
    kind = type(key)
    if kind is tuple:
        return all(map(_is_native_key, key))
    if kind is int:
        return bool(-(2**63) <= key < 2**64)
    return kind in _LEAVES or (kind is str and _is_text(key))


def _locate(root: Any, culprit: Any) -> tuple[str, ...]:
    """Return the keys and indexes that lead from `root` to the object `culprit`; none when it is not found."""
    waiting: list[tuple[Any, tuple[str, ...]]] = [(root, ())]
    seen: set[int] = set()
    while waiting:
        value, path = waiting.pop()
        if value is culprit:
            return path
        if type(value) not in _CONTAINERS or id(value) in seen:
            continue
        seen.add(id(value))
        pairs = value.items() if type(value) is dict else enumerate(value)
        for key, child in pairs:
            if key is culprit:
                return (*path, _step(key))
            waiting.append((child, (*path, _step(key))))
    return ()


def _step(key: Any) -> str:
    return str(key).encode("utf-8", "backslashreplace").decode()


# -- reading ------------------------------------------------------------------------------------------------


class _TupleKeys(Exception):
    """A map has a key that is an array: it is read again, with a slower hook that makes tuples of these."""


_READING: Final = {"raw": False, "strict_map_key": False, "use_list": True, "timestamp": 3}
_FEW_BYTES: Final = 1024


def _no_reading(data: bytes) -> Any:
    raise AssertionError(f"nothing is being read, and {len(data)} bytes came")


class Decoder:
    """Reads one value.

    Args:
        find_row: From a module and a name to a row; raises `Refused` when it is not one to be called.
        max_depth: Most calls within calls.
    """

    __slots__ = ("_depth", "_find_row", "_max_depth", "_of_tuples", "_unpack")

    def __init__(self, find_row: Callable[[str, str], Row], max_depth: int) -> None:
        self._find_row = find_row
        self._max_depth = max_depth
        self._depth = 0
        self._of_tuples = False
        self._unpack: Callable[[bytes], Any] = _no_reading

    def decode(self, data: bytes) -> Any:
        """Return the value that was written.

        Raises:
            Refused: The bytes are malformed, too deep, or call what may not be called.
        """
        try:
            self._unpack = functools.partial(msgpack.unpackb, ext_hook=self._extension, **_READING)
            try:
                return self._frame(data)
            except _TupleKeys:
                self._depth, self._of_tuples = 0, True
                self._unpack = functools.partial(self._unpack, object_pairs_hook=_map_of)
                return self._frame(data)
        except (RecursionError, MemoryError) as error:
            raise Refused(f"the stored bytes are nested too deeply or too large ({type(error).__name__})") from None
        finally:
            self._unpack = _no_reading  # a cycle of references would wait for the garbage collector

    def _frame(self, data: bytes) -> Any:
        if self._depth > self._max_depth:
            raise Refused(f"more than {self._max_depth} calls are nested in one another")
        self._depth += 1
        try:
            # A claim is limited to the number of bytes that are there: few cannot claim much.
            if len(data) > _FEW_BYTES and (_LARGE_ARRAY[0] in data or _LARGE_ARRAY[1] in data):
                _check_sizes(data)
            return self._unpack(data)
        except TypeError:  # only a key can do this: hooks raise nothing else than Refused
            if self._of_tuples:
                raise Refused("the stored bytes have a map key that cannot be one") from None
            raise _TupleKeys from None
        except (ValueError, msgpack.UnpackException) as error:
            raise Refused(f"the stored bytes are malformed ({type(error).__name__}: {error})") from None
        finally:
            self._depth -= 1

    def _extension(self, code: int, data: bytes) -> Any:
        if code == DELTA:
            return DeltaSnapshot(self._frame(data))
        call = self._frame(data)
        if code == ARRAY:
            try:
                return decode_array(call)
            except Exception as error:  # noqa: BLE001 - raised again, with its place
                _refuse("numpy.ndarray", error)
        if type(call) is not list or len(call) not in (3, 4) or type(call[0]) is not str or type(call[1]) is not str:
            raise Refused(f"the stored bytes hold an extension {code} that is not a call")
        row = self._find_row(call[0], call[1])
        note = call[3] if len(call) == 4 else None
        try:
            return row.decode(code, call[2], note)
        except Exception as error:  # noqa: BLE001 - likewise
            _refuse(f"{call[0]}.{call[1]}", error)


def _refuse(name: str, error: Exception) -> NoReturn:
    """Raise what making an object raised, so that it names the object."""
    if isinstance(error, Refused):
        error.reason = f"cannot make a {name}: {error.reason}"
    if isinstance(error, (Refused, RecursionError, MemoryError)):
        raise error
    raise Refused(f"cannot make a {name}: {type(error).__name__}: {error}") from error


def _check_sizes(data: bytes) -> None:
    """Read over the bytes once, making nothing: an array that claims more items than follow would be given its room."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(data))
    unpacker.feed(data)
    unpacker.skip()


def _map_of(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {_key(key) if type(key) is list else key: value for key, value in pairs}


def _key(key: list[Any]) -> tuple[Any, ...]:
    return tuple(_key(each) if type(each) is list else each for each in key)
