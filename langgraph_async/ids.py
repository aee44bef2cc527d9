"""Ids that are computed: time-ordered checkpoint ids and content-hash task ids.

Source: RFC 9562 (UUID version 6); the layout of the parts that are hashed is LangGraph's, so that both libraries
compute the same id for the same task.
"""

from __future__ import annotations

import os
import random
import time
from binascii import unhexlify
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha1
from threading import Lock
from typing import Any

from xxhash import xxh3_128_hexdigest

_GREGORIAN_OFFSET_100NS = 0x01B21DD213814000
_last_100ns = 0
_second = (0, "")
"""The last second that was written as text, and that text: writing it out costs more than all the rest of a time."""
_lock = Lock()
_random = random.Random()
"""A source of our own: what users do to that of `random`, such as seeding it, must not make ids meet."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def checkpoint_id(step: int, after: str | None = None) -> str:
    """Return a new UUIDv6 as text, greater (as text) than every one made before by this process.

    Args:
        step: Number of the superstep; its lowest 14 bits become the clock sequence, so that ids show the step.
        after: An id that it must be greater than, too: the clock of the process that made it may be ahead of ours.
    """
    global _last_100ns
    with _lock:
        stamp = time.time_ns() // 100 + _GREGORIAN_OFFSET_100NS
        if stamp <= _last_100ns:
            stamp = _last_100ns + 1
        _last_100ns = stamp
    made = _version_6(stamp, step)
    if after is not None and made <= after and (bound := stamp_of(after)) is not None:
        return _version_6(bound + 1, step)  # for this thread alone
    return made


def _version_6(stamp: int, step: int) -> str:
    # A single number, written out once: five small ones take twice as long.
    digits = f"{stamp << 64 | (0x8000 | step & 0x3FFF) << 48 | _random.getrandbits(48):031x}"
    return f"{digits[:8]}-{digits[8:12]}-6{digits[12:15]}-{digits[15:19]}-{digits[19:]}"


def random_digits() -> str:
    """Return 16 digits that no other process draws, too."""
    return str(_random.getrandbits(53)).zfill(16)


def time_text() -> str:
    """Return the present time in UTC, in the form of ISO 8601, to the microsecond."""
    global _second
    second, micros = divmod(time.time_ns() // 1000, 1_000_000)
    known, text = _second
    if known != second:
        text = datetime.fromtimestamp(second, UTC).isoformat()[:19]
        _second = (second, text)
    return f"{text}.{micros:06}+00:00"


def stamp_of(checkpoint: str) -> int | None:
    """Return the units of 100 ns since 1582 in a checkpoint id; None if that is no UUID of version 6.

    Source: RFC 9562, section 5.6.
    """
    if len(checkpoint) != 36 or checkpoint[14] != "6":
        return None
    try:
        return int(checkpoint[:8] + checkpoint[9:13] + checkpoint[15:18], 16)
    except ValueError:
        return None


def task_id(checkpoint: str, *parts: str, version: int = 4) -> str:
    """Return the id of a task: a hash of its checkpoint and of what makes it that task.

    The same checkpoint and the same parts always give the same id, which is what lets stored writes be matched
    with the task after a restart.

    Args:
        checkpoint: Id of the checkpoint that the task starts from.
        parts: What makes it that task, see ``pregel/step/plan.py``; hashed without separators.
        version: Format version of the checkpoint; version 1 used SHA-1.
    """
    data = unhexlify(checkpoint.replace("-", "")) + "".join(parts).encode()
    digest = xxh3_128_hexdigest(data) if version > 1 else sha1(data, usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def interrupt_id(namespace: str, slot: int = 0) -> str:
    """Return the id of the `slot`-th question that the task in `namespace` asks (32 hex digits)."""
    return xxh3_128_hexdigest((f"{namespace}|{slot}" if slot else namespace).encode())


def is_interrupt_id(text: Any) -> bool:
    """Tell whether `text` has the form of an interrupt id: 32 lower-case hex digits."""
    return isinstance(text, str) and len(text) == 32 and all(c in "0123456789abcdef" for c in text)


def path_text(path: str | int | Sequence[Any]) -> str:
    """Return a task path as text whose order is the order in which writes are applied."""
    if isinstance(path, str):
        return path
    if isinstance(path, int):
        return f"{path:010d}"
    return "~" + ", ".join(path_text(part) for part in path)
