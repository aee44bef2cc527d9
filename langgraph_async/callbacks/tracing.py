"""Tells langchain-core's callback handlers of the runs of graphs and nodes. Needs the extra ``langchain``.

A graph is a run, each attempt of a node a run inside it, tagged ``graph:step:<n>``; what the node calls is inside that.
Where nobody listens, no such runs are made: the node's code only finds its config, as any Runnable's does.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForChainRun,
    BaseCallbackHandler,
    BaseCallbackManager,
)
from langchain_core.globals import get_debug
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langchain_core.tracers.context import _configure_hooks, _tracing_v2_is_enabled, tracing_v2_callback_var

from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.callbacks.events import GraphInterruptEvent, GraphResumeEvent
from langgraph_async.callbacks.handler import GraphCallbackHandler
from langgraph_async.callbacks.port import TracedTask
from langgraph_async.callbacks.tokens import SignHandler, TokenHandler
from langgraph_async.callbacks.tools import ToolHandler
from langgraph_async.types import Interrupt

T = TypeVar("T")

logger: Final = logging.getLogger("langgraph_async")


_OURS: Final = (TokenHandler, ToolHandler, SignHandler)


class _TaskConfig(Mapping[str, Any]):
    """A task's config, worked out when somebody looks at it: most nodes call nothing that does."""

    __slots__ = ("_scope",)

    def __init__(self, scope: TracedTask) -> None:
        self._scope = scope

    def __getitem__(self, key: str) -> Any:
        return self._scope.config[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scope.config)

    def __len__(self) -> int:
        return len(self._scope.config)

    def copy(self) -> dict[str, Any]:
        """Return the config as a dict."""
        return dict(self._scope.config)


class RunTracing:
    """Tells handlers what happens in one run of one graph; see `Tracing`.

    Args:
        config: The run's config.
        name: The graph's name.
        messages: Whether somebody listens for the tokens of models.
        tools: Whether somebody listens for events of tools.
    """

    __slots__ = ("_graph_handlers", "_listened", "_manager", "_name", "_run", "_run_id", "_streaming", "quiet")

    def __init__(self, config: Mapping[str, Any], name: str, *, messages: bool, tools: bool) -> None:
        self.quiet = False
        metadata = config.get("metadata") or {}
        if "ls_integration" not in metadata:
            metadata = {**metadata, "ls_integration": "langgraph"}
        self._name = config.get("run_name") or name
        self._run_id = _as_uuid(config.get("run_id"))
        self._run: AsyncCallbackManagerForChainRun | None = None
        manager = AsyncCallbackManager.configure(
            inheritable_callbacks=_checked(config.get("callbacks")),
            inheritable_tags=config.get("tags"),
            inheritable_metadata=metadata,
        )
        if messages:
            _add_once(manager, TokenHandler)
        if tools:
            _add_once(manager, ToolHandler)
        self._manager = manager
        told = [handler for handler in manager.handlers if not isinstance(handler, _OURS)]
        self._graph_handlers = [handler for handler in told if isinstance(handler, GraphCallbackHandler)]
        self._streaming = [cast("Any", h) for h in told if isinstance(h, _StreamingCallbackHandler)]
        self._listened = bool(told)

    @property
    def inherited(self) -> Any:
        """The ``callbacks`` of configs inside the run."""
        if self._run is not None:
            return self._run.get_child()
        return self._manager if self._manager.handlers else None

    def enter(self, scope: TracedTask) -> None:
        """Let Runnables that an attempt's code calls find the config of their node."""
        var_child_runnable_config.set(cast("Any", _TaskConfig(scope)))

    async def begin(self, value: Any) -> None:
        """Tell that the run begins, on this input."""
        if self._listened:
            self._run = await self._manager.on_chain_start(None, value, name=self._name, run_id=self._run_id)

    async def end(self, outcome: Any) -> None:
        """Tell that the run has ended, or paused, with this output."""
        if self._run is not None:
            await self._run.on_chain_end(outcome)

    async def fail(self, error: BaseException) -> None:
        """Tell that the run has failed or was cancelled."""
        if self._run is not None:
            await _told(self._run.on_chain_error(error))

    # -- one attempt ------------------------------------------------------------------------------------------

    async def attempt(self, scope: TracedTask, run: Callable[[Any], Awaitable[T]]) -> T:
        """Run one attempt of a task as a run of its own inside this one."""
        task = scope.task
        self.enter(scope)
        if self._run is None or task.node.hidden or task.node.action is None:
            if self._manager.handlers:
                scope.config["callbacks"] = _for_node(scope.config["callbacks"], scope.config)
            _watch(scope)
            return await run(scope)
        config = scope.config
        around = config["callbacks"] if scope.caller is not None else self._run.get_child(f"graph:step:{task.step}")
        started = await _for_node(around, config).on_chain_start(None, task.input, name=task.name)
        config["callbacks"] = started.get_child("seq:step:1")
        _watch(scope)
        try:
            result = await run(scope)
        except BaseException as exc:
            await _told(started.on_chain_error(exc))
            raise
        await self._stream(started.run_id, scope.returned)
        await started.on_chain_end(scope.returned)
        return result

    async def routing(self, scope: TracedTask, name: str, value: Any, route: Callable[[], Awaitable[T]]) -> T:
        """Run a routing function as a run of its own inside the attempt."""
        around = scope.config["callbacks"] if self._run is not None else None
        if not isinstance(around, BaseCallbackManager):
            return await route()
        manager = around.copy()
        manager.remove_tags(["seq:step:1"])
        manager.add_tags(["seq:step:3"], inherit=False)
        started = await cast("AsyncCallbackManager", manager).on_chain_start(None, value, name=name)
        try:
            result = await route()
        except BaseException as exc:
            await _told(started.on_chain_error(exc))
            raise
        await started.on_chain_end(result)
        return result

    async def _stream(self, run_id: UUID, chunk: Any) -> None:
        for handler in self._streaming:
            async for _ in handler.tap_output_aiter(run_id, _once(chunk)):
                pass

    # -- the graph --------------------------------------------------------------------------------------------

    async def resumed(self, checkpoint_id: str | None, levels: tuple[str, ...]) -> None:
        """Tell graph handlers that the graph goes on from a checkpoint."""
        event = GraphResumeEvent(self._id, "pending", checkpoint_id, levels)
        for handler in self._graph_handlers:
            await _tell(handler, handler.on_resume, event)

    async def paused(
        self, status: Any, checkpoint_id: str | None, levels: tuple[str, ...], interrupts: tuple[Interrupt, ...]
    ) -> None:
        """Tell graph handlers that the graph has paused."""
        event = GraphInterruptEvent(self._id, status, checkpoint_id, levels, interrupts)
        for handler in self._graph_handlers:
            await _tell(handler, handler.on_interrupt, event)

    @property
    def _id(self) -> UUID | None:
        return None if self._run is None else self._run.run_id


