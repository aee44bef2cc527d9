"""Reads checkpoints: many single ones at once, a page of a list, the newest of each thread."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langgraph_async.checkpoint.postgres.dump import CheckpointRow, waits_for_sends
from langgraph_async.checkpoint.postgres.history import BY_KEY, stored_value
from langgraph_async.checkpoint.postgres.lane import Job, PlainLane
from langgraph_async.checkpoint.postgres.source import Source
from langgraph_async.checkpoint.postgres.tables import Tables
from langgraph_async.constants import TASKS

Key: TypeAlias = tuple[str, str, str]
"""Thread, namespace, checkpoint id."""

SendRow: TypeAlias = tuple[str, str, str | None, bytes | None, int]
"""Task id, channel, type tag, value, position."""

PAGE_ROWS = 100
_THREADS_PAGE = 500
_WRITE_ORDER = 'w.task_path COLLATE "C", w.task_id COLLATE "C", w.idx'


def _whole(tables: Tables) -> str:
    """Return the columns of a `CheckpointRow` for a checkpoint `c`, and the joins that they need."""
    return f"""
        c.thread_id, c.checkpoint_ns, c.checkpoint_id, c.parent_checkpoint_id, c.checkpoint::text, c.metadata::text,
        v.channels, v.kinds, v.stored, w.tasks, w.targets, w.kinds, w.written, w.positions, v.versions
        FROM {{source}}
        CROSS JOIN LATERAL (
            SELECT array_agg(b.channel) AS channels, array_agg(b.version) AS versions, array_agg(b.type) AS kinds,
                array_agg(b.blob) AS stored
            FROM jsonb_object_keys(c.checkpoint -> 'channel_versions') AS named (channel)
            CROSS JOIN LATERAL ({stored_value(tables, "*", "named.channel")}) AS b
        ) AS v
        CROSS JOIN LATERAL (
            SELECT array_agg(o.task_id) AS tasks, array_agg(o.channel) AS targets,
                array_agg(o.type) AS kinds, array_agg(o.blob) AS written, array_agg(o.idx::text) AS positions
            FROM (
                SELECT w.task_id, w.channel, w.type, w.blob, w.idx FROM (
                    SELECT * FROM {tables.writes} AS w
                    WHERE w.thread_id = c.thread_id AND w.checkpoint_ns = c.checkpoint_ns
                        AND w.checkpoint_id = c.checkpoint_id
                    {BY_KEY}
                ) AS w
                ORDER BY {_WRITE_ORDER}
            ) AS o
        ) AS w
    """


def one_each(tables: Tables) -> str:
    """Return the statement that reads checkpoints by thread, namespace and id, or the newest where there is no id."""
    wanted = f"""
        unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS p (thread_id, ns, id, n)
        CROSS JOIN LATERAL (
            SELECT * FROM {tables.checkpoints} AS c
            WHERE c.thread_id = p.thread_id AND c.checkpoint_ns = p.ns AND c.checkpoint_id = p.id
            UNION ALL
            (SELECT * FROM {tables.checkpoints} AS c
             WHERE p.id IS NULL AND c.thread_id = p.thread_id AND c.checkpoint_ns = p.ns
             ORDER BY c.checkpoint_id DESC LIMIT 1)
        ) AS c
    """
    return f"SELECT p.n, {_whole(tables).format(source=wanted)}"


class ReadLane(PlainLane):
    """The queue of those who want one checkpoint each."""

    def __init__(self, source: Source, tables: Tables, width: int) -> None:
        super().__init__(width, "langgraph_async_read", whole=False)
        self._source = source
        self._sql = one_each(tables)

    async def _run(self, batch: list[Job]) -> None:
        columns = [[job.work[place] for job in batch] for place in range(3)]
        for row in await self._source.run(lambda conn: conn.fetch(self._sql, *columns)):
            batch[row[0] - 1].value = CheckpointRow(*row[1:])


@dataclass(frozen=True, slots=True)
class Selection:
    """Which checkpoints are listed.

    Attributes:
        thread_id: Of one thread only.
        checkpoint_ns: Of one namespace only.
        checkpoint_id: Only this one.
        before: Only those with a smaller id.
        filter: Metadata entries that must be equal.
    """

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    filter: Mapping[str, Any] = field(default_factory=dict)

    def conditions(self) -> tuple[list[str], list[Any]]:
        """Return conditions, to be joined by AND, and their arguments.

        They may let through rows whose metadata does not match.
        """
        conditions: list[str] = []
        arguments: list[Any] = []
        for name in ("thread_id", "checkpoint_ns", "checkpoint_id"):
            wanted = getattr(self, name)
            if wanted is not None:
                arguments.append(wanted)
                conditions.append(f"c.{name} = ${len(arguments)}::text")
        if self.before is not None:
            arguments.append(self.before)
            conditions.append(f"c.checkpoint_id < ${len(arguments)}::text")
        wanted = {key: value for key, value in self.filter.items() if _comparable(key, value)}
        if wanted:
            arguments.append(json.dumps(wanted))
            conditions.append(f"c.metadata @> (${len(arguments)}::text)::jsonb")
        return conditions, arguments


def _comparable(key: str, value: Any) -> bool:
    """Tell whether PostgreSQL finds `value` contained wherever Python finds it equal."""
    if "\0" in key or not key.isprintable():
        return False
    if type(value) is str:
        return value.isprintable()
    return type(value) is int and value not in (0, 1)  # these two are equal to booleans


async def page(
    source: Source, tables: Tables, selection: Selection, after: Key | None, limit: int
) -> list[CheckpointRow]:
    """Return the first `limit` rows of checkpoints that come behind `after`, with their values and writes."""
    conditions, arguments = selection.conditions()
    if after is not None:
        thread, ns, checkpoint = (f"${len(arguments) + number}::text" for number in (1, 2, 3))
        conditions.append(
            f"(c.checkpoint_id < {checkpoint} OR (c.checkpoint_id = {checkpoint} "
            f"AND (c.thread_id, c.checkpoint_ns) > ({thread}, {ns})))"
        )
        arguments += after
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = "c.checkpoint_id DESC, c.thread_id, c.checkpoint_ns"
    chosen = f"(SELECT * FROM {tables.checkpoints} AS c {where} ORDER BY {order} LIMIT {limit}) AS c"
    sql = f"SELECT {_whole(tables).format(source=chosen)} ORDER BY {order}"
    return [CheckpointRow(*row) for row in await source.call(lambda conn: conn.fetch(sql, *arguments))]


async def sends_of_old(source: Source, tables: Tables, rows: Sequence[CheckpointRow]) -> dict[Key, list[SendRow]]:
    """Return, for the checkpoints among `rows` that have an old format, the sends that stand on their parents."""
    old = [row for row in rows if waits_for_sends(row)]
    if not old:
        return {}
    sql = f"""
        SELECT p.n, w.task_id, w.channel, w.type, w.blob, w.idx
        FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS p (thread_id, ns, id, n)
        JOIN {tables.writes} AS w
            ON w.thread_id = p.thread_id AND w.checkpoint_ns = p.ns AND w.checkpoint_id = p.id AND w.channel = '{TASKS}'
        ORDER BY p.n, {_WRITE_ORDER}
    """
    columns = [[r.thread_id for r in old], [r.checkpoint_ns for r in old], [r.parent_id for r in old]]
    found: dict[Key, list[SendRow]] = {}
    for number, *send in await source.call(lambda conn: conn.fetch(sql, *columns)):
        found.setdefault(old[number - 1].key, []).append(tuple(send))
    return found


async def threads(source: Source, tables: Tables, after: tuple[str, str] | None) -> list[Any]:
    """Return rows of the newest checkpoints of threads behind `after`, each with its tasks' writes.

    Args:
        source: Gives the connection.
        tables: The tables.
        after: Checkpoint id and thread id of the last one before.
    """
    sql = f"""
        SELECT newest.thread_id, newest.id, c.metadata::text, w.tasks, w.targets, w.empty
        FROM (
            SELECT c.thread_id, max(c.checkpoint_id) AS id FROM {tables.checkpoints} AS c
            WHERE c.checkpoint_ns = '' GROUP BY c.thread_id
            HAVING $1::text IS NULL OR max(c.checkpoint_id) < $1
                OR (max(c.checkpoint_id) = $1 AND c.thread_id > $2::text)
            ORDER BY id DESC, c.thread_id LIMIT {_THREADS_PAGE}
        ) AS newest
        JOIN {tables.checkpoints} AS c
            ON c.thread_id = newest.thread_id AND c.checkpoint_ns = '' AND c.checkpoint_id = newest.id
        CROSS JOIN LATERAL (
            SELECT array_agg(w.task_id) AS tasks, array_agg(w.channel) AS targets,
                array_agg(w.type LIKE 'null%') AS empty
            FROM {tables.writes} AS w
            WHERE w.thread_id = c.thread_id AND w.checkpoint_ns = '' AND w.checkpoint_id = c.checkpoint_id
        ) AS w
        ORDER BY newest.id DESC, newest.thread_id
    """
    arguments = after or (None, None)
    found: list[Any] = await source.call(lambda conn: conn.fetch(sql, *arguments))
    return found
