"""Takes work to a connection's thread, as much of it at once as is waiting.

In: functions that use the connection, handed over by many tasks of the event loop. Out: their results. Going to the
thread and back costs more than most of the work, so whatever came while the thread was busy goes there together.
The work belongs to the lane from the moment it is taken: a cancellation of the one who waits for it does not end it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import aiosqlite

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.checkpoint.sqlite.schema import translated

MAX_BATCH = 1000
"""Pieces of work that are done together at most."""


class Job:
    """A piece of work, and what came of it: `value`, or `error`."""

    __slots__ = ("error", "future", "settled", "taken", "value", "work")

    def __init__(self, work: Any, future: asyncio.Future[None]) -> None:
        self.work = work
        self.future = future
        self.taken = False
        self.settled = False
        self.value: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Wake whoever waits."""
        self.settled = True
        if not self.future.done():
            self.future.set_result(None)


class Lane:
    """A queue before one connection.

    Args:
        conn: The connection, open.
        name: Distinguishes the lanes of a connection.
        run: Does a batch in the connection's thread; leaves each job's outcome in it, and does not raise.
    """

    def __init__(
        self, conn: aiosqlite.Connection, name: str, run: Callable[[sqlite3.Connection, Sequence[Job]], None]
    ) -> None:
        self._conn = conn
        self._run = run
        self._function = f"langgraph_async_{name}"
        # A function of SQL is the documented way to run code in the connection's thread. It returns false: no row.
        self._call = f"SELECT 1 WHERE {self._function}()"
        self._raw: sqlite3.Connection | None = None
        self._waiting: deque[Job] = deque()
        self._batch: list[Job] = []
        self._drainer: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the connection ready for this lane."""
        async with self._conn.execute("SELECT 1") as cursor:
            self._raw = cursor.connection
            await cursor.fetchall()
        await self._conn.create_function(self._function, 0, self._run_batch)

    async def do(self, work: Any) -> Any:
        """Have `work` done and return what came of it.

        A cancellation takes back work that has not been begun; otherwise it is passed on once the work is done.
        """
        job = Job(work, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if self._drainer is None:
            self._start()
        try:
            await job.future
        except asyncio.CancelledError:
            if not job.taken:
                self._waiting.remove(job)
                raise
            if not job.settled:  # the cancellation took the future with it
                job.future = asyncio.get_running_loop().create_future()
                await wait_settled(job.future)
            raise
        if job.error is not None:
            raise job.error
        return job.value

    async def finish(self) -> None:
        """Wait until nothing is left to do."""
        while self._drainer is not None:
            interrupted = await wait_settled(self._drainer)
            if interrupted is not None:
                raise interrupted
            await asyncio.sleep(0)  # its end starts another one if more came

    def _start(self) -> None:
        self._drainer = spawn(self._drain(), name=self._function)
        self._drainer.add_done_callback(self._ended)

    def _ended(self, drainer: asyncio.Task[None]) -> None:
        self._drainer = None
        if not drainer.cancelled():
            drainer.exception()
        if self._waiting:  # it was cancelled before it began
            self._start()

    async def _drain(self) -> None:
        while self._waiting:
            count = min(len(self._waiting), MAX_BATCH)
            batch = self._batch = [self._waiting.popleft() for _ in range(count)]
            for job in batch:
                job.taken = True
            failure = await self._go()
            self._batch = []
            for job in batch:
                if failure is not None:
                    job.error = translated(failure)
                job.settle()

    async def _go(self) -> BaseException | None:
        """Run the batch in the thread, and return what kept it from running."""
        call = self._call
        while True:
            try:
                await self._conn.execute_fetchall(call)
            except asyncio.CancelledError:
                # The thread has the batch. What is asked of it after that is done after that.
                call = "SELECT 1"
            except Exception as exc:  # noqa: BLE001 - the connection is closed, or broken
                return exc
            else:
                return None

    def _run_batch(self) -> int:
        assert self._raw is not None
        try:
            self._run(self._raw, self._batch)
        except BaseException as exc:  # noqa: BLE001 - it would be lost on its way through SQLite
            for job in self._batch:
                job.error = job.error or exc
        return 0
