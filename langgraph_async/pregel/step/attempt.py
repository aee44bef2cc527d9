"""One attempt of one task: the node, then its writes, then its routers.

In: a `TaskScope`. Out: the writes, or whatever the user's code raised. The only file that awaits user code.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any

from langgraph_async.aio.threads import run_in_thread
from langgraph_async.callbacks.port import Tracing
from langgraph_async.channels import LastValue
from langgraph_async.errors import EmptyChannelError, ParentCommand
from langgraph_async.pregel.call import Action
from langgraph_async.pregel.message_ids import identified
from langgraph_async.pregel.namespace import without_ids
from langgraph_async.pregel.node import Router, Write
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.view import fresh_view
from langgraph_async.pregel.whole_messages import note_input, told
from langgraph_async.types import Command

_PLAIN = (dict, list, tuple, str, int, float, Command, type(None))
_EXHAUSTED = object()


def run_attempt(scope: TaskScope) -> Coroutine[Any, Any, list[Write]]:
    """Return what, awaited, runs the scope's task once and gives what it writes.

    `scope.body` holds the node's own writes as soon as they are known: when a router raises, they are kept and
    only the routing is left to do.
    """
    return _run_attempt(scope) if scope.run.tracing is None else _traced(scope, scope.run.tracing)


async def _traced(scope: TaskScope, tracing: Tracing) -> list[Write]:
    if not tracing.quiet:
        return await tracing.attempt(scope, _run_attempt)
    tracing.enter(scope)
    return await _run_attempt(scope)


async def _run_attempt(scope: TaskScope) -> list[Write]:
    task = scope.task
    node = task.node
    if scope.state.pending:
        scope.settle_in()
    if scope.run.sinks.messages:
        note_input(scope)
    action = node.action
    if action is None or task.routing_only:
        return await _routed(scope, _written(scope, task.input) if not task.routing_only else list(task.writes))
    try:
        try:
            if action.kind == "async" and not action.inject:
                output = await action.func(task.input)
            elif action.kind in ("async_gen", "gen"):
                output = await _collect(action, scope)
            else:
                output = await _call(action, task.input, scope)
        except ParentCommand as signal:
            if action.literal:
                raise
            output = _taken_over(signal, scope)
        if type(output) is not dict and not action.literal:
            output = await _resolved(output, scope)
        scope.returned = output
        writes = output.writes if isinstance(output, _Written) else _written(scope, output)
    finally:
        if scope.open_streams:
            await scope.close_streams()
    return await _routed(scope, writes)


async def run_writers(scope: TaskScope, output: Any) -> list[Write]:
    """Return what the scope's node would write if its action returned `output`; the action does not run.

    Raises:
        ParentCommand: The output is a command for an enclosing graph.
        BaseException: What the node's writer or a router raised.
    """
    node = scope.task.node
    # A node without an action hands its input on as its output; with nothing to hand on, it writes nothing.
    writes = [] if output is None and node.action is None else _written(scope, output)
    return await _routed(scope, writes)


async def _routed(scope: TaskScope, writes: list[Write]) -> list[Write]:
    scope.body = writes
    node = scope.task.node
    if not node.edges and not node.routers:
        return writes
    routed = [*writes, *node.edges]
    for router in node.routers:
        routed.extend(await _route(router, scope, writes))
    return routed


def _written(scope: TaskScope, output: Any) -> list[Write]:
    run = scope.run
    writes = list(scope.task.node.write(output))
    if scope.pushed:
        writes = [*scope.take_pushed(), *writes]
    if run.spec.deltas:
        writes = identified(run.spec, writes)
    return told(scope, writes) if run.sinks.messages else writes


class _Written:
    """The writes of a generator, which were turned into writes yield by yield."""

    __slots__ = ("writes",)

    def __init__(self, writes: list[Write]) -> None:
        self.writes = writes


async def _route(router: Router, scope: TaskScope, writes: Sequence[Write]) -> Sequence[Write]:
    view: Any
    try:
        view = fresh_view(scope.run.spec, scope.state, router.channels, writes)
    except EmptyChannelError:
        view = None
    if router.mapper is not None:
        view = router.mapper(view)
    choose = functools.partial(_choice, router.action, scope, view)
    tracing = scope.run.tracing
    result = await (choose() if tracing is None or tracing.quiet else tracing.routing(scope, router.name, view, choose))
    return router.resolve(result)


async def _choice(action: Action, scope: TaskScope, view: Any) -> Any:
    if action.kind != "thread":
        return await _call(action, view, scope)
    # A routing function decides by the state and returns: it is not worth a thread.
    result = action.func(view, **arguments(action, scope))
    return await result if inspect.isawaitable(result) else result


async def _call(action: Action, value: Any, scope: TaskScope) -> Any:
    kind = action.kind
    if kind == "sequence":
        for step in action.steps:
            value = await _call(step, value, scope)
        return value
    if kind == "runnable":
        if getattr(action.original, "is_pregel", False):
            return await action.func(value)
        return await action.func(value, scope.config)
    given = arguments(action, scope)
    if kind == "async":
        return await action.func(value, **given)
    if kind == "inline":
        result = action.func(value, **given)
    else:
        work = functools.partial(action.func, value, **given)
        if scope.state.pending:
            work = functools.partial(_settled, scope, work)
        result = await run_in_thread(work, depth=scope.depth, on_cancel=scope.refuse_calls)
    if inspect.isawaitable(result):
        result = await result
    return result


def _settled(scope: TaskScope, work: Callable[[], Any]) -> Any:
    scope.settle_in()
    return work()


async def _resolved(output: Any, scope: TaskScope) -> Any:
    """Return `output`, or, when a node returned something to invoke, the result of invoking it."""
    if isinstance(output, (_Written, *_PLAIN)):
        return output
    if not callable(getattr(output, "ainvoke", None)) or isinstance(output, type):
        return output
    if getattr(output, "is_pregel", False):
        return await output.ainvoke(scope.task.input)
    return await output.ainvoke(scope.task.input, scope.config)


async def _collect(action: Action, scope: TaskScope) -> _Written:
    """Take every value that a generator yields as an update of its own."""
    parts: list[list[Write]] = []
    iterator = action.func(scope.task.input, **arguments(action, scope))
    items: AsyncGenerator[Any, None] = iterator if action.kind == "async_gen" else _in_threads(iterator)
    try:
        async for item in items:
            scope.sign()
            if item is None:
                continue
            written = _written(scope, item)
            parts.append(written)
            if scope.stepwise is not None:
                scope.stepwise(written)
    finally:
        await items.aclose()
    if scope.pushed:
        parts.append(list(scope.take_pushed()))
    return _Written(_joined(scope, parts))


def _joined(scope: TaskScope, parts: Sequence[Sequence[Write]]) -> list[Write]:
    """Return the writes of all yields; of a plain key only those of the last yield that wrote it."""
    channels = scope.run.spec.channels
    last = {key: number for number, part in enumerate(parts) for key, _ in part}
    return [
        write
        for number, part in enumerate(parts)
        for write in part
        if last[write[0]] == number or not isinstance(channels.get(write[0]), LastValue)
    ]


async def _in_threads(iterator: Iterator[Any]) -> AsyncGenerator[Any, None]:
    try:
        while (item := await run_in_thread(next, iterator, _EXHAUSTED)) is not _EXHAUSTED:
            yield item
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            await run_in_thread(close)


def arguments(action: Action, scope: TaskScope) -> dict[str, Any]:
    """Return what is injected into a call of `action`."""
    given: dict[str, Any] = {}
    for name in action.inject:
        if name == "config":
            given[name] = scope.config
        elif name == "writer":
            given[name] = scope.writer
        elif name == "runtime":
            given[name] = scope.runtime
        elif name == "error":
            given[name] = scope.node_error
        else:
            given[name] = getattr(scope.run.runtime, name)
    return given


def _taken_over(signal: ParentCommand, scope: TaskScope) -> Command[Any]:
    """Return the command of a graph called inside, as if the node had returned it for its own graph."""
    command, task = signal.command, scope.task
    names = (task.name, task.ns, without_ids(task.ns))
    if (command.graph == Command.PARENT and signal.left_graph) or command.graph in names:
        return replace(command, graph=None)
    raise signal
