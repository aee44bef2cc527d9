"""When and in which order a run's checkpoints and task writes reach the saver.

In: writes and checkpoints, in the order in which they came about. Out: saver calls, in that order, grouped into one
call per superstep where the saver can. A failed save stops the run before anything later is saved. Only this file
awaits a saver's writing methods.

- ``sync``: everything is stored before the next superstep begins.
- ``async``: a single writer stores behind the run; when it is a few supersteps behind, the run waits for it.
- ``exit``: only what stands at the end is stored, at the end.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from langgraph_async.aio.driving import finish_now
from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    StepCommit,
    TaskWrites,
)
from langgraph_async.checkpoint.rows import conflict, place_of
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import CONF, ERROR, MISSING, Missing
from langgraph_async.errors import ThreadConflictError
from langgraph_async.types import Durability

MAX_STEPS_BEHIND = 4
"""Supersteps that durability "async" may be behind before the run waits."""
MAX_STEPS_BEHIND_GROUPED = 16
"""The same for a saver that stores what waits in one transaction: what it costs is spread over so many.

Those that it is storing are not counted: if they were, one big group and one of a single superstep would take turns.
"""


class _Save:
    """One saver call: task writes for a checkpoint and, possibly, the checkpoint that follows it."""

    __slots__ = ("checkpoint", "metadata", "new_versions", "parent", "step", "writes")

    def __init__(self, parent: str | None, step: int | None) -> None:
        self.parent = parent
        self.step = step
        self.writes: list[TaskWrites] = []
        self.checkpoint: Checkpoint | None = None
        self.metadata: CheckpointMetadata | None = None
        self.new_versions: ChannelVersions = {}


class Persister:
    """Stores what one run of one graph comes to.

    Args:
        saver: Where to.
        durability: When.
        config: Names the place.
        above: Stores the run of the graph around this one: when a save of it has failed, nothing more is stored here.

    Attributes:
        head: Checkpoint id that must be the newest of the namespace when something is stored.
        stub: Stored first when, with durability "exit", the first run of a thread has writes to anchor.
        step: Number of the superstep under way, to say it when something cannot be stored.
    """

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any],
        durability: Durability,
        config: RunnableConfig,
        above: Persister | None = None,
    ) -> None:
        self.head: str | None | Missing = MISSING
        self.stub: tuple[Checkpoint, CheckpointMetadata] | None = None
        self.step: int | None = None
        self._anchored: Callable[[], list[TaskWrites]] | None = None
        self._saver = saver
        self._durability = durability
        self._config = config
        self._above = above
        self._immediate = getattr(saver, "immediate", False) is True
        self._grouped = getattr(saver, "can_commit", False) is True
        self._chains = self._grouped and _stores_chains(saver)
        self._max_behind = MAX_STEPS_BEHIND_GROUPED if self._chains else MAX_STEPS_BEHIND
        self._queue: deque[_Save] = deque()
        self._under_way = 0
        self._held: _Save | None = None
        self._last: _Save | None = None
        self._failure: BaseException | None = None
        self._writing = False
        self._started = False
        self._writer: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._takes_path = self._grouped or _takes_path(saver)

    @property
    def replaces(self) -> bool:
        """Whether the saver can forget what it stored for a task."""
        return self._grouped

    @property
    def ordered(self) -> bool:
        """Whether the saver gives writes back in the order of the tasks' paths."""
        return self._takes_path and getattr(self._saver, "orders_writes", True) is True

    # -- taking things in: never waits ------------------------------------------------------------------------

    def put_writes(self, checkpoint_id: str | None, writes: TaskWrites, *, hold: bool) -> None:
        """Store a task's writes.

        Args:
            checkpoint_id: Checkpoint that the task started from.
            writes: What it wrote.
            hold: The superstep's checkpoint follows at once; store them together.
        """
        self._raise_failure()
        if self._held is None or self._held.parent != checkpoint_id:
            if self._durability != "exit":
                self._release()
            self._held = _Save(checkpoint_id, self.step)
        self._held.writes.append(writes)
        if not hold and self._durability != "exit":
            self._release()

    def put_checkpoint(
        self,
        parent: str | None,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        anchored: Callable[[], list[TaskWrites]] | None = None,
    ) -> None:
        """Store a checkpoint, together with the writes that were held for it.

        Args:
            parent: Checkpoint that it follows, or None.
            checkpoint: The checkpoint.
            metadata: Belongs to it.
            new_versions: Channels that changed since `parent`.
            anchored: With durability "exit": gives the writes that it needs on the checkpoint before the run.
        """
        self._raise_failure()
        step = metadata.get("step")
        if self._durability == "exit":
            self._anchored = anchored
            first = self._last
            self._last = _Save(first.parent if first is not None else parent, step)
            self._last.new_versions = {**first.new_versions, **new_versions} if first is not None else new_versions
            self._last.checkpoint, self._last.metadata = checkpoint, metadata
            self._held = None
            self._passed(step)
            return
        if self._held is None or self._held.parent != parent:
            self._release()
            self._held = _Save(parent, step)
        self._held.checkpoint = checkpoint
        self._held.metadata = metadata
        self._held.new_versions = new_versions
        self._release()
        self._passed(step)

    def _passed(self, step: int | None) -> None:
        self.step = None if step is None else step + 1

    def _anchor(self) -> _Save | None:
        """Give the last checkpoint the writes it needs on its parent; return a stub to store when it has none."""
        last = self._last
        if last is None or self._anchored is None:
            return None
        last.writes = self._anchored()
        if not last.writes or last.parent is not None or self.stub is None:
            return None
        made = _Save(None, last.step)
        made.checkpoint, made.metadata = self.stub
        last.parent = made.checkpoint["id"]
        return made

    def forget_last(self) -> None:
        """With durability "exit": do not store where the run ended."""
        self._last = self._held = None

    def _release(self) -> None:
        if self._last is not None:
            for save in (self._anchor(), self._last):
                if save is not None:
                    self._hand_over(save)
        if self._held is not None:
            self._hand_over(self._held)
        self._last = self._held = None

    def _hand_over(self, save: _Save) -> None:
        if self._immediate:
            finish_now(self._store(save))
            return
        self._queue.append(save)
        if not self._writing:
            self._writing = True
            # In no cancel scope of anyone's: what was taken in is stored however the run ends. `flush` waits for it.
            self._writer = spawn(self._write(), name="saving")

    # -- waiting ----------------------------------------------------------------------------------------------

    async def boundary(self) -> None:
        """Wait, between two supersteps, as long as the durability asks for.

        Raises:
            BaseException: What a save failed with.
        """
        if self._immediate or self._durability == "exit":
            return
        limit = 0 if self._durability == "sync" else self._max_behind
        if not limit or self._behind() > limit:
            await self._wait(limit)
        self._raise_failure()

    async def flush(self) -> None:
        """Store everything that was taken in, and wait until it is stored.

        A cancellation is passed on once everything is stored.

        Raises:
            BaseException: What a save failed with.
        """
        if self._failure is None:
            self._release()
        if self._immediate:
            return
        await self._wait(0)
        self._raise_failure()

    async def flush_unless_exit(self) -> None:
        """Store what was taken in, unless it is only stored at the end."""
        if self._durability != "exit":
            await self.flush()

    async def _wait(self, limit: int) -> None:
        interrupted = None
        if limit and self._behind() > limit and not self._started:
            await asyncio.sleep(0)  # the writer begins
        while self._behind() > limit or (limit == 0 and self._started):
            if not self._started:
                # The writer was cancelled before it began: a task of our own does its work.
                interrupted = await wait_settled(spawn(self._write(), name="saving")) or interrupted
                continue
            interrupted = await self._woken(interrupted)
        if interrupted is not None:
            raise interrupted

    def _behind(self) -> int:
        """Return how many saves wait; a saver that takes one at a time is asked about all that it has not stored."""
        return len(self._queue) - self._under_way

    async def _woken(self, interrupted: asyncio.CancelledError | None) -> asyncio.CancelledError | None:
        """Wait until the writer has stored something; return the last cancellation that arrived, if any."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if interrupted is not None:
            return await wait_settled(waiter) or interrupted
        try:
            await waiter  # nobody else's, so a cancellation may take it along
        except asyncio.CancelledError as exc:
            return exc
        return None

    def _raise_failure(self) -> None:
        saving: Persister | None = self
        while saving is not None:
            if saving._failure is not None:
                raise saving._failure
            saving = saving._above

    # -- the writer -------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        if self._started:
            return
        self._started = True
        try:
            while self._queue:
                saves = list(self._queue) if self._chains else [self._queue[0]]
                self._under_way = len(saves) if self._chains else 0
                await self._store_all(saves)
                for _ in saves:
                    self._queue.popleft()
                self._under_way = 0
                self._wake()
        except BaseException as exc:  # noqa: BLE001
            self._failure = exc
            self._queue.clear()
            self._under_way = 0
        finally:
            self._writing = self._started = False
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _store_all(self, saves: Sequence[_Save]) -> None:
        if len(saves) == 1:
            await self._store(saves[0])
            return
        try:
            head = self.head
            chain: list[tuple[RunnableConfig, StepCommit]] = []
            for save in saves:
                chain.append((self._at(save.parent), _commit_of(save, head)))
                head = _head_after(save, head)
            await self._saver.acommit_chain(chain)
            self.head = head
        except BaseException as exc:
            self._fail(exc, saves[0].step)
            raise

    async def _store(self, save: _Save) -> None:
        self._raise_failure()
        try:
            if self._grouped:
                await self._saver.acommit(self._at(save.parent), _commit_of(save, self.head))
                self.head = _head_after(save, self.head)
            else:
                await self._store_singly(save)
        except BaseException as exc:
            self._fail(exc, save.step)
            raise

    def _fail(self, exc: BaseException, step: int | None) -> None:
        self._failure = exc
        if not isinstance(exc, Exception) or isinstance(exc, ThreadConflictError):
            return
        place = self._config.get(CONF, {})
        where = f"thread {place.get('thread_id')!r}" + (
            f", namespace {ns!r}" if (ns := place.get("checkpoint_ns")) else ""
        )
        if self._durability == "exit":
            advice = "With durability 'exit' that was the whole run: give its input again."
        else:
            advice = "What was stored before it stays: run the thread with None as the input to go on from there."
        with suppress(AttributeError, TypeError):  # not every class lets itself be written on
            exc.add_note(f"While storing superstep {'?' if step is None else step} of {where}. {advice}")

    def _at(self, checkpoint_id: str | None) -> RunnableConfig:
        config: dict[str, Any] = {**self._config}
        config[CONF] = {**config[CONF], "checkpoint_id": checkpoint_id}
        if checkpoint_id is None:
            del config[CONF]["checkpoint_id"]
        return config  # type: ignore[return-value]

    async def _store_singly(self, save: _Save) -> None:
        config = self._at(save.parent)
        if save.checkpoint is not None:
            await self._check_head()
        for task in save.writes:
            writes = list(task.writes)
            if task.replace and all(channel != ERROR for channel, _ in writes):
                # The primitive methods cannot forget a stored error; this marks it as past.
                await self._put_writes(config, [(ERROR, None)], task)
            await self._put_writes(config, writes, task)
        if save.checkpoint is not None and save.metadata is not None:
            await self._saver.aput(config, save.checkpoint, save.metadata, save.new_versions)
            self.head = _head_after(save, self.head)

    async def _check_head(self) -> None:
        """Look, for a saver that cannot compare and set, whether another run has stored a newer checkpoint.

        Best effort: that run may store one right after. An older one, or none, is what a store shows that is
        slow to show what was put into it.
        """
        if isinstance(self.head, Missing):
            return
        found = await self._saver.aget_tuple(self._at(None))
        newest = found.checkpoint["id"] if found is not None else None
        if newest is not None and (self.head is None or newest > self.head):
            place = place_of(self._config)
            raise conflict(place.thread_id, place.checkpoint_ns, expected=self.head, found=newest)

    async def _put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: TaskWrites) -> None:
        if self._takes_path:
            await self._saver.aput_writes(config, writes, task.task_id, task.path)
        else:
            await self._saver.aput_writes(config, writes, task.task_id)


def _commit_of(save: _Save, head: str | None | Missing) -> StepCommit:
    return StepCommit(
        writes=save.writes,
        checkpoint=save.checkpoint,
        metadata=save.metadata,
        new_versions=save.new_versions,
        expected_head=head,
    )


def _head_after(save: _Save, head: str | None | Missing) -> str | None | Missing:
    return head if save.checkpoint is None or head is MISSING else save.checkpoint["id"]


def _stores_chains(saver: Any) -> bool:
    own = getattr(type(saver), "acommit_chain", None)
    return own is not None and own is not BaseCheckpointSaver.acommit_chain


def _takes_path(saver: Any) -> bool:
    try:
        return "task_path" in inspect.signature(saver.aput_writes).parameters
    except (TypeError, ValueError):
        return True
