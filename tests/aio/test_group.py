"""The task group of a run."""

import asyncio

from langgraph_async.aio.group import Group


async def test_a_loose_task_that_has_just_ended_does_not_keep_the_group_from_closing() -> None:
    group, told = Group(), asyncio.get_running_loop().create_future()

    async def tells_and_ends() -> None:
        told.set_result(None)

    group.spawn_loose(tells_and_ends(), name="brief")
    await told  # the task has ended by now, but what was to be called then has not been called
    await group.close()

    assert asyncio.all_tasks() == {asyncio.current_task()}
