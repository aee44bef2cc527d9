"""Notices, when a task runs again, that it makes other calls than those whose results are stored.

What is stored of a call is found by an id that is hashed from its caller, its function's name and its place among
the caller's calls. A call for which nothing is stored, at a place where something is stored for another function, was
not what the caller did before. The stored name is found by trying the names of all task functions that are known.

Nothing is compared where an earlier attempt may have left its usual path, since what cleaned up then may have called,
too: after an answer, after a call that ran anew, after a graph inside, after a failure of the caller, with retries;
nor where calls come from several asyncio tasks or threads of the caller, which reach their places by speed.
"""

from __future__ import annotations

from collections.abc import Mapping

from langgraph_async.errors import NonDeterministicReplayError, create_error_message
from langgraph_async.pregel.model import RunScope
from langgraph_async.pregel.node import PregelNode
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.stored import Stored
from langgraph_async.pregel.task import CallTask, Task

_PROBES = 64
"""Calls of one caller without a stored result that are compared; more are work that was never begun."""

_names: set[str] = set()


def know_name(name: str) -> None:
    """Take note of a task function's name, so that it can be told from a stored id."""
    _names.add(name)


class _Replay:
    """How far the calls of one attempt of a caller can be compared."""

    __slots__ = ("comparable", "ended_anew", "probes")

    def __init__(self, *, comparable: bool) -> None:
        self.comparable = comparable
        self.ended_anew = False
        self.probes = 0


class CallOrder:
    """Compares the calls of one superstep with what is stored of it.

    Args:
        run: The run.
        stored: What was stored of the superstep before the run, by task id.
    """

    def __init__(self, run: RunScope, stored: Mapping[str, Stored]) -> None:
        self._run = run
        self._broken: dict[TaskScope, NonDeterministicReplayError] = {}
        self._stored = frozenset(key for key, found in stored.items() if found.writes or found.asked)
        self._replays: dict[TaskScope, _Replay] = {}

    def check(self, caller: TaskScope, call: CallTask, origin: object, *, known: bool) -> None:
        """Compare a call.

        Args:
            caller: Whose call it is.
            call: The call.
            origin: The asyncio task or thread that made it.
            known: Whether anything is stored of it.

        Raises:
            NonDeterministicReplayError: Another call had its place; so has any call after that.
        """
        broken = self.broken(caller)
        if broken is not None:
            raise broken
        replay = self._replays.get(caller)
        if replay is None:
            replay = self._replays[caller] = _Replay(comparable=self._can_compare(caller))
        if not self._still_comparable(caller, replay) or origin != caller.home:
            replay.comparable = False
        if known or not replay.comparable or replay.probes == _PROBES:
            return
        replay.probes += 1
        before = self._stored_name(caller.task, call.index)
        if before is not None and before != call.name and not caller.has_strays():
            raise self._changed(caller, call.index, before, call.name)

    def broken(self, scope: TaskScope) -> NonDeterministicReplayError | None:
        """Return the difference that was found in a task, or in one that it called or was called by; or None.

        Whatever the code makes of the error, such a task has not ended, and nothing is to be stored of it.
        """
        return self._broken.get(_outermost(scope))

    def note_end(self, caller: TaskScope) -> None:
        """Note that a call ran anew and has ended: what its caller does next may be new, too."""
        replay = self._replays.get(caller)
        if replay is not None:
            replay.ended_anew = True

    def check_end(self, caller: TaskScope) -> NonDeterministicReplayError | None:
        """Compare the end of an attempt that succeeded: nothing may be stored of a call after its last one."""
        broken = self.broken(caller)
        if broken is not None:
            return broken
        replay = self._replays.get(caller)
        comparable = self._can_compare(caller) if replay is None else replay.comparable
        if not comparable or caller.task.asked or (replay is not None and not self._still_comparable(caller, replay)):
            return None
        before = self._stored_name(caller.task, caller.calls_made)
        if before is not None and not caller.has_strays():
            return self._changed(caller, caller.calls_made, before, None)
        return None

    def _can_compare(self, caller: TaskScope) -> bool:
        retried = caller.task.node.retry_policy or (caller.caller is None and self._run.spec.retry_policy)
        return caller.task.error is None and not retried

    def _still_comparable(self, caller: TaskScope, replay: _Replay) -> bool:
        return not (caller.used or caller.paused or caller.graph_calls or replay.ended_anew)

    def _stored_name(self, caller: Task, index: int) -> str | None:
        """Return the name of the function of which something is stored at a place, or None."""
        return next((name for name in _names if _id_at(caller, name, index) in self._stored), None)

    def _changed(self, scope: TaskScope, index: int, stored: str, called: str | None) -> NonDeterministicReplayError:
        caller, thread = scope.task, self._run.config.thread_id
        now = "it ended without that call" if called is None else f"now it called {called!r} there"
        message = (
            f"{caller.name!r} in graph {self._run.spec.name!r}, on thread {thread!r}, does not repeat its earlier "
            f"calls: call number {index} was of task {stored!r}, {now}. What is stored stays as it is. Go on with "
            "code that makes the same calls in the same order, or start anew from the checkpoint."
        )
        error = NonDeterministicReplayError(
            create_error_message(message=message, error_code=NonDeterministicReplayError.code),
            workflow=caller.name,
            position=index,
            stored=stored,
            called=called,
            thread_id=thread,
        )
        self._broken[_outermost(scope)] = error
        return error


def order_of(run: RunScope, stored: Mapping[str, Stored]) -> CallOrder | None:
    """Return what compares the calls of a superstep; None where nothing is stored of it, as in all but replays."""
    return CallOrder(run, stored) if stored else None


def _outermost(scope: TaskScope) -> TaskScope:
    while scope.caller is not None:
        scope = scope.caller
    return scope


def _id_at(caller: Task, name: str, index: int) -> str:
    return CallTask(name, _NOTHING, ((), {}), caller, index).id


_NOTHING = PregelNode(triggers=(), channels=())
