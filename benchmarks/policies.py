"""What do a retry policy, an error handler, a limit and timeouts cost a step of a chain when none of them fires?"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from typing_extensions import TypedDict

from benchmarks.measure import Case, Library, Sampler, UnavailableError, repeated
from benchmarks.report import main

LENGTH = 100


class State(TypedDict):
    number: int


async def node(state: State) -> dict[str, Any]:
    return {"number": state["number"] + 1}


async def handler(state: State) -> dict[str, Any]:
    return {"number": -1}


def options(library: Library, chosen: str) -> dict[str, Any]:
    if chosen == "limit" and library.name != "langgraph_async":
        raise UnavailableError(f"{library.name}: it has no limit that nodes share")
    made: dict[str, Any] = {}
    if chosen in ("retry", "all three"):
        made["retry_policy"] = library.RetryPolicy()
    if chosen in ("handler", "all three"):
        made["error_handler"] = handler
    if chosen in ("timeout", "all three"):
        made["timeout"] = 60
    if chosen == "limit":
        made["limit"] = library.Limiter(rate=1e9, burst=1_000_000, concurrency=10)
    return made


def prepare(library: Library, chosen: str) -> Sampler:
    builder = library.StateGraph(State)
    names = [f"node_{place}" for place in range(LENGTH)]
    given = options(library, chosen)
    for name in names:
        builder.add_node(name, node, **given)
    for start, end in itertools.pairwise([library.START, *names, library.END]):
        builder.add_edge(start, end)
    graph = builder.compile()
    if chosen == "step_timeout":
        graph.step_timeout = 60

    async def run() -> None:
        result = await graph.ainvoke({"number": 0}, {"recursion_limit": LENGTH + 10})
        assert result["number"] == LENGTH

    return repeated(run, LENGTH)


CASES = [
    Case("policies", chosen, "step", partial(prepare, chosen=chosen))
    for chosen in ("none", "retry", "handler", "limit", "timeout", "all three", "step_timeout")
]

if __name__ == "__main__":
    main(CASES)
