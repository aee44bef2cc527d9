"""What does it cost to read the state of a long thread, and ten entries of its history?"""

from __future__ import annotations

from functools import partial

from benchmarks.databases import KINDS, Kind, opened
from benchmarks.measure import Case, Library, Sampler, repeated, wait_for
from benchmarks.report import main
from benchmarks.stored_steps import looping

ENTRIES = 10


def prepare(library: Library, kind: Kind, checkpoints: int, entries: bool) -> Sampler:
    graph = looping(library, opened(library, kind).saver, checkpoints)
    config = {"configurable": {"thread_id": "1"}}
    wait_for(graph.ainvoke({"number": 0}, {"recursion_limit": checkpoints + 10, **config}, durability="async"))

    async def state() -> None:
        found = await graph.aget_state(config)
        assert found.values["number"] == checkpoints

    async def history() -> None:
        found = [entry async for entry in graph.aget_state_history(config, limit=ENTRIES)]
        assert len(found) == ENTRIES

    return repeated(history, 1) if entries else repeated(state, 1)


CASES = [
    Case(
        "history",
        f"{'10 of' if entries else 'state after'} {checkpoints:,} checkpoints, {kind}",
        "read",
        partial(prepare, kind=kind, checkpoints=checkpoints, entries=entries),
        large=checkpoints > 100,
    )
    for kind in KINDS
    for entries in (False, True)
    for checkpoints in (100, 1000)
]

if __name__ == "__main__":
    main(CASES)
