"""From the state to the tasks of its next superstep.

In: the static graph and a `StepState`. Out: tasks, sends first (in the order of the queue), then nodes triggered
by channels (by name). It reads and decides; it may not await, call user code but for schema classes, or change the
state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from langgraph_async.constants import TASKS
from langgraph_async.errors import EmptyChannelError
from langgraph_async.pregel.model import GraphSpec, StepState
from langgraph_async.pregel.node import PregelNode
from langgraph_async.pregel.task import Task
from langgraph_async.pregel.view import node_input, unshared
from langgraph_async.types import Send

logger = logging.getLogger("langgraph_async")


def plan(spec: GraphSpec, state: StepState, ns: str, *, to_run: bool = True) -> list[Task]:
    """Return the tasks that the last superstep's changes triggered.

    Args:
        spec: The graph.
        state: Where it stands.
        ns: Namespace of the graph, which task ids depend on.
        to_run: Prepare their inputs; without, no user code is called and the tasks are only good to look at.
    """
    key = (state.checkpoint_id, ns, state.step, state.version_format)
    tasks = _sends(spec, state, key)
    for name in _candidates(spec, state):
        node = spec.nodes[name]
        if not is_triggered(state, name, node):
            continue
        try:
            value = node_input(spec, state, name, node) if to_run or isinstance(node.channels, str) else None
        except EmptyChannelError:
            continue
        except Exception as exc:
            exc.add_note(f"While preparing the input of node '{name}' of graph '{spec.name}'")
            raise
        task = Task(name, node, value, key, known_as=state.old_names.get(name))
        if state.old_channels:
            task.known_triggers = tuple(state.old_channels.get(trigger, trigger) for trigger in node.triggers)
        tasks.append(task)
    return tasks


def _sends(spec: GraphSpec, state: StepState, key: tuple[str, str, int, int]) -> list[Task]:
    queue = state.channels.get(TASKS)
    if queue is None or not queue.is_available():
        return []
    tasks: list[Task] = []
    instances: dict[str, int] = {}
    for index, send in enumerate(queue.get()):
        if not isinstance(send, Send):
            logger.warning("Ignoring invalid packet type %s in pending sends", type(send))
            continue
        node = spec.nodes.get(send.node)
        if node is None:
            logger.warning("Ignoring unknown node name %s in pending sends", send.node)
            continue
        instance = instances.get(send.node, 0)
        instances[send.node] = instance + 1
        tasks.append(
            Task(
                send.node,
                node,
                unshared(send.arg),
                key,
                index=index,
                send=send,
                known_as=state.old_names.get(send.node),
                instance=instance,
            )
        )
    return tasks


def _candidates(spec: GraphSpec, state: StepState) -> Iterable[str]:
    if not state.versions:
        return ()
    if not state.updated:
        # None: not known, as after an edit, so all nodes are looked at. A set: known, and empty.
        return spec.nodes if state.updated is None else ()
    if len(state.updated) == 1:
        names = spec.triggers.get(next(iter(state.updated)), ())
        return names if len(names) < 2 else sorted(names)
    found: set[str] = set()
    for channel in state.updated & spec.triggers.keys():
        found.update(spec.triggers[channel])
    return sorted(found)


def is_triggered(state: StepState, name: str, node: PregelNode) -> bool:
    """Tell whether a channel that triggers `node` has a value that the node has not run on yet."""
    seen = state.seen.get(name)
    channels, versions = state.channels, state.versions
    for trigger in node.triggers:
        channel = channels.get(trigger)
        if channel is None or not channel.is_available():
            continue
        if seen is None:
            return True
        version = versions.get(trigger)
        if version is None:
            continue
        last = seen.get(trigger)
        if last is None or version > last:
            return True
    return False
