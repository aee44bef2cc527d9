"""Tasks and entrypoints with a cache policy."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_async import Command, interrupt
from langgraph_async.cache.memory import InMemoryCache
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.func import entrypoint, task
from langgraph_async.types import CachePolicy


async def test_a_call_with_the_same_arguments_runs_once_also_within_one_run() -> None:
    runs = []

    @task(cache_policy=CachePolicy())
    async def double(number: int, *, more: int = 0) -> int:
        runs.append((number, more))
        return number * 2 + more

    @entrypoint(cache=InMemoryCache())
    async def workflow(number: int) -> list[int]:
        return [await double(number), await double(number), await double(number, more=1)]

    assert [await workflow.ainvoke(n) for n in (1, 1, 2)] == [[2, 2, 3], [2, 2, 3], [4, 4, 5]]
    assert runs == [(1, 0), (1, 1), (2, 0), (2, 1)]


async def test_a_cached_call_is_streamed_as_cached() -> None:
    @task(cache_policy=CachePolicy())
    async def double(number: int) -> int:
        return number * 2

    @entrypoint(cache=InMemoryCache())
    async def workflow(number: int) -> int:
        return await double(number)

    await workflow.ainvoke(1)
    found = [item async for item in workflow.astream(1, stream_mode=["updates", "tasks"])]

    assert ("updates", {"double": 2, "__metadata__": {"cached": True}}) in found
    assert [d for mode, d in found if mode == "tasks" and "result" in d and d["name"] == "double"] == []


async def test_a_sync_workflow_finds_cached_results_from_its_thread() -> None:
    runs = []

    @task(cache_policy=CachePolicy())
    def double(number: int) -> int:
        runs.append(number)
        return number * 2

    @entrypoint(cache=InMemoryCache())
    def workflow(number: int) -> int:
        return double(number).result()  # type: ignore[no-any-return]

    assert [await workflow.ainvoke(3) for _ in range(2)] == [6, 6]
    assert runs == [3]


async def test_a_call_that_fails_is_not_kept() -> None:
    runs = []

    @task(cache_policy=CachePolicy())
    async def fail() -> None:
        runs.append(1)
        raise ValueError("no")

    @entrypoint(cache=InMemoryCache())
    async def workflow(number: int) -> None:
        await fail()

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await workflow.ainvoke(1)
    assert len(runs) == 2


async def test_an_answer_is_not_kept() -> None:
    @task(cache_policy=CachePolicy())
    async def ask() -> Any:
        return interrupt("?")

    @entrypoint(cache=InMemoryCache(), checkpointer=InMemorySaver())
    async def workflow(number: int) -> Any:
        return await ask()

    for thread in ("a", "b"):
        config = {"configurable": {"thread_id": thread}}
        assert "__interrupt__" in await workflow.ainvoke(1, config)
        assert await workflow.ainvoke(Command(resume=thread), config) == thread


async def test_several_pauses_run_cached_tasks_once() -> None:
    runs = []

    @task(cache_policy=CachePolicy())
    async def double(number: int) -> int:
        runs.append(number)
        return number * 2

    @entrypoint(cache=InMemoryCache(), checkpointer=InMemorySaver())
    async def workflow(state: Any) -> list[Any]:
        found: list[Any] = []
        for number in (1, 2, 1):
            found.extend((await double(number), interrupt(number)))
        return found

    config = {"configurable": {"thread_id": "a"}}
    await workflow.ainvoke({}, config)
    for answer in ("a", "b"):
        await workflow.ainvoke(Command(resume=answer), config)

    assert await workflow.ainvoke(Command(resume="c"), config) == [2, "a", 4, "b", 2, "c"]
    assert runs == [1, 2]


async def test_the_policy_of_an_entrypoint_is_for_it_and_its_tasks() -> None:
    runs = []

    @task
    async def double(number: int) -> int:
        runs.append("task")
        return number * 2

    @entrypoint(cache=InMemoryCache(), cache_policy=CachePolicy(key_func=lambda value: str(value)))
    async def workflow(number: int) -> int:
        runs.append("workflow")
        return await double(abs(number))

    assert [await workflow.ainvoke(n) for n in (1, 1, -1)] == [2, 2, 2]
    assert runs == ["workflow", "task", "workflow"]


async def test_a_task_is_cached_in_a_graphs_cache_and_clears_its_own_results() -> None:
    runs = []

    @task(cache_policy=CachePolicy())
    async def double(number: int) -> int:
        runs.append(number)
        return number * 2

    cache: Any = InMemoryCache()

    @entrypoint(cache=cache)
    async def workflow(number: int) -> int:
        return await double(number)

    await workflow.ainvoke(1)
    await double.aclear_cache(cache)
    await workflow.ainvoke(1)
    double.clear_cache(cache)
    await workflow.ainvoke(1)

    assert runs == [1, 1, 1]


async def test_tasks_of_the_same_name_have_results_of_their_own() -> None:
    def make(factor: int) -> Any:
        @task(cache_policy=CachePolicy())
        async def times(number: int) -> int:
            return number * factor

        return times

    twice, thrice = make(2), make(3)

    @entrypoint(cache=InMemoryCache())
    async def workflow(number: int) -> list[int]:
        return [await twice(number), await thrice(number)]

    assert await workflow.ainvoke(1) == [2, 3]
