"""Stores commits, those of several runs in one statement when they are waiting anyway.

In: jobs, each a chain of commits of one namespace. Out: each stored as a whole, or refused as a whole. No two batches
under way hold the same namespace, so that commits of one process do not compete at the database.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import asyncpg

from langgraph_async.checkpoint.postgres.lane import Job, Lane
from langgraph_async.checkpoint.postgres.source import Source, is_lost
from langgraph_async.checkpoint.postgres.statement import Chain, Part, compose
from langgraph_async.checkpoint.postgres.tables import Tables
from langgraph_async.checkpoint.rows import conflict
from langgraph_async.constants import MISSING
from langgraph_async.errors import StorageError

_TRIES = 50
"""Times that a part is tried again whose gate somebody passed without moving the head."""


class CommitLane(Lane):
    """The queue of commits."""

    def __init__(self, source: Source, tables: Tables, width: int) -> None:
        super().__init__(width, "langgraph_async_commit", whole=True)
        self._source = source
        self._tables = tables
        self._waiting: dict[tuple[str, str], deque[Job]] = {}
        self._free: dict[tuple[str, str], None] = {}
        self._parts: dict[int, list[Part]] = {}
        self._busy: set[tuple[str, str]] = set()

    def _push(self, job: Job) -> None:
        self._waiting.setdefault(job.place, deque()).append(job)
        if job.place not in self._busy:
            self._free[job.place] = None

    def _withdraw(self, job: Job) -> None:
        queue = self._waiting[job.place]
        queue.remove(job)
        if not queue:
            del self._waiting[job.place]
            self._free.pop(job.place, None)

    def _ready(self) -> int:
        return len(self._free)

    def _take(self, count: int) -> list[Job]:
        parts = []
        for place in list(self._free)[:count]:
            del self._free[place]
            self._busy.add(place)
            queue = self._waiting[place]
            part = Part(place)
            while queue and part.take(queue[0]):
                queue.popleft().taken = True
            if not queue:
                del self._waiting[place]
            parts.append(part)
        parts.sort(key=lambda part: part.place)
        batch = [job for part in parts for job in part.jobs]
        self._parts[id(batch)] = parts
        return batch

    def _release(self, batch: list[Job]) -> None:
        self._parts.pop(id(batch), None)
        for job in batch:
            self._busy.discard(job.place)
            if job.place in self._waiting:
                self._free[job.place] = None

    async def _run(self, batch: list[Job]) -> None:
        await self._store(self._parts[id(batch)])

    async def _store(self, parts: list[Part]) -> None:
        """Store parts; each of their jobs has its error afterwards, if any."""
        try:
            for _ in range(_TRIES):
                parts = await self._attempt(parts)
                if not parts:
                    return
        except StorageError as exc:
            if _may_be_the_fault_of_one(exc) and (len(parts) > 1 or len(parts[0].commits) > 1):
                for part in parts:
                    await self._one_by_one(part)
                return
            error: BaseException = exc
        else:
            error = StorageError("Others changed the thread again and again.", reason="busy")
        for part in parts:
            for job in part.jobs:
                job.error = error

    async def _one_by_one(self, part: Part) -> None:
        for job in part.jobs:
            for commit in job.work.commits:
                single = Job(job.place, Chain.single(commit))
                piece = Part(part.place)
                piece.take(single)
                await self._store([piece])
                if single.error is not None:
                    job.error = single.error
                    break

    async def _attempt(self, parts: list[Part]) -> list[Part]:
        """Store parts with one statement, and return those to be tried again."""
        sql, arguments = compose(self._tables, parts)
        attempts = 0

        async def work(conn: Any) -> Any:
            nonlocal attempts
            attempts += 1
            return await conn.fetch(sql, *arguments)

        # Twice is the same as once: all ids are the caller's, and `_judge` finds what the first time stored.
        rows = await self._source.run(work)
        if not rows:
            return []
        return await self._judge([parts[row[0] - 1] for row in rows], repeated=attempts > 1)

    async def _judge(self, refused: list[Part], *, repeated: bool) -> list[Part]:
        """Find out why parts were refused, and return those that were not really."""
        sql = f"""
            SELECT p.n,
                (SELECT max(c.checkpoint_id) FROM {self._tables.checkpoints} AS c
                 WHERE c.thread_id = p.thread_id AND c.checkpoint_ns = p.ns),
                EXISTS (SELECT 1 FROM {self._tables.checkpoints} AS c
                 WHERE c.thread_id = p.thread_id AND c.checkpoint_ns = p.ns AND c.checkpoint_id = p.own)
            FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS p (thread_id, ns, own, n)
        """
        places = [part.place for part in refused]
        arguments = [[p[0] for p in places], [p[1] for p in places], [part.newest for part in refused]]
        again = []
        for number, head, stored in await self._source.run(lambda conn: conn.fetch(sql, *arguments)):
            part = refused[number - 1]
            if repeated and stored:
                continue
            if head == part.expected:
                again.append(part)
                continue
            for job in part.jobs:
                expected = job.work.expected
                assert expected is not MISSING
                job.error = conflict(*part.place, expected=expected, found=head)
        return again


def _may_be_the_fault_of_one(error: StorageError) -> bool:
    cause = error.__cause__
    return isinstance(cause, (asyncpg.PostgresError, asyncpg.InterfaceError)) and not is_lost(cause)
