"""Where connections come from: a pool of our own, a pool or a single connection of the user's.

A connection that died is replaced. What was asked of it is asked once more where doing it twice is the same as once.

No connection is ever taken, used or given back by a task that somebody else can cancel: that could keep it from the
pool, or leave it in a transaction. A task of the source's own does so, to which a cancellation of the caller is passed
on at most once, and only while the work itself is under way.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import asyncpg
import asyncpg.pool

from langgraph_async.aio.once import Interrupted, Once
from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import run_in_loop
from langgraph_async.checkpoint.postgres.lane import Job, ended_by
from langgraph_async.errors import StorageError

T = TypeVar("T")

PATIENCE_S = 5.0
"""Seconds that closing gives to reads under way, to connections to be closed in good order, and so on."""
_ATTEMPTS = 5
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.InternalClientError,  # the server has said farewell, and the end of the stream is yet to be read
    ConnectionError,
)
_COLLIDED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


@dataclass(frozen=True, slots=True)
class Options:
    """How the pool of our own is made; see `AsyncPostgresSaver.from_conn_string`."""

    min_size: int = 1
    max_size: int = 10
    statement_cache: bool = True
    connect: Mapping[str, Any] = field(default_factory=dict)


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """A connection of our own pool. What is set on it is set for good, so nothing is reset: one round trip less."""

    __slots__ = ()

    def get_reset_query(self) -> str:
        return ""


async def _plan_once(conn: Any) -> None:
    """Have the server keep the plan of each prepared statement: planning takes it as long as running them.

    The plan does not depend on the arguments, which are arrays: the server knows nothing of them but that.
    """
    with suppress(asyncpg.UndefinedObjectError):  # PostgreSQL before 12 has no such setting
        await conn.execute("SET plan_cache_mode = force_generic_plan")


class Source:
    """Gives out connections.

    Args:
        origin: A connection string, or a pool or connection that stays its owner's.
        options: For the pool that is made from a connection string.
    """

    def __init__(self, origin: Any, options: Options) -> None:
        self._origin = origin
        self._options = options
        self._pool: Any = None
        self._single: Any = None
        self._turn: asyncio.Lock | None = None
        self._opening = Once("langgraph_async_connect")
        self._calls: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        if not isinstance(origin, str):
            attribute = "_pool" if isinstance(origin, asyncpg.pool.Pool) else "_single"
            setattr(self, attribute, origin)

    def __del__(self) -> None:
        if isinstance(getattr(self, "_origin", None), str) and self._pool is not None and not self._closed:
            warnings.warn(
                "A PostgreSQL saver was dropped open. Close it: 'async with saver:', or 'await saver.aclose()'.",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    @property
    def size(self) -> int:
        """Connections that can be busy at once."""
        if self._single is not None:
            return 1
        return int(self._pool.get_max_size()) if self._pool is not None else self._options.max_size

    async def closed_elsewhere(self, close: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Call `close` in the event loop that the connections belong to, if that is another one; tell whether it is.

        Raises:
            StorageError: That loop does not run.
        """
        loop = self._loop
        if loop is None or self._closed or loop is asyncio.get_running_loop():
            return False
        if not await run_in_loop(loop, close):
            raise StorageError(
                "The PostgreSQL saver cannot be closed: the event loop that it was opened in does not run any more. "
                "Close it there: 'async with saver:', or 'await saver.aclose()'.",
                reason="wrong_loop",
            )
        return True

    async def open(self) -> None:
        """Connect, if that is not done.

        Raises:
            StorageError: The saver is closed, or belongs to another event loop, or the server cannot be reached.
        """
        loop = asyncio.get_running_loop()
        if self._closed:
            raise StorageError("The PostgreSQL saver is closed.", reason="closed")
        if self._loop is not None and self._loop is not loop:
            raise StorageError(
                "The PostgreSQL saver was opened in another event loop. Make one in each event loop; several may use "
                "one database.",
                reason="wrong_loop",
            )
        self._loop = loop
        if self._pool is not None or self._single is not None:
            return
        try:
            await self._opening.do(self._make_pool)
        except Interrupted:
            raise ended_by(asyncio.CancelledError()) from None
        except Exception as exc:
            raise translated(exc) from exc

    async def _make_pool(self) -> None:
        options = self._options
        cache: dict[str, Any] = {"init": _plan_once} if options.statement_cache else {"statement_cache_size": 0}
        pool = asyncpg.create_pool(
            self._origin,
            min_size=options.min_size,
            max_size=options.max_size,
            connection_class=_Connection,
            **{**cache, **options.connect},
        )
        try:
            await pool
        except BaseException:
            pool.terminate()
            raise
        self._pool = pool

    async def call(
        self,
        work: Callable[[Any], Awaitable[T]],
        *,
        again: bool = True,
        own_transaction: bool = False,
        whole: bool = False,
    ) -> T:
        """Do what `run` does, in a task that belongs to the source, on behalf of a caller that may be cancelled.

        Args:
            work: See `run`. It is cancelled if the caller is.
            again: See `run`.
            own_transaction: See `run`.
            whole: Pass a cancellation on only when work that has begun has ended, done or undone; otherwise at once.
        """
        job = Job(("", ""), work)
        left = False

        async def unless_left(conn: Any) -> Any:
            if left:
                return None
            job.taken = True
            try:
                return await work(conn)
            finally:
                job.taken = False

        async def serve() -> None:
            job.value = await self.run(unless_left, again=again, own_transaction=own_transaction)
            job.settle()  # now, so that the caller goes on in the same turn in which the task's end is noticed

        task = spawn(serve(), name="langgraph_async_ask")
        self._calls.add(task)
        task.add_done_callback(partial(_ended, job, self._calls))

        def leave(job: Job) -> bool:
            nonlocal left
            left = True
            if job.taken:
                task.cancel()
                return whole
            return False

        result: T = await job.outcome(leave)
        return result

    async def run(self, work: Callable[[Any], Awaitable[T]], *, again: bool = True, own_transaction: bool = False) -> T:
        """Call `work` with a connection, in a task that nobody cancels but to close the saver.

        Args:
            work: May be called several times: after a deadlock, and, if `again`, once more when the connection died.
            again: Whether doing it twice is the same as doing it once.
            own_transaction: It begins one itself.

        Raises:
            StorageError: The database refused, or cannot be reached.
        """
        await self.open()
        left, lost = _ATTEMPTS, not again or self._single is not None
        while True:
            left -= 1
            try:
                async with self._connection(own_transaction or self._options.statement_cache) as conn:
                    return await self._drop_lost(conn, work)
            except Exception as exc:
                if isinstance(exc, _COLLIDED) and left:
                    continue
                if is_lost(exc) and not lost:
                    lost = True
                    await self._pool.expire_connections()
                    continue
                error = translated(exc)
                if error is exc:
                    raise
                raise error from exc

    async def _drop_lost(self, conn: Any, work: Callable[[Any], Awaitable[T]]) -> T:
        try:
            return await work(conn)
        except Exception as exc:
            if is_lost(exc) and self._single is None:
                with suppress(asyncpg.InterfaceError):  # a pool takes back what it has seen closed
                    conn.terminate()  # this one may not know yet that it is closed
            raise

    @asynccontextmanager
    async def _connection(self, bare: bool) -> AsyncIterator[Any]:
        if self._single is None:
            async with self._pool.acquire() as conn:
                if bare:
                    yield conn
                else:  # a pooler may give each statement, and each half of one, to another server connection
                    async with transaction(conn):
                        yield conn
            return
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            if self._single.is_in_transaction():
                raise StorageError(
                    "The connection is in a transaction that the saver did not begin, so nothing was stored. End it "
                    "first, or give the saver connections of its own: AsyncPostgresSaver.from_conn_string(...).",
                    reason="in_use",
                )
            try:
                yield self._single
            except asyncio.CancelledError:
                if self._single.is_in_transaction():  # or is not known to have left it yet
                    await self._single.execute("ROLLBACK")
                raise

    async def close(self) -> None:
        """Close what was opened here, once what is under way has ended, or has had time enough to."""
        await self._finish(PATIENCE_S)
        self._closed = True
        await self._opening.end(cancel=True)
        if isinstance(self._origin, str) and self._pool is not None:
            with suppress(TimeoutError):  # the pool has cut its connections then
                async with asyncio.timeout(PATIENCE_S):
                    await self._pool.close()
        await self._finish(PATIENCE_S)

    async def _finish(self, patience_s: float) -> None:
        if self._calls:
            _, late = await asyncio.wait(self._calls, timeout=patience_s)
            for task in late:
                task.cancel()


