"""One statement that stores the supersteps of many runs, each if nobody else changed its namespace first.

In: parts, each of which holds the commits of one namespace that build on each other. Out: a statement and its
arguments. It returns the numbers of the parts that were refused; all others are stored.

How a commit is compared and set. The statement sees the database as it was when it began, so two of them may find the
same newest checkpoint at the same time; and a lock would not help, for the one that had to wait for it still sees the
old state. Therefore each namespace has a gate: a row in `checkpoint_blobs` that every conditional commit with a
checkpoint writes. The unique index lets only one transaction at it at a time, and PostgreSQL shows the one that waited
the gate as it is then: if its `xmin` is not the one that was there when the statement began, the statement is refused.
A gate that did not exist is inserted, which only one can do. A gate that was there but is gone (somebody deleted the
thread meanwhile) gets inserted, too, but carries what was seen of the old one, by which that is noticed.

A commit without a checkpoint does not move the head: it is as if it had happened when the statement began.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langgraph_async.checkpoint.postgres.dump import Dumped
from langgraph_async.checkpoint.postgres.lane import Job
from langgraph_async.checkpoint.postgres.tables import GATE, Tables
from langgraph_async.constants import MISSING, Missing


class Chain(NamedTuple):
    """Commits of one namespace that build on each other, so that one statement can store them.

    Attributes:
        commits: They, in their order.
        expected: Head that the first of them must find; `MISSING` if none cares.
        tail: Head that they leave; `MISSING` if nobody cares.
        keys: What distinguishes their rows from those of other commits in the same place.
    """

    commits: Sequence[Dumped]
    expected: str | None | Missing
    tail: str | None | Missing
    keys: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, commits: Sequence[Dumped]) -> Chain | None:
        """Return `commits` as a chain; None if they are none, as several may be, but a single one never."""
        place, tail = commits[0].place, commits[0].expected_head
        keys: set[tuple[str, ...]] = set()
        for commit in commits:
            own = commit.keys()
            if commit.place != place or commit.expected_head != tail or not keys.isdisjoint(own):
                return None
            keys.update(own)
            if commit.checkpoint is not None and tail is not MISSING:
                tail = commit.checkpoint.checkpoint_id
        return cls(commits, commits[0].expected_head, tail, frozenset(keys))

    @classmethod
    def single(cls, commit: Dumped) -> Chain:
        """Return one commit as a chain."""
        made = cls.of((commit,))
        assert made is not None
        return made


@dataclass(slots=True)
class Part:
    """Commits of one namespace, in their order.

    Attributes:
        place: Thread and namespace.
        expected: Head that the first of them must find; `MISSING` if none cares.
        tail: Head that they leave; `MISSING` if nobody cares.
        jobs: Those who wait for them.
        commits: The commits of all of them.
    """

    place: tuple[str, str]
    expected: str | None | Missing = MISSING
    tail: str | None | Missing = MISSING
    jobs: list[Job] = field(default_factory=list)
    commits: list[Dumped] = field(default_factory=list)
    _keys: set[tuple[str, ...]] = field(default_factory=set)

    def take(self, job: Job) -> bool:
        """Add the chain of a job, unless it cannot be stored by the same statement."""
        chain: Chain = job.work
        if not self.jobs:
            self.expected = chain.expected
        elif chain.expected != self.tail or not self._keys.isdisjoint(chain.keys):
            return False
        self.jobs.append(job)
        self.commits.extend(chain.commits)
        self.tail = chain.tail
        self._keys.update(chain.keys)
        return True

    @property
    def moves(self) -> bool:
        """Whether they change the head."""
        return any(commit.checkpoint is not None for commit in self.commits)

    @property
    def newest(self) -> str | None:
        """Id of the last checkpoint among them."""
        ids = [commit.checkpoint.checkpoint_id for commit in self.commits if commit.checkpoint is not None]
        return ids[-1] if ids else None


class Shape(NamedTuple):
    """Which kinds of rows a statement stores."""

    checkpoints: bool
    blobs: bool
    kept: bool
    replaced: bool
    forgotten: bool


def compose(tables: Tables, parts: Sequence[Part]) -> tuple[str, list[Any]]:
    """Return the statement that stores `parts`, in the order of their places, and its arguments."""
    places: list[tuple[Any, ...]] = []
    checkpoints: list[tuple[Any, ...]] = []
    blobs: list[tuple[Any, ...]] = []
    kept: list[tuple[Any, ...]] = []
    replaced: list[tuple[Any, ...]] = []
    forgotten: list[tuple[Any, ...]] = []
    for position, part in enumerate(parts, 1):
        number = str(position)
        checked = part.expected is not MISSING
        moves = checked and part.moves
        places.append((*part.place, _FLAGS[checked], _FLAGS[moves], (part.expected or "") if checked else ""))
        for commit in part.commits:
            if commit.checkpoint is not None:
                checkpoint_id, parent_id, *texts = commit.checkpoint
                checkpoints.append((number, checkpoint_id, parent_id or "", *texts))
            blobs += [(number, *blob) for blob in commit.blobs]
            for task in commit.tasks:
                if task.replace:
                    forgotten.append((number, task.checkpoint_id, task.task_id, ",".join(row[0] for row in task.rows)))
                rows = replaced if task.replace or task.overwrite else kept
                rows += [(number, task.checkpoint_id, task.task_id, task.path, *row) for row in task.rows]
    given = (checkpoints, blobs, kept, replaced, forgotten)
    arguments = [_packed(column) for rows in (places, *given) for column in zip(*rows, strict=True)]
    return _sql(tables, Shape(*(bool(rows) for rows in given))), arguments


_FLAGS = ("0", "1")


def _packed(column: Sequence[Any]) -> Any:
    """Return a column as the parameter that `_Unnest` takes apart: a list of bytes as it is, of texts as one text.

    asyncpg asks of each item of an array whether it is an array again, which takes longer than all else it does to it.
    So texts go as one, whose first character, which is in none of them, comes before each: control characters are
    in no JSON and hardly in any id.
    """
    if not isinstance(column[0], str):
        return column
    for separator in map(chr, itertools.count(1)):
        text = separator + separator.join(column)
        if text.count(separator) == len(column):
            return text
    raise AssertionError  # there are more characters than a text can have


class _Unnest:
    """Numbers the parameters of a statement."""

    def __init__(self) -> None:
        self._used = 0

    def __call__(self, types: str) -> str:
        casts = []
        for kind in types.split():
            self._used += 1
            given = f"${self._used}::{kind}"
            casts.append(f"(string_to_array({given}, left({given}, 1)))[2:]" if kind == "text" else f"{given}[]")
        return f"unnest({', '.join(casts)})"


@functools.cache
def _sql(tables: Tables, shape: Shape) -> str:
    unnest = _Unnest()
    steps = [*_gated(tables, unnest)]
    if shape.checkpoints:
        steps.append(_put_checkpoints(tables, unnest))
    if shape.blobs:
        steps.append(_put_blobs(tables, unnest))
    if shape.kept:
        steps.append(f"kept AS ({_put_writes(tables, unnest)} ON CONFLICT DO NOTHING)")
    if shape.replaced:
        steps.append(
            f"replaced AS ({_put_writes(tables, unnest)} "
            "ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE SET "
            "task_path = EXCLUDED.task_path, channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob)"
        )
    if shape.forgotten:
        steps.append(_forget(tables, unnest))
    return f"WITH {', '.join(steps)} SELECT n FROM place WHERE n NOT IN (SELECT n FROM won)"


def _gated(tables: Tables, unnest: _Unnest) -> Iterable[str]:
    same = "thread_id = p.thread_id AND {0}.checkpoint_ns = p.ns"
    yield f"""place AS MATERIALIZED (
        SELECT p.*,
            CASE WHEN p.checked THEN (
                SELECT c.checkpoint_id FROM {tables.checkpoints} AS c WHERE c.{same.format("c")}
                ORDER BY c.checkpoint_id DESC LIMIT 1
            ) END AS head,
            CASE WHEN p.moves THEN (
                SELECT b.xmin::text FROM {tables.blobs} AS b
                WHERE b.{same.format("b")} AND b.channel = '{GATE}' AND b.version = ''
            ) END AS seen
        FROM (
            SELECT r.thread_id, r.ns, r.checked = '1' AS checked, r.moves = '1' AS moves,
                nullif(r.expected, '') AS expected, r.n
            FROM {unnest("text text text text text")} WITH ORDINALITY AS r (thread_id, ns, checked, moves, expected, n)
        ) AS p
    )"""
    # Parts come sorted, so that two statements cannot wait for each other. Passing an existing gate empties it.
    yield f"""claimed AS (
        INSERT INTO {tables.blobs} AS gate (thread_id, checkpoint_ns, channel, version, type, blob)
        SELECT thread_id, ns, '{GATE}', '', 'empty', convert_to(seen, 'UTF8')
        FROM place WHERE moves AND head IS NOT DISTINCT FROM expected ORDER BY n
        ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO UPDATE SET blob = NULL
        WHERE gate.xmin::text = convert_from(EXCLUDED.blob, 'UTF8')
        RETURNING gate.thread_id, gate.checkpoint_ns, gate.blob
    )"""
    yield """won AS MATERIALIZED (
        SELECT p.n, p.thread_id, p.ns
        FROM place AS p LEFT JOIN claimed AS c ON c.thread_id = p.thread_id AND c.checkpoint_ns = p.ns
        WHERE NOT p.checked OR CASE
            WHEN p.moves THEN c.thread_id IS NOT NULL AND c.blob IS NULL
            ELSE p.head IS NOT DISTINCT FROM p.expected
        END
    )"""


def _put_checkpoints(tables: Tables, unnest: _Unnest) -> str:
    return f"""put AS (
        INSERT INTO {tables.checkpoints}
            (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
        SELECT won.thread_id, won.ns, r.id, nullif(r.parent, ''), r.checkpoint::jsonb, r.metadata::jsonb
        FROM {unnest("text text text text text")} AS r (n, id, parent, checkpoint, metadata)
        JOIN won ON won.n = r.n::bigint
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET
            parent_checkpoint_id = EXCLUDED.parent_checkpoint_id, checkpoint = EXCLUDED.checkpoint,
            metadata = EXCLUDED.metadata
    )"""


def _put_blobs(tables: Tables, unnest: _Unnest) -> str:
    return f"""stored AS (
        INSERT INTO {tables.blobs} (thread_id, checkpoint_ns, channel, version, type, blob)
        SELECT won.thread_id, won.ns, r.channel, r.version, r.type, r.blob
        FROM {unnest("text text text text bytea")} AS r (n, channel, version, type, blob)
        JOIN won ON won.n = r.n::bigint
        ON CONFLICT DO NOTHING
    )"""


def _put_writes(tables: Tables, unnest: _Unnest) -> str:
    return f"""
        INSERT INTO {tables.writes}
            (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
        SELECT won.thread_id, won.ns, r.id, r.task, r.path, r.idx::int, r.channel, r.type, r.blob
        FROM {unnest("text text text text text text text bytea")} AS r (n, id, task, path, idx, channel, type, blob)
        JOIN won ON won.n = r.n::bigint"""


def _forget(tables: Tables, unnest: _Unnest) -> str:
    # Two steps of one statement must not touch the same row: this one leaves those that `replaced` stores.
    return f"""forgotten AS (
        DELETE FROM {tables.writes} AS w
        USING {unnest("text text text text")} AS r (n, id, task, places) JOIN won ON won.n = r.n::bigint
        WHERE w.thread_id = won.thread_id AND w.checkpoint_ns = won.ns AND w.checkpoint_id = r.id
            AND w.task_id = r.task AND w.idx <> ALL (string_to_array(r.places, ',')::int[])
    )"""
