"""Runs the functions that the tasks of one superstep call, each as a task of its own in the same superstep.

A call whose result is stored is not run again. What a call comes to is stored and told before its caller sees it. A
call that fails concerns nobody but its caller; one that pauses pauses its caller.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

from langgraph_async import ambient
from langgraph_async.aio.group import Group
from langgraph_async.aio.standby import Ended
from langgraph_async.checkpoint.base import TaskWrites
from langgraph_async.constants import RETURN
from langgraph_async.errors import (
    GraphBubbleUp,
    GraphDrained,
    GraphInterrupt,
    NodeCancelledError,
    NonDeterministicReplayError,
    is_invalid_resume,
    leaves_thread,
)
from langgraph_async.pregel.admission import admission, admitted_at_once, come_back
from langgraph_async.pregel.again import next_attempt, rest, retry_wait
from langgraph_async.pregel.call_order import order_of
from langgraph_async.pregel.calling import calling_place
from langgraph_async.pregel.deadline import begin_within
from langgraph_async.pregel.failure import locate
from langgraph_async.pregel.memo import Memo
from langgraph_async.pregel.model import RunScope, StepState
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.step import commit
from langgraph_async.pregel.step.attempt import run_attempt
from langgraph_async.pregel.step.emit import emit_task_result, emit_task_start, emit_updates
from langgraph_async.pregel.stored import Stored, by_task
from langgraph_async.pregel.task import CallTask
from langgraph_async.pregel.view import detached
from langgraph_async.pregel.whole_messages import told

Save: TypeAlias = Callable[[TaskWrites], BaseException | None]
"""Stores a call's writes; returns what went wrong, which ends the run."""


class ThreadFuture(concurrent.futures.Future[Any]):
    """The result of a call that a worker thread made: `result()` blocks the thread, an event loop can await it."""

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()


