"""Claims on threads: advisory locks of one session, which the server takes back when the session's connection ends.

A thread is a number, computed from its id and from the table that its checkpoints are in, and a claim is a lock of
that number. Nothing of this is in the tables. What waits to be claimed and given back goes to the server with one
statement. When the connection is lost, so are the claims: the runs go on, and only one of two can store.

A pooler that gives statements to sessions as it likes would leave locks behind that nobody can give back. It shows by
the number of the session, which it cannot know when it is connected to; then nothing is claimed.
"""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakValueDictionary

import asyncpg
import asyncpg.pool
from xxhash import xxh3_64_intdigest

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.checkpoint.postgres.source import Options, Source, is_lost, translated
from langgraph_async.errors import StorageError

# Exclusive or, since a number that is computed from two others is to differ when one of them does.
_ASK = """
    SELECT k, CASE WHEN takes THEN pg_try_advisory_lock(k) ELSE pg_advisory_unlock(k) END
    FROM (
        SELECT n, takes, key # (coalesce(to_regclass(name)::oid::bigint, 0) << 32) AS k
        FROM unnest($1::text[], $2::bigint[], $3::bool[]) WITH ORDINALITY AS asked (name, key, takes, n)
        OFFSET 0
    ) AS keyed ORDER BY n
"""
_SESSION = "SELECT pg_backend_pid()"
# A host that lost its power says no farewell. A session that only holds locks looks idle.
_PREPARE = """
    SELECT set_config(s.name, wanted.value, false)
    FROM (VALUES
        ('tcp_keepalives_idle', '15'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
        ('idle_session_timeout', '0')
    ) AS wanted (name, value)
    JOIN pg_settings AS s ON s.name = wanted.name
"""


class _Request:
    """A lock to take, or to give back, and what came of it."""

    __slots__ = ("conn", "done", "error", "given", "key", "outer", "table", "takes")

    def __init__(self, table: str | None, key: int, *, takes: bool, conn: Any = None, outer: bool = True) -> None:
        self.table = table
        self.key = key
        self.takes = takes
        self.conn = conn
        self.outer = outer
        self.given = False
        self.error: BaseException | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class SessionClaim:
    """A claim on a thread; it ends with `arelease`, or when it is dropped."""

    __slots__ = ("_claims", "_conn", "_key")

    def __init__(self, claims: Claims, conn: Any, key: int) -> None:
        self._claims: Claims | None = claims
        self._conn = conn
        self._key = key

    async def arelease(self) -> None:
        """Give the thread back; a second call does nothing."""
        claims, self._claims = self._claims, None
        if claims is not None:
            await claims.give_back(self._conn, self._key)

    def __del__(self) -> None:
        if self._claims is not None:
            self._claims.drop(self._conn, self._key)


