from __future__ import annotations

import asyncio
from typing import Any

import pytest

from langgraph_async.stream.bus import Bus
from langgraph_async.stream.writer import ChunkWriter


async def test_chunks_are_emitted_in_the_order_of_the_calls() -> None:
    chunks: list[Any] = []
    writer = ChunkWriter(chunks.append, node="a")

    for chunk in (1, None, "x"):
        writer(chunk)

    assert chunks == [1, None, "x"]


async def test_a_chunk_after_the_task_is_done_is_refused_with_the_nodes_name() -> None:
    chunks: list[Any] = []
    writer = ChunkWriter(chunks.append, node="talker")
    writer.close()

    with pytest.warns(RuntimeWarning, match="'talker'") as caught:
        writer("late")
    assert caught[0].filename == __file__
    assert chunks == []


async def test_drain_waits_for_the_reader() -> None:
    bus = Bus()
    writer = ChunkWriter(bus.put, (bus,), node="a")
    writer("x")
    drain = asyncio.ensure_future(writer.drain())
    await asyncio.sleep(0)
    assert not drain.done()

    bus.get_nowait()

    await drain


@pytest.mark.parametrize("closed", [True, False])
async def test_drain_returns_at_once_without_a_reader(closed: bool) -> None:
    bus = Bus() if closed else None
    writer = ChunkWriter(lambda chunk: None, () if bus is None else (bus,), node="a")
    if bus is not None:
        bus.put("x")
        writer.close()

    await writer.drain()


async def test_a_node_that_drains_never_hits_the_limit_however_much_it_writes() -> None:
    bus = Bus(soft_limit=4, hard_limit=8)
    writer = ChunkWriter(bus.put, (bus,), node="a")
    longest = 0

    async def node() -> None:
        nonlocal longest
        for number in range(1000):
            writer(number)
            longest = max(longest, len(bus))
            if number % 5 == 4:
                await writer.drain()
        bus.close()

    running = asyncio.ensure_future(node())
    got = [item async for item in bus]
    await running

    assert got == list(range(1000))
    assert longest <= 5
