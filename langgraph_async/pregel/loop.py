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
from langgraph_async.checkpoint.base import TaskWrites
from langgraph_async.constants import CHECKPOINT_MAP, CONF, INPUT, NULL_TASK_ID, PREVIOUS, START
from langgraph_async.errors import (
    EmptyInputError,
    GraphDrained,
    GraphInterrupt,
    InvalidUpdateError,
    ParentCommand,
    ReducerError,
    UnreachedJoinError,
)
from langgraph_async.pregel.carry import as_pending, carried_writes
from langgraph_async.pregel.claim import RunClaim
from langgraph_async.pregel.entry import Loaded, load, place
from langgraph_async.pregel.exhaustion import names_of, out_of_steps
from langgraph_async.pregel.known_ids import asked_ever
from langgraph_async.pregel.ledger import DeltaLedger, needs_ledger
from langgraph_async.pregel.message_ids import identified, settled
from langgraph_async.pregel.model import RunScope, StepState
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.renames import check_nodes_exist
from langgraph_async.pregel.runner import PregelRunner
from langgraph_async.pregel.step.apply import apply_tasks
from langgraph_async.pregel.step.commit import voided
from langgraph_async.pregel.step.emit import (
    emit_checkpoint,
    emit_interrupts,
    emit_task_start,
    emit_updates,
    emit_values,
)
from langgraph_async.pregel.step.ingest import (
    answers_of,
    command_writes,
    empty_input,
    has_answer,
    input_writes,
    is_empty,
    looks_like_map,
    no_saver_to_resume,
    warn_of_unknown_keys,
)
from langgraph_async.pregel.step.pause import mark_passed, stops_at
from langgraph_async.pregel.step.persist import Persister
from langgraph_async.pregel.step.plan import plan
from langgraph_async.pregel.step.rescue import restored
from langgraph_async.pregel.step.snapshot import (
    empty_state,
    make_checkpoint,
    metadata_of,
    restore,
    stub_of,
    take_changes,
)
from langgraph_async.pregel.stored import loose_writes, reopened, restore_tasks
from langgraph_async.pregel.task import Task
from langgraph_async.pregel.task_view import task_states
from langgraph_async.pregel.view import detached, output
from langgraph_async.types import Command, Interrupt

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
        self._start = start
        self._on_head = on_head
        self._claim = claim
        self._stopped = stopped
        self._group = Group()
        self._tasks_runner: PregelRunner | None = None
        self._taken = 0
        self._path: deque[tuple[str, ...]] = deque(maxlen=10)
        self._slice_end = time.monotonic() + _SLICE_S
        self._newest: str | None = None
        self._persister: Persister | None = None
        self._deltas: DeltaLedger | None = None
        if run.saver is not None:
            above = run.parent.run.saving if run.parent is not None else None
            self._persister = Persister(run.saver, run.durability, place(run, run.ns), above)
            run.saving = self._persister

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
        self._tasks_runner = None  # it holds this loop
        error = await self._flush(error)
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

    async def _flush(self, error: BaseException | None) -> BaseException | None:
        if self._persister is None:
            return error
        try:
            if error is None and self._run.forgets_its_end:
                self._persister.forget_last()
            await self._persister.flush()
        except BaseException as exc:  # noqa: BLE001
            if error is None or isinstance(error, GraphInterrupt) or isinstance(exc, asyncio.CancelledError):
                return exc
        return error

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

    # -- entering ---------------------------------------------------------------------------------------------

    async def _enter(self, value: Any) -> None:
        run = self._run
        if has_answer(value) and run.saver is None:
            raise no_saver_to_resume(run.spec)
        loaded = await self._load()
        goes_on = self._goes_on(value, loaded)
        if goes_on and self._claim is not None and self._claim.wanted:
            await self._claim.take()
            self.state = empty_state(run.spec)
            loaded = await self._load()  # others may have gone on with the thread meanwhile
            goes_on = self._goes_on(value, loaded)
        if self._on_head is not None:
            self._on_head(loaded.head)
        self._newest = loaded.head
        if self._persister is not None:
            self._persister.head = loaded.head
        if self._persister is not None:
            self._persister.step = self.state.step
        if self._persister is not None and needs_ledger(run.spec, loaded.checkpoint):
            self._deltas = self._open_ledger(self._persister, loaded)
        if goes_on:
            assert loaded.checkpoint is not None
            check_nodes_exist(run.spec, loaded.checkpoint, run.config.thread_id)
            await self._resume(value, loaded)
            if run.tracing is not None:
                await run.tracing.resumed(self.state.checkpoint_id, run.ns_levels)
        else:
            self._begin(value, loaded)
        if self._persister is not None:
            await self._persister.flush_unless_exit()

    async def _load(self) -> Loaded:
        """Find where the run starts, and give it that state."""
        loaded = await load(self._run, self._start)
        if loaded.checkpoint is not None:
            self.state = restore(self._run.spec, loaded.checkpoint)
            self._recall_previous()
        return loaded

    def _recall_previous(self) -> None:
        """Give nodes what the last run of an entrypoint saved on the thread."""
        run, state = self._run, self.state
        if PREVIOUS in run.spec.channels and state.channels[PREVIOUS].is_available():
            run.runtime = run.runtime.override(previous=detached(state.channels[PREVIOUS].get()))

    def _goes_on(self, value: Any, loaded: Loaded) -> bool:
        if loaded.checkpoint is None or not self.state.versions:
            return False
        run = self._run
        if run.parent is not None and value is not None:
            # A nested graph goes on exactly when its checkpoint belongs to this very task.
            parents = loaded.checkpoint.metadata.get("parents") or {}
            return loaded.addressed or parents.get(run.parent.run.ns) == run.parent.task.checkpoint_id
        if value is None or isinstance(value, Command):
            return True
        run_id = (run.config.given.get("metadata") or {}).get("run_id")
        return run_id is not None and loaded.checkpoint.metadata.get("run_id") == run_id

    def _open_ledger(self, persister: Persister, loaded: Loaded) -> DeltaLedger:
        run, state = self._run, self.state
        ledger = DeltaLedger(
            run.spec,
            run.saver,
            at_end=run.durability == "exit",
            replaces=persister.replaces,
            ordered=persister.ordered,
            next_version=run.next_version,
        )
        ledger.begin(loaded.checkpoint, shared=loaded.shared)
        if loaded.checkpoint is None:
            persister.stub = stub_of(state)
        return ledger

    def _begin(self, value: Any, loaded: Loaded) -> None:
        spec, state = self._run.spec, self.state
        loose: list[Write] = []
        if isinstance(value, Command):
            if is_empty(value):
                raise EmptyInputError("Received empty Command input: it has neither update, goto nor resume.")
            loose = command_writes(spec, Command(graph=value.graph, goto=value.goto))
            command_writes(spec, Command(update=value.update))  # only checked: START writes it
            value = value.update if value.update is not None else {}
        warn_of_unknown_keys(spec, value, self._run.parent.run.spec if self._run.parent is not None else None)
        writes = input_writes(spec, value)
        if not writes:
            raise empty_input(spec)
        writes = identified(spec, [*loose, *writes])
        if state.pending and not loaded.addressed:  # a new branch begins without what an old one went on with
            self._keep_finished(loaded)
            state = self.state
        writes = settled(spec, state, writes)
        unfinished = plan(spec, state, self._run.ns)
        updated = apply_tasks(spec, state, unfinished, self._run.next_version, loose=writes)
        if self._deltas is not None and (rows := self._deltas.input_rows(state, writes)) is not None:
            self._store(rows, True)
        state.seen.setdefault(INPUT, {})
        state.pending = []
        self._checkpoint("input", updated)

    def _keep_finished(self, loaded: Loaded) -> None:
        """Apply a superstep that only lacks its checkpoint; one that cannot be applied is given up."""
        run = self._run
        assert loaded.checkpoint is not None
        try:
            self._apply_loose(loose_writes(self.state.pending))
            tasks = self._stored_tasks()
            if tasks and all(task.finished for task in tasks):
                updated = apply_tasks(run.spec, self.state, tasks, run.next_version)
                self._checkpoint("loop", updated, tasks)
        except InvalidUpdateError:
            self.state = restore(run.spec, loaded.checkpoint)
            if self._deltas is not None and self._persister is not None:
                self._deltas = self._open_ledger(self._persister, loaded)

    def _apply_loose(self, writes: list[Write]) -> None:
        """Apply writes of no task, beside what the last superstep changed."""
        run, state = self._run, self.state
        if not writes:
            return
        if self._deltas is not None:
            self._deltas.applied(NULL_TASK_ID, writes)
        before = state.updated
        changed = apply_tasks(run.spec, state, [], run.next_version, loose=writes)
        state.updated = before | changed if before is not None else None

    async def _resume(self, value: Any, loaded: Loaded) -> None:
        run, state = self._run, self.state
        answering = has_answer(value)
        writes = await self._take_command(value, loaded) if run.is_root and isinstance(value, Command) else []
        travels = loaded.addressed and not answering
        if (travels and (loaded.superseded or loaded.foreign or not self._is_edit())) or loaded.superseded:
            self._fork(carry=answering, foreign=loaded.foreign, anyway=bool(writes))
        elif travels:
            state.pending = [row for row in state.pending if row[1] == "__interrupt__"]
        stored = [] if travels else loose_writes(state.pending)
        if writes and self._persister is not None:
            # What is stored already keeps its positions, so the new writes have to come after it.
            self._store(TaskWrites(NULL_TASK_ID, "", [*stored, *writes]), False)
        self._apply_loose([*stored, *writes])
        mark_passed(state)
        self._show_values()

    async def _take_command(self, command: Command[Any], loaded: Loaded) -> list[Write]:
        """Take the answers that a command holds, and return its writes."""
        run, state = self._run, self.state
        writes = settled(run.spec, state, identified(run.spec, command_writes(run.spec, command)))
        if is_empty(command):
            raise EmptyInputError("Received empty Command input: it has neither update, goto nor resume.")
        if has_answer(command):
            if loaded.superseded:
                state.pending = reopened(plan(run.spec, state, run.ns), state.pending)
            await self._take_answers(command.resume)
            if run.replay is not None and not loaded.superseded:
                run.replay.before = None  # going on, not back: graphs inside go on, too
        return writes

    def _is_edit(self) -> bool:
        return self.state.metadata.get("source") in ("update", "fork")

    async def _take_answers(self, payload: Any) -> None:
        run = self._run
        assert run.saver is not None
        pending = [question for task in self._stored_tasks() if not task.finished for question in task.asked]
        known: set[str] = set()
        if looks_like_map(payload) and payload.keys().isdisjoint(question.id for question in pending):
            known = await asked_ever(run.saver, run.config.thread_id)
        answers = answers_of(payload, pending, known=known, thread_id=run.config.thread_id)
        if answers:
            run.answers.give(answers)

    def _stored_tasks(self) -> list[Task]:
        tasks = plan(self._run.spec, self.state, self._run.ns)
        self._restore(tasks)
        return tasks

    def _restore(self, tasks: list[Task]) -> None:
        """Give tasks what is stored of them, and add the error handlers that have taken over."""
        run, state = self._run, self.state
        restore_tasks(tasks, state.pending, source=state.metadata.get("source"))
        tasks.extend(restored(run.spec, state, tasks, state.pending))

    def _fork(self, *, carry: bool, foreign: bool, anyway: bool) -> None:
        """Make a new checkpoint to go on from; without tasks only if `anyway`, since then nothing would follow."""
        state = self.state
        before = self._stored_tasks()
        state.pending = []
        if not before and not anyway:
            return
        mark_passed(state)
        if foreign:
            state.dirty.update(state.versions)
            state.stored = False
        self._checkpoint("fork", state.updated)
        if carry:
            rows = carried_writes(before, plan(self._run.spec, state, self._run.ns))
            state.pending = as_pending(rows)
            for row in rows:
                self._store(row, False)

    # -- a superstep ------------------------------------------------------------------------------------------

    def _plan_step(self) -> list[Task] | None:
        """Return the tasks of the next superstep, or None when the run has finished."""
        run, state = self._run, self.state
        state.remaining_steps = run.config.recursion_limit - self._taken
        tasks = state.tasks = plan(run.spec, state, run.ns)
        if state.pending:
            self._restore(tasks)
        if run.sinks.checkpoints and run.saver is not None:
            self._show_checkpoint()
        if not tasks:
            self._check_joins()
            return None
        if state.remaining_steps < 1 and any(task.name != START for task in tasks):
            raise out_of_steps(run, state.step, [task.name for task in tasks], self._path)
        if run.interrupt_before and stops_at(state, run.interrupt_before, tasks):
            self.stop = "interrupt_before"
            raise GraphInterrupt(())
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
        persister = self._persister
        store = self._store if persister is not None else None
        stored = persister.flush if persister is not None and self._run.durability == "sync" else None
        self._tasks_runner = PregelRunner(self._run, self.state, self._group, store, stored)
        return self._tasks_runner

    def _unfinished(self, tasks: Sequence[Task]) -> list[Task]:
        """Show the results that were stored before, and return the tasks that are to run."""
        for task in tasks:
            if task.cached:
                emit_updates(self._run, task, task.writes, cached=True)
        return [task for task in tasks if not task.finished and not task.left_alone]

    def _store(self, rows: TaskWrites, last: bool) -> None:
        assert self._persister is not None
        if self._deltas is not None:
            self._deltas.stored(rows)
        self._persister.put_writes(self.state.checkpoint_id, rows, hold=last)

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
        if self._persister is None:
            state.step += 1
        else:
            self._checkpoint("loop", updated, tasks)
            await self._persister.boundary()
        if self._stopped is not None and self._stopped():
            raise asyncio.CancelledError
        if run.interrupt_after and stops_at(state, run.interrupt_after, tasks):
            if run.sinks.checkpoints and run.saver is not None:
                state.tasks = plan(run.spec, state, run.ns)
                self._show_checkpoint()
            self.stop = "interrupt_after"
            raise GraphInterrupt(())
        now = time.monotonic()
        if now > self._slice_end:
            await asyncio.sleep(0)
            self._slice_end = time.monotonic() + _SLICE_S

    def _void_step(self, tasks: Sequence[Task], exc: InvalidUpdateError) -> None:
        """Mark the tasks whose writes could not be applied as failed, so that they run again."""
        if self._persister is None:
            return
        error = exc if isinstance(exc, ReducerError) else ReducerError(str(exc))
        for task in tasks:
            if not task.handled and (not exc.key or any(key == exc.key for key, _ in task.writes)):
                self._store(voided(task, error), False)

    def _checkpoint(self, source: str, updated: set[str] | None, tasks: Sequence[Task] = ()) -> None:
        """Make the state a checkpoint, and count the superstep."""
        state, run = self.state, self._run
        step = state.step
        state.step = step + 1
        if self._persister is None:
            return
        versions = take_changes(state, run.spec)
        metadata = metadata_of(source, step, run.checkpoint_map)
        anchored = self._deltas.close(state, tasks, versions, metadata) if self._deltas is not None else None
        checkpoint = make_checkpoint(state, step=step, updated=updated, newest=self._newest)
        self._newest = checkpoint["id"]
        parent = state.checkpoint_id if state.stored else None
        self._persister.put_checkpoint(parent, checkpoint, metadata, versions, anchored)
        state.parent_id, state.checkpoint_id = parent, checkpoint["id"]
        state.version_format = checkpoint["v"]
        state.metadata = metadata
        state.stored = True
        state.old_names = state.old_channels = {}

    def _show_checkpoint(self) -> None:
        run, state = self._run, self.state
        # With durability "exit" the checkpoints between are never stored, so none is another's parent.
        parent = state.parent_id if run.durability != "exit" else None
        emit_checkpoint(
            run,
            state,
            config=self._coordinates(state.checkpoint_id),
            parent_config=self._coordinates(parent) if parent is not None else None,
            tasks=task_states(
                run.spec,
                state.tasks,
                run.config.thread_id,
                path=run.parent.memory_path if run.parent is not None else "",
            ),
        )

    def _coordinates(self, checkpoint_id: str) -> dict[str, Any]:
        run = self._run
        found: dict[str, Any] = dict(place(run, run.ns, checkpoint_id).get(CONF) or {})
        if run.ns:
            found[CHECKPOINT_MAP] = {**run.checkpoint_map, run.ns: checkpoint_id}
        return {CONF: found}

    # -- ending -----------------------------------------------------------------------------------------------

    def _check_joins(self) -> None:
        for join in self._run.spec.joins:
            barrier: Any = self.state.channels.get(join.channel)
            if barrier is None or join.on_missing == "skip" or not barrier.seen:
                continue
            missing = [start for start in join.starts if start not in barrier.seen]
            if missing:
                raise UnreachedJoinError(
                    f"Graph {self._run.spec.name!r} ended, but node {join.end!r} never ran: it joins "
                    f"{', '.join(join.starts)}, and {', '.join(missing)} did not run. If that may happen, say so: "
                    f"add_edge({list(join.starts)!r}, {join.end!r}, on_missing='skip').",
                    join=join.end,
                    missing=missing,
                )

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
