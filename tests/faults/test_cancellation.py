"""A run that is cancelled at any turn of the event loop leaves nothing behind but what was committed."""

import asyncio
import gc
from typing import Any

import anyio
import pytest
from cancelled_world import World
from faulty_saver import SlowSaver

from langgraph_async.checkpoint.memory import InMemorySaver

DURABILITIES = ["sync", "async", "exit"]


def make(kind: str) -> Any:
    return InMemorySaver() if kind == "memory" else SlowSaver(turns=1, grouped=kind == "slow")


async def cancel_task(world: World, turn: int, durability: str) -> bool:
    run = asyncio.create_task(world.graph.ainvoke({"log": []}, world.on, durability=durability))
    for _ in range(turn):
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.wait([run])
    return run.cancelled()


async def cancel_scope(world: World, turn: int, durability: str) -> bool:
    with anyio.CancelScope() as scope:

        async def cancel():
            for _ in range(turn):
                await asyncio.sleep(0)
            scope.cancel()

        cancelling = asyncio.create_task(cancel())
        await world.graph.ainvoke({"log": []}, world.on, durability=durability)
    await cancelling
    return scope.cancelled_caught


async def close_stream(world: World, turn: int, durability: str) -> bool:
    stream = world.graph.astream({"log": []}, world.on, stream_mode=["custom", "updates"], durability=durability)
    reading = asyncio.create_task(_read(stream))
    for _ in range(turn):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    await stream.aclose()
    return reading.cancelled()


async def leave_stream(world: World, turn: int, durability: str) -> bool:
    """Close after so many items; turns between items are spent with the reader away."""
    stream = world.graph.astream({"log": []}, world.on, stream_mode=["custom", "updates"], durability=durability)
    for number in range(turn // 2):
        if await anext(stream, None) is None:
            return False
        if number % 2:
            await asyncio.sleep(0)
    await stream.aclose()
    return True


async def drop_stream(world: World, turn: int, durability: str) -> bool:
    stream = world.graph.astream({"log": []}, world.on, stream_mode=["custom", "updates"], durability=durability)
    for _ in range(turn // 2):
        if await anext(stream, None) is None:
            return False
    del stream
    gc.collect()
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > 1 or world.saver.leases:
            await asyncio.sleep(0)
    return True


async def cancel_handle(world: World, turn: int, durability: str) -> bool:
    run = world.graph.start({"log": []}, world.on, durability=durability)
    for _ in range(turn):
        await asyncio.sleep(0)
    cut = not run.done()
    run.cancel()
    await run.aclose()
    return cut


async def leave_handle(world: World, turn: int, durability: str) -> bool:
    """Leave the block around a run that is read for its first half."""
    async with world.graph.start({"log": []}, world.on, stream_mode="updates", durability=durability) as run:
        reading = asyncio.create_task(_read(run))
        for _ in range(turn // 2):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        for _ in range(turn // 2):
            await asyncio.sleep(0)
        return not run.done()


async def drop_handle(world: World, turn: int, durability: str) -> bool:
    run = world.graph.start({"log": []}, world.on, durability=durability)
    for _ in range(turn):
        await asyncio.sleep(0)
    if run.done():
        return False
    with pytest.warns(ResourceWarning, match="dropped"):
        del run
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > 1 or world.saver.leases:
            await asyncio.sleep(0)
    return True


async def _read(stream: Any) -> None:
    async for _ in stream:
        await asyncio.sleep(0)


WAYS = {
    "task": cancel_task,
    "anyio": cancel_scope,
    "reader": close_stream,
    "aclose": leave_stream,
    "drop": drop_stream,
    "handle": cancel_handle,
    "block": leave_handle,
    "dropped handle": drop_handle,
}


KINDS = ["memory", "slow", "single"]


async def cancel_at_turns(kind: str, durability: str, way: str, *, stride: int, start: int) -> None:
    turn, cut = start, True
    while cut:
        assert turn < 3_000
        world = World(make(kind))
        cut = await WAYS[way](world, turn, durability)
        await world.check_quiet()
        await world.check_goes_on(durability)
        await world.check_quiet()
        turn += stride
    assert turn > 5


@pytest.mark.parametrize(
    ("way", "durability", "kind"),
    [
        (way, durability, KINDS[(i + j) % 3])  # each two of them meet
        for i, way in enumerate(WAYS)
        for j, durability in enumerate(DURABILITIES)
    ],
)
async def test_a_run_cancelled_at_some_turns_leaves_nothing_behind_and_can_go_on(kind, durability, way):
    start = (3 * list(WAYS).index(way) + DURABILITIES.index(durability)) % 7
    await cancel_at_turns(kind, durability, way, stride=13, start=start)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("way", WAYS)
async def test_a_run_cancelled_at_any_turn_leaves_nothing_behind_and_can_go_on(kind, durability, way):
    await cancel_at_turns(kind, durability, way, stride=1, start=0)
