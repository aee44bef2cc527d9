"""A run on SQLite or PostgreSQL that is cancelled at any iteration of the event loop, and goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from cancelled_world import World

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver

pytestmark = pytest.mark.skipif(os.name == "nt", reason="looks at the selector of the event loop")
DURABILITIES = ["sync", "async", "exit"]


@contextmanager
def at_iteration(number: int, action: Callable[[], object]) -> Iterator[None]:
    """Call `action` in the `number`-th iteration of the event loop from here.

    To wait for it with ``sleep(0)`` would make iterations while the database is at work, in which nothing happens.
    """
    loop: Any = asyncio.get_running_loop()
    select, count = loop._selector.select, 0

    def counted(timeout: float | None = None) -> Any:
        nonlocal count
        count += 1
        if count == number:
            loop.call_soon(action)
            timeout = 0
        return select(timeout)

    loop._selector.select = counted
    try:
        yield
    finally:
        del loop._selector.select


async def cancel_task(world: World, number: int, durability: Any) -> bool:
    run = asyncio.create_task(world.graph.ainvoke({"log": []}, world.on, durability=durability))
    with at_iteration(number, run.cancel):
        await asyncio.wait([run])
    return run.cancelled()


async def cancel_scope(world: World, number: int, durability: Any) -> bool:
    with anyio.CancelScope() as scope, at_iteration(number, scope.cancel):
        await world.graph.ainvoke({"log": []}, world.on, durability=durability)
    return scope.cancelled_caught


async def close_stream(world: World, number: int, durability: Any) -> bool:
    stream = world.graph.astream({"log": []}, world.on, stream_mode=["custom", "updates"], durability=durability)

    async def read():
        async for _ in stream:
            await asyncio.sleep(0)

    reading = asyncio.create_task(read())
    with at_iteration(number, reading.cancel):
        await asyncio.wait([reading])
    await stream.aclose()
    return reading.cancelled()


async def leave_stream(world: World, number: int, durability: Any) -> bool:
    stream = world.graph.astream({"log": []}, world.on, stream_mode=["custom", "updates"], durability=durability)
    for _ in range(number - 1):
        if await anext(stream, None) is None:
            return False
    await stream.aclose()
    return True


WAYS = {"task": cancel_task, "anyio": cancel_scope, "reader": close_stream, "aclose": leave_stream}


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        return AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", synchronous="NORMAL")
    return AsyncPostgresSaver.from_conn_string(request.getfixturevalue("postgres_database"), max_size=2)


async def cancel_everywhere(saver: Any, durability: str, way: str, *, start: int, stride: int) -> None:
    number, cut = start, True
    while cut:
        assert number < 3_000
        world = World(saver, f"t{number}")
        cut = await WAYS[way](world, number, durability)
        await world.check_quiet()
        await world.check_goes_on(durability)
        await world.check_quiet()
        number += stride
    assert number > 5


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("way", WAYS)
async def test_a_run_cancelled_at_some_iterations_goes_on(opened, durability, way):
    start = 1 + (3 * list(WAYS).index(way) + DURABILITIES.index(durability)) % 7
    async with opened as saver:
        await cancel_everywhere(saver, durability, way, start=start, stride=61 if way != "aclose" else 5)


@pytest.mark.slow
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("way", WAYS)
async def test_a_run_cancelled_at_any_iteration_goes_on(opened, durability, way):
    # Every iteration is met in one way or another: the ways and durabilities begin at different ones.
    stride = 1 if way == "aclose" else 4
    start = 1 + (list(WAYS).index(way) + 2 * DURABILITIES.index(durability)) % stride
    async with opened as saver:
        await cancel_everywhere(saver, durability, way, start=start, stride=stride)