class Call:
    """One call that is running.

    Attributes:
        caller: The scope of the task that made it.
        scope: The scope of its current attempt.
        future: Where its result goes.
        worker: The asyncio task that it runs in, once that has started.
        cancelled: It was asked to end.
    """

    __slots__ = ("caller", "cancelled", "future", "scope", "worker")

    def __init__(self, caller: TaskScope, scope: TaskScope, future: asyncio.Future[Any]) -> None:
        self.caller = caller
        self.scope = scope
        self.future = future
        self.worker: asyncio.Task[Any] | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Ask it to end, once: what cleans up must not be cancelled again."""
        if not self.cancelled:
            self.cancelled = True
            if self.worker is not None:
                self.worker.cancel()

    def given_up(self, future: asyncio.Future[Any]) -> None:
        """End it when nobody wants its result any more."""
        if future.cancelled():
            self.cancel()


class Calls:
    """The calls of one superstep.

    Args:
        run: The run.
        state: The state that the superstep started from.
        group: Owns the asyncio tasks of the calls.
        save: Stores what a call came to, or None without a saver.
        stored: Waits until what was saved is stored, or None where that is not waited for.
        loop: The event loop of the run.
        memo: Finds and keeps results in the run's cache, or None without one.

    Attributes:
        order: Compares calls with those that are stored; None outside of replays.
    """

    def __init__(
        self,
        *,
        run: RunScope,
        state: StepState,
        group: Group,
        save: Save | None,
        stored: Callable[[], Awaitable[None]] | None,
        loop: asyncio.AbstractEventLoop,
        memo: Memo | None = None,
    ) -> None:
        self._memo = memo
        self._run = run
        self._state = state
        self._group = group
        self._save = save
        self._wait_stored = stored
        self._loop = loop
        self._known: dict[str, Stored] = by_task(state.pending)
        self.order = order_of(run, self._known)

    def start(self, caller: TaskScope, task: CallTask) -> Any:
        """Start a call; see `TaskScope.call`."""
        if threading.get_ident() == self._run.thread_ident:
            future: asyncio.Future[Any] = self._loop.create_future()
            self._begin(caller, task, future, calling_place())
            return future
        outer = ThreadFuture()
        context = contextvars.copy_context()
        begin = functools.partial(self._begin_for_thread, caller, task, outer, calling_place())
        self._loop.call_soon_threadsafe(begin, context=context)
        return outer

    def _begin_for_thread(self, caller: TaskScope, task: CallTask, outer: ThreadFuture, origin: object) -> None:
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(functools.partial(_copy_outcome, outer))
        outer.add_done_callback(functools.partial(_pass_cancellation, self._loop, future))
        if caller.refusing or caller.closed:
            future.cancel()
        else:
            self._begin(caller, task, future, origin)

    def _begin(self, caller: TaskScope, task: CallTask, future: asyncio.Future[Any], origin: object) -> None:
        run = self._run
        known = self._known.get(task.id)
        if self.order is not None:
            try:
                self.order.check(caller, task, origin, known=known is not None)
            except NonDeterministicReplayError as exc:
                _fail(future, exc)
                return
        if known is not None:
            if known.writes:
                self._state.seen.setdefault(task.name, {})
                self._show_start(task)
                _hand_on(caller, known.writes)
                future.set_result(_returned(known.writes))
                return
            task.answers = list(known.answers)
            task.asked = known.unanswered(task.ns)
            task.error = known.error
            if self._left_alone(task):
                caller.pause(task.asked)
                _fail(future, GraphInterrupt(task.asked))
                return
        self._state.seen.setdefault(task.name, {})
        self._show_start(task)
        scope = TaskScope(run, task, self._state, starter=caller.starter, caller=caller)
        call = Call(caller, scope, future)
        future.add_done_callback(call.given_up)
        caller.enter_call(call)
        self._group.spawn_loose(self._work(call), name=task.name)

    def _show_start(self, task: CallTask) -> None:
        if self._run.sinks.tasks:
            emit_task_start(self._run, task)

    def _left_alone(self, task: CallTask) -> bool:
        """Tell whether the run was started to answer other questions than those of a paused call."""
        answers = self._run.answers
        return answers.resuming and bool(task.asked) and answers.given.keys().isdisjoint(q.id for q in task.asked)

    # -- one call ---------------------------------------------------------------------------------------------

    async def _work(self, call: Call) -> None:
        future = call.future
        ambient.current.set(call.scope)
        call.worker = asyncio.current_task()
        known = await self._remembered(call) if self._memo is not None else None
        value, error = (_returned(known), None) if known is not None else await self._attempt(call)
        scope = call.scope
        scope.close()
        if error is None:
            error = await self._succeed(call, value, known)
        else:
            if self._memo is not None:
                self._memo.drop(scope.task)
            error = self._end(call, error)
        self._remember(scope)
        if not (call.cancelled or future.done()) and call.caller.is_last(call):
            with suppress(asyncio.CancelledError):
                await come_back(call.caller, scope)
        call.caller.leave_call(call, scope)
        if self.order is not None:
            self.order.note_end(call.caller)
        if future.done():
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, asyncio.CancelledError):
            future.cancel()
        else:
            _fail(future, error)

    async def _remembered(self, call: Call) -> list[Write] | None:
        """Return a call's writes when the cache has them."""
        assert self._memo is not None
        task = call.scope.task
        try:
            known = await self._memo.find([task])
        except asyncio.CancelledError:
            call.cancelled = True
            return None
        return known.get(task)

    async def _attempt(self, call: Call) -> tuple[Any, BaseException | None]:
        """Run the function, and wait for what it has called itself; return its result, or what ended it."""
        scope, limiter = call.scope, self._run.limiter
        if call.cancelled or call.future.cancelled():
            call.cancelled = True
            return None, asyncio.CancelledError()
        try:
            if self._run.sinks.buses:
                await self._run.sinks.room()
            if limiter is not None:
                await limiter.acquire()
                scope.holds_slot = True
        except asyncio.CancelledError as exc:
            return None, exc
        if scope.task.node.retry_policy:
            scope.note_beginning()
        value, error = await self._perform(scope)
        while error is not None:
            following, error = await self._again(call, error)
            if following is None:
                break
            call.scope = following
            ambient.current.set(following)
            value, error = await self._perform(following)
        return value, error

    async def _again(self, call: Call, error: BaseException) -> tuple[TaskScope | None, BaseException]:
        """Wait until a failed call may be tried again; return the next attempt, or None and what it has failed with."""
        try:
            seconds = None if call.cancelled else retry_wait(call.scope, error)
            if seconds is None:
                return None, error
            call.scope.close()
            await rest(call.scope, seconds)
            return next_attempt(call.scope), error
        except BaseException as exc:  # noqa: BLE001
            return None, exc

    async def _perform(self, scope: TaskScope) -> tuple[Any, BaseException | None]:
        """Run one attempt of a call, and wait for what it has called itself."""
        value: Any = None
        error: BaseException | None = None
        try:
            bound = scope.task.node.limit
            if bound is not None and not admitted_at_once(scope, bound):
                await admission(scope, bound)
            limit = scope.task.node.timeout
            if limit is None:
                writes = await run_attempt(scope)
            else:
                begun = begin_within(scope, limit, contextvars.copy_context())
                writes = begun.result if isinstance(begun, Ended) else await begun
            value = _returned(writes)
        except BaseException as exc:  # noqa: BLE001
            error = exc
        if scope.running:
            interrupted = await scope.finish_calls(error)
            error = error or interrupted
        if scope.hosts:
            interrupted = await scope.end_graphs()
            error = error or interrupted
        if error is None and scope.paused:
            error = GraphInterrupt(tuple(scope.pauses))
        if self.order is not None:
            error = self.order.check_end(scope) if error is None else self.order.broken(scope) or error
        scope.give_permit_back()
        scope.interrupted = None  # a call that has ended is kept
        return value, error

    async def _succeed(self, call: Call, value: Any, known: list[Write] | None) -> BaseException | None:
        """Store a call's result, with what it pushed to the state; `known` are its writes if the cache had them."""
        scope, task, cached = call.scope, call.scope.task, known is not None
        writes = [*_pushed(call.caller, known or scope.body or ()), *scope.take_pushed(), (RETURN, value)]
        if self._memo is not None:
            self._memo.note(task, writes, answered=bool(scope.used))
        failed = self._store(commit.success(scope, writes, store=self._save is not None))
        if failed is not None:
            return failed
        _hand_on(call.caller, writes)
        sinks = self._run.sinks
        if cached and sinks.messages:
            told(scope, task.writes)
        if sinks.updates:
            emit_updates(self._run, task, task.writes, cached=cached)
        if sinks.tasks and not cached:
            emit_task_result(self._run, task, writes=task.writes)
        try:
            if self._memo is not None:
                await self._memo.keep()
            if self._wait_stored is not None:
                await self._wait_stored()
        except BaseException as exc:  # noqa: BLE001
            return exc
        return None

    def _end(self, call: Call, error: BaseException) -> BaseException:
        """Record what ended a call that has no result, and return what its caller gets."""
        scope, task = call.scope, call.scope.task
        if isinstance(error, asyncio.CancelledError):
            if call.cancelled or (call.worker is not None and call.worker.cancelling()):
                return self._store(commit.failure(scope, error)) or error
            error = _own_cancellation(task.name, error)
        if (scope.paused and not is_invalid_resume(error)) or isinstance(error, GraphInterrupt):
            questions, rows = commit.paused(scope, error)
            call.caller.pause(questions)
            return self._store(rows) or GraphInterrupt(questions)
        if isinstance(error, GraphDrained):
            return self._store(commit.drained(scope)) or error
        if isinstance(error, GraphBubbleUp) or leaves_thread(error):
            return error
        locate(error, scope)
        failed = self._store(commit.failure(scope, error))
        emit_task_result(self._run, task, error=error)
        return failed or error

    def _store(self, rows: TaskWrites | None) -> BaseException | None:
        return self._save(rows) if self._save is not None and rows is not None else None

    def _remember(self, scope: TaskScope) -> None:
        """Keep what a call came to, for a caller that makes it again within the superstep."""
        task = scope.task
        self._known[task.id] = Stored(
            writes=list(task.writes), error=task.error, asked=task.asked, answers=list(task.answers)
        )


