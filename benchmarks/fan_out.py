"""What does a task cost when one step fans out to many with Send, and does that grow with their number?"""

from __future__ import annotations

import operator
from functools import partial
from typing import Annotated, Any

from typing_extensions import TypedDict

from benchmarks.measure import Case, Library, Sampler, repeated
from benchmarks.report import main


class State(TypedDict):
    results: Annotated[list[int], operator.add]


async def work(number: int) -> dict[str, Any]:
    return {"results": [number]}


def prepare(library: Library, tasks: int) -> Sampler:
    send = library.Send

    def spread(state: State) -> list[Any]:
        return [send("work", number) for number in range(tasks)]

    builder = library.StateGraph(State)
    builder.add_node("work", work)
    builder.add_conditional_edges(library.START, spread, ["work"])
    builder.add_edge("work", library.END)
    graph = builder.compile()
    expected = list(range(tasks))

    async def run() -> None:
        result = await graph.ainvoke({"results": []})
        assert result["results"] == expected

    return repeated(run, tasks)


CASES = [
    Case("fan_out", f"{tasks:,} tasks", "task", partial(prepare, tasks=tasks), large=tasks > 1000)
    for tasks in (10, 100, 1000, 10_000)
]

if __name__ == "__main__":
    main(CASES)
