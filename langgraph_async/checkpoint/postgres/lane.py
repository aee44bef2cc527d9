"""Does what waits, as much of it at once as is waiting, on a few connections.

In: pieces of work, handed over by many tasks of the event loop. Out: their results. Work belongs to the lane from the
moment it is taken: a cancellation of the one who waits for it does not reach it, nor the connection that it uses.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.errors import StorageError

SHARE = 16
"""Pieces of work for which one connection more is used. Together they cost about as much as two alone."""


class Job:
    """A piece of work, and what came of it: `value`, or `error`."""

    __slots__ = ("error", "future", "place", "settled", "taken", "value", "work")

    def __init__(self, place: tuple[str, str], work: Any) -> None:
        self.place = place
        self.work = work
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.taken = False
        self.settled = False
        self.value: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Wake whoever waits."""
        self.settled = True
        if not self.future.done():
            self.future.set_result(None)

    async def outcome(self, on_cancel: Callable[[Job], bool]) -> Any:
        """Wait for what came of it.

        Args:
            on_cancel: Called when the one who waits is cancelled too early, and tells whether that one must wait on.
        """
        try:
            await self.future
        except asyncio.CancelledError:
            if not self.settled and on_cancel(self):
                # The cancellation took the future with it.
                self.future = asyncio.get_running_loop().create_future()
                await wait_settled(self.future)
            raise
        if self.error is not None:
            raise self.error
        return self.value


class Lane:
    """A queue before some connections.

    Args:
        width: Batches that may be under way at once.
        name: Name of the tasks that do them.
        whole: Whether a cancellation is passed on only once what was begun is done, or at once.
    """

    def __init__(self, width: int, name: str, *, whole: bool) -> None:
        self.width = width
        self.whole = whole
        self._name = name
        self._workers: set[asyncio.Task[None]] = set()

    async def do(self, job: Job) -> Any:
        """Have a piece of work done and return what came of it.

        A cancellation takes back work that has not been begun; otherwise see `whole`.
        """
        self._push(job)
        self._start()
        return await job.outcome(self._left)

    def _left(self, job: Job) -> bool:
        if not job.taken:
            self._withdraw(job)
            return False
        return self.whole

    async def finish(self, patience_s: float | None = None) -> None:
        """Wait until nothing is left to do.

        Args:
            patience_s: Seconds after which what is under way is cancelled, and what waits is refused.
        """
        deadline = None if patience_s is None else asyncio.get_running_loop().time() + patience_s
        while self._workers:
            left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
            _, late = await asyncio.wait(self._workers, timeout=left)
            if late:
                self._refuse()
                for worker in late:
                    worker.cancel()
                return
            await asyncio.sleep(0)  # the end of a worker starts another one if more came

    def _refuse(self) -> None:
        while self._ready():
            batch = self._take(SHARE)
            self._release(batch)
            for job in batch:
                job.error = ended_by(asyncio.CancelledError())
                job.settle()

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
                    job.error = job.error or ended_by(exc)
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


def ended_by(exc: BaseException) -> BaseException:
    """Return the error for those who wait for work that `exc` ended."""
    if isinstance(exc, asyncio.CancelledError):
        return StorageError(
            "The saver was closed, or the event loop ended, before the database answered.", reason="closed"
        )
    return exc


class PlainLane(Lane):
    """A lane whose pieces of work do not depend on each other."""

    def __init__(self, width: int, name: str, *, whole: bool) -> None:
        super().__init__(width, name, whole=whole)
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
