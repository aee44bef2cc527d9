"""Stores what waits, as one transaction: the commits of many runs cost one write to the disk.

In: a batch of chains of commits, and of functions that change the database in other ways. Out: all that succeeded, in
one transaction; a commit whose head has moved is skipped alone. If the transaction fails, nothing of it is stored, and
each piece is tried in a transaction of its own, so that only the one at fault fails.

Runs in the connection's thread, where each statement may have to wait for the interpreter while the event loop
computes. So the number of statements does not depend on the number of commits: rows go in by the hundred.
"""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from typing import Any

from langgraph_async.checkpoint.rows import conflict
from langgraph_async.checkpoint.sqlite.dump import CheckpointRow, Dumped, DumpedTask, TaskKey, WriteRow
from langgraph_async.checkpoint.sqlite.lane import Job
from langgraph_async.checkpoint.sqlite.schema import CHECKPOINT_COLUMNS, WRITE_COLUMNS, fetch, translated
from langgraph_async.constants import MISSING
from langgraph_async.errors import StorageError

_ROWS = 100
"""Rows of one statement: with nine columns just below the number of parameters that any SQLite takes."""


def store_batch(conn: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    """Do `jobs`, each of which is done as a whole or has its error."""
    if conn.in_transaction:
        _fail(jobs, _in_use())
        return
    try:
        conn.execute("BEGIN IMMEDIATE")
    except Exception as exc:  # noqa: BLE001 - each job has it
        _fail(jobs, translated(exc))
        return
    try:
        with _transaction(conn):
            _do_all(conn, jobs)
    except Exception as exc:  # noqa: BLE001 - each job has it
        if len(jobs) == 1:
            _fail(jobs, translated(exc))
            return
        for job in jobs:
            job.error = None
            store_batch(conn, [job])


def _fail(jobs: Iterable[Job], error: BaseException) -> None:
    for job in jobs:
        job.error = error


def _in_use() -> StorageError:
    return StorageError(
        "The connection is in a transaction that the saver did not begin, so nothing was stored. Commit it first, or "
        "give the saver a connection of its own: AsyncSqliteSaver.from_conn_string(...).",
        reason="in_use",
    )


@contextmanager
def _transaction(conn: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:  # some errors have ended it already
            conn.execute("ROLLBACK")
        raise


def _do_all(conn: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    for are_commits, group in groupby(jobs, key=lambda job: isinstance(job.work, tuple)):
        if are_commits:
            _store_chains(conn, list(group))
        else:
            for job in group:
                job.value = job.work(conn)


def _store_chains(conn: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    """Store chains of commits; one whose commit comes too late stops there."""
    commits: Iterable[Dumped] = chain.from_iterable(job.work for job in jobs)
    places = {(c.thread_id, c.checkpoint_ns): None for c in commits if c.expected_head is not MISSING}
    heads = _heads(conn, list(places))
    rows = _Rows(conn)
    for job in jobs:
        for commit in job.work:
            place = (commit.thread_id, commit.checkpoint_ns)
            if commit.expected_head is not MISSING and heads[place] != commit.expected_head:
                job.error = conflict(*place, expected=commit.expected_head, found=heads[place])
                break
            rows.add(commit)
            if commit.checkpoint is not None and place in heads:
                heads[place] = max(heads[place] or "", commit.checkpoint[2])
    rows.flush()


def _heads(conn: sqlite3.Connection, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str | None]:
    """Return the newest checkpoint id of each place."""
    heads: dict[tuple[str, str], str | None] = {}
    for start in range(0, len(places), _ROWS):
        part = places[start : start + _ROWS]
        ((found,),) = fetch(conn, _heads_sql(len(part)), list(chain.from_iterable(part)))
        heads.update((part[index], head) for index, head in json.loads(found))
    return heads


@functools.cache
def _heads_sql(count: int) -> str:
    # One row with everything: each row would be a turn of its own.
    places = ", ".join(f"({index}, ?, ?)" for index in range(count))
    return (
        f"WITH place(number, thread_id, ns) AS (VALUES {places}) "
        "SELECT json_group_array(json_array(number, (SELECT c.checkpoint_id FROM checkpoints AS c "
        "WHERE c.thread_id = place.thread_id AND c.checkpoint_ns = place.ns "
        "ORDER BY c.checkpoint_id DESC LIMIT 1))) FROM place"
    )


class _Rows:
    """Collects rows of several commits, in an order that gives what storing one commit after another would give."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._checkpoints: list[CheckpointRow] = []
        self._forgotten: list[TaskKey] = []
        self._kept: list[WriteRow] = []
        self._replaced: list[WriteRow] = []
        self._tasks: set[TaskKey] = set()

    def add(self, commit: Dumped) -> None:
        """Take in a commit."""
        for task in commit.tasks:
            self._add_task(task)
        if commit.checkpoint is not None:
            self._checkpoints.append(commit.checkpoint)

    def _add_task(self, task: DumpedTask) -> None:
        if task.key in self._tasks:
            self._flush_writes()
        self._tasks.add(task.key)
        if task.replace:
            self._forgotten.append(task.key)
        (self._replaced if task.overwrite else self._kept).extend(task.rows)

    def flush(self) -> None:
        """Store what was taken in."""
        self._flush_writes()
        _insert(self._conn, "REPLACE", "checkpoints", CHECKPOINT_COLUMNS, self._checkpoints)
        self._checkpoints = []

    def _flush_writes(self) -> None:
        if self._forgotten:
            self._conn.executemany(
                "DELETE FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND task_id = ?",
                self._forgotten,
            )
        _insert(self._conn, "IGNORE", "writes", WRITE_COLUMNS, self._kept)
        _insert(self._conn, "REPLACE", "writes", WRITE_COLUMNS, self._replaced)
        self._forgotten, self._kept, self._replaced = [], [], []
        self._tasks.clear()


def _insert(
    conn: sqlite3.Connection, on_conflict: str, table: str, columns: str, rows: Sequence[tuple[Any, ...]]
) -> None:
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        conn.execute(_insert_sql(on_conflict, table, columns, len(part)), list(chain.from_iterable(part)))


@functools.cache
def _insert_sql(on_conflict: str, table: str, columns: str, count: int) -> str:
    row = f"({', '.join('?' * (columns.count(',') + 1))})"
    return f"INSERT OR {on_conflict} INTO {table} ({columns}) VALUES {', '.join([row] * count)}"
