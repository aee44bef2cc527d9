"""Finds the ids of all questions that a thread ever asked.

Only looked for when a resume payload has the form of a map of ids and names no pending question: then an id that
the thread knows means a stale answer, and one that it does not know means that the dict is the answer itself.
"""

from __future__ import annotations

from typing import Any

from langgraph_async.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph_async.constants import BRANCH_PREFIX, CHECKPOINT_NS, CONF, INTERRUPT, RESUME, TASKS, THREAD_ID
from langgraph_async.ids import interrupt_id
from langgraph_async.pregel.namespace import task_namespace
from langgraph_async.types import Interrupt, Send


async def asked_ever(saver: BaseCheckpointSaver[Any], thread_id: str | None) -> set[str]:
    """Return the ids of the questions of a thread, answered or not, in all its namespaces."""
    found: set[str] = set()
    async for item in saver.alist({CONF: {THREAD_ID: thread_id}}):
        names = _node_names(item)
        ns = (item.config.get(CONF) or {}).get(CHECKPOINT_NS) or ""
        for task_id, channel, value in item.pending_writes or ():
            if channel == INTERRUPT:
                found.update(q.id for q in value or () if isinstance(q, Interrupt))
            elif channel == RESUME and isinstance(value, (list, tuple)):
                found.update(
                    interrupt_id(task_namespace(ns, name, task_id), slot)
                    for name in names
                    for slot in range(len(value))
                )
    return found


def _node_names(item: CheckpointTuple) -> set[str]:
    """Return the names of all nodes that the checkpoint knows to have run or to be about to run."""
    checkpoint = item.checkpoint
    names = {name for name in checkpoint["versions_seen"] if not name.startswith("__")}
    names.update(key[len(BRANCH_PREFIX) :] for key in checkpoint["channel_versions"] if key.startswith(BRANCH_PREFIX))
    names.update(send.node for send in checkpoint["channel_values"].get(TASKS) or () if isinstance(send, Send))
    return names
