"""Drives the tasks of one superstep, and commits each the moment it is done.

Tasks are taken by *workers* in the run's task group: a worker awaits tasks one after another, and only when the
task that it awaits suspends does a second worker start and take the next one. So tasks that never suspend cost no
asyncio task at all, and tasks that wait run concurrently. All tasks of a superstep count as started together: when
one fails, those that were not reached yet still run up to their first await, as asyncio tasks would.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias

from langgraph_async import ambient
from langgraph_async.aio.clock import Timer
from langgraph_async.aio.driving import drive
from langgraph_async.aio.group import Group
from langgraph_async.aio.limiter import Limiter
from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.standby import Ended
from langgraph_async.aio.threads import wait_settled
from langgraph_async.checkpoint.base import TaskWrites
from langgraph_async.errors import (
    GraphDrained,
    GraphInterrupt,
    NodeCancelledError,
    ParentCommand,
    StepTimeoutError,
    is_invalid_resume,
    leaves_thread,
)
from langgraph_async.pregel.admission import admission, admitted_at_once
from langgraph_async.pregel.again import next_attempt, rest, retry_wait
from langgraph_async.pregel.call_order import order_of
from langgraph_async.pregel.calls import Calls
from langgraph_async.pregel.deadline import GRACE_S, abandon, begin_within, standby, swallowed, timeout_of
from langgraph_async.pregel.failure import annotate, locate
from langgraph_async.pregel.memo import Memo
from langgraph_async.pregel.model import RunScope, StepState
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.step import commit
from langgraph_async.pregel.step.attempt import run_attempt
from langgraph_async.pregel.step.emit import emit_interrupts, emit_task_result, emit_updates
from langgraph_async.pregel.step.rescue import rescue
from langgraph_async.pregel.stored import by_task
from langgraph_async.pregel.task import CallTask, RescueTask, Task
from langgraph_async.pregel.traceback_trim import trimmed
from langgraph_async.pregel.whole_messages import told

Store: TypeAlias = Callable[[TaskWrites, bool], None]
"""Takes a task's writes, and whether it was the last one of its superstep."""

_LOCK = threading.Lock()


