"""What does one superstep of a chain of async nodes cost, without a saver and with the in-memory one?"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from typing_extensions import TypedDict

from benchmarks.measure import Case, Library, Sampler, repeated
from benchmarks.report import main


class State(TypedDict):
    number: int


async def node(state: State) -> dict[str, Any]:
    return {"number": state["number"] + 1}


def prepare(library: Library, length: int, saved: bool) -> Sampler:
    builder = library.StateGraph(State)
    names = [f"node_{place}" for place in range(length)]
    for name in names:
        builder.add_node(name, node)
    for start, end in itertools.pairwise([library.START, *names, library.END]):
        builder.add_edge(start, end)
    graph = builder.compile(checkpointer=library.InMemorySaver() if saved else None)
    threads = itertools.count()

    async def run() -> None:
        config = {"recursion_limit": length + 10, "configurable": {"thread_id": str(next(threads))}}
        result = await graph.ainvoke({"number": 0}, config)
        assert result["number"] == length

    return repeated(run, length)


CASES = [
    Case(
        "chain",
        f"{length} nodes{', memory saver' if saved else ''}",
        "step",
        partial(prepare, length=length, saved=saved),
    )
    for saved in (False, True)
    for length in (10, 100)
]

if __name__ == "__main__":
    main(CASES)
