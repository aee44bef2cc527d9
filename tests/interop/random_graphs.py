"""Graphs made from a seed: nodes, edges, branches, sends, joins, deferred nodes, failures, questions, pauses.

A graph's description is drawn first and does not depend on the library, so that both build the same one.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from traces import ID, Trace, unnumbered
from typing_extensions import TypedDict


def newest(left: Any, right: Any) -> Any:
    """Keep the value written last: for keys that several nodes may write."""
    return right if right is not None else left


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    total: Annotated[int, operator.add]
    last: Annotated[Any, newest]
    plain: Any


@dataclass
class Plan:
    """A graph, as data.

    Attributes:
        nodes: Node names.
        deferred: Those that wait for the end.
        edges: Plain edges.
        joins: Joins of several nodes into one.
        branches: Node to the targets that its router chooses from.
        senders: Node to (target, number of sends).
        commands: Node to what it goes to by command.
        fails: Nodes that fail the first time they run.
        asks: Nodes that ask a question.
        before: Static breakpoints.
        after: Static breakpoints.
    """

    nodes: list[str]
    deferred: set[str] = field(default_factory=set)
    edges: list[tuple[str, str]] = field(default_factory=list)
    joins: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    branches: dict[str, list[str]] = field(default_factory=dict)
    senders: dict[str, tuple[str, int]] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    fails: set[str] = field(default_factory=set)
    asks: set[str] = field(default_factory=set)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def draw(seed: int) -> Plan:
    """Draw a graph. Edges lead forward mostly; the logs' length ends cycles."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.randint(5, 8))]
    rng.shuffle(names)
    plan = Plan(nodes=names)
    routes = rng.random() < 0.6
    for index, name in enumerate(names):
        later = names[index + 1 :]
        weights = [4, 3, 3, 2, 2, 1] if routes else [4, 3, 0, 0, 2, 1]
        kind = rng.choices(["edge", "two", "branch", "send", "command", "end"], weights)[0]
        if not later:
            kind = "end"
        if kind in ("edge", "two"):
            count = 1 if kind == "edge" else min(2, len(later))
            plan.edges += [(name, end) for end in rng.sample(later, count)]
        elif kind == "branch":
            plan.branches[name] = rng.sample([*later, "__end__"], min(3, len(later) + 1))
            if rng.random() < 0.3 and index:
                plan.branches[name].append(names[rng.randrange(index)])
        elif kind == "send":
            plan.senders[name] = (rng.choice(later), rng.randint(1, 3))
        elif kind == "command":
            plan.commands[name] = rng.sample(later, min(2, len(later)))
    _enter(plan, rng)
    plan.deferred = {name for name in names[2:] if rng.random() < 0.15}
    if not routes:
        # A task that is cancelled in its router counts as finished there, and its routing is lost.
        plan.fails = {name for name in names if rng.random() < 0.15}
    plan.asks = {name for name in names if rng.random() < 0.12} - plan.fails
    plan.before = [name for name in names if rng.random() < 0.06]
    plan.after = [name for name in names if rng.random() < 0.06]
    return plan


def _enter(plan: Plan, rng: random.Random) -> None:
    names = plan.nodes
    starts = [names[0]]
    if rng.random() < 0.5:
        starts.append(rng.choice(names[1:3]))
    plan.edges += [("__start__", name) for name in dict.fromkeys(starts)]
    if len(starts) > 1 and rng.random() < 0.6 and len(names) > 4:
        plan.joins.append((tuple(starts), names[-1]))


def build(lg: Any, plan: Plan, saver: Any) -> Any:
    """Return the graph of a plan on a library."""
    builder = lg.StateGraph(State)
    failed: set[str] = set()
    for name in plan.nodes:
        builder.add_node(name, _node(lg, plan, name, failed), defer=name in plan.deferred)
    for start, end in plan.edges:
        builder.add_edge(start, end)
    for starts, end in plan.joins:
        builder.add_edge(list(starts), end)
    for name, targets in plan.branches.items():
        builder.add_conditional_edges(name, _chooser(targets))
    for name, (target, count) in plan.senders.items():
        builder.add_conditional_edges(name, _sender(lg, target, count))
    return builder.compile(checkpointer=saver, interrupt_before=plan.before, interrupt_after=plan.after)


