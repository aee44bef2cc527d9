"""The queues before the PostgreSQL connections, driven by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from langgraph_async.checkpoint.postgres.lane import Job, PlainLane
from langgraph_async.errors import StorageError


class _Lane(PlainLane):
    def __init__(self, *, whole: bool) -> None:
        super().__init__(1, "lane", whole=whole)
        self.go = asyncio.Event()
        self.taken = asyncio.Event()

    async def _run(self, batch: list[Job]) -> None:
        self.taken.set()
        await self.go.wait()
        for job in batch:
            job.value = job.work


def _start(call: Any) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(call)


@pytest.mark.parametrize("whole", [True, False])
async def test_a_caller_cancelled_in_the_turn_in_which_its_work_ends_hears_of_it(whole: bool) -> None:
    lane = _Lane(whole=whole)
    job = Job(("", ""), 1)
    caller = _start(lane.do(job))
    await lane.taken.wait()
    caller.cancel()  # takes the future along, and reaches the caller in the next turn only
    job.settle()
    await asyncio.wait([caller], timeout=20)

    assert caller.cancelled()
    lane.go.set()
    await lane.finish()


async def test_a_cancelled_reader_leaves_at_once_and_the_others_of_its_batch_read_on() -> None:
    lane = _Lane(whole=False)
    readers = [_start(lane.do(Job(("", ""), n))) for n in range(3)]
    await lane.taken.wait()
    readers[1].cancel()
    await asyncio.wait([readers[1]], timeout=20)
    assert readers[1].cancelled()
    lane.go.set()

    assert [await readers[0], await readers[2]] == [0, 2]


async def test_a_cancelled_writer_leaves_when_its_work_is_done() -> None:
    lane = _Lane(whole=True)
    writer = _start(lane.do(Job(("", ""), 1)))
    await lane.taken.wait()
    for _ in range(5):
        writer.cancel()
        await asyncio.sleep(0)
    assert not writer.done()
    lane.go.set()
    await asyncio.wait([writer], timeout=20)

    assert writer.cancelled()


async def test_finishing_refuses_what_takes_too_long_and_what_waits_behind_it() -> None:
    lane = _Lane(whole=False)
    callers = [_start(lane.do(Job(("", ""), n))) for n in range(40)]
    await lane.taken.wait()
    await lane.finish(patience_s=0.0)
    results = await asyncio.gather(*callers, return_exceptions=True)

    assert [type(result) for result in results] == [StorageError] * 40
    await lane.finish()
