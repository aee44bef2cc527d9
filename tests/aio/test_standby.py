"""Code that begins in place, and moves into a task of its own when it first suspends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

import anyio
import pytest

from langgraph_async.aio.standby import Ended, Standby

VARIABLE: ContextVar[int] = ContextVar("variable", default=0)


@pytest.fixture
async def standby():
    made = Standby("stands by")
    first = made.begin(asyncio.sleep(0), copy_context(), name="first")
    assert isinstance(first, asyncio.Task)  # there was nothing ready yet
    await first
    yield made
    await left(made)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def left(standby: Standby) -> None:
    task = standby.leave()
    if task is not None:
        await asyncio.wait([task])


def begin(standby: Standby, coro: Coroutine[Any, Any, Any]) -> Any:
    return standby.begin(coro, copy_context(), name="mine")


async def test_what_never_suspends_ends_in_place(standby):
    async def quick():
        return 7

    found = begin(standby, quick())
    assert isinstance(found, Ended)
    assert found.result == 7


async def test_what_it_raises_before_it_suspends_is_raised_in_place(standby):
    async def bad():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        begin(standby, bad())


async def test_what_suspends_goes_on_in_the_task_that_it_saw_before(standby):
    seen = []

    async def slow():
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())
        return 7

    task = begin(standby, slow())
    assert await task == 7
    assert seen == [task, task]
    assert task.get_name() == "mine"
    assert asyncio.current_task() is not task


async def test_its_context_is_its_own_before_and_after(standby):
    seen = []

    async def slow():
        VARIABLE.set(1)
        await asyncio.sleep(0)
        seen.append(VARIABLE.get())

    await begin(standby, slow())
    assert seen == [1]
    assert VARIABLE.get() == 0


async def test_timeouts_and_cancel_scopes_work_across_the_move(standby):
    async def slow():
        with anyio.move_on_after(0) as scope:
            await anyio.sleep_forever()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(asyncio.sleep, 0)
        return scope.cancelled_caught

    assert await begin(standby, slow()) is True


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_cancellation_reaches_it_where_it_waits(standby, turns):
    ended = []

    async def slow():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    task = begin(standby, slow())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_a_cancellation_may_be_swallowed(standby):
    async def slow():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "swallowed"

    task = begin(standby, slow())
    task.cancel()
    assert await task == "swallowed"


async def test_it_may_cancel_itself_before_it_suspends(standby):
    async def own():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    task = begin(standby, own())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_that_cancels_itself_and_ends_spoils_nothing_for_the_next(standby):
    async def own():
        asyncio.current_task().cancel()

    async def slow():
        await asyncio.sleep(0)
        return 7

    begin(standby, own())
    task = begin(standby, slow())
    assert await task == 7


async def test_what_begins_inside_has_a_task_of_its_own(standby):
    seen = []

    async def inner():
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    async def outer():
        started = begin(standby, inner())
        await started
        seen.append(asyncio.current_task())

    await begin(standby, outer())
    assert seen[0] is not seen[1]


async def test_many_that_never_suspend_share_one_task(standby):
    seen = set()

    async def quick():
        seen.add(asyncio.current_task())

    await asyncio.sleep(0)
    for _ in range(100):
        begin(standby, quick())
    assert len(seen) == 1


async def test_an_error_after_the_move_is_the_tasks():
    standby = Standby("stands by")
    await standby.begin(asyncio.sleep(0), copy_context(), name="first")

    async def bad():
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await begin(standby, bad())
    await left(standby)


async def test_closing_it_unused_leaves_nothing():
    standby = Standby("stands by")
    await left(standby)
    assert asyncio.all_tasks() == {asyncio.current_task()}
