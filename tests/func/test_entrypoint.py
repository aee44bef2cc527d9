"""Workflows written as one function: input, output, what is saved, what is injected, what is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, TypedDict

import pytest

import langgraph_async
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.config import RunnableConfig
from langgraph_async.errors import GraphBuildError
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import StateGraph
from langgraph_async.pregel.graph import Pregel
from langgraph_async.runtime import Runtime
from langgraph_async.types import Command, interrupt


class _Numbers(TypedDict):
    number: int


THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


def test_the_door_offers_both_decorators() -> None:
    assert langgraph_async.entrypoint is entrypoint
    assert langgraph_async.task is task


async def test_an_entrypoint_returns_what_its_function_returns() -> None:
    @entrypoint()
    async def workflow(number: int) -> int:
        return number + 1

    assert isinstance(workflow, Pregel)
    assert workflow.name == "workflow"
    assert await workflow.ainvoke(1) == 2


async def test_a_sync_entrypoint_runs_in_a_worker_thread() -> None:
    @entrypoint()
    def workflow(number: int) -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await workflow.ainvoke(1) is False


async def test_by_default_updates_are_streamed() -> None:
    @entrypoint()
    async def workflow(number: int) -> int:
        return number + 1

    assert [item async for item in workflow.astream(1)] == [{"workflow": 2}]


async def test_values_are_streamed_once_at_the_end() -> None:
    @task
    async def half(number: int) -> int:
        return number // 2

    @entrypoint()
    async def workflow(number: int) -> int:
        return await half(number)

    assert [item async for item in workflow.astream(8, stream_mode="values")] == [4]


@pytest.mark.parametrize("result", [None, 0, "", False, [], {}])
async def test_a_falsy_result_is_a_result(result: Any) -> None:
    @entrypoint()
    async def workflow(number: int) -> Any:
        return result

    assert await workflow.ainvoke(1) == result
    assert [item async for item in workflow.astream(1)] == [{"workflow": result}]


async def test_the_callers_input_is_not_touched() -> None:
    @entrypoint()
    async def workflow(numbers: list[int]) -> list[int]:
        numbers.append(4)
        return numbers

    given = [1, 2, 3]

    assert await workflow.ainvoke(given) == [1, 2, 3, 4]
    assert given == [1, 2, 3]


# -- previous ------------------------------------------------------------------------------------------------


async def test_previous_is_what_the_last_run_on_the_thread_returned() -> None:
    seen: list[Any] = []

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int, *, previous: int | None = None) -> int:
        seen.append(previous)
        return number + (previous or 0)

    results = [await workflow.ainvoke(number, THREAD) for number in (1, 2, 3)]

    assert results == [1, 3, 6]
    assert seen == [None, 1, 3]


async def test_previous_is_kept_apart_by_thread() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int, *, previous: int | None = None) -> int | None:
        return previous or number

    await workflow.ainvoke(1, {"configurable": {"thread_id": "a"}})

    assert await workflow.ainvoke(2, {"configurable": {"thread_id": "b"}}) == 2


async def test_previous_is_none_without_a_checkpointer() -> None:
    @entrypoint()
    async def workflow(number: int, *, previous: Any = "unset") -> Any:
        return previous

    await workflow.ainvoke(1)

    assert await workflow.ainvoke(1) is None


async def test_final_returns_one_value_and_saves_another() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int, *, previous: int | None = None) -> entrypoint.final[str, int]:
        total = number + (previous or 0)
        return entrypoint.final(value=f"total {total}", save=total)

    assert await workflow.ainvoke(1, THREAD) == "total 1"
    assert await workflow.ainvoke(2, THREAD) == "total 3"
    assert await workflow.ainvoke(3, THREAD) == "total 6"


def test_final_is_frozen_and_takes_keywords_only() -> None:
    made = entrypoint.final(value=1, save=2)

    with pytest.raises(AttributeError):
        made.value = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        entrypoint.final(1, 2)  # type: ignore[misc]


def test_final_types_the_output_and_what_is_saved() -> None:
    @entrypoint()
    async def workflow(number: int) -> entrypoint.final[str, int]:
        return entrypoint.final(value="", save=0)

    channels = workflow.channels

    assert [channels[key].UpdateType for key in ("__start__", "__end__", "__previous__")] == [int, str, int]


def test_final_with_one_type_is_refused() -> None:
    with pytest.raises(TypeError):

        @entrypoint()
        async def workflow(number: int) -> entrypoint.final[str]:  # type: ignore[type-arg]
            return entrypoint.final(value="", save=0)


async def test_a_failed_run_does_not_change_previous() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int, *, previous: int | None = None) -> int | None:
        if number < 0:
            raise ValueError(number)
        return previous if number == 0 else number

    await workflow.ainvoke(5, THREAD)
    with pytest.raises(ValueError, match="-1"):
        await workflow.ainvoke(-1, THREAD)

    assert await workflow.ainvoke(0, THREAD) == 5


async def test_changing_previous_in_place_does_not_change_what_is_saved() -> None:
    runs = 0

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int, *, previous: list[int] | None = None) -> list[int]:
        nonlocal runs
        runs += 1
        kept = previous if previous is not None else []
        kept.append(number)
        if runs == 2:
            raise ValueError("once")
        return kept

    await workflow.ainvoke(1, THREAD)
    with pytest.raises(ValueError, match="once"):
        await workflow.ainvoke(2, THREAD)

    assert await workflow.ainvoke(3, THREAD) == [1, 3]


# -- injection -----------------------------------------------------------------------------------------------


async def test_config_runtime_writer_and_store_are_injected() -> None:
    store = object()

    @entrypoint(store=store, context_schema=dict)
    async def workflow(number: int, config: RunnableConfig, runtime: Runtime[Any], writer: Any, store) -> Any:
        writer("chunk")
        return {
            "tag": config["tags"],
            "context": runtime.context,
            "store": store is runtime.store,
        }

    config: RunnableConfig = {"tags": ["t"]}
    items = [i async for i in workflow.astream(1, config, context={"user": "u"}, stream_mode=["custom", "updates"])]

    assert items == [
        ("custom", "chunk"),
        ("updates", {"workflow": {"tag": ["t"], "context": {"user": "u"}, "store": True}}),
    ]


# -- refused -------------------------------------------------------------------------------------------------


def test_a_function_without_a_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one parameter") as caught:

        @entrypoint()
        async def workflow() -> int:
            return 1

    assert isinstance(caught.value, GraphBuildError)


def test_generators_are_refused() -> None:
    async def asynchronous(number: int) -> AsyncIterator[int]:
        yield number

    def plain(number: int) -> Iterator[int]:
        yield number

    for function in (asynchronous, plain):
        with pytest.raises(NotImplementedError, match=function.__name__) as caught:
            entrypoint()(function)
        assert isinstance(caught.value, GraphBuildError)
        with pytest.raises(NotImplementedError, match=function.__name__):
            task(function)


def test_the_decorator_without_parentheses_is_refused() -> None:
    with pytest.raises(GraphBuildError, match="parentheses"):

        @entrypoint
        async def workflow(number: int) -> int:
            return number


def test_a_timeout_of_a_sync_function_is_refused() -> None:
    def workflow(number: int) -> int:
        return number

    with pytest.raises(ValueError, match="Entrypoint 'workflow' is sync"):
        entrypoint(timeout=1)(workflow)
    with pytest.raises(ValueError, match="Task 'workflow' is sync"):
        task(timeout=1)(workflow)


# -- as part of something ------------------------------------------------------------------------------------


async def test_a_callable_object_and_a_partial_can_be_entrypoints() -> None:
    class Adder:
        async def __call__(self, number: int) -> int:
            return number + 1

    async def add(number: int, more: int) -> int:
        return number + more

    assert await entrypoint()(Adder()).ainvoke(1) == 2
    assert await entrypoint()(partial(add, more=5)).ainvoke(1) == 6


async def test_an_entrypoint_is_a_node_of_a_graph() -> None:
    @entrypoint()
    async def inner(state: dict[str, Any]) -> dict[str, Any]:
        return {"number": state["number"] + 1}

    builder = StateGraph(_Numbers)
    builder.add_node("inner", inner)
    builder.set_entry_point("inner")

    assert await builder.compile().ainvoke({"number": 1}) == {"number": 2}


async def test_an_interrupt_shows_nothing_but_the_question() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> dict[str, int]:
        if number:
            return {"number": number + interrupt("more?")}
        return {"number": 0}

    await workflow.ainvoke(0, THREAD)
    paused = await workflow.ainvoke(1, THREAD)
    asked_again = await workflow.ainvoke(None, THREAD)

    assert list(paused) == ["__interrupt__"]
    assert asked_again == paused
    assert paused["__interrupt__"][0].value == "more?"
    assert await workflow.ainvoke(Command(resume=4), THREAD) == {"number": 5}


async def test_a_paused_run_does_not_change_previous() -> None:
    seen: list[Any] = []

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int, *, previous: int | None = None) -> int:
        seen.append(previous)
        return number + (interrupt("more?") if number == 2 else 0)

    await workflow.ainvoke(1, THREAD)
    await workflow.ainvoke(2, THREAD)
    await workflow.ainvoke(Command(resume=10), THREAD)
    await workflow.ainvoke(3, THREAD)

    assert seen == [None, 1, 1, 12]


async def test_runs_on_one_thread_number_their_steps_on() -> None:
    saver = InMemorySaver()

    @entrypoint(checkpointer=saver)
    async def workflow(number: int) -> int:
        return number

    await workflow.ainvoke(1, THREAD)
    await workflow.ainvoke(2, THREAD)
    stored = [(item.metadata["source"], item.metadata["step"]) async for item in saver.alist(THREAD)]

    assert stored == [("loop", 2), ("input", 1), ("loop", 0), ("input", -1)]


async def test_an_entrypoint_called_several_times_in_one_task_keeps_its_pauses_apart() -> None:
    @entrypoint()
    async def inner(number: int) -> int:
        answer: int = interrupt(f"q{number}")
        return number + answer

    @entrypoint(checkpointer=InMemorySaver())
    async def outer(number: int) -> list[int]:
        return [await inner.ainvoke(number), await inner.ainvoke(number + 1)]

    first = await outer.ainvoke(1, THREAD)
    second = await outer.ainvoke(Command(resume=10), THREAD)
    done = await outer.ainvoke(Command(resume=20), THREAD)

    assert [q.value for q in first["__interrupt__"]] == ["q1"]
    assert [q.value for q in second["__interrupt__"]] == ["q2"]
    assert done == [11, 22]


async def test_leaving_the_stream_ends_the_function_and_its_tasks() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    @entrypoint()
    async def workflow(number: int, writer: Any) -> None:
        future = endless()
        await started.wait()
        writer("started")
        await future

    stream = workflow.astream(1, stream_mode="custom")
    assert await anext(stream) == "started"
    await stream.aclose()

    assert ended.is_set()
