"""What is stored of a thread, read straight from its saver."""

from dataclasses import dataclass
from typing import Any

from langgraph_async.pregel.step.plan import plan
from langgraph_async.pregel.step.snapshot import restore
from langgraph_async.pregel.stored import restore_tasks


@dataclass
class Stored:
    values: dict[str, Any]
    next: tuple[str, ...]
    errors: dict[str, Any]
    checkpoints: int


def on(thread: str = "t", **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}, **more}


async def stored(graph: Any, config: dict[str, Any], saver: Any = None) -> Stored:
    """Return the state of the newest checkpoint, and the tasks that are still to run from it."""
    saver = saver or graph.checkpointer
    found = await saver.aget_tuple(config)
    if found is None:
        return Stored({}, (), {}, 0)
    state = restore(graph.spec, found)
    tasks = plan(graph.spec, state, "")
    restore_tasks(tasks, state.pending, source=state.metadata.get("source"))
    count = 0
    async for _ in saver.alist({"configurable": {**config["configurable"], "checkpoint_ns": ""}}):
        count += 1
    open_tasks = [task for task in tasks if not task.finished]
    return Stored(
        values=dict(state.values),
        next=tuple(task.name for task in open_tasks),
        errors={task.name: task.error for task in open_tasks if task.error is not None},
        checkpoints=count,
    )
