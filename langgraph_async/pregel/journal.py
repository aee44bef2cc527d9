"""What one run of one graph stores of itself: the writes of its tasks, and its state as checkpoints.

In: writes and states, as they come about. Out: rows and checkpoints, handed to the persister in that order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langgraph_async.checkpoint.base import BaseCheckpointSaver, TaskWrites
from langgraph_async.constants import NULL_TASK_ID
from langgraph_async.errors import GraphInterrupt
from langgraph_async.pregel.entry import Loaded, place
from langgraph_async.pregel.ledger import DeltaLedger, needs_ledger
from langgraph_async.pregel.model import RunScope, StepState
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.step.persist import Persister
from langgraph_async.pregel.step.snapshot import make_checkpoint, metadata_of, stub_of, take_changes
from langgraph_async.pregel.task import Task


class Journal:
    """Stores a run.

    Args:
        run: The run.
        saver: Its saver.
        state: The run's state.

    Attributes:
        state: The state that is stored; whoever gives the run another one sets it here, too.
        persister: Hands to the saver what is stored.
    """

    def __init__(self, run: RunScope, saver: BaseCheckpointSaver[Any], state: StepState) -> None:
        above = run.parent.run.saving if run.parent is not None else None
        self.state = state
        self.persister = Persister(saver, run.durability, place(run, run.ns), above)
        self._run = run
        self._newest: str | None = None
        self._ledger: DeltaLedger | None = None

    def begin(self, loaded: Loaded) -> None:
        """Go on after the checkpoints that the thread has, from the one that was loaded."""
        self._newest = self.persister.head = loaded.head
        self.persister.step = self.state.step
        if needs_ledger(self._run.spec, loaded.checkpoint):
            self._open_ledger(loaded)

    def begin_again(self, loaded: Loaded) -> None:
        """Forget what was applied since the checkpoint was loaded: `state` is what it was then."""
        if self._ledger is not None:
            self._open_ledger(loaded)

    def _open_ledger(self, loaded: Loaded) -> None:
        run, persister = self._run, self.persister
        self._ledger = DeltaLedger(
            run.spec,
            run.saver,
            at_end=run.durability == "exit",
            replaces=persister.replaces,
            ordered=persister.ordered,
            next_version=run.next_version,
        )
        self._ledger.begin(loaded.checkpoint, shared=loaded.shared)
        if loaded.checkpoint is None:
            persister.stub = stub_of(self.state)

    def note_loose(self, writes: list[Write]) -> None:
        """Take note of stored writes of no task, which have been applied."""
        if self._ledger is not None:
            self._ledger.applied(NULL_TASK_ID, writes)

    def store_input(self, writes: list[Write]) -> None:
        """Store what the input wrote to lists that are stored as their writes."""
        if self._ledger is not None and (rows := self._ledger.input_rows(self.state, writes)) is not None:
            self.store(rows, True)

    def store(self, rows: TaskWrites, last: bool) -> None:
        """Store the writes of a task; `last` says that the superstep's checkpoint follows at once."""
        if self._ledger is not None:
            self._ledger.stored(rows)
        self.persister.put_writes(self.state.checkpoint_id, rows, hold=last)

    def checkpoint(self, source: str, updated: set[str] | None, tasks: Sequence[Task] = ()) -> None:
        """Make the state a checkpoint, and count the superstep."""
        run, state = self._run, self.state
        step = state.step
        state.step = step + 1
        versions = take_changes(state, run.spec)
        metadata = metadata_of(source, step, run.checkpoint_map)
        anchored = self._ledger.close(state, tasks, versions, metadata) if self._ledger is not None else None
        checkpoint = make_checkpoint(state, step=step, updated=updated, newest=self._newest)
        self._newest = checkpoint["id"]
        parent = state.checkpoint_id if state.stored else None
        self.persister.put_checkpoint(parent, checkpoint, metadata, versions, anchored)
        state.parent_id, state.checkpoint_id = parent, checkpoint["id"]
        state.version_format = checkpoint["v"]
        state.metadata = metadata
        state.stored = True
        state.old_names = state.old_channels = {}

    async def close(self, error: BaseException | None) -> BaseException | None:
        """Wait until everything is stored; return what the run failed with, which may be that."""
        try:
            if error is None and self._run.forgets_its_end:
                self.persister.forget_last()
            await self.persister.flush()
        except BaseException as exc:  # noqa: BLE001
            if error is None or isinstance(error, GraphInterrupt) or isinstance(exc, asyncio.CancelledError):
                return exc
        return error