def _returned(writes: list[Write]) -> Any:
    return next((detached(value) for channel, value in writes if channel == RETURN), None)


def _pushed(caller: TaskScope, writes: Iterable[Write]) -> list[Write]:
    channels = caller.run.spec.channels
    return [write for write in writes if write[0] in channels]


def _hand_on(caller: TaskScope, writes: Iterable[Write]) -> None:
    """Let what a call pushed to the state be written with its caller's writes, for the call itself has no step."""
    pushed = _pushed(caller, writes)
    if pushed:
        caller.push(pushed)


def _own_cancellation(name: str, error: asyncio.CancelledError) -> NodeCancelledError:
    found = NodeCancelledError(name)
    found.__cause__ = error
    return found


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """Give a future an error that nobody has to look at."""
    if isinstance(error, GeneratorExit):
        # Raised at an `await`, it would close the caller's coroutine instead of failing it.
        raised, error = error, RuntimeError("A task raised GeneratorExit.")
        error.__cause__ = raised
    future.set_exception(error)
    future.exception()


def _copy_outcome(outer: ThreadFuture, inner: asyncio.Future[Any]) -> None:
    if inner.cancelled():
        outer.cancel()
    elif outer.set_running_or_notify_cancel():
        error = inner.exception()
        if error is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result())


def _pass_cancellation(
    loop: asyncio.AbstractEventLoop, inner: asyncio.Future[Any], outer: concurrent.futures.Future[Any]
) -> None:
    if outer.cancelled() and not inner.done():
        loop.call_soon_threadsafe(inner.cancel)