class _Quiet(RunTracing):
    """Tells nobody: the same for all runs, since making a callback manager costs more than a short run."""

    __slots__ = ()

    def __init__(self) -> None:
        self.quiet = True

    @property
    def inherited(self) -> Any:
        """None: no callbacks."""
        return None

    def enter(self, scope: TracedTask) -> None:
        """Let Runnables that an attempt's code calls find the config of their node."""
        super().enter(scope)
        _watch(scope)


QUIET: Final = _Quiet()


def is_traced() -> bool:
    """Tell whether handlers are told of a run that is given none: a tracer's, or those that a context adds."""
    return bool(
        _tracing_v2_is_enabled()
        or tracing_v2_callback_var.get() is not None
        or get_debug()
        or any(
            var.get() is not None or (variable is not None and variable in os.environ)
            for var, _, _, variable in _configure_hooks
        )
    )


def _checked(callbacks: Any) -> Any:
    if callbacks is None or isinstance(callbacks, BaseCallbackManager):
        return callbacks
    if isinstance(callbacks, BaseCallbackHandler):
        return [callbacks]
    if isinstance(callbacks, (list, tuple)) and all(isinstance(item, BaseCallbackHandler) for item in callbacks):
        return list(callbacks)
    raise TypeError(
        f"config['callbacks'] must be a callback handler, a list of them or a callback manager, got {callbacks!r}."
    )


def _add_once(manager: BaseCallbackManager, kind: type[BaseCallbackHandler]) -> None:
    """Add a handler, unless a graph around has one: it asks for the running task, so one serves all."""
    if not any(isinstance(handler, kind) for handler in manager.handlers):
        manager.add_handler(kind())


def _for_node(callbacks: Any, config: Mapping[str, Any]) -> AsyncCallbackManager:
    """Return a manager with tags and metadata of a node, which what the node calls has, too."""
    return AsyncCallbackManager.configure(
        inheritable_callbacks=callbacks, inheritable_tags=config["tags"], inheritable_metadata=config["metadata"]
    )


def _watch(scope: TracedTask) -> None:
    """Let what Runnables inside an attempt tell count as signs of life, if anybody waits for those."""
    if scope.is_watched():
        manager = AsyncCallbackManager.configure(inheritable_callbacks=scope.config["callbacks"])
        _add_once(manager, SignHandler)
        scope.config["callbacks"] = manager


def _as_uuid(run_id: Any) -> UUID | None:
    """Return a run's id for handlers; None lets langchain-core choose one, as for ids that are no UUID."""
    if run_id is None or isinstance(run_id, UUID):
        return run_id
    try:
        return UUID(str(run_id))
    except ValueError:
        return None


async def _tell(handler: GraphCallbackHandler, method: Callable[[Any], Any], event: Any) -> None:
    try:
        found = method(event)
        if inspect.isawaitable(found):
            await found
    except Exception:
        if handler.raise_error:
            raise
        logger.warning("A graph callback handler, %s, failed.", type(handler).__name__, exc_info=True)


async def _told(telling: Awaitable[None]) -> None:
    """Tell something to its end, also while the task is being cancelled."""

    async def tell() -> None:
        await telling

    work = spawn(tell(), name="callbacks of an error")
    interrupted = await wait_settled(work)
    work.result()
    if interrupted is not None:
        raise interrupted


async def _once(chunk: Any) -> AsyncIterator[Any]:
    yield chunk