def _ended(job: Job, calls: set[asyncio.Task[Any]], task: asyncio.Task[Any]) -> None:
    calls.discard(task)
    job.error = ended_by(asyncio.CancelledError()) if task.cancelled() else task.exception()
    job.settle()


@asynccontextmanager
async def transaction(conn: Any) -> AsyncIterator[None]:
    """Do what is done inside in a transaction.

    Unlike one of asyncpg's, it is over also when its first or its last statement was cancelled.
    """
    try:
        await conn.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        yield
        await conn.execute("COMMIT")
    except BaseException as exc:
        if not conn.is_closed() and (conn.is_in_transaction() or isinstance(exc, asyncio.CancelledError)):
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):  # the transaction is gone with it
                await conn.execute("ROLLBACK")
        raise


def is_lost(exc: BaseException) -> bool:
    """Tell whether an error means that the connection is gone, and what was asked may or may not have been done."""
    if isinstance(exc, asyncpg.InterfaceError):
        return "closed" in str(exc) or "released back" in str(exc)
    return isinstance(exc, _LOST)


def translated(exc: BaseException) -> BaseException:
    """Return the error to raise for one of the database; any other error is returned as it is."""
    if not isinstance(exc, (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)):
        return exc
    reason, advice = "failed", str(exc)
    if isinstance(exc, (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InvalidSchemaNameError)):
        advice = f"{exc}. Create the tables once: await saver.setup()"
    elif isinstance(exc, (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError)):
        advice = f"a name has a NUL character, which PostgreSQL cannot hold ({exc})"
    elif isinstance(exc, (asyncpg.DiskFullError, asyncpg.OutOfMemoryError)):
        reason = "full"
    elif isinstance(exc, (asyncpg.ReadOnlySQLTransactionError, asyncpg.InsufficientPrivilegeError)):
        reason = "read_only"
    elif isinstance(exc, (*_COLLIDED, asyncpg.TooManyConnectionsError, asyncpg.LockNotAvailableError)):
        reason = "busy"
    elif is_lost(exc) or isinstance(exc, OSError):
        advice = f"the connection failed, {exc or type(exc).__name__}"
    error = StorageError(f"The PostgreSQL database could not be used: {advice}.", reason=reason)
    error.__cause__ = exc
    return error
