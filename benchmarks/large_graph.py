"""What do a step and the compilation cost in a graph of many nodes, of which ten run?"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from typing_extensions import TypedDict

from benchmarks.measure import Case, Library, Sample, Sampler, Stopwatch, repeated
from benchmarks.report import main

RUNNING = 10


class State(TypedDict):
    number: int


async def node(state: State) -> dict[str, Any]:
    return {"number": state["number"] + 1}


def build(library: Library, nodes: int) -> Any:
    """Return a chain of all nodes with an exit after the tenth, which is always taken."""
    builder = library.StateGraph(State)
    names = [f"node_{place}" for place in range(nodes)]
    for name in names:
        builder.add_node(name, node)
    for start, end in itertools.pairwise([library.START, *names[:RUNNING]]):
        builder.add_edge(start, end)
    rest = [*names[RUNNING:], library.END]
    end_of_run = library.END
    builder.add_conditional_edges(names[RUNNING - 1], lambda _: end_of_run, [*{rest[0], library.END}])
    for start, end in itertools.pairwise(rest):
        builder.add_edge(start, end)
    return builder.compile()


def prepare_steps(library: Library, nodes: int) -> Sampler:
    graph = build(library, nodes)

    async def run() -> None:
        result = await graph.ainvoke({"number": 0})
        assert result["number"] == RUNNING

    return repeated(run, RUNNING)


def prepare_compilation(library: Library, nodes: int) -> Sampler:
    def sampler() -> Sample:
        with Stopwatch() as watch:
            build(library, nodes)
        return watch.per(nodes)

    return sampler


SIZES = (10, 100, 1000, 10_000)
CASES = [
    *(
        Case("large_graph", f"{nodes:,} nodes", "step", partial(prepare_steps, nodes=nodes), large=nodes > 1000)
        for nodes in SIZES
    ),
    *(
        Case(
            "large_graph",
            f"{nodes:,} nodes, build",
            "node",
            partial(prepare_compilation, nodes=nodes),
            large=nodes > 1000,
        )
        for nodes in SIZES
    ),
]

if __name__ == "__main__":
    main(CASES)
