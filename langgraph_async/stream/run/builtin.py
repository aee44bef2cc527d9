"""The built-in transformers of a run stream: the state, and the nested graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NotRequired, TypedDict

from langgraph_async.stream.run.channel import StreamChannel
from langgraph_async.stream.run.nested import NestedRun, NestedRuns, SubgraphStatus, child_scope, parent_scope
from langgraph_async.stream.run.pump import Event, Pump, Scope
from langgraph_async.stream.run.scope import StreamScope
from langgraph_async.stream.run.transformer import ProtocolEvent, StreamTransformer
from langgraph_async.types import Interrupt


class ValuesTransformer(StreamTransformer):
    """Makes the projection ``values``: the state of its graph after each superstep.

    Attributes:
        latest: The state as it was told last; None if it never was.
    """

    required_stream_modes: ClassVar[tuple[str, ...]] = ("values", "tasks")
    _native: ClassVar[bool] = True

    def __init__(self, scope: Scope = ()) -> None:
        super().__init__(scope)
        self.latest: Any = None
        self._channel: StreamChannel[Any] = StreamChannel()
        self._asked: dict[str, Interrupt] = {}
        self._open: dict[str, dict[str, Any]] = {}
        self._running: set[str] = set()

    def init(self) -> dict[str, Any]:
        """Return the projection."""
        return {"values": self._channel}

    def process(self, event: ProtocolEvent) -> bool:
        """Take a state, or a question."""
        method, params = event["method"], event["params"]
        if method not in ("values", "tasks"):
            return True
        own = tuple(params["namespace"]) == self.scope
        if method == "tasks":
            if own:
                self._take_task(params["data"])
            return True
        for interrupt in params.get("interrupts", ()):
            # A question is told once, by the graph that asks it: it may lie deeper.
            self._asked[interrupt.id] = interrupt
            if own or self._is_hidden(tuple(params["namespace"])):
                self._open.setdefault(interrupt.id, {})
        if own:
            self.latest = params["data"]
            self._channel.push(self.latest)
        return True

    def _take_task(self, data: dict[str, Any]) -> None:
        if "triggers" in data:
            self._running.add(data["id"])
        else:
            self._running.discard(data["id"])
            self._open.update((asked["id"], asked) for asked in data.get("interrupts") or ())

    def _is_hidden(self, ns: Scope) -> bool:
        """Tell whether a nested graph was called by a task that is not told, so that no task will tell its end."""
        child = child_scope(ns, self.scope, self._running)
        task_id = child[len(parent_scope(child))].partition(":")[2] if child is not None else ""
        return bool(task_id) and task_id not in self._running

    def interrupts(self) -> list[Interrupt]:
        """Return the questions that the graph has paused with."""
        return [self._asked.get(id) or Interrupt(**asked) for id, asked in self._open.items()]


class LifecycleCause(TypedDict):
    """Why a nested graph runs: a tool call."""

    type: Literal["toolCall"]
    tool_call_id: str


class LifecyclePayload(TypedDict):
    """An item of ``lifecycle``.

    Attributes:
        event: What has happened to the nested graph.
        namespace: Its path.
        graph_name: With ``started``: name of its agent, or of the node that called it.
        trigger_call_id: With ``started``: id of the task that called it.
        cause: With ``started``: the tool call that the task was given.
        error: With ``failed``: the error's text.
    """

    event: SubgraphStatus
    namespace: list[str]
    graph_name: NotRequired[str]
    trigger_call_id: NotRequired[str]
    cause: NotRequired[LifecycleCause]
    error: NotRequired[str]


class LifecycleTransformer(StreamTransformer):
    """Makes the projection ``lifecycle``: starts and ends of all graphs inside its graph, as `LifecyclePayload`s.

    The same is told as protocol events with the method ``lifecycle``.
    """

    required_stream_modes: ClassVar[tuple[str, ...]] = ("tasks",)
    _native: ClassVar[bool] = True

    def __init__(self, scope: Scope = (), pump: Pump | None = None) -> None:
        super().__init__(scope)
        self._pump = pump
        self._channel: StreamChannel[LifecyclePayload] = StreamChannel("lifecycle")
        self._runs = NestedRuns(scope, deep=True)

    def init(self) -> dict[str, Any]:
        """Return the projection."""
        return {"lifecycle": self._channel}

    def process(self, event: ProtocolEvent) -> bool:
        """Take a task's start or end; these are not told themselves."""
        if event["method"] != "tasks":
            _note_question(self._runs, event)
            return True
        for run in self._runs.feed(event):  # type: ignore[arg-type]
            self._channel.push(_lifecycle(run))
        return False

    def finalize(self) -> None:
        """Tell the ends that no task has told."""
        aborted = self._pump is not None and self._pump.aborted
        for run in self._runs.rest(aborted=aborted):
            self._channel.push(_lifecycle(run))

    def fail(self, err: BaseException) -> None:
        """Tell the ends that the run's failure brings."""
        for run in self._runs.rest(err):
            self._channel.push(_lifecycle(run))


