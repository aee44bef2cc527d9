"""A saver that keeps checkpoints in a SQLite file, in LangGraph's tables: for one machine, any number of processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import aiosqlite

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
from langgraph_async.checkpoint.rows import (
    check_storable,
    check_strategy,
    checked_ids,
    checkpoint_of,
    load_metadata,
    next_version,
    place_of,
)
from langgraph_async.checkpoint.sqlite import queries, upkeep
from langgraph_async.checkpoint.sqlite.claims import OFFERED, Claims
from langgraph_async.checkpoint.sqlite.database import Database, Options
from langgraph_async.checkpoint.sqlite.dump import dump_commit, load_tuple
from langgraph_async.checkpoint.sqlite.history import delta_history
from langgraph_async.checkpoint.threads import ThreadInfo, ThreadStatus, first_id_at, status_of, time_of
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import CHECKPOINT_NS, CONF
from langgraph_async.serde.base import SerializerProtocol


class AsyncSqliteSaver(BaseCheckpointSaver[str]):
    """Keeps checkpoints in a SQLite database.

    The commits of concurrent runs go into one transaction, written by one connection; reading has a connection of
    its own and never waits for a writer, nor a writer for it. An existing LangGraph database is used as it is, and
    LangGraph can go on using it::

        async with AsyncSqliteSaver.from_conn_string("checkpoints.db") as saver:
            graph = builder.compile(checkpointer=saver)
            await graph.ainvoke(value, {"configurable": {"thread_id": "1"}})

    A cancelled call that had begun to store has stored everything when the cancellation is passed on; one that had
    not, nothing. All methods raise `StorageError` when the database cannot be used.

    A saver belongs to the event loop in which it is first used.

    Args:
        conn: A connection of yours, which stays open when the saver is closed. Reading and writing take turns on
            it, and it must not be in a transaction of yours meanwhile.
        serde: The serializer for values.
        ttl_s: Age in seconds at which `asweep` deletes a thread; None: never.
        claims: Lock a thread, by a file beside the database, while a run that begins with a node goes on: another
            process, or another saver, then does not run the same node. Not on Windows.
    """

    can_commit: ClassVar[bool] = True
    keeps_ancestors: ClassVar[bool] = True
    text_versions: ClassVar[bool] = True

    def __init__(
        self,
        conn: aiosqlite.Connection,
        *,
        serde: SerializerProtocol | None = None,
        ttl_s: float | None = None,
        claims: bool = True,
    ) -> None:
        super().__init__(serde=serde)
        self._prepare(Database(conn, Options()), ttl_s, claims)

    def _prepare(self, database: Database, ttl_s: float | None, claims: bool) -> None:
        if ttl_s is not None and ttl_s <= 0:
            raise ValueError(f"ttl_s must be positive, or None for threads that stay, got {ttl_s!r}.")
        self._database = database
        self._ttl_s = ttl_s
        self.can_claim = claims and OFFERED
        self._claims = Claims()

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str | os.PathLike[str],
        *,
        serde: SerializerProtocol | None = None,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_timeout_s: float = 10.0,
        ttl_s: float | None = None,
        claims: bool = True,
    ) -> Self:
        """Return a saver for a file, to be used in ``async with``, or closed with `aclose`.

        Args:
            conn_string: The file, ``":memory:"``, or a URI that starts with ``file:``.
            serde: The serializer for values.
            synchronous: With ``"FULL"`` what was reported stored survives a power cut. ``"NORMAL"`` is several times
                faster: a power cut may undo the last commits, each as a whole; a crash of the process undoes none.
            busy_timeout_s: Seconds to wait for another process that holds the database's lock.
            ttl_s: Age in seconds at which `asweep` deletes a thread; None: never.
            claims: See `AsyncSqliteSaver`.

        Raises:
            ValueError: An option has no such value.
        """
        if synchronous not in ("FULL", "NORMAL"):
            raise ValueError(f"synchronous must be 'FULL' or 'NORMAL', got {synchronous!r}.")
        if busy_timeout_s < 0:
            raise ValueError(f"busy_timeout_s must not be negative, got {busy_timeout_s!r}.")
        saver = cls.__new__(cls)
        BaseCheckpointSaver.__init__(saver, serde=serde)
        options = Options(synchronous=synchronous, busy_timeout_s=busy_timeout_s)
        saver._prepare(Database(os.fspath(conn_string), options), ttl_s, claims)
        return saver

    @property
    def database(self) -> Database:
        """The database, for what keeps tables of its own beside the checkpoints."""
        return self._database

    async def setup(self) -> None:
        """Open the database and create what is missing in it; every other method does so when needed."""
        await self._database.opened()

    async def aclose(self) -> None:
        """Store what is still to be stored, and close the database, in the saver's event loop.

        Raises:
            StorageError: That is another loop, which does not run.
        """
        await self._database.close()

    async def __aenter__(self) -> Self:
        try:
            await self.setup()
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
        check_storable(*place, nul=True)
        found = await self._database.read(lambda conn, reading: reading.one(conn, place))
        return None if found is None else load_tuple(self.serde, *found)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first.

        They are read in pages, and nothing is locked or held between two of them: a checkpoint that was deleted
        after the list began may or may not be in it, and newer ones are not.
        """
        selection = _selection(config, filter, before)
        left = float("inf") if limit is None else limit
        after: queries.Key | None = None
        while left > 0:
            size = int(min(left, 1_000))
            page = await self._database.read(partial(_page, selection=selection, after=after, limit=size))
            if not page:
                return
            for row, writes in page:
                if left <= 0:
                    return
                if selection.filter and not selection.matches(load_metadata(row[6], key=row[:3])):
                    continue
                left -= 1
                yield load_tuple(self.serde, row, writes)
            after = page[-1][0][:3]

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
            rows = await self._database.read(partial(queries.threads, after=after))
            if not rows:
                return
            for info in _thread_infos(rows):
                if left <= 0:
                    return
                if status in (None, info.status) and _has(info.metadata, filter):
                    left -= 1
                    yield info
            after = (rows[-1][0][2], rows[-1][0][0])

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return, for each channel, the nearest stored value above the named checkpoint and the writes after it."""
        if not channels:
            return {}
        place = place_of(config)
        check_storable(*place, nul=True)
        walk = partial(delta_history, serde=self.serde, place=place, channels=channels)
        found: dict[str, DeltaChannelHistory] = await self._database.read(walk)
        return found

    # -- writing --------------------------------------------------------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - all values are stored each time, as LangGraph reads them
    ) -> RunnableConfig:
        """Store a checkpoint as a child of the one that `config` names, and return its own config."""
        return await self.acommit(config, StepCommit(checkpoint=checkpoint, metadata=metadata))

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
        await self._database.write((dumped,))
        return config if dumped.config is None else dumped.config

    async def acommit_chain(self, commits: Sequence[tuple[RunnableConfig, StepCommit]]) -> None:
        """Store commits that build on each other, in order, in one transaction."""
        dumped = []
        failure: Exception | None = None
        for config, commit in commits:
            try:
                dumped.append(dump_commit(self.serde, config, commit))
            except Exception as exc:  # noqa: BLE001 - raised once those before it are stored
                failure = exc
                break
        if dumped:
            await self._database.write(tuple(dumped))
        if failure is not None:
            raise failure

    async def aclaim(self, thread_id: str) -> Claim | None:
        """Claim a thread for a run, or return None when it is claimed already."""
        return self._claims.claim(await self._database.path(), str(thread_id))

    # -- whole threads --------------------------------------------------------------------------------------

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread, and nothing of any other."""
        check_storable(str(thread_id), nul=True)
        await self._database.write(partial(upkeep.delete_thread, thread_id=str(thread_id)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, except those that delta channels of surviving ones need."""
        runs = checked_ids(run_ids, "run_ids")
        check_storable(*runs, nul=True)
        if runs:
            await self._database.write(partial(upkeep.delete_runs, serde=self.serde, run_ids=runs))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all namespaces, checkpoints and writes of a thread; an unknown source copies nothing."""
        check_storable(str(source_thread_id), str(target_thread_id), nul=True)
        source, target = str(source_thread_id), str(target_thread_id)
        await self._database.write(partial(upkeep.copy_thread, serde=self.serde, source=source, target=target))

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: Literal["keep_latest", "delete"] = "keep_latest"
    ) -> None:
        """Keep only the newest checkpoint of each namespace of these threads, or nothing at all."""
        check_strategy(strategy)
        ids = checked_ids(thread_ids, "thread_ids")
        check_storable(*ids, nul=True)
        for thread_id in ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
            else:
                await self._database.write(partial(upkeep.keep_latest, serde=self.serde, thread_id=thread_id))

    async def asweep(self) -> int:
        """Delete the threads that had no new checkpoint for `ttl_s` seconds, and return how many; 0 without it.

        Nothing calls this by itself: call it from time to time. The age is told by the newest checkpoint's id, so
        that the tables need no column for it.
        """
        if self._ttl_s is None:
            return 0
        before = first_id_at(datetime.now(UTC) - timedelta(seconds=self._ttl_s))
        total = 0
        while deleted := await self._database.write(partial(upkeep.delete_untouched, before=before)):
            total += deleted
        return total


def _page(
    conn: Any, reading: queries.Reading, *, selection: queries.Selection, after: queries.Key | None, limit: int
) -> list[Any]:
    return reading.page(conn, selection, after, limit)


def _selection(
    config: RunnableConfig | None, filter: Mapping[str, Any] | None, before: RunnableConfig | None
) -> queries.Selection:
    bound = get_checkpoint_id(before) if before else None
    check_storable(bound, nul=True)
    if config is None:
        return queries.Selection(before=bound, filter=filter or {})
    thread_id, ns, checkpoint_id = place_of(config)
    check_storable(thread_id, ns, checkpoint_id, nul=True)
    named = config.get(CONF, {}).get(CHECKPOINT_NS) is not None
    return queries.Selection(thread_id, ns if named else None, checkpoint_id, bound, filter or {})


def _thread_infos(rows: Sequence[Any]) -> Iterator[ThreadInfo]:
    for (thread_id, ns, checkpoint_id, metadata), writes in rows:
        yield ThreadInfo(
            thread_id=thread_id,
            checkpoint_id=checkpoint_id,
            updated_at=time_of(checkpoint_id),
            status=status_of((task, channel, kind.startswith("null")) for task, channel, kind in writes),
            metadata=load_metadata(metadata, key=(thread_id, ns, checkpoint_id)),
        )


def _has(metadata: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    return all(metadata.get(key) == value for key, value in (filter or {}).items())


__all__ = ["AsyncSqliteSaver"]
