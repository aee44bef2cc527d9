"""Which nested graphs run: worked out from the namespaces and the ``tasks`` events of a run."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from langgraph_async.errors import GraphDrained
from langgraph_async.stream.run.pump import Event, Scope

SubgraphStatus: TypeAlias = Literal["started", "completed", "failed", "interrupted", "drained"]
"""Where a nested graph stands."""


def is_within(ns: Scope, scope: Scope) -> bool:
    """Tell whether `ns` is the graph at `scope`, or inside it.

    A later call of the same task has the namespace of the first with a number behind it; it is not inside the first.
    """
    depth = len(scope)
    return ns[:depth] == scope and (len(ns) == depth or not ns[depth].isdigit() or not depth)


def child_scope(ns: Scope, scope: Scope, own: Container[str] = ()) -> Scope | None:
    """Return the namespace of the graph called directly by that at `scope` in which `ns` lies; None if in none.

    Args:
        ns: Any namespace.
        scope: That of a graph.
        own: Ids of the graph's tasks. A task function is called inside another task of the same graph, so that its
            namespace has one level more, and it is still the graph's own.
    """
    if len(ns) == len(scope) or not is_within(ns, scope):
        return None
    end = _after_call(ns, len(scope))
    while end < len(ns) and ns[end].partition(":")[2] in own:
        end = _after_call(ns, end)
    return ns[:end]


def _after_call(ns: Scope, start: int) -> int:
    return start + 2 if start + 1 < len(ns) and ns[start + 1].isdigit() else start + 1


def parent_scope(ns: Scope) -> Scope:
    """Return the namespace of the graph that called the one at `ns`."""
    return ns[:-2] if len(ns) > 1 and ns[-1].isdigit() else ns[:-1]


@dataclass(slots=True)
class NestedRun:
    """One run of a nested graph.

    Attributes:
        ns: Its namespace.
        graph_name: Name of the agent that its metadata tells, or of the node that called it.
        trigger_call_id: Id of the task that called it, if that can be seen.
        tool_call_id: Id of the tool call that the task was given, if it was.
        status: Where it stands.
        error: What its task failed with.
        has_asked: It, or a graph inside it, has paused with a question.
    """

    ns: Scope
    graph_name: str
    trigger_call_id: str | None
    tool_call_id: str | None
    status: SubgraphStatus = "started"
    error: BaseException | None = None
    has_asked: bool = False


@dataclass(frozen=True, slots=True)
class _OpenTask:
    ns: Scope
    name: str
    tool_call_id: str | None


class NestedRuns:
    """Follows the nested graphs of one graph.

    Args:
        scope: Namespace of the graph.
        deep: Follow graphs inside nested graphs, too.

    Attributes:
        open: The nested graphs that run, by namespace.
    """

    __slots__ = ("_deep", "_scope", "_tasks", "open")

    def __init__(self, scope: Scope, *, deep: bool) -> None:
        self._scope = scope
        self._deep = deep
        self._tasks: dict[str, _OpenTask] = {}
        self.open: dict[Scope, NestedRun] = {}

    def child_of(self, ns: Scope) -> Scope | None:
        """Return the direct child in which `ns` lies; see `child_scope`."""
        return child_scope(ns, self._scope, self._tasks)

    def feed(self, event: Event) -> Iterator[NestedRun]:
        """Take a ``tasks`` event, and yield the nested graphs that have started or ended with it.

        A graph starts with the first task in it, and ends with the task that called it, after those inside it.
        """
        ns = tuple(event["params"]["namespace"])
        own = ns == self._scope
        if not own and not is_within(ns, self._scope):
            return
        data = event["params"]["data"]
        if "triggers" in data:
            if not own and ns not in self.open and (self._deep or ns == self.child_of(ns)):
                started = self.open[ns] = self._started(ns, data)
                yield started
            if own or self._deep:
                self._tasks[data["id"]] = _OpenTask(ns, data["name"], _tool_call_id(data.get("input")))
        elif self._tasks.pop(data["id"], None) is not None:
            yield from self._ended(data)

    def ask(self, ns: Scope) -> None:
        """Note that the graph at `ns` has paused with a question."""
        for run in self.open.values():
            run.has_asked = run.has_asked or is_within(ns, run.ns)

    def rest(self, error: BaseException | None = None, *, aborted: bool = False) -> Iterator[NestedRun]:
        """Yield the graphs that still run, innermost first, when the run ends.

        Args:
            error: What the run fails with.
            aborted: The run was ended from outside.
        """
        for run in self._pop(lambda _: True):
            if aborted:
                run.status, run.error = "failed", RuntimeError("The run was aborted.")
            elif error is not None:
                run.status, run.error = _failed(error), error
            else:
                run.status = "interrupted" if run.has_asked else "completed"
            yield run

    def _started(self, ns: Scope, data: dict[str, Any]) -> NestedRun:
        parent = parent_scope(ns)
        name, _, task_id = ns[len(parent)].partition(":")
        if not task_id:
            # Memory of its own: the namespace does not say which task it is.
            found = [id for id, task in self._tasks.items() if task.ns == parent and task.name == name]
            task_id = found[-1] if found else ""
        caller = self._tasks.get(task_id)
        agent = (data.get("metadata") or {}).get("lc_agent_name")
        return NestedRun(ns, agent or name, task_id or None, caller.tool_call_id if caller is not None else None)

    def _ended(self, data: dict[str, Any]) -> Iterator[NestedRun]:
        called = [run.ns for run in self.open.values() if run.trigger_call_id == data["id"]]
        error = data.get("error")
        for run in self._pop(lambda found: any(is_within(found, scope) for scope in called)):
            if data.get("interrupts"):
                run.status = "interrupted"
            elif error is not None:
                run.error = error if isinstance(error, BaseException) else RuntimeError(str(error))
                run.status = _failed(run.error)
            else:
                run.status = "completed"
            yield run

    def _pop(self, matches: Callable[[Scope], bool]) -> Iterator[NestedRun]:
        for ns in sorted((ns for ns in self.open if matches(ns)), key=len, reverse=True):
            self._tasks = {id: task for id, task in self._tasks.items() if task.ns != ns}
            yield self.open.pop(ns)


def _failed(error: BaseException) -> SubgraphStatus:
    return "drained" if isinstance(error, GraphDrained) else "failed"


def _tool_call_id(value: Any) -> str | None:
    """Return the id of the tool call that a task was given, if it was given one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return None
    call = value.get("tool_call", value if value.get("type") == "tool_call" else None)
    found = call.get("id") if isinstance(call, dict) else None
    return found if isinstance(found, str) else None