def _lifecycle(run: NestedRun) -> LifecyclePayload:
    payload: LifecyclePayload = {"event": run.status, "namespace": list(run.ns)}
    if run.status == "started":
        payload["graph_name"] = run.graph_name
        if run.trigger_call_id is not None:
            payload["trigger_call_id"] = run.trigger_call_id
        if run.tool_call_id is not None:
            payload["cause"] = {"type": "toolCall", "tool_call_id": run.tool_call_id}
    elif run.status == "failed":
        payload["error"] = error_text(run.error)
    return payload


def error_text(error: BaseException | None) -> str:
    """Return what an error says, or its type if it says nothing."""
    return str(error) or type(error).__name__


def _note_question(runs: NestedRuns, event: ProtocolEvent) -> None:
    if event["params"].get("interrupts"):
        runs.ask(tuple(event["params"]["namespace"]))


class Child:
    """A nested graph, as `SubgraphTransformer` keeps it.

    Attributes:
        run: What is known of its run.
        scope: Its transformers.
        handle: What readers get.
    """

    __slots__ = ("handle", "run", "scope")

    def __init__(self, run: NestedRun, scope: StreamScope, handle: Any) -> None:
        self.run = run
        self.scope = scope
        self.handle = handle


class SubgraphTransformer(StreamTransformer):
    """Makes the projection ``subgraphs``: a handle for each graph that its graph calls directly.

    Args:
        scope: Namespace of the graph.
        around: The scope that it belongs to.
        open_child: Makes the scope and the handle of a nested graph.
    """

    required_stream_modes: ClassVar[tuple[str, ...]] = ("tasks",)
    _native: ClassVar[bool] = True

    def __init__(
        self,
        scope: Scope = (),
        around: StreamScope | None = None,
        open_child: Callable[[StreamScope, NestedRun], Child] | None = None,
    ) -> None:
        super().__init__(scope)
        self._around = around
        self._open_child = open_child
        self._channel: StreamChannel[Any] = StreamChannel()
        self._runs = NestedRuns(scope, deep=False)
        self._children: dict[Scope, Child] = {}
        self._held: dict[Scope, list[Event]] = {}

    def init(self) -> dict[str, Any]:
        """Return the projection."""
        return {"subgraphs": self._channel}

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """Pass what happens in a nested graph on to its own transformers."""
        ns = tuple(event["params"]["namespace"])
        own: Event = {"type": "event", "method": event["method"], "params": event["params"]}
        changed = list(self._runs.feed(event)) if event["method"] == "tasks" else []  # type: ignore[arg-type]
        _note_question(self._runs, event)
        key = self._runs.child_of(ns)
        if key is not None:
            child = self._children.get(key)
            if child is not None:
                await child.scope.dispatch(own)
            elif key in self._held or ((key not in self._runs.open or changed) and self._is_wanted()):
                self._held.setdefault(key, []).append(own)
        for run in changed:
            if run.status == "started":
                self._start(run)
            else:
                await self._end(run)
        return event["method"] != "tasks"

    async def afinalize(self) -> None:
        """End the nested graphs that no task has ended."""
        aborted = self._around is not None and self._around.pump.aborted
        for run in self._runs.rest(aborted=aborted):
            await self._end(run, quietly=aborted)
        self._held.clear()

    async def afail(self, err: BaseException) -> None:
        """End the nested graphs with what the run fails with."""
        for run in self._runs.rest(err):
            await self._end(run)
        self._held.clear()

    def _is_wanted(self) -> bool:
        return self._channel.listened or (self._around is not None and bool(self._around.factories))

    def _start(self, run: NestedRun) -> None:
        held = self._held.pop(run.ns, None)
        if held is None or self._around is None or self._open_child is None:
            return
        child = self._children[run.ns] = self._open_child(self._around, run)
        for event in held:
            self._around.pump.later(child.scope, event)
        self._channel.push(child.handle)

    async def _end(self, run: NestedRun, *, quietly: bool = False) -> None:
        child = self._children.pop(run.ns, None)
        if child is None:
            return
        if run.error is not None and not quietly:
            await child.scope.fail(run.error)
            return
        try:
            await child.scope.finalize()
        except BaseException as exc:
            await child.scope.fail(exc)
            raise