class Claims:
    """The claims that one session holds.

    Args:
        line: Where the session comes from.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._conn: Any = None
        self._held: set[int] = set()
        self._waiting: list[_Request] = []
        self._worker: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pooled = False
        self._opening = False

    async def claim(self, table: str, thread_id: str) -> SessionClaim | None:
        """Claim a thread whose checkpoints are in `table`, or return None when it is claimed already.

        Raises:
            StorageError: The server cannot be asked.
        """
        self._loop = asyncio.get_running_loop()
        request = _Request(table, _number(thread_id), takes=True)
        interrupted = await self._put(request)
        if interrupted is not None:
            if request.given:
                await self.give_back(request.conn, request.key)
            raise interrupted
        if request.error is not None:
            raise request.error
        return SessionClaim(self, request.conn, request.key) if request.given else None

    async def give_back(self, conn: Any, key: int) -> None:
        """Give a thread back, unless that was lost with its session; a cancellation is passed on afterwards."""
        if conn is not None and conn is self._conn:
            interrupted = await self._put(_Request(None, key, takes=False, conn=conn))
            if interrupted is not None:
                raise interrupted

    def drop(self, conn: Any, key: int) -> None:
        """Give a thread back at some time; may be called in any thread, and when the event loop has ended."""
        if self._loop is not None and conn is not None:
            with suppress(RuntimeError):  # the session ends with its loop
                self._loop.call_soon_threadsafe(self._give_back_later, conn, key)

    async def close(self) -> None:
        """Wait for what is under way, and close the session if it was opened here."""
        while self._worker is not None:
            if self._opening and not self._waiting:  # nobody is left who wants a connection of a pool that has none
                self._worker.cancel()
            interrupted = await wait_settled(self._worker)
            if interrupted is not None:
                raise interrupted
            await asyncio.sleep(0)  # its end starts another one if more came
        if await self._line.close(self._conn):
            self._conn = None
            self._held.clear()

    # -- handing over ---------------------------------------------------------------------------------------

    async def _put(self, request: _Request) -> asyncio.CancelledError | None:
        self._waiting.append(request)
        self._start()
        return await wait_settled(request.done, lambda: self._withdraw(request))

    def _withdraw(self, request: _Request) -> None:
        if request.takes and request in self._waiting:
            self._waiting.remove(request)
            request.settle()

    def _give_back_later(self, conn: Any, key: int) -> None:
        if conn is self._conn:
            self._waiting.append(_Request(None, key, takes=False, conn=conn))
            self._start()

    def _start(self) -> None:
        if self._worker is None:
            self._worker = spawn(self._work(), name="langgraph_async_claims")
            self._worker.add_done_callback(self._ended)

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._worker = None
        if not worker.cancelled():
            worker.exception()
        if self._waiting:  # it was cancelled
            self._start()

    # -- asking the server ----------------------------------------------------------------------------------

    async def _work(self) -> None:
        while self._waiting:
            batch: list[_Request] = []
            try:
                await self._do(batch)
            except BaseException as exc:
                self._take(batch)
                for request in batch:
                    request.error = _ended_by(exc)
                if isinstance(exc, asyncio.CancelledError):
                    raise
            finally:
                for request in batch:
                    request.settle()
            if self._conn is not None and not self._held and not self._waiting and await self._line.rest(self._conn):
                self._conn = None

    def _take(self, batch: list[_Request]) -> None:
        if not batch:
            batch += self._waiting
            self._waiting = []

    async def _do(self, batch: list[_Request]) -> None:
        """Ask for what waits, which `batch` gets; until there is a session it can be withdrawn."""
        for again in (True, False):
            try:
                conn = await self._session(needed=any(request.takes for request in batch or self._waiting))
            except Exception as exc:
                if again and is_lost(exc):
                    continue
                raise
            self._take(batch)
            if conn is None or not batch:
                for request in batch:
                    request.given = request.takes
                return
            asked = [request for request in batch if request.takes or request.conn is conn]
            try:
                rows = await self._line.ask(
                    conn, [r.table for r in asked], [r.key for r in asked], [r.takes for r in asked]
                )
            except BaseException as exc:
                await self._lose(conn)
                if not (again and is_lost(exc)):
                    raise
            else:
                for request, (key, done) in zip(asked, rows, strict=True):
                    self._note(request, conn, key, done=done)
                return

    def _note(self, request: _Request, conn: Any, key: int, *, done: bool) -> None:
        if not request.takes:
            if request.outer:
                self._held.discard(key)
        elif done and key in self._held:
            # A session can take a lock twice: two savers call one table by two names.
            self._waiting.append(_Request(None, key, takes=False, conn=conn, outer=False))
        elif done:
            self._held.add(key)
            request.given, request.conn, request.key = True, conn, key

    async def _session(self, *, needed: bool) -> Any:
        """Return the session; None when there is none, and none is needed or can be had."""
        if self._conn is not None and _is_closed(self._conn):
            await self._lose(self._conn)
        if self._conn is None and needed and not self._pooled:
            self._opening = True
            try:
                conn = await self._line.open()
            finally:
                self._opening = False
            if conn is None:
                self._pooled = True
            self._conn = conn
        return self._conn

    async def _lose(self, conn: Any) -> None:
        if await self._line.lose(conn):
            self._conn = None
            self._held.clear()


def _number(thread_id: str) -> int:
    number = xxh3_64_intdigest(b"langgraph_async:" + thread_id.encode("utf-8", "surrogatepass"))
    return number - (1 << 63)


def _ended_by(exc: BaseException) -> BaseException:
    if isinstance(exc, asyncio.CancelledError):
        return StorageError("The event loop ended while the database was asked.", reason="closed")
    return translated(exc)


# -- where the session comes from -------------------------------------------------------------------------------


class Line(Protocol):
    """Gives a session to claims, and takes it back."""

    async def open(self) -> Any:
        """Return a connection whose session stays the same, or None when such a one cannot be had."""
        ...

    async def ask(self, conn: Any, tables: list[str | None], keys: list[int], takes: list[bool]) -> Any:
        """Take or give back locks; return the number of each, and whether that was done."""
        ...

    async def rest(self, conn: Any) -> bool:
        """Take note that the session holds nothing; tell whether the connection was given back for that."""
        ...

    async def lose(self, conn: Any) -> bool:
        """Give up a connection after a failure, and tell whether all that it held is lost."""
        ...

    async def close(self, conn: Any) -> bool:
        """Close the connection, if there is one and it was opened here; tell whether that is so."""
        ...


class _PoolLine:
    """One connection of a pool: of the user's, while something is claimed; of one made for this, for good."""

    def __init__(self, origin: Any, options: Options) -> None:
        self._origin = origin
        self._options = options
        self._own = isinstance(origin, str)
        self._pool: Any = None if self._own else origin

    async def open(self) -> Any:
        if self._pool is None:
            options = self._options
            cache = {} if options.statement_cache else {"statement_cache_size": 0}
            self._pool = await asyncpg.create_pool(
                self._origin,
                min_size=0,
                max_size=1,
                max_inactive_connection_lifetime=0,
                **{**cache, **options.connect},
            )
        conn = await self._pool.acquire()
        try:
            if await _is_direct(conn):
                if self._own:
                    await conn.execute(_PREPARE)
                return conn
        except BaseException:
            await self.lose(conn)
            raise
        await self._pool.release(conn)
        if self._options.statement_cache:
            _warn_of_pooler()
        return None

    async def ask(self, conn: Any, tables: list[str | None], keys: list[int], takes: list[bool]) -> Any:
        return await conn.fetch(_ASK, tables, keys, takes)

    async def rest(self, conn: Any) -> bool:
        if self._own:
            return False
        with suppress(Exception):
            await self._pool.release(conn)
        return True

    async def lose(self, conn: Any) -> bool:
        with suppress(Exception):
            conn.terminate()
        with suppress(Exception):
            await self._pool.release(conn)
        return True

    async def close(self, conn: Any) -> bool:
        if self._own and self._pool is not None:
            if conn is not None:
                with suppress(Exception):
                    await self._pool.release(conn)
            await self._pool.close()
        return self._own


