"""What does a superstep cost that is stored in a database, in a single long run with durability "async"?"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from typing_extensions import TypedDict

from benchmarks.databases import KINDS, Kind, opened
from benchmarks.measure import Case, Library, Sampler, repeated, weighed
from benchmarks.report import main


class State(TypedDict):
    number: int


async def node(state: State) -> dict[str, Any]:
    return {"number": state["number"] + 1}


def looping(library: Library, saver: Any, turns: int) -> Any:
    """Return a graph that goes round `turns` times."""
    end = library.END

    def again(state: State) -> str:
        return "node" if state["number"] < turns else end

    builder = library.StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(library.START, "node")
    builder.add_conditional_edges("node", again, ["node", end])
    return builder.compile(checkpointer=saver)


def prepare(library: Library, kind: Kind, turns: int) -> Sampler:
    database = opened(library, kind)
    graph = looping(library, database.saver, turns)
    threads = itertools.count()
    thread = ""

    async def run() -> None:
        nonlocal thread
        thread = str(next(threads))
        config = {"recursion_limit": turns + 10, "configurable": {"thread_id": thread}}
        result = await graph.ainvoke({"number": 0}, config, durability="async")
        assert result["number"] == turns

    return weighed(repeated(run, turns), lambda: database.stored_bytes(thread) / turns)


CASES = [
    Case(
        "stored_steps",
        f"{turns:,} steps, {kind}",
        "step",
        partial(prepare, kind=kind, turns=turns),
        large=turns > 200,
    )
    for kind in KINDS
    for turns in (200, 1000)
]

if __name__ == "__main__":
    main(CASES)
