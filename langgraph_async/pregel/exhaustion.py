"""What a run that has used up its supersteps says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langgraph_async.errors import ErrorCode, GraphRecursionError, create_error_message
from langgraph_async.pregel.model import RunScope
from langgraph_async.pregel.task import Task


def names_of(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the names of the nodes of a superstep, each once."""
    return (tasks[0].name,) if len(tasks) == 1 else tuple({task.name: None for task in tasks})


def out_of_steps(
    run: RunScope, step: int, nodes: Sequence[str], path: Iterable[tuple[str, ...]]
) -> GraphRecursionError:
    """Return the error of a run that may not take superstep `step`.

    Args:
        run: The run.
        step: Number of the superstep.
        nodes: The nodes that it would run.
        path: The nodes of the supersteps before it, oldest first.
    """
    limit, path = run.config.recursion_limit, tuple(path)
    last = " -> ".join(", ".join(names[:10]) for names in path)
    return GraphRecursionError(
        create_error_message(
            message=f"Recursion limit of {limit} reached without hitting a stop condition. Graph {run.spec.name!r} "
            f"would go on with step {step}: {', '.join(nodes[:10])}. The last steps were {last}. Raise the limit with "
            "config={'recursion_limit': ...}, or look for a cycle that never ends.",
            error_code=ErrorCode.GRAPH_RECURSION_LIMIT,
        ),
        limit=limit,
        step=step,
        nodes=nodes,
        path=path,
    )