class _SingleLine:
    """The one connection that the user has given."""

    def __init__(self, conn: Any, source: Source) -> None:
        self._conn = conn
        self._source = source

    async def open(self) -> Any:
        if await self._source.run(_is_direct, again=False):
            return self._conn
        _warn_of_pooler()
        return None

    async def ask(
        self,
        conn: Any,  # noqa: ARG002
        tables: list[str | None],
        keys: list[int],
        takes: list[bool],
    ) -> Any:
        return await self._source.run(lambda same: same.fetch(_ASK, tables, keys, takes), again=False)

    async def rest(self, conn: Any) -> bool:  # noqa: ARG002
        return False

    async def lose(self, conn: Any) -> bool:
        return _is_closed(conn)

    async def close(self, conn: Any) -> bool:  # noqa: ARG002
        return False


def _is_closed(conn: Any) -> bool:
    try:
        return bool(conn.is_closed())
    except asyncpg.InterfaceError:  # its pool has seen that, and has taken it back
        return True


async def _is_direct(conn: Any) -> bool:
    """Tell whether the session is the one that the server announced when it was connected to."""
    async with conn.transaction():
        return bool(await conn.fetchval(_SESSION) == conn.get_server_pid())


def _warn_of_pooler() -> None:
    warnings.warn(
        "The PostgreSQL saver is connected through a pooler, so that it cannot claim threads: two processes that "
        "answer one question at once both run the node, and one of them fails when it stores. Connect past the "
        "pooler, or say claims=False.",
        RuntimeWarning,
        stacklevel=2,
    )


_of_pools: WeakValueDictionary[int, Claims] = WeakValueDictionary()
"""By the pool: several savers of one must not each take a connection away from it."""


def claims_of(origin: Any, source: Source, options: Options) -> Claims | None:
    """Return the claims for a saver's origin; None for a pool that has no connection to spare.

    Args:
        origin: A connection string, or a pool or connection of the user's.
        source: The saver's connections.
        options: How they are made from a connection string.
    """
    if isinstance(origin, str):
        return Claims(_PoolLine(origin, options))
    if not isinstance(origin, asyncpg.pool.Pool):
        return Claims(_SingleLine(origin, source))
    if source.size < 2:
        return None
    claims = _of_pools.get(id(origin))
    if claims is None:
        claims = _of_pools[id(origin)] = Claims(_PoolLine(origin, options))
    return claims
