"""Timeouts of entrypoints, retries of parallel tasks, and what tasks find of the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

import pytest

from langgraph_async.aio.clock import FakeClock
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.config import RunnableConfig
from langgraph_async.errors import NodeTimeoutError
from langgraph_async.func import entrypoint, task
from langgraph_async.runtime import Runtime
from langgraph_async.types import RetryPolicy

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


async def test_a_slow_entrypoint_times_out_and_keeps_the_tasks_that_were_done() -> None:
    clock, runs = FakeClock(), Counter[str]()

    @task
    async def work() -> str:
        runs["work"] += 1
        return "done"

    @entrypoint(checkpointer=InMemorySaver(), timeout=1)
    async def flow(value: int) -> str:
        found = await work()
        runs["flow"] += 1
        if runs["flow"] == 1:
            await asyncio.Event().wait()
        return found

    flow.clock = clock
    run = asyncio.create_task(flow.ainvoke(1, THREAD))
    await clock.sleepers()
    await clock.advance(1)
    with pytest.raises(NodeTimeoutError) as caught:
        await run

    assert caught.value.node == "flow"
    assert await flow.ainvoke(None, THREAD) == "done"
    assert runs == {"work": 1, "flow": 2}


async def test_of_parallel_tasks_only_the_failed_one_is_tried_again() -> None:
    runs = Counter[str]()

    @task(retry_policy=RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError))
    async def work(name: str) -> str:
        runs[name] += 1
        if name == "flaky" and runs[name] == 1:
            raise ValueError("once")
        return name

    @entrypoint()
    async def flow(value: int) -> list[str]:
        return await asyncio.gather(work("good"), work("flaky"), work("last"))

    assert await flow.ainvoke(1) == ["good", "flaky", "last"]
    assert runs == {"good": 1, "flaky": 2, "last": 1}


async def test_a_task_finds_the_context_and_previous_of_its_run() -> None:
    @dataclass
    class Context:
        user: str

    @task
    async def greet(runtime: Runtime[Context]) -> tuple[str, object]:
        return runtime.context.user, runtime.previous

    @entrypoint(checkpointer=InMemorySaver(), context_schema=Context)
    async def flow(value: int) -> entrypoint.final[tuple[str, object], str]:
        return entrypoint.final(value=await greet(), save=f"saved {value}")

    assert await flow.ainvoke(1, THREAD, context=Context("Ada")) == ("Ada", None)
    assert await flow.ainvoke(2, THREAD, context=Context("Bob")) == ("Bob", "saved 1")


def test_old_names_of_policies_still_count_and_unknown_ones_are_refused() -> None:
    policy = RetryPolicy(max_attempts=7)

    async def work(number: int) -> int:
        return number

    with pytest.warns(DeprecationWarning, match="retry_policy"):
        assert task(retry=policy)(work).retry_policy == (policy,)
    with pytest.warns(DeprecationWarning, match="retry_policy"):
        assert entrypoint(retry=policy).retry_policy == (policy,)
    for decorator in (task, entrypoint):
        with pytest.raises(TypeError, match="retries"):
            decorator(retries=policy)


def test_a_name_of_its_own_is_the_tasks_and_not_the_methods() -> None:
    class Adder:
        async def add(self, number: int) -> int:
            return number + 1

    renamed = task(Adder().add, name="plus")

    assert renamed.__name__ == "plus"
    assert Adder.add.__name__ == "add"
