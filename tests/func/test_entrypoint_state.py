"""The state of a thread of an entrypoint: read, history, changed from outside."""

from __future__ import annotations

from typing import Any

from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.config import RunnableConfig
from langgraph_async.func import entrypoint, task
from langgraph_async.types import Command, interrupt

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


@task
async def ask(question: str) -> str:
    answer: str = interrupt(question)
    return answer


@task
async def fail() -> None:
    raise ValueError("no")


@entrypoint(checkpointer=InMemorySaver())
async def counting(number: int, *, previous: Any = None) -> dict[str, Any]:
    return {"number": number, "previous": previous}


async def test_an_update_is_the_output_and_what_the_next_run_gets() -> None:
    await counting.ainvoke(1, THREAD)
    await counting.aupdate_state(THREAD, {"mine": 1})

    state = await counting.aget_state(THREAD)

    assert state.values == {"mine": 1}
    assert state.next == ()
    assert await counting.ainvoke(2, THREAD) == {"number": 2, "previous": {"mine": 1}}


async def test_the_state_shows_the_last_output_and_the_history_every_run() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def double(number: int) -> int:
        return 2 * number

    for number in (1, 2):
        await double.ainvoke(number, THREAD)
    history = [(s.values, s.next, s.metadata["step"]) async for s in double.aget_state_history(THREAD)]

    assert history == [(4, (), 2), (2, ("double",), 1), (2, (), 0), (None, ("double",), -1)]


async def test_questions_of_tasks_show_on_the_entrypoints_task() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> list[str]:
        return [await ask("a"), await ask("b")]

    await workflow.ainvoke(1, THREAD)
    first = await workflow.aget_state(THREAD)
    await workflow.ainvoke(Command(resume="x"), THREAD)
    second = await workflow.aget_state(THREAD)

    assert [(t.name, [q.value for q in t.interrupts]) for t in first.tasks] == [("workflow", ["a"])]
    assert [(t.name, [q.value for q in t.interrupts]) for t in second.tasks] == [("workflow", ["b"])]


async def test_a_failed_task_does_not_show_as_a_task_of_the_thread() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> str:
        try:
            await fail()
        except ValueError:
            return str(interrupt("go on?"))
        return ""

    await workflow.ainvoke(1, THREAD)
    state = await workflow.aget_state(THREAD)

    assert [(t.name, t.error) for t in state.tasks] == [("workflow", None)]


async def test_a_run_from_an_older_checkpoint_runs_its_tasks_again() -> None:
    runs: list[int] = []

    @task
    async def work(number: int) -> int:
        runs.append(number)
        return number

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> int:
        return await work(number)

    await workflow.ainvoke(7, THREAD)
    before = [s async for s in workflow.aget_state_history(THREAD)][-1]

    assert await workflow.ainvoke(None, before.config) == 7
    assert runs == [7, 7]
