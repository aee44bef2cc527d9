"""A log in PostgreSQL, beside the checkpoints: for any number of processes and machines."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.postgres.source import Options, Source, transaction
from langgraph_async.checkpoint.postgres.tables import quoted
from langgraph_async.checkpoint.rows import check_storable
from langgraph_async.serde.base import SerializerProtocol
from langgraph_async.serde.msgpack import JsonPlusSerializer
from langgraph_async.stream.log.base import PAGE, Event, EventLog, Page, RunRecord, check_after, run_exists, unknown_run
from langgraph_async.stream.log.rows import event_rows, load_events, status_after

_SWEEP_EVERY: Final = 64
_SWEPT: Final = 100
_COLUMNS: Final = (
    "r.run_id, r.thread_id, r.status, r.first_seq, r.last_seq, "
    "extract(epoch FROM clock_timestamp() - r.touched_at)::float8, r.owner"
)


class _Statements:
    """The statements for tables in one schema."""

    def __init__(self, schema: str | None) -> None:
        prefix = "" if schema is None else quoted(schema) + "."
        self.schema = schema
        self.runs = runs = prefix + "event_log_runs"
        self.events = events = prefix + "event_log_events"
        self.migrations = prefix + "event_log_migrations"
        self.enter = (
            f"INSERT INTO {runs} (run_id, thread_id, owner) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING 1"
        )
        self.append = f"""
            WITH run AS (
                UPDATE {runs} SET last_seq = greatest(last_seq, $2), status = coalesce($3, status),
                    touched_at = clock_timestamp()
                WHERE run_id = $1 RETURNING first_seq
            ), stored AS (
                INSERT INTO {events} (run_id, seq, mode, ns, type, value)
                SELECT $1, given.* FROM run
                CROSS JOIN unnest($4::bigint[], $5::text[], $6::text[], $7::text[], $8::bytea[]) AS given
                ON CONFLICT DO NOTHING
            ) SELECT first_seq FROM run"""
        self.trim = f"""
            WITH gone AS (DELETE FROM {events} WHERE run_id = $1 AND seq < $2)
            UPDATE {runs} SET first_seq = $2 WHERE run_id = $1"""
        self.touch = f"UPDATE {runs} SET touched_at = clock_timestamp() WHERE run_id = $1"
        self.read = f"""
            SELECT {_COLUMNS}, e.* FROM {runs} AS r LEFT JOIN LATERAL (
                SELECT array_agg(p.seq ORDER BY p.seq), array_agg(p.mode ORDER BY p.seq),
                    array_agg(p.ns ORDER BY p.seq), array_agg(p.type ORDER BY p.seq), array_agg(p.value ORDER BY p.seq)
                FROM (
                    SELECT * FROM {events} AS s WHERE s.run_id = r.run_id AND s.seq > $2 ORDER BY s.seq LIMIT $3
                ) AS p
            ) AS e ON true WHERE r.run_id = $1"""
        self.list = f"""
            SELECT {_COLUMNS} FROM {runs} AS r WHERE $1::text IS NULL OR r.thread_id = $1 ORDER BY r.n DESC LIMIT $2"""
        forgotten = f"""
            , gone AS (DELETE FROM {events} USING old WHERE {events}.run_id = old.run_id),
            done AS (DELETE FROM {runs} USING old WHERE {runs}.run_id = old.run_id)
            SELECT count(*) FROM old"""
        self.forget = f"WITH old AS (SELECT run_id FROM {runs} WHERE thread_id = $1) {forgotten}"
        self.sweep = f"""
            WITH old AS (
                SELECT run_id FROM {runs}
                WHERE (status <> 'running' AND touched_at < clock_timestamp() - make_interval(secs => $1))
                    OR touched_at < clock_timestamp() - make_interval(secs => $2)
                ORDER BY n LIMIT {_SWEPT} FOR UPDATE SKIP LOCKED
            ) {forgotten}"""

    def steps(self) -> tuple[str, ...]:
        """Return the migrations; the place of each is its number."""
        return (
            f"""
            CREATE TABLE IF NOT EXISTS {self.runs} (
                n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                run_id TEXT NOT NULL UNIQUE,
                thread_id TEXT,
                status TEXT NOT NULL DEFAULT 'running',
                owner TEXT NOT NULL,
                first_seq BIGINT NOT NULL DEFAULT 1,
                last_seq BIGINT NOT NULL DEFAULT 0,
                touched_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
            )""",
            f"CREATE INDEX IF NOT EXISTS event_log_runs_thread ON {self.runs} (thread_id, n)",
            f"""
            CREATE TABLE IF NOT EXISTS {self.events} (
                run_id TEXT NOT NULL,
                seq BIGINT NOT NULL,
                mode TEXT NOT NULL,
                ns TEXT NOT NULL,
                type TEXT NOT NULL,
                value BYTEA NOT NULL,
                PRIMARY KEY (run_id, seq)
            )""",
        )


class PostgresEventLog(EventLog):
    """Keeps events in the tables ``event_log_runs`` and ``event_log_events``; call `setup` once to create them.

    They are written through the saver's connections, a batch by one statement. Ages go by the server's clock::

        async with AsyncPostgresSaver.from_conn_string("postgresql://localhost/agents") as saver:
            await saver.setup()  # once
            log = PostgresEventLog(saver)
            await log.setup()  # once

    All methods raise `StorageError` when the database cannot be used.

    Args:
        saver: Whose connections and schema; it must stay open as long as the log is used.
        serde: The serializer for payloads; by default that of the saver of the graph that runs.
        options: See `EventLog`.
    """

    def __init__(
        self, saver: AsyncPostgresSaver | None, *, serde: SerializerProtocol | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._own: Source | None = None
        self._has_serde = serde is not None
        self._serde = serde or (saver.serde if saver is not None else JsonPlusSerializer())
        if saver is not None:
            self._source = saver.source
        self._sql = _Statements(saver.schema if saver is not None else None)
        self._begun = 0

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        serde: SerializerProtocol | None = None,
        schema: str | None = None,
        max_size: int = 4,
        connect: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Return a log with a pool of its own, to be used in ``async with``, or closed with `aclose`."""
        log = cls(None, serde=serde, **options)
        log._own = log._source = Source(conn_string, Options(0, max_size, True, connect or {}))
        log._sql = _Statements(schema)
        return log

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the pool, if it is the log's own."""
        if self._own is not None:
            await self._own.close()

    def for_saver(self, saver: Any) -> Self:
        """Return this log with the serializer of the saver, unless it was given one."""
        serde = getattr(saver, "serde", None)
        if self._has_serde or serde is None or serde is self._serde:
            return self
        other = copy.copy(self)
        other._serde = serde
        return other

    async def setup(self) -> None:
        """Create what is missing of the tables. Any number of processes may do so at once."""
        await self._source.call(partial(_migrate, sql=self._sql), own_transaction=True, whole=True)

    async def abegin(self, run_id: str, thread_id: str | None) -> None:
        """Enter a run that is about to start."""
        check_storable(run_id, thread_id, nul=False)
        if self._begun % _SWEEP_EVERY == 0:
            await self.asweep()
        self._begun += 1
        # Asked once more after a lost connection, it may find what it has entered itself.
        entered = await self._ask("fetchval", self._sql.enter, run_id, thread_id, self.owner)
        if entered is None and not await self._is_mine(run_id):
            raise run_exists(run_id)

    async def _is_mine(self, run_id: str) -> bool:
        run = await self.arun(run_id)
        return run.owner == self.owner and run.last_seq == 0 and run_id not in self.live

    async def aappend(self, run_id: str, events: Sequence[Event]) -> None:
        """Store events."""
        rows = event_rows(self._serde, run_id, events)
        columns = [list(column) for column in zip(*rows, strict=True)]
        last = events[-1].seq
        first = await self._ask("fetchval", self._sql.append, run_id, last, status_after(events), *columns)
        if first is None:
            raise unknown_run(run_id)
        if last - first + 1 > self.max_events + self.max_events // 8:
            await self._ask("execute", self._sql.trim, run_id, last - self.max_events + 1)

    async def atouch(self, run_id: str) -> None:
        """Note a sign of life of a run."""
        await self._ask("execute", self._sql.touch, run_id)

    async def aread(self, run_id: str, after: int = 0, limit: int = PAGE) -> Page:
        """Return events after number `after`, at most `limit`, and how the run stands."""
        row = await self._ask("fetchrow", self._sql.read, run_id, after, limit)
        if row is None:
            raise unknown_run(run_id)
        record = RunRecord(*tuple(row)[:7])
        check_after(record, after)
        columns = tuple(row)[7:]
        rows = [] if columns[0] is None else list(zip(*columns, strict=True))
        return Page(record, load_events(self._serde, run_id, rows))

    async def arun(self, run_id: str) -> RunRecord:
        """Return how a run stands."""
        row = await self._ask("fetchrow", self._sql.read, run_id, 0, 0)
        if row is None:
            raise unknown_run(run_id)
        return RunRecord(*tuple(row)[:7])

    async def aruns(self, thread_id: str | None = None, *, limit: int = 100) -> list[RunRecord]:
        """Return the runs of a thread, or all, the one that began last first."""
        return [RunRecord(*row) for row in await self._ask("fetch", self._sql.list, thread_id, limit)]

    async def adelete_thread(self, thread_id: str) -> None:
        """Forget the runs of a thread."""
        await self._ask("fetchval", self._sql.forget, thread_id)

    async def asweep(self) -> int:
        """Forget the runs that ended, or fell silent, more than `ttl_s` seconds ago, and return how many."""
        if self.ttl_s is None:
            return 0
        total = 0
        while swept := await self._ask("fetchval", self._sql.sweep, self.ttl_s, max(self.ttl_s, self.stale_s)):
            total += swept
        return total

    async def _ask(self, method: str, statement: str, *values: Any) -> Any:
        """Call a method of a connection: one statement, which is a transaction of its own."""

        async def work(conn: Any) -> Any:
            return await getattr(conn, method)(statement, *values)

        return await self._source.call(work, whole=True)


async def _migrate(conn: Any, *, sql: _Statements) -> None:
    async with transaction(conn):
        key = zlib.crc32(b"langgraph_async setup " + sql.migrations.encode())
        await conn.execute("SELECT pg_advisory_xact_lock($1)", key)
        if sql.schema is not None:
            await conn.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(sql.schema)}")
        await conn.execute(f"CREATE TABLE IF NOT EXISTS {sql.migrations} (v INTEGER PRIMARY KEY)")
        done = await conn.fetchval(f"SELECT coalesce(max(v), -1) FROM {sql.migrations}")
        for number, step in enumerate(sql.steps()):
            if number > done:
                await conn.execute(step)
                await conn.execute(f"INSERT INTO {sql.migrations} (v) VALUES ({number})")


__all__ = ["PostgresEventLog"]
