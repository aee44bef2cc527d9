"""What does a run of five steps cost when many runs, each on a thread of its own, store at the same time?"""

from __future__ import annotations

import asyncio
import itertools
from functools import partial

from benchmarks.databases import KINDS, Kind, opened
from benchmarks.measure import Case, Library, Sampler, repeated
from benchmarks.report import main
from benchmarks.stored_steps import looping

STEPS = 5


def prepare(library: Library, kind: Kind, runs: int) -> Sampler:
    graph = looping(library, opened(library, kind).saver, STEPS)
    threads = itertools.count()

    async def one() -> None:
        config = {"configurable": {"thread_id": str(next(threads))}}
        result = await graph.ainvoke({"number": 0}, config, durability="async")
        assert result["number"] == STEPS

    async def run() -> None:
        await asyncio.gather(*(one() for _ in range(runs)))

    return repeated(run, runs)


CASES = [
    Case("concurrent_runs", f"{runs:,} runs, {kind}", "run", partial(prepare, kind=kind, runs=runs), large=runs > 100)
    for kind in KINDS
    for runs in (100, 1000)
]

if __name__ == "__main__":
    main(CASES)