class PregelRunner:
    """Runs the tasks of supersteps, one superstep after the other, and the functions that they call.

    Args:
        run: The run.
        state: The state that the superstep starts from.
        group: Owns the asyncio tasks.
        store: Takes the writes of a task, or None without a saver.
        stored: Waits until what was taken is stored; given when the result of a call must be stored before its
            caller sees it.

    Attributes:
        paused: Whether any task paused; a static breakpoint in a nested graph asks nothing.
        rescued: The error handlers that took over.
        failure: What the first failed task raised, or None.
        drained: The signal of a graph inside that was drained, or None.
    """

    def __init__(
        self,
        run: RunScope,
        state: StepState,
        group: Group,
        store: Store | None,
        stored: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.paused = False
        self.failure: BaseException | None = None
        self.drained: GraphDrained | None = None
        self.rescued: list[Task] = []
        self._run = run
        self._state = state
        self._group = group
        self._store = store
        self._stored = stored
        self._loop = asyncio.get_running_loop()
        self._calls: Calls | None = None
        self._memo = Memo(run) if run.cache is not None else None
        self._queue: deque[Task] = deque()
        self._left = 0
        self._aborting = False
        self._spare = False
        self._running: dict[asyncio.Task[object], TaskScope] = {}
        self._waiting: set[asyncio.Task[object]] = set()
        self._done: asyncio.Future[None] | None = None
        self._loose = False
        self._patience: Timer | None = None
        self._given_up: set[TaskScope] = set()

    async def run(self, tasks: Sequence[Task]) -> None:
        """Run `tasks` to their ends.

        When this returns or raises, every task has ended, whatever it came to.

        Raises:
            BaseException: What the first failed task raised; the failures of others are attached to it.
            asyncio.CancelledError: The caller was cancelled; so were the tasks.
        """
        self.paused = False
        self._calls = None
        self.rescued = []
        memo = self._memo if self._run.spec.caching else None
        if memo is None:
            await self._run_all(tasks)
        else:
            await self._run_remembering(tasks, memo)
        if self.failure is not None:
            raise self.failure
        if self.drained is not None:
            raise self.drained

    async def _run_all(self, tasks: Sequence[Task]) -> None:
        self._left = len(tasks)
        if self._run.step_timeout is not None:
            await self._run_bounded(tasks, self._run.step_timeout)
        elif self._left == 1:
            await self._run_alone(tasks[0])
        else:
            await self._run_together(tasks)

    async def _run_remembering(self, tasks: Sequence[Task], memo: Memo) -> None:
        """Run those tasks whose results are not in the cache, and keep what they come to, also beside a failure."""
        known = await memo.find(tasks)
        todo = [task for task in tasks if task not in known]
        self._left = len(known)
        for task, writes in known.items():
            self._left -= 1
            scope = TaskScope(self._run, task, self._state, self)
            if self._run.sinks.messages:
                writes = told(scope, writes)  # noqa: PLW2901
            self._save(commit.success(scope, writes, store=self._store is not None), more=bool(todo))
            emit_updates(self._run, task, task.writes, cached=True)
        try:
            if todo:
                await self._run_all(todo)
            await memo.keep()
        finally:
            memo.forget()

    async def _run_alone(self, task: Task) -> None:
        limiter = self._run.limiter
        if limiter is not None:
            await limiter.acquire()
        scope = TaskScope(self._run, task, self._state, self)
        cancelled = await self._attempt(scope, None)
        if cancelled is not None:
            raise cancelled
        if self._queue:
            await self._run_alone(self._queue.popleft())  # its error handler

    async def _run_bounded(self, tasks: Sequence[Task], seconds: float) -> None:
        """Run tasks that may take `seconds` together.

        Their workers are in no task group, so that one whose node does not end can be given up.
        """
        clock = self._run.clock
        deadline = clock.monotonic() + seconds
        self._loose = True
        self._queue.extend(tasks)
        done = self._done = self._loop.create_future()
        self._spare = True
        standby(self._run).begin(self._work(), copy_context(), name=f"{self._run.spec.name} worker")
        if done.done():
            return
        timer = clock.call_later(max(deadline - clock.monotonic(), 0), partial(self._expire, seconds))
        try:
            interrupted = await wait_settled(done, self._interrupt)
        finally:
            timer.cancel()
            if self._patience is not None:
                self._patience.cancel()
        if interrupted is not None:
            try:
                raise interrupted
            finally:
                interrupted = None  # its traceback holds this frame

    def _expire(self, seconds: float) -> None:
        """The time of the superstep is up."""
        if self._left and self.failure is None:
            unfinished = (*(scope.task.name for scope in self._running.values()), *(t.name for t in self._queue))
            self.failure = StepTimeoutError(self._run.spec.name, self._state.step, unfinished, seconds)
            self._patience = self._run.clock.call_later(GRACE_S, self._give_up_running)
            self._interrupt()

    def _give_up_running(self) -> None:
        """Wait no longer for nodes that were cancelled and did not end; whatever they still do is ignored."""
        for worker, scope in list(self._running.items()):
            scope.refusing = True
            scope.close()
            self._given_up.add(scope)
            del self._running[worker]
            self._left -= 1
            abandon(worker)
            if self.failure is not None:
                annotate(self.failure, swallowed(scope.task.name))
        self._finish()

    async def _run_together(self, tasks: Sequence[Task]) -> None:
        await self._group.open()
        self._queue.extend(tasks)
        self._done = asyncio.get_running_loop().create_future()
        self._start_worker()
        interrupted = await wait_settled(self._done, self._interrupt)
        if interrupted is not None:
            try:
                raise interrupted
            finally:
                interrupted = None  # its traceback holds this frame

    # -- workers ----------------------------------------------------------------------------------------------

    def _start_worker(self) -> None:
        self._spare = True
        if self._loose:
            spawn(self._work(), name=f"{self._run.spec.name} worker")
        else:
            self._group.spawn(self._work)

    async def _work(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        self._spare = False
        limiter = self._run.limiter
        while self._queue:
            if limiter is not None and not await self._take_slot(limiter, me):
                break
            scope = TaskScope(self._run, self._queue.popleft(), self._state, self)
            self._running[me] = scope
            cancelled = await self._attempt(scope, self._suspended)
            if scope in self._given_up:
                return
            del self._running[me]
            if cancelled is not None:
                if not self._aborting:
                    self._forget_queue()
                    self._finish()
                    raise cancelled
                me.uncancel()
            self._finish()

    async def _take_slot(self, limiter: Limiter, me: asyncio.Task[object]) -> bool:
        """Wait for a slot; False when there is nothing left to run with it."""
        if limiter.try_acquire():
            return True
        self._waiting.add(me)
        try:
            await limiter.acquire()
        except asyncio.CancelledError:
            if not self._aborting:
                self._forget_queue()
                self._finish()
                raise
            me.uncancel()
            return False
        finally:
            self._waiting.discard(me)
        if not self._queue:
            limiter.release()
        return bool(self._queue)

    def _suspended(self) -> None:
        if self._aborting:
            me = asyncio.current_task()
            if me is not None and not me.cancelling():
                me.cancel()
        elif self._queue and not self._spare:
            self._start_worker()

    def _finish(self) -> None:
        if self._left == 0 and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _abort(self) -> None:
        """Cancel every task that has started; those that have not are cancelled at their first await."""
        self._aborting = True
        me = asyncio.current_task()
        for worker in (*self._running, *self._waiting):
            if worker is not me:
                worker.cancel()
        if self._run.limiter is not None:
            self._forget_queue()
            self._finish()

    def _interrupt(self) -> None:
        """The caller was cancelled: cancel what has started, once, and start nothing more."""
        if self._aborting:
            return
        self._forget_queue()
        self._abort()
        self._finish()

    def _forget_queue(self) -> None:
        self._left -= len(self._queue)
        self._queue.clear()

    # -- one task ---------------------------------------------------------------------------------------------

    async def _attempt(self, scope: TaskScope, on_suspend: Callable[[], None] | None) -> asyncio.CancelledError | None:
        """Run a task and commit what it comes to; return the cancellation that ended it, if one did."""
        limiter = self._run.limiter
        scope.holds_slot = limiter is not None
        error: BaseException | None = None
        interrupted: asyncio.CancelledError | None = None
        counted = False
        if scope.task.node.retry_policy:
            scope.note_beginning()
        try:
            if self._stored is not None and isinstance(scope.task, RescueTask):
                await self._stored()
            writes, error, interrupted = await self._perform(scope, on_suspend)
            while error is not None and interrupted is None:
                following, error = await self._again(scope, error, on_suspend)
                if following is None:
                    break
                scope = following
                writes, error, interrupted = await self._perform(scope, on_suspend)
            if scope in self._given_up:
                return None
            self._left -= 1
            counted = True
            if self._run.parent is not None:
                self._run.parent.sign()
            return self._settle(scope, writes, error) or interrupted
        except BaseException as exc:  # noqa: BLE001
            # Nothing but what stores and tells raises here; nobody must wait for a task that cannot be settled.
            if not counted:
                self._left -= 1
            self._give_up(exc)
            return interrupted
        finally:
            error = None  # its traceback holds this frame
            scope.close()
            if scope.holds_slot and limiter is not None:
                scope.holds_slot = False
                limiter.release()

    async def _perform(
        self, scope: TaskScope, on_suspend: Callable[[], None] | None
    ) -> tuple[list[Write], BaseException | None, asyncio.CancelledError | None]:
        """Run one attempt, and wait for what it has started; return its writes, or what ended it."""
        task = scope.task
        action = task.node.action
        if action is not None and self._run.sinks.updates and action.kind in ("async_gen", "gen"):
            scope.stepwise = self._stepwise(scope)
        context = copy_context()
        context.run(ambient.current.set, scope)
        writes: list[Write] = []
        error: BaseException | None = None
        interrupted: asyncio.CancelledError | None = None
        try:
            try:
                bound = task.node.limit
                if bound is not None and not admitted_at_once(scope, bound):
                    await drive(admission(scope, bound), copy_context(), on_suspend)
                limit = timeout_of(task) if task.send is not None else task.node.timeout
                if limit is None:
                    writes = await drive(run_attempt(scope), context, on_suspend)
                else:
                    begun = begin_within(scope, limit, context)
                    if isinstance(begun, Ended):
                        writes = begun.result
                    else:
                        writes = await drive(begun, copy_context(), on_suspend)
            except BaseException as exc:  # noqa: BLE001
                error = exc
            if scope.running:
                interrupted = await drive(scope.finish_calls(error), context, on_suspend)
                error = error or interrupted
            if scope.hosts:
                interrupted = await scope.end_graphs() or interrupted
            if scope.pushed:  # by calls that the node has not awaited
                writes = [*writes, *scope.take_pushed()]
            return writes, error, interrupted or scope.interrupted
        finally:
            if scope.permit is not None:
                scope.give_permit_back()
            scope.interrupted = error = None  # its traceback holds this frame

    async def _again(
        self, scope: TaskScope, error: BaseException, on_suspend: Callable[[], None] | None
    ) -> tuple[TaskScope | None, BaseException]:
        """Wait until a failed task may be tried again; return the next attempt, or None and what it has failed with."""
        try:
            seconds = None if self._aborting else retry_wait(scope, error)
            if seconds is None:
                return None, error
            scope.close()
            await drive(rest(scope, seconds), copy_context(), on_suspend)
            return next_attempt(scope), error
        except BaseException as exc:  # noqa: BLE001
            return None, exc
        finally:
            del error  # its traceback holds this frame

    def _settle(
        self, scope: TaskScope, writes: list[Write], error: BaseException | None
    ) -> asyncio.CancelledError | None:
        if isinstance(error, asyncio.CancelledError):
            return self._cancelled(scope, error)
        changed = self._other_calls(scope, ended=error is None and not scope.paused) if self._state.pending else None
        if changed is not None:
            self._fail(scope, changed)
        elif error is not None:
            self._ended(scope, error)
        elif scope.paused:
            self._pause(scope, None)
        else:
            self._succeed(scope, writes)
        return None

    def _stepwise(self, scope: TaskScope) -> Callable[[list[Write]], None]:
        return lambda writes: emit_updates(self._run, scope.task, writes)

    def _cancelled(self, scope: TaskScope, exc: asyncio.CancelledError) -> asyncio.CancelledError | None:
        me = asyncio.current_task()
        if self._aborting or (me is not None and me.cancelling()):
            exc.with_traceback(trimmed(exc.__traceback__))  # the engine's frames hold the task, which holds this
            self._save(commit.failure(scope, exc))
            return exc
        error = NodeCancelledError(scope.task.name)
        error.__cause__ = exc
        self._ended(scope, error)
        return None

    def _ended(self, scope: TaskScope, exc: BaseException) -> None:
        if (scope.paused and not is_invalid_resume(exc)) or isinstance(exc, GraphInterrupt):
            self._pause(scope, exc)
        else:
            self._fail(scope, exc)

    def _succeed(self, scope: TaskScope, writes: list[Write]) -> None:
        task, sinks = scope.task, self._run.sinks
        if self._memo is not None:
            self._memo.note(task, writes, answered=bool(scope.used))
        rows = commit.success(scope, writes, store=self._store is not None)
        self._save(rows, commit.answered(scope) if rows is not None and not rows.replace else None)
        if sinks.updates and (scope.stepwise is None or not writes):
            emit_updates(self._run, task, writes)
        if sinks.tasks:
            emit_task_result(self._run, task, writes=writes)

    def _pause(self, scope: TaskScope, exc: BaseException | None) -> None:
        questions, rows = commit.paused(scope, exc)
        self.paused = True
        self._save(rows)
        if questions:
            emit_interrupts(self._run, self._state, questions)
            emit_task_result(self._run, scope.task, questions=questions)

    def _fail(self, scope: TaskScope, exc: BaseException) -> None:
        if isinstance(exc, GraphDrained):
            # A graph inside has stopped between two of its supersteps; this one is in flight, and is finished.
            self._save(commit.drained(scope))
            self.drained = exc
            return
        task = scope.task
        if task.node.error_handler is not None and not self._aborting and self._rescue(scope, exc):
            return
        if isinstance(exc, ParentCommand):
            self._save(None)
        else:
            locate(exc, scope)
            self._save(None if leaves_thread(exc) else commit.failure(scope, exc))
            emit_task_result(self._run, task, error=exc)
        if self.failure is None:
            self.failure = exc
            if not is_invalid_resume(exc) and self._left:
                self._abort()
        elif exc is not self.failure:
            attached = getattr(self.failure, "__langgraph_siblings__", ())
            with suppress(AttributeError):
                self.failure.__langgraph_siblings__ = (*attached, exc)  # type: ignore[attr-defined]
            annotate(self.failure, f"In the same superstep node '{task.name}' failed too: {exc!r}")

    def _rescue(self, scope: TaskScope, exc: BaseException) -> bool:
        """Hand a failure to the node's error handler, which is run next; False when it handles no such failure."""
        task = scope.task
        me = asyncio.current_task()
        cancelled = me is not None and me.cancelling()
        handler = None if cancelled else rescue(self._run.spec, self._state, task, exc)
        if handler is None:
            return False
        self._left += 1
        locate(exc, scope)
        self._save(commit.handled(scope, exc))
        emit_task_result(self._run, task, error=exc)
        self.rescued.append(handler)
        self._queue.appendleft(handler)
        return True

    def _save(self, rows: TaskWrites | None, before: TaskWrites | None = None, *, more: bool = False) -> None:
        if self._store is not None and rows is not None:
            if before is not None:
                self._store(before, True)
            self._store(rows, self._left == 0 and not more)

    def _give_up(self, exc: BaseException) -> None:
        """End the superstep: something could not be stored, or told."""
        if self.failure is None:
            self.failure = exc
            self._abort()

    # -- the functions that tasks call ------------------------------------------------------------------------

    def start_call(self, caller: TaskScope, task: CallTask) -> Any:
        """Start a call that a task makes, and return the future of its result."""
        if self._calls is None:
            save = self._save_call if self._store is not None else None
            calls = Calls(
                run=self._run,
                state=self._state,
                group=self._group,
                save=save,
                stored=self._stored,
                loop=self._loop,
                memo=self._memo,
            )
            with _LOCK:
                self._calls = self._calls or calls
        return self._calls.start(caller, task)

    def _other_calls(self, scope: TaskScope, *, ended: bool) -> BaseException | None:
        """Return what says that a task that ran again made other calls than before, whatever it made of that."""
        order = self._calls.order if self._calls is not None else order_of(self._run, by_task(self._state.pending))
        if order is None or not ended:
            return order.broken(scope) if order is not None else None
        return order.check_end(scope)

    def _save_call(self, rows: TaskWrites) -> BaseException | None:
        assert self._store is not None
        try:
            self._store(rows, False)
        except Exception as exc:  # noqa: BLE001
            self._give_up(exc)
            return exc
        return None
