"""Does what waits, as much of it at once as is waiting, on a few connections.

In: pieces of work, handed over by many tasks of the event loop. Out: their results. Work belongs to the lane from the
moment it is taken: a cancellation of the one who waits for it does not end it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.errors import StorageError

SHARE = 16
"""Pieces of work for which one connection more is used. Together they cost about as much as two alone."""


class Job:
    """A piece of work, and what came of it: `value`, or `error`."""

    __slots__ = ("error", "future", "place", "taken", "value", "work")

    def __init__(self, place: tuple[str, str], work: Any) -> None:
        self.place = place
        self.work = work
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.taken = False
        self.value: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Wake whoever waits."""
        if not self.future.done():
            self.future.set_result(None)


class Lane:
    """A queue before some connections.

    Args:
        width: Batches that may be under way at once.
        name: Name of the tasks that do them.
    """

    def __init__(self, width: int, name: str) -> None:
        self.width = width
        self._name = name
        self._workers: set[asyncio.Task[None]] = set()

    async def do(self, job: Job) -> Any:
        """Have a piece of work done and return what came of it.

        A cancellation takes back work that has not been begun; otherwise it is passed on once the work is done.
        """
        self._push(job)
        self._start()
        try:
            await job.future
        except asyncio.CancelledError:
            if not job.taken:
                self._withdraw(job)
                raise
            if job.future.cancelled():
                job.future = asyncio.get_running_loop().create_future()
                await wait_settled(job.future)
            raise
        if job.error is not None:
            raise job.error
        return job.value

    async def finish(self) -> None:
        """Wait until nothing is left to do."""
        while self._workers:
            interrupted = await wait_settled(asyncio.gather(*self._workers, return_exceptions=True))
            if interrupted is not None:
                raise interrupted
            await asyncio.sleep(0)  # the end of a worker starts another one if more came

    def _start(self) -> None:
        workers = len(self._workers)
        if workers < self.width and workers * SHARE < self._ready():
            worker = spawn(self._work(), name=self._name)
            self._workers.add(worker)
            worker.add_done_callback(self._ended)

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not worker.cancelled():
            worker.exception()
        if self._ready():  # it was cancelled
            self._start()

    async def _work(self) -> None:
        while ready := self._ready():
            batch = self._take(max(SHARE, -(-ready // self.width)))
            try:
                await self._run(batch)
            except BaseException as exc:
                for job in batch:
                    job.error = job.error or _ended_by(exc)
                if isinstance(exc, asyncio.CancelledError):
                    raise
            finally:
                self._release(batch)
                for job in batch:
                    job.settle()

    # -- for the kinds of lanes -----------------------------------------------------------------------------

    def _push(self, job: Job) -> None:
        raise NotImplementedError

    def _withdraw(self, job: Job) -> None:
        raise NotImplementedError

    def _ready(self) -> int:
        """Return how many pieces, or queues of pieces, can be taken now."""
        raise NotImplementedError

    def _take(self, count: int) -> list[Job]:
        raise NotImplementedError

    def _release(self, batch: list[Job]) -> None:
        """Take note that a batch is done."""

    async def _run(self, batch: list[Job]) -> None:
        """Do a batch: each piece has its outcome afterwards."""
        raise NotImplementedError


def _ended_by(exc: BaseException) -> BaseException:
    if isinstance(exc, asyncio.CancelledError):
        return StorageError("The event loop ended while the database was asked.", reason="closed")
    return exc


class PlainLane(Lane):
    """A lane whose pieces of work do not depend on each other."""

    def __init__(self, width: int, name: str) -> None:
        super().__init__(width, name)
        self._waiting: deque[Job] = deque()

    def _push(self, job: Job) -> None:
        self._waiting.append(job)

    def _withdraw(self, job: Job) -> None:
        self._waiting.remove(job)

    def _ready(self) -> int:
        return len(self._waiting)

    def _take(self, count: int) -> list[Job]:
        batch = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
        for job in batch:
            job.taken = True
        return batch