def _node(lg: Any, plan: Plan, name: str, failed: set[str]) -> Callable[[Any], Any]:
    async def node(state: Any) -> Any:
        if name in plan.fails and name not in failed:
            failed.add(name)
            raise ValueError(f"{name} fails once")
        seen = (len(state.get("log", ())), state.get("total"), state.get("sent"))
        answer = lg.interrupt(f"{name}?") if name in plan.asks else None
        update = {"log": [[name, *seen, answer]], "total": 1, "last": name}
        if name in plan.commands:
            return lg.Command(update=update, goto=plan.commands[name] if seen[0] < 20 else [])
        return update

    return node


def _chooser(targets: list[str]) -> Callable[[Any], Any]:
    def choose(state: Any) -> Any:
        length = len(state["log"])
        if length > 20:
            return "__end__"
        return targets[length % len(targets)] if length % 3 else [targets[0], targets[-1]]

    return choose


def _sender(lg: Any, target: str, count: int) -> Callable[[Any], Any]:
    def send(state: Any) -> Any:
        return [lg.Send(target, {"sent": i, "log": []}) for i in range(count)] if len(state["log"]) < 20 else []

    return send


def settled(trace: Trace) -> Trace:
    """Return a trace without what no library promises.

    Tasks that are done at the same moment are told in any order, and when one of them has failed, maybe not at all.
    """
    kept = Trace(trace.package)
    results: list[tuple[str, Any]] = []
    for label, value in trace.entries:
        if label == "item" and _is_result(*value):
            results.append((label, value))
            continue
        if label != "raised":
            kept.entries += sorted(results, key=lambda entry: ID.sub(r"\1", repr(entry)))
        results = []
        kept.entries.append((label, value))
    kept.entries += results
    kept.entries = [(label, _without_progress(unnumbered(value))) for label, value in kept.entries]
    return kept


def _without_progress(value: Any) -> Any:
    """Leave out how far the tasks of a loaded checkpoint had come: a failure that is past is told only by one."""
    if isinstance(value, tuple) and value[0] == "checkpoints":
        return value[0], {**value[1], "tasks": [task["name"] for task in value[1]["tasks"]]}
    return value


def _is_result(mode: str, payload: Any) -> bool:
    return (
        mode == "updates"
        or (mode == "tasks" and "result" in payload)
        or (mode == "values" and "__interrupt__" in payload)
    )


async def trace_of(lg: Any, plan: Plan, *, saved: bool) -> Trace:
    """Run a plan turn by turn until it is done, and write down what every turn showed."""
    trace = Trace(lg.package)
    saver = lg.InMemorySaver() if saved else None
    graph = build(lg, plan, saver)
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 60}
    value: Any = {"log": [], "total": 0}
    modes = ["values", "updates", "tasks", "checkpoints"]
    for turn in range(12):
        trace.add("turn", turn)
        questions: list[Any] = []
        paused = failed = False
        try:
            async for mode, item in graph.astream(value, config, stream_mode=modes):
                if mode == "updates" and "__interrupt__" in item:
                    paused = True
                    questions.extend(item["__interrupt__"])
                trace.add("item", (mode, item))
        except Exception as exc:
            failed = True
            trace.add("raised", exc)
        if not saved or not (paused or failed):
            break
        answers = {question.id: f"answer to {question.value}" for question in questions}
        value = lg.Command(resume=answers) if answers and not failed else None
    if saver is not None:
        rows = [row async for row in graph.checkpointer.alist(config)]
        trace.add("steps", [(row.metadata["source"], row.metadata["step"]) for row in reversed(rows)])
    return trace
