"""Claims on threads: locks on a file beside the database, which the system takes back when their process ends.

A thread is one byte of the file ``<database>-claims``, at a place computed from its id, and a claim is a lock on that
byte. The file stays empty, and nothing of this is in the database. The locks are those that belong to a process (POSIX
record locks): a child that was forked does not keep them alive. They do not tell apart what runs within one process,
and all of them are gone when any descriptor of the file is closed, so that each process opens a file once and
notes who holds what.
"""

from __future__ import annotations

import errno
import os
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from xxhash import xxh3_64_intdigest

from langgraph_async.errors import StorageError

if sys.platform != "win32":
    import fcntl

OFFERED = sys.platform != "win32"
"""Whether there are such locks here."""

_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)


@dataclass(slots=True, eq=False)
class _Book:
    """The descriptor by which this process holds claims in one file, and on which of its bytes."""

    key: tuple[int, int]
    descriptor: int
    held: set[int] = field(default_factory=set)


_lock = Lock()
_books: dict[tuple[int, int], _Book] = {}
"""By device and inode: one file can have several names."""
_dropped: deque[tuple[_Book, int]] = deque()
"""Claims that went out of use while somebody had the lock: a collection of garbage can come at any time."""


class FileClaim:
    """A claim on a thread; it ends with `arelease`, or when it is dropped."""

    __slots__ = ("_book", "_byte")

    def __init__(self, book: _Book, byte: int) -> None:
        self._book: _Book | None = book
        self._byte = byte

    async def arelease(self) -> None:
        """Give the thread back; a second call does nothing."""
        book, self._book = self._book, None
        if book is not None:
            with _lock:
                _give_back(book, self._byte)
            _give_back_dropped()

    def __del__(self) -> None:
        if self._book is not None:
            _dropped.append((self._book, self._byte))
            _give_back_dropped()


class LocalClaim:
    """A claim on a thread of a database that nobody else can see; it ends with `arelease`, or when it is dropped."""

    __slots__ = ("_held", "_thread_id")

    def __init__(self, held: set[str], thread_id: str) -> None:
        held.add(thread_id)
        self._held = held
        self._thread_id = thread_id

    async def arelease(self) -> None:
        """Give the thread back; a second call does nothing."""
        self._release()

    def __del__(self) -> None:
        self._release()

    def _release(self) -> None:
        self._held.discard(self._thread_id)
        self._held = set()


class Claims:
    """The claims of one saver."""

    def __init__(self) -> None:
        self._local: set[str] = set()

    def claim(self, database: str, thread_id: str) -> FileClaim | LocalClaim | None:
        """Claim a thread, or return None when it is claimed already; never waits.

        Args:
            database: Path of the database; one that is in no file has none, or one that does not exist.
            thread_id: The thread.

        Raises:
            StorageError: The file for claims cannot be used.
        """
        if database and os.path.exists(database):
            return claim_file(database, thread_id)
        return None if thread_id in self._local else LocalClaim(self._local, thread_id)


def claim_file(database: str, thread_id: str) -> FileClaim | None:
    """Claim a thread of a database, or return None when it is claimed already; never waits.

    Args:
        database: Path of the database.
        thread_id: The thread.

    Raises:
        StorageError: The file cannot be used.
    """
    byte = xxh3_64_intdigest(thread_id.encode("utf-8", "surrogatepass")) >> 2
    try:
        with _lock:
            book = _claimed(database, byte)
    except OSError as exc:
        reason = "read_only" if exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else "failed"
        raise StorageError(
            f"The threads of the SQLite database cannot be claimed, since {_path(database)!r} cannot be used: {exc}. "
            "Let those write to it who write to the database, or open the saver with claims=False. Nothing was stored.",
            reason=reason,
        ) from exc
    _give_back_dropped()
    return None if book is None else FileClaim(book, byte)


def _claimed(database: str, byte: int) -> _Book | None:
    book = _opened(database)
    if byte in book.held:
        return None
    book.held.add(byte)
    taken = False
    try:
        taken = _take(book.descriptor, byte)
    finally:
        if not taken:
            _strike_out(book, byte)
    return book if taken else None


def _path(database: str) -> str:
    return f"{database}-claims"


def _opened(database: str) -> _Book:
    path = _path(database)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        descriptor = _made(path, os.stat(database))
    else:
        book = _books.get(_identity(found))
        if book is not None:
            return book
        descriptor = os.open(path, _FLAGS)
    key = _identity(os.fstat(descriptor))
    book = _books[key] = _Book(key, descriptor)
    return book


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _made(path: str, database: os.stat_result) -> int:
    """Make the file, for all who can use the database, as SQLite makes its own."""
    mode = database.st_mode & 0o666
    descriptor = os.open(path, _FLAGS | os.O_CREAT, mode)
    if sys.platform != "win32":
        with suppress(PermissionError):  # another user was faster
            os.fchmod(descriptor, mode)
            if os.geteuid() == 0:
                os.fchown(descriptor, database.st_uid, database.st_gid)
    return descriptor


def _take(descriptor: int, byte: int) -> bool:
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "there are no such locks on this system")
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError as exc:
        if exc.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _give_back(book: _Book, byte: int) -> None:
    if _books.get(book.key) is not book:
        return  # this is a child of the process that claimed
    if len(book.held) > 1 and sys.platform != "win32":
        fcntl.lockf(book.descriptor, fcntl.LOCK_UN, 1, byte)
    _strike_out(book, byte)


def _strike_out(book: _Book, byte: int) -> None:
    book.held.discard(byte)
    if not book.held:
        del _books[book.key]
        os.close(book.descriptor)


def _give_back_dropped() -> None:
    while _dropped and _lock.acquire(blocking=False):
        try:
            while _dropped:
                _give_back(*_dropped.popleft())
        finally:
            _lock.release()


def _begin_anew() -> None:
    """Forget, in a child of this process, what its parent holds."""
    global _lock  # somebody may have it for ever
    _lock = Lock()
    for book in _books.values():
        os.close(book.descriptor)
    _books.clear()
    _dropped.clear()


if OFFERED:
    os.register_at_fork(after_in_child=_begin_anew)
