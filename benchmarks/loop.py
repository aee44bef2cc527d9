"""What does one turn of a loop through a conditional edge cost?"""

from __future__ import annotations

from functools import partial
from typing import Any

from typing_extensions import TypedDict

from benchmarks.measure import Case, Library, Sampler, repeated
from benchmarks.report import main


class State(TypedDict):
    number: int


async def node(state: State) -> dict[str, Any]:
    return {"number": state["number"] + 1}


def prepare(library: Library, turns: int) -> Sampler:
    end = library.END

    def again(state: State) -> str:
        return "node" if state["number"] < turns else end

    builder = library.StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(library.START, "node")
    builder.add_conditional_edges("node", again, ["node", end])
    graph = builder.compile()

    async def run() -> None:
        result = await graph.ainvoke({"number": 0}, {"recursion_limit": turns + 10})
        assert result["number"] == turns

    return repeated(run, turns)


CASES = [Case("loop", f"{turns} turns", "step", partial(prepare, turns=turns)) for turns in (10, 100, 1000)]

if __name__ == "__main__":
    main(CASES)
