"""What does a step cost when the state has many keys, and a node writes one of them, or all?"""

from __future__ import annotations

from functools import partial
from typing import Any

from typing_extensions import TypedDict

from benchmarks.measure import Case, Library, Sampler, repeated
from benchmarks.report import main

TURNS = 20


def prepare(library: Library, keys: int, every_key: bool) -> Sampler:
    names = [f"key_{place}" for place in range(keys)]
    schema = TypedDict("State", dict.fromkeys(["turn", *names], int))
    end = library.END

    async def node(state: dict[str, int]) -> dict[str, Any]:
        turn = state["turn"] + 1
        written = dict.fromkeys(names, turn) if every_key else {names[0]: turn}
        return {"turn": turn, **written}

    def again(state: dict[str, int]) -> str:
        return "node" if state["turn"] < TURNS else end

    builder = library.StateGraph(schema)
    builder.add_node("node", node)
    builder.add_edge(library.START, "node")
    builder.add_conditional_edges("node", again, ["node", end])
    graph = builder.compile()
    start = dict.fromkeys(["turn", *names], 0)

    async def run() -> None:
        result = await graph.ainvoke(start, {"recursion_limit": TURNS + 10})
        assert result["key_0"] == TURNS

    return repeated(run, TURNS)


CASES = [
    Case(
        "wide_state",
        f"{keys} keys, {'all' if every else 'one'} written",
        "step",
        partial(prepare, keys=keys, every_key=every),
    )
    for every in (False, True)
    for keys in (1, 10, 100, 500)
    if not (every and keys == 1)
]

if __name__ == "__main__":
    main(CASES)
