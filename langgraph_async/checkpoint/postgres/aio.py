"""A saver that keeps checkpoints in PostgreSQL, in LangGraph's tables: for any number of processes and machines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import asyncpg
import asyncpg.pool

from langgraph_async.aio.once import Once
from langgraph_async.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Claim,
    DeltaChannelHistory,
    StepCommit,
    TaskWrites,
    get_checkpoint_id,
)
from langgraph_async.checkpoint.postgres import queries, schema, upkeep
from langgraph_async.checkpoint.postgres.claims import Claims, claims_of
from langgraph_async.checkpoint.postgres.commit import CommitLane
from langgraph_async.checkpoint.postgres.dump import (
    CheckpointRow,
    Dumped,
    dump_commit,
    load_tuple,
    load_writes,
    matches,
)
from langgraph_async.checkpoint.postgres.history import delta_history
from langgraph_async.checkpoint.postgres.lane import Job
from langgraph_async.checkpoint.postgres.source import PATIENCE_S, Options, Source
from langgraph_async.checkpoint.postgres.statement import Chain
from langgraph_async.checkpoint.postgres.tables import Tables
from langgraph_async.checkpoint.rows import (
    check_storable,
    check_strategy,
    checked_ids,
    checkpoint_of,
    load_metadata,
    next_version,
    place_of,
)
from langgraph_async.checkpoint.threads import ThreadInfo, ThreadStatus, first_id_at, status_of, time_of
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import CHECKPOINT_NS, CONF
from langgraph_async.serde.base import SerializerProtocol


class AsyncPostgresSaver(BaseCheckpointSaver[str]):
    """Keeps checkpoints in a PostgreSQL database.

    A superstep is stored by one statement, and the supersteps of concurrent runs by one together when they are waiting
    anyway. An existing LangGraph database is used as it is, and LangGraph can go on using it::

        async with AsyncPostgresSaver.from_conn_string("postgresql://localhost/agents") as saver:
            await saver.setup()  # once
            graph = builder.compile(checkpointer=saver)
            await graph.ainvoke(value, {"configurable": {"thread_id": "1"}})

    A cancelled call that had begun to store has stored everything when the cancellation is passed on; one that had
    not, nothing. Cancelled reads are left at once; what changes whole threads is stopped, and done or undone then. A
    connection that died is replaced, and what was asked of it is asked once more. All methods raise
    `StorageError` when the database cannot be used.

    A saver belongs to the event loop in which it is first used.

    Args:
        conn: A pool or a connection of yours, which stays open when the saver is closed. On a single connection, all
            methods take turns, and it must not be in a transaction of yours meanwhile.
        serde: The serializer for values.
        schema: Schema of the tables; None: the first one of the connection's `search_path`.
        ttl_s: Age in seconds at which `asweep` deletes a thread; None: never.
        claims: Lock a thread while a run that begins with a node goes on: another process, or another saver, then
            does not run the same node. These are advisory locks: they are held on one connection of the pool as long
            as there are any, so that a pool of a single connection has none; and there are none through a pooler
            that may give each transaction to another server connection, of which a `RuntimeWarning` tells.
    """

    can_commit: ClassVar[bool] = True
    keeps_ancestors: ClassVar[bool] = True

    def __init__(
        self,
        conn: asyncpg.pool.Pool | asyncpg.Connection,
        *,
        serde: SerializerProtocol | None = None,
        schema: str | None = None,
        ttl_s: float | None = None,
        claims: bool = True,
    ) -> None:
        super().__init__(serde=serde)
        source = Source(conn, Options())
        self._prepare(source, schema, ttl_s, claims_of(conn, source, Options()) if claims else None)

    def _prepare(self, source: Source, schema: str | None, ttl_s: float | None, claims: Claims | None) -> None:
        if ttl_s is not None and ttl_s <= 0:
            raise ValueError(f"ttl_s must be positive, or None for threads that stay, got {ttl_s!r}.")
        self._source = source
        self._tables = Tables.within(schema)
        self._ttl_s = ttl_s
        self._claims = claims
        self.can_claim = claims is not None
        self._closing = Once("langgraph_async_close")
        width = max(1, source.size // 2)  # writing leaves connections for reading, and the other way round
        self._commits = CommitLane(source, self._tables, width)
        self._reads = queries.ReadLane(source, self._tables, width)

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        serde: SerializerProtocol | None = None,
        schema: str | None = None,
        min_size: int = 1,
        max_size: int = 10,
        statement_cache: bool = True,
        ttl_s: float | None = None,
        claims: bool = True,
        connect: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return a saver with a pool of its own, to be used in ``async with``, or closed with `aclose`.

        Args:
            conn_string: ``postgresql://user:password@host:port/database``.
            serde: The serializer for values.
            schema: Schema of the tables; None: the first one of the connection's `search_path`.
            min_size: Connections that are kept open.
            max_size: Connections that are open at most.
            statement_cache: Off for a pooler that may give each transaction to another server connection, such as
                PgBouncer; each call then takes more round trips. Run `setup` without the pooler.
            ttl_s: Age in seconds at which `asweep` deletes a thread; None: never.
            claims: See `AsyncPostgresSaver`. They are held on one connection more, opened when it is first needed.
            connect: Further options of `asyncpg.connect`, such as ``ssl`` or ``command_timeout``.

        Raises:
            ValueError: An option has no such value.
        """
        if not 0 <= min_size <= max_size or max_size < 1:
            raise ValueError(f"A pool cannot have from {min_size!r} to {max_size!r} connections.")
        saver = cls.__new__(cls)
        BaseCheckpointSaver.__init__(saver, serde=serde)
        options = Options(min_size, max_size, statement_cache, connect or {})
        source = Source(conn_string, options)
        saver._prepare(source, schema, ttl_s, claims_of(conn_string, source, options) if claims else None)
        return saver

    @property
    def source(self) -> Source:
        """Where connections come from, for what keeps tables of its own beside the checkpoints."""
        return self._source

    @property
    def schema(self) -> str | None:
        """Schema of the tables, or None for the first one of the connection's `search_path`."""
        return self._tables.schema

    async def setup(self) -> None:
        """Create what is missing of the tables. Any number of processes may do so at once.

        Raises:
            StorageError: They cannot be created, or are those of LangGraph's shallow saver.
        """
        await self._change(schema.create)

    async def aclose(self) -> None:
        """Store what is still to be stored, and close the connections that were opened here.

        Reads under way get a few seconds to end. A cancellation is passed on once everything is closed. In whichever
        event loop it is called, it is done in that of the saver.

        Raises:
            StorageError: The saver's event loop, another one, does not run.
        """
        if await self._source.closed_elsewhere(self.aclose):
            return
        await self._closing.do_whole(self._close)

    async def _close(self) -> None:
        try:
            await self._commits.finish()
            await self._reads.finish(PATIENCE_S)
            if self._claims is not None:
                await self._claims.close()
        finally:
            await self._source.close()
            await self._reads.finish(PATIENCE_S)

    async def __aenter__(self) -> Self:
        try:
            await self._source.open()
        except asyncio.CancelledError:  # nobody will leave what was not entered
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def get_next_version(self, current: str | None, channel: None = None) -> str:  # noqa: ARG002
        """Return a version that sorts, as text, after `current`; integers are counted on."""
        return next_version(current)

    # -- reading --------------------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the named checkpoint, or the newest of the namespace; None when there is none."""
        place = place_of(config)
        check_storable(*place, nul=False)
        row: CheckpointRow | None = await self._reads.do(Job(place[:2], place))
        return None if row is None else (await self._load((row,)))[0]

    async def _load(self, rows: Sequence[CheckpointRow]) -> list[CheckpointTuple]:
        sends = await queries.sends_of_old(self._source, self._tables, rows)
        found = []
        for row in rows:
            parent = (row.thread_id, row.checkpoint_ns, row.parent_id or "")
            writes = load_writes(self.serde, sends.get(row.key, ()), key=parent)
            found.append(load_tuple(self.serde, row, [send for _, _, send in writes]))
        return found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first.

        They are read in pages, each with one query, and nothing is locked or held between two of them: a checkpoint
        that was deleted after the list began may or may not be in it, and newer ones are not.
        """
        selection = _selection(config, filter, before)
        left = float("inf") if limit is None else limit
        after: queries.Key | None = None
        while left > 0:
            size = int(min(left, queries.PAGE_ROWS))
            rows = await queries.page(self._source, self._tables, selection, after, size)
            wanted = [row for row in rows if matches(load_metadata(row.metadata, key=row.key), selection.filter)]
            for item in await self._load(wanted):
                left -= 1
                yield item
            if len(rows) < size:
                return
            after = rows[-1].key

    async def alist_threads(
        self,
        *,
        status: ThreadStatus | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ThreadInfo]:
        """Yield the threads, the one that changed last first.

        Args:
            status: Only threads that stand like this.
            filter: Only threads whose newest checkpoint has these metadata entries.
            limit: At most so many.
        """
        left = float("inf") if limit is None else limit
        after: tuple[str, str] | None = None
        while left > 0:
            rows = await queries.threads(self._source, self._tables, after)
            if not rows:
                return
            for info in _thread_infos(rows):
                if left <= 0:
                    return
                if status in (None, info.status) and matches(info.metadata, filter or {}):
                    left -= 1
                    yield info
            after = (rows[-1][1], rows[-1][0])

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return, for each channel, the nearest stored value above the named checkpoint and the writes after it."""
        if not channels:
            return {}
        place = place_of(config)
        check_storable(*place, nul=False)
        walk = partial(delta_history, tables=self._tables, serde=self.serde, place=place, channels=channels)
        found: dict[str, DeltaChannelHistory] = await self._source.call(walk)
        return found

    # -- writing --------------------------------------------------------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as a child of the one that `config` names, and return its own config."""
        return await self.acommit(
            config, StepCommit(checkpoint=checkpoint, metadata=metadata, new_versions=new_versions)
        )

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store writes of a task on the checkpoint that `config` names."""
        checkpoint_of(config)
        if writes:
            await self.acommit(config, StepCommit((TaskWrites(task_id, task_path, writes),)))

    async def acommit(self, config: RunnableConfig, commit: StepCommit) -> RunnableConfig:
        """Store `commit` at once and return the config of its checkpoint (or `config` without one)."""
        dumped = dump_commit(self.serde, config, commit)
        await self._store((dumped,))
        return config if dumped.config is None else dumped.config

    async def acommit_chain(self, commits: Sequence[tuple[RunnableConfig, StepCommit]]) -> None:
        """Store commits that build on each other, in order, by one statement."""
        dumped: list[Dumped] = []
        failure: Exception | None = None
        for config, commit in commits:
            try:
                dumped.append(dump_commit(self.serde, config, commit))
            except Exception as exc:  # noqa: BLE001 - raised once those before it are stored
                failure = exc
                break
        if dumped:
            await self._store(tuple(dumped))
        if failure is not None:
            raise failure

    async def _store(self, commits: tuple[Dumped, ...]) -> None:
        chain = Chain.of(commits)
        for each in map(Chain.single, commits) if chain is None else (chain,):
            await self._commits.do(Job(each.commits[0].place, each))

    async def aclaim(self, thread_id: str) -> Claim | None:
        """Claim a thread for a run, or return None when it is claimed already."""
        if self._claims is None:
            return await super().aclaim(thread_id)
        await self._source.open()
        return await self._claims.claim(self._tables.checkpoints, str(thread_id))

    # -- whole threads --------------------------------------------------------------------------------------

    async def _change(self, work: Any, *, again: bool = True) -> Any:
        tabled = partial(work, tables=self._tables)
        return await self._source.call(tabled, again=again, own_transaction=True, whole=True)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread, and nothing of any other."""
        check_storable(str(thread_id), nul=False)
        await self._change(partial(upkeep.delete_threads, threads=(str(thread_id),)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, except those that delta channels of surviving ones need."""
        runs = checked_ids(run_ids, "run_ids")
        check_storable(*runs, nul=False)
        if runs:
            await self._change(partial(upkeep.delete_runs, run_ids=runs))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all namespaces, checkpoints and writes of a thread; an unknown source copies nothing."""
        source, target = str(source_thread_id), str(target_thread_id)
        check_storable(source, target, nul=False)
        copy = partial(upkeep.copy_thread, serde=self.serde, source=source, target=target)
        await self._change(copy, again=False)

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: Literal["keep_latest", "delete"] = "keep_latest"
    ) -> None:
        """Keep only the newest checkpoint of each namespace of these threads, or nothing at all."""
        check_strategy(strategy)
        ids = checked_ids(thread_ids, "thread_ids")
        check_storable(*ids, nul=False)
        if strategy == "delete":
            await self._change(partial(upkeep.delete_threads, threads=ids))
            return
        for thread_id in sorted(ids):
            await self._change(partial(upkeep.keep_latest, thread_id=thread_id))

    async def asweep(self) -> int:
        """Delete the threads that had no new checkpoint for `ttl_s` seconds, and return how many; 0 without it.

        Nothing calls this by itself: call it from time to time. The age is told by the newest checkpoint's id, so
        that the tables need no column for it.
        """
        if self._ttl_s is None:
            return 0
        before = first_id_at(datetime.now(UTC) - timedelta(seconds=self._ttl_s))
        total = 0
        while deleted := await self._change(partial(upkeep.delete_untouched, before=before)):
            total += deleted
        return total


def _selection(
    config: RunnableConfig | None, filter: Mapping[str, Any] | None, before: RunnableConfig | None
) -> queries.Selection:
    bound = get_checkpoint_id(before) if before else None
    check_storable(bound, nul=False)
    if config is None:
        return queries.Selection(before=bound, filter=filter or {})
    thread_id, ns, checkpoint_id = place_of(config)
    check_storable(thread_id, ns, checkpoint_id, nul=False)
    named = config.get(CONF, {}).get(CHECKPOINT_NS) is not None
    return queries.Selection(thread_id, ns if named else None, checkpoint_id, bound, filter or {})


def _thread_infos(rows: Sequence[Any]) -> Iterator[ThreadInfo]:
    for thread_id, checkpoint_id, metadata, tasks, targets, empty in rows:
        yield ThreadInfo(
            thread_id=thread_id,
            checkpoint_id=checkpoint_id,
            updated_at=time_of(checkpoint_id),
            status=status_of(zip(tasks or (), targets or (), empty or (), strict=True)),
            metadata=load_metadata(metadata, key=(thread_id, "", checkpoint_id)),
        )


__all__ = ["AsyncPostgresSaver"]
