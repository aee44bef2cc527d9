"""How a run begins: with an input, with a command, or by going on from where its thread stands.

In: what the run was given, and what is stored. Out: the state that the first superstep is planned from, the answers
for the tasks that asked, and the checkpoint of the input or of a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langgraph_async.checkpoint.base import TaskWrites
from langgraph_async.constants import INPUT, NULL_TASK_ID, PREVIOUS
from langgraph_async.errors import EmptyInputError, InvalidUpdateError
from langgraph_async.pregel.carry import as_pending, carried_writes
from langgraph_async.pregel.claim import RunClaim
from langgraph_async.pregel.entry import Loaded, load
from langgraph_async.pregel.journal import Journal
from langgraph_async.pregel.known_ids import asked_ever
from langgraph_async.pregel.message_ids import identified, settled
from langgraph_async.pregel.model import RunScope, StepState
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.renames import check_nodes_exist
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.step.apply import apply_tasks
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
from langgraph_async.pregel.step.pause import mark_passed
from langgraph_async.pregel.step.plan import plan
from langgraph_async.pregel.step.rescue import restored
from langgraph_async.pregel.step.snapshot import empty_state, restore
from langgraph_async.pregel.stored import loose_writes, reopened, restore_tasks
from langgraph_async.pregel.task import Task
from langgraph_async.pregel.view import detached
from langgraph_async.types import Command


class Intake:
    """Takes in what one run was given.

    Args:
        run: The run.
        state: Its state without anything in it.
        journal: Stores the run, or None without a saver.
        start: Id of the checkpoint to start from instead of the newest.
        on_head: Told the newest checkpoint id before the run.
        claim: The run's claim on its thread, for a run that has one.

    Attributes:
        state: Where the run stands; not always the object that was given.
    """

    def __init__(
        self,
        run: RunScope,
        state: StepState,
        journal: Journal | None,
        *,
        start: str | None = None,
        on_head: Callable[[str | None], None] | None = None,
        claim: RunClaim | None = None,
    ) -> None:
        self.state = state
        self._run = run
        self._journal = journal
        self._start = start
        self._on_head = on_head
        self._claim = claim

    async def take(self, value: Any) -> bool:
        """Begin the run with `value`; return whether it goes on from a checkpoint.

        Raises:
            EmptyInputError: There is nothing in `value`, and nothing to go on from.
            ThreadConflictError: Another run has claimed the thread.
        """
        run = self._run
        if has_answer(value) and run.saver is None:
            raise no_saver_to_resume(run.spec)
        loaded = await self._load()
        goes_on = self._goes_on(value, loaded)
        if goes_on and self._claim is not None and self._claim.wanted:
            await self._claim.take()
            self._set(empty_state(run.spec))
            loaded = await self._load()  # others may have gone on with the thread meanwhile
            goes_on = self._goes_on(value, loaded)
        if self._on_head is not None:
            self._on_head(loaded.head)
        if self._journal is not None:
            self._journal.begin(loaded)
        if goes_on:
            assert loaded.checkpoint is not None
            _note_continued(run)
            check_nodes_exist(run.spec, loaded.checkpoint, run.config.thread_id)
            await self._resume(value, loaded)
            if run.tracing is not None and not run.tracing.quiet:
                await run.tracing.resumed(self.state.checkpoint_id, run.ns_levels)
        else:
            self._begin(value, loaded)
        return goes_on

    def _set(self, state: StepState) -> None:
        self.state = state
        if self._journal is not None:
            self._journal.state = state

    # -- where it starts --------------------------------------------------------------------------------------

    async def _load(self) -> Loaded:
        """Find where the run starts, and give it that state."""
        loaded = await load(self._run, self._start)
        if loaded.checkpoint is not None:
            self._set(restore(self._run.spec, loaded.checkpoint))
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

    # -- beginning with an input ------------------------------------------------------------------------------

    def _begin(self, value: Any, loaded: Loaded) -> None:
        spec, state = self._run.spec, self.state
        loose: list[Write] = []
        if isinstance(value, Command):
            if is_empty(value):
                raise _empty_command()
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
        if self._journal is not None:
            self._journal.store_input(writes)
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
            self._set(restore(run.spec, loaded.checkpoint))
            if self._journal is not None:
                self._journal.begin_again(loaded)

    def _apply_loose(self, writes: list[Write]) -> None:
        """Apply writes of no task, beside what the last superstep changed."""
        run, state = self._run, self.state
        if not writes:
            return
        if self._journal is not None:
            self._journal.note_loose(writes)
        before = state.updated
        changed = apply_tasks(run.spec, state, [], run.next_version, loose=writes)
        state.updated = before | changed if before is not None else None

    def _checkpoint(self, source: str, updated: set[str] | None, tasks: Sequence[Task] = ()) -> None:
        if self._journal is None:
            self.state.step += 1
        else:
            self._journal.checkpoint(source, updated, tasks)

    # -- going on from a checkpoint ---------------------------------------------------------------------------

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
        if writes and self._journal is not None:
            # What is stored already keeps its positions, so the new writes have to come after it.
            self._journal.store(TaskWrites(NULL_TASK_ID, "", [*stored, *writes]), False)
        self._apply_loose([*stored, *writes])
        mark_passed(state)

    async def _take_command(self, command: Command[Any], loaded: Loaded) -> list[Write]:
        """Take the answers that a command holds, and return its writes."""
        run, state = self._run, self.state
        writes = settled(run.spec, state, identified(run.spec, command_writes(run.spec, command)))
        if is_empty(command):
            raise _empty_command()
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
        recall(self._run, self.state, tasks)
        return tasks

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
            if self._journal is not None:
                for row in rows:
                    self._journal.store(row, False)


def _note_continued(run: RunScope) -> None:
    """Note that the results of the tasks around a graph that goes on follow from what is stored, too."""
    while run.parent is not None:
        scope: TaskScope | None = run.parent
        run = run.parent.run
        while scope is not None:
            scope.task.continued = True
            scope = scope.caller


def recall(run: RunScope, state: StepState, tasks: list[Task]) -> None:
    """Give tasks what is stored of them, and add the error handlers that have taken over."""
    restore_tasks(tasks, state.pending, source=state.metadata.get("source"))
    tasks.extend(restored(run.spec, state, tasks, state.pending))


def _empty_command() -> EmptyInputError:
    return EmptyInputError("Received empty Command input: it has neither update, goto nor resume.")
