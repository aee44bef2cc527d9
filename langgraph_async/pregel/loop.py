"""One run of one graph: input, then supersteps, until nothing is left to do.

    input -ingest-> writes -apply-> channels -plan-> tasks -run-> outcomes -commit-> pending writes -apply-> ...

Each superstep is planned from the last one's changes, run, applied at once and checkpointed. The loop knows the
order of the stations and nothing of what they do.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence, Set
from typing import Any

from langgraph_async.aio.group import Group
from langgraph_async.constants import START
from langgraph_async.errors import (
    GraphDrained,
    GraphInterrupt,
    InvalidUpdateError,
    ParentCommand,
    ReducerError,
)
from langgraph_async.pregel.checkpoint_view import show_checkpoint
from langgraph_async.pregel.claim import RunClaim
from langgraph_async.pregel.exhaustion import names_of, out_of_steps
from langgraph_async.pregel.intake import Intake, recall
from langgraph_async.pregel.joins import check_joins
from langgraph_async.pregel.journal import Journal
from langgraph_async.pregel.model import RunScope, StepState
from langgraph_async.pregel.runner import PregelRunner
from langgraph_async.pregel.step.apply import apply_tasks
from langgraph_async.pregel.step.commit import voided
from langgraph_async.pregel.step.emit import (
    emit_interrupts,
    emit_task_start,
    emit_updates,
    emit_values,
)
from langgraph_async.pregel.step.pause import stops_at
from langgraph_async.pregel.step.plan import plan
from langgraph_async.pregel.step.snapshot import (
    empty_state,
)
from langgraph_async.pregel.task import Task
from langgraph_async.pregel.view import output
from langgraph_async.types import Interrupt

_SLICE_S = 0.005
"""Seconds that supersteps which never suspend may take before the event loop gets a turn."""


class PregelLoop:
    """One run of one graph.

    Args:
        run: The run.
        boundary: Awaited before the tasks of a superstep start: a stream's reader may hold the run there.
        start: Id of the checkpoint to start from instead of the newest.
        on_head: Told the newest checkpoint id before the run.
        claim: The run's claim on its thread, for a run that has one.
        stopped: Tells whether the run was stopped: it then ends after the superstep, even if a node has swallowed
            its cancellation.

    Attributes:
        state: Where the run stands; after the run, where it ended.
        interrupts: The questions on which the run paused.
        paused: Whether it paused, at a question or a static breakpoint.
        stop: Where: ``"pending"`` in a node, ``"interrupt_before"`` or ``"interrupt_after"`` one.
    """

    def __init__(
        self,
        run: RunScope,
        boundary: Callable[[], Awaitable[None]] | None = None,
        *,
        start: str | None = None,
        on_head: Callable[[str | None], None] | None = None,
        claim: RunClaim | None = None,
        stopped: Callable[[], bool] | None = None,
    ) -> None:
        self.state: StepState = empty_state(run.spec)
        if run.saver is None and run.parent is not None:
            # Nothing of this graph is stored: only ids that follow from the calling task let an answer find its
            # question when the whole graph runs again.
            self.state.checkpoint_id = run.parent.task.id
        self.interrupts: tuple[Interrupt, ...] = ()
        self.paused = False
        self.stop = "pending"
        self._showed = False
        self._shown: Any = None
        self._output_stays = run.spec.reactive.isdisjoint(run.sinks.result_set)
        self._run = run
        self._boundary = boundary
        self._stopped = stopped
        self._group = Group()
        self._tasks_runner: PregelRunner | None = None
        self._taken = 0
        self._path: deque[tuple[str, ...]] = deque(maxlen=10)
        self._slice_end = time.monotonic() + _SLICE_S
        self._journal: Journal | None = None
        if run.saver is not None:
            self._journal = Journal(run, run.saver, self.state)
            run.saving = self._journal.persister
        self._intake = Intake(run, self.state, self._journal, start=start, on_head=on_head, claim=claim)

    async def execute(self, value: Any) -> None:
        """Run the graph on `value` to its end, or to a pause.

        When this returns or raises, every task has ended and what was committed is stored.

        Raises:
            GraphInterrupt: A nested graph paused; a root graph returns.
            BaseException: What the run failed with, or was stopped by.
        """
        error: BaseException | None = None
        try:
            await self._enter(value)
            while (tasks := self._plan_step()) is not None:
                await self._run_step(tasks)
                await self._close_step(tasks)
        except BaseException as exc:  # noqa: BLE001
            error = exc
        self._tasks_runner = None  # the traceback of its failure holds this loop
        if self._journal is not None:
            error = await self._journal.close(error)
        ready = self._run.standby.leave() if self._run.standby is not None else None
        if ready is not None:
            self._group.hold(ready)
        await self._group.close()
        try:
            if isinstance(error, GraphInterrupt):
                self._leave_paused(error)
            elif error is not None:
                if isinstance(error, ParentCommand):
                    error.left_graph = True
                raise error
        finally:
            error = None  # its traceback holds this frame

    @property
    def output(self) -> Any:
        """The output as it stood when it last changed, or was found; None when neither has happened."""
        if self._showed and self._output_stays:
            return output(self._run.spec, self.state, self._run.sinks.result_keys)
        return self._shown

    def _show_values(self) -> None:
        self._note_output()
        if self._run.sinks.values:
            emit_values(self._run, self.state)

    def _show_changed(self, updated: Set[str]) -> None:
        sinks = self._run.sinks
        if not updated.isdisjoint(sinks.result_set):
            self._note_output()
        if sinks.values and not updated.isdisjoint(sinks.key_set):
            emit_values(self._run, self.state)

    def _note_output(self) -> None:
        self._showed = True
        if not self._output_stays:
            # A channel among the output may lose its value later, which is no change of the output.
            self._shown = output(self._run.spec, self.state, self._run.sinks.result_keys)

    async def _enter(self, value: Any) -> None:
        try:
            goes_on = await self._intake.take(value)
        finally:
            self.state = self._intake.state
        if goes_on:
            self._show_values()
        if self._journal is not None:
            await self._journal.persister.flush_unless_exit()
            self._slice_end = time.monotonic() + _SLICE_S  # others had their turn while the input was stored

    # -- a superstep ------------------------------------------------------------------------------------------

    def _plan_step(self) -> list[Task] | None:
        """Return the tasks of the next superstep, or None when the run has finished."""
        run, state = self._run, self.state
        state.remaining_steps = run.config.recursion_limit - self._taken
        tasks = state.tasks = plan(run.spec, state, run.ns)
        if state.pending:
            recall(run, state, tasks)
        if run.sinks.checkpoints and run.saver is not None:
            show_checkpoint(run, state)
        if not tasks:
            check_joins(run.spec, state)
            return None
        if state.remaining_steps < 1 and any(task.name != START for task in tasks):
            raise out_of_steps(run, state.step, [task.name for task in tasks], self._path)
        if run.interrupt_before and stops_at(state, run.interrupt_before, tasks):
            self.stop = "interrupt_before"
            raise GraphInterrupt(())
        if run.control.drain_requested:
            self._check_drain()
        if run.answers.resuming:
            for task in tasks:
                if task.asked and not task.finished:
                    task.left_alone = run.answers.given.keys().isdisjoint(q.id for q in task.asked)
        return tasks

    def _check_drain(self) -> None:
        control = self._run.control
        if control.drain_requested:
            raise GraphDrained(control.drain_reason or "shutdown")

    async def _run_step(self, tasks: list[Task]) -> None:
        run, state = self._run, self.state
        if run.sinks.tasks:
            for task in tasks:
                emit_task_start(run, task)
        todo = self._unfinished(tasks) if state.pending else tasks
        paused = len(todo) < len(tasks) and any(task.left_alone for task in tasks)
        if self._boundary is not None:
            await self._boundary()
            self._check_drain()  # the reader may just have asked
        if todo:
            runner = self._runner()
            try:
                await runner.run(todo)
            finally:
                if runner.rescued:
                    tasks.extend(runner.rescued)
            if run.leases and any(lease.evicted_by for lease in run.leases):
                raise asyncio.CancelledError  # a node may have swallowed it
            paused = paused or runner.paused
        if paused:
            for task in tasks:
                if task.left_alone:
                    emit_interrupts(run, state, task.asked)
            raise GraphInterrupt([question for task in tasks if not task.finished for question in task.asked])

    def _runner(self) -> PregelRunner:
        """Return what drives the tasks of a superstep; the same for all supersteps of the run."""
        if self._tasks_runner is not None:
            return self._tasks_runner
        journal = self._journal
        store = journal.store if journal is not None else None
        stored = journal.persister.flush if journal is not None and self._run.durability == "sync" else None
        self._tasks_runner = PregelRunner(self._run, self.state, self._group, store, stored)
        return self._tasks_runner

    def _unfinished(self, tasks: Sequence[Task]) -> list[Task]:
        """Show the results that were stored before, and return the tasks that are to run."""
        for task in tasks:
            if task.cached:
                emit_updates(self._run, task, task.writes, cached=True)
        return [task for task in tasks if not task.finished and not task.left_alone]

    async def _close_step(self, tasks: list[Task]) -> None:
        run, state = self._run, self.state
        try:
            updated = apply_tasks(run.spec, state, tasks, run.next_version)
        except InvalidUpdateError as exc:
            self._void_step(tasks, exc)
            raise
        state.pending, state.tasks = [], []
        if tasks[0].name != START or len(tasks) > 1:
            self._taken += 1
            self._path.append(names_of(tasks))
        self._show_changed(updated)
        if self._journal is None:
            state.step += 1
        else:
            self._journal.checkpoint("loop", updated, tasks)
            await self._journal.persister.boundary()
        if self._stopped is not None and self._stopped():
            raise asyncio.CancelledError
        if run.interrupt_after and stops_at(state, run.interrupt_after, tasks):
            if run.sinks.checkpoints and run.saver is not None:
                state.tasks = plan(run.spec, state, run.ns)
                show_checkpoint(run, state)
            self.stop = "interrupt_after"
            raise GraphInterrupt(())
        now = time.monotonic()
        if now > self._slice_end:
            await asyncio.sleep(0)
            self._slice_end = time.monotonic() + _SLICE_S

    def _void_step(self, tasks: Sequence[Task], exc: InvalidUpdateError) -> None:
        """Mark the tasks whose writes could not be applied as failed, so that they run again."""
        if self._journal is None:
            return
        error = exc if isinstance(exc, ReducerError) else ReducerError(str(exc))
        for task in tasks:
            if not task.handled and (not exc.key or any(key == exc.key for key, _ in task.writes)):
                self._journal.store(voided(task, error), False)

    # -- ending -----------------------------------------------------------------------------------------------

    def _leave_paused(self, signal: GraphInterrupt) -> None:
        run = self._run
        self.paused = True
        self.interrupts = signal.interrupts
        if run.parent is not None:
            run.parent.pause(signal.interrupts)
            raise signal
        if signal.interrupts:
            # With the question went the state as it was when it was asked.
            self._note_output()
        self._show_finished_siblings()
        if not signal.interrupts:
            emit_interrupts(run, self.state, ())

    def _show_finished_siblings(self) -> None:
        """Show, for this run only, what the finished tasks of the unfinished superstep wrote."""
        run = self._run
        done = [task for task in self.state.tasks if task.finished]
        if not done:
            return
        try:
            updated = apply_tasks(run.spec, self.state, done, run.next_version)
        except InvalidUpdateError:
            return
        self._show_changed(updated)
