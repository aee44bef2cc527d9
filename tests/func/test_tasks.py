"""Calls of tasks: results, errors, cancellation, limits, threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import gc
import threading
import time
from functools import partial
from typing import Any, TypedDict

import anyio
import pytest

from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.config import RunnableConfig, get_config
from langgraph_async.errors import NodeCancelledError
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import StateGraph
from langgraph_async.runtime import Runtime

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


class SuspendingSaver(InMemorySaver):
    """Stores behind the run, as a database does."""

    immediate = False

    async def acommit(self, config: Any, commit: Any) -> Any:
        await asyncio.sleep(0)
        return await super().acommit(config, commit)


class Total(TypedDict):
    total: int


@task
async def add(left: int, right: int = 1) -> int:
    await asyncio.sleep(0)
    return left + right


# -- results -------------------------------------------------------------------------------------------------


async def test_a_call_gives_an_asyncio_future_of_the_result() -> None:
    kinds: list[Any] = []

    @entrypoint()
    async def workflow(number: int) -> int:
        future = add(number)
        kinds.append(future)
        return await future

    assert await workflow.ainvoke(1) == 2
    assert isinstance(kinds[0], asyncio.Future)


async def test_futures_can_be_awaited_in_any_order() -> None:
    @entrypoint()
    async def workflow(number: int) -> list[int]:
        first, second = add(number), add(number, right=2)
        return [await second, await first]

    assert await workflow.ainvoke(1) == [3, 2]


async def test_calls_run_side_by_side() -> None:
    both = asyncio.Barrier(2)

    @task
    async def meet(name: str) -> str:
        await both.wait()
        return name

    @entrypoint()
    async def workflow(number: int) -> list[str]:
        return await asyncio.gather(meet("a"), meet("b"))

    assert await workflow.ainvoke(1) == ["a", "b"]


async def test_tasks_call_tasks_to_any_depth() -> None:
    @task
    async def down(depth: int) -> int:
        return 0 if depth == 0 else 1 + await down(depth - 1)

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(depth: int) -> int:
        return await down(depth)

    assert await workflow.ainvoke(20, THREAD) == 20


async def test_a_node_of_a_state_graph_calls_tasks() -> None:
    async def node(state: Total) -> Total:
        return {"total": sum(await asyncio.gather(add(state["total"]), add(state["total"])))}

    def sync_node(state: Total) -> Total:
        return {"total": add(state["total"]).result()}

    builder = StateGraph(Total)
    builder.add_sequence([node, sync_node])
    builder.set_entry_point("node")
    graph = builder.compile()

    items = [item async for item in graph.astream({"total": 1}, stream_mode="updates")]

    assert items == [
        {"add": 2},
        {"add": 2},
        {"node": {"total": 4}},
        {"add": 5},
        {"sync_node": {"total": 5}},
    ]


async def test_nodes_that_run_side_by_side_call_tasks() -> None:
    class State(TypedDict, total=False):
        a: int
        b: int

    async def a(state: State) -> State:
        return {"a": await add(1)}

    async def b(state: State) -> State:
        return {"b": await add(2)}

    builder = StateGraph(State)
    for name, node in (("a", a), ("b", b)):
        builder.add_node(name, node)
        builder.add_edge("__start__", name)

    assert await builder.compile().ainvoke({}) == {"a": 2, "b": 3}


async def test_changing_a_result_in_place_does_not_change_what_is_stored() -> None:
    failed = False
    results: list[list[int]] = []

    @task
    async def numbers() -> list[int]:
        return [1]

    @entrypoint(checkpointer=SuspendingSaver())
    async def workflow(number: int) -> list[int]:
        nonlocal failed
        found = await numbers()
        results.append(list(found))
        found.append(2)
        if not failed:
            failed = True
            raise ValueError("once")
        return found

    with pytest.raises(ValueError, match="once"):
        await workflow.ainvoke(1, THREAD)
    await workflow.ainvoke(None, THREAD)

    assert results == [[1], [1]]


async def test_a_thousand_calls_cost_a_thousand_times_one() -> None:
    @task
    async def nothing(number: int) -> int:
        return number

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(count: int) -> int:
        return sum(await asyncio.gather(*(nothing(n) for n in range(count))))

    async def seconds(count: int) -> float:
        started = time.process_time()
        assert await workflow.ainvoke(count, {"configurable": {"thread_id": str(count)}}) == count * (count - 1) // 2
        return time.process_time() - started

    await seconds(100)
    gc.collect()
    few, many = await seconds(500), await seconds(2_000)

    assert many < 4 * few * 2.5


# -- what a call is given ------------------------------------------------------------------------------------


async def test_a_call_sees_the_callers_context_and_keeps_its_own_changes() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    @task
    async def read() -> str:
        seen = variable.get()
        variable.set("task")
        return seen

    @entrypoint()
    async def workflow(number: int) -> list[str]:
        variable.set("workflow")
        return [await read(), variable.get()]

    assert await workflow.ainvoke(1) == ["workflow", "workflow"]
    assert variable.get() == "unset"


async def test_parameters_are_injected_unless_the_call_gives_them() -> None:
    @task
    async def show(number: int, config: RunnableConfig, runtime: Runtime[Any], writer: Any = None) -> Any:
        writer("chunk")
        return number, config, runtime

    @entrypoint()
    async def workflow(number: int) -> list[Any]:
        injected = await show(number)
        by_name = await show(number, config={"tags": ["mine"]}, runtime="mine")  # type: ignore[arg-type]
        by_place = await show(number, {"tags": ["mine"]})
        return [injected, by_name, by_place]

    injected, by_name, by_place = await workflow.ainvoke(1)

    assert injected[1]["metadata"]["langgraph_node"] == "show"
    assert isinstance(injected[2], Runtime)
    assert by_name[1:] == ({"tags": ["mine"]}, "mine")
    assert by_place[1] == {"tags": ["mine"]}
    assert isinstance(by_place[2], Runtime)


async def test_arguments_named_like_options_are_the_functions() -> None:
    @task
    async def show(timeout: int, *, retry: int, name: str) -> tuple[int, int, str]:
        return timeout, retry, name

    @entrypoint()
    async def workflow(number: int) -> Any:
        return await show(timeout=1, retry=2, name="x")

    assert await workflow.ainvoke(1) == (1, 2, "x")


async def test_the_config_of_a_call_says_where_it_runs() -> None:
    @task
    async def where() -> Any:
        return get_config()

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int, config: RunnableConfig) -> Any:
        found = await where()
        return config["configurable"]["checkpoint_ns"], found

    ns, found = await workflow.ainvoke(1, {**THREAD, "tags": ["t"], "metadata": {"who": "me"}})
    own = found["configurable"]["checkpoint_ns"]

    assert own.startswith(f"{ns}|where:")
    assert set(found["configurable"]["checkpoint_map"]) == {"", ns}
    assert found["tags"] == ["t"]
    assert {k: v for k, v in found["metadata"].items() if k != "langgraph_checkpoint_ns"} == {
        "who": "me",
        "thread_id": "1",
        "langgraph_step": 0,
        "langgraph_node": "where",
        "langgraph_triggers": ("__pregel_push",),
        "langgraph_path": ("__pregel_push", ("__pregel_pull", "workflow"), 0, True),
    }


# -- names ---------------------------------------------------------------------------------------------------


async def test_functions_methods_partials_and_objects_can_be_tasks() -> None:
    class Adder:
        def __init__(self, start: int) -> None:
            self.start = start

        @task
        async def method(self, number: int) -> int:
            return self.start + number

        async def plain(self, number: int) -> int:
            return self.start + number

        async def __call__(self, number: int) -> int:
            return self.start + number

    async def plus(left: int, right: int) -> int:
        return left + right

    adder = Adder(10)
    bound, made, named = task(adder.plain), task(adder), task(partial(plus, 10), name="ten")

    @entrypoint()
    async def workflow(number: int) -> list[int]:
        return [await adder.method(number), await bound(number), await made(number), await named(number)]

    names = [next(iter(item)) async for item in workflow.astream(1)]

    assert await workflow.ainvoke(1) == [11] * 4
    assert names == ["method", "plain", "Adder", "ten", "workflow"]
    assert adder.plain.__name__ == "plain"


def test_a_task_looks_like_its_function() -> None:
    async def double(number: int) -> int:
        """Double it."""
        return 2 * number

    made = task(double, name="twice")

    assert (made.__name__, made.__doc__, made.__wrapped__) == ("twice", "Double it.", double)  # type: ignore[attr-defined]
    assert made.func is double
    assert double.__name__ == "double"


# -- outside of a run ----------------------------------------------------------------------------------------


async def test_a_call_outside_of_a_run_is_refused() -> None:
    with pytest.raises(RuntimeError, match="outside of a runnable context"):
        add(1)


async def test_a_call_by_code_that_outlived_its_entrypoint_is_refused() -> None:
    go = asyncio.Event()
    left: list[asyncio.Task[Any]] = []

    @entrypoint()
    async def workflow(number: int) -> None:
        async def later() -> None:
            await go.wait()
            await add(1)

        left.append(asyncio.create_task(later()))

    await workflow.ainvoke(1)
    go.set()

    with pytest.raises(RuntimeError, match="'add' was called by code that outlived 'workflow'"):
        await left[0]


# -- errors --------------------------------------------------------------------------------------------------


@task
async def fail(text: str) -> None:
    raise ValueError(text)


async def test_an_error_is_raised_where_the_call_is_awaited() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> str:
        future = fail("no")
        assert await add(1) == 2
        try:
            await future
        except ValueError as exc:
            return f"caught {exc}"
        return "nothing"

    assert await workflow.ainvoke(1, THREAD) == "caught no"


async def test_an_error_that_nobody_catches_fails_the_run_and_names_the_task() -> None:
    @entrypoint()
    async def workflow(number: int) -> None:
        await fail("no")

    with pytest.raises(ValueError, match="no") as caught:
        await workflow.ainvoke(1)

    notes = "\n".join(caught.value.__notes__)
    assert "task with name 'fail'" in notes
    assert "inside 'workflow' of graph 'workflow'" in notes


async def test_an_error_that_nobody_awaits_does_not_fail_the_run() -> None:
    @entrypoint()
    async def workflow(number: int) -> str:
        fail("no")
        return "fine"

    assert await workflow.ainvoke(1) == "fine"


async def test_one_failure_does_not_stop_the_other_calls() -> None:
    @entrypoint()
    async def workflow(number: int) -> Any:
        return await asyncio.gather(add(1), fail("no"), add(2), return_exceptions=True)

    results = await workflow.ainvoke(1)

    assert results[0] == 2
    assert isinstance(results[1], ValueError)
    assert results[2] == 3


async def test_a_cancelled_error_that_a_task_raises_by_itself_is_a_failure() -> None:
    @task
    async def quit_early() -> None:
        raise asyncio.CancelledError

    @entrypoint()
    async def workflow(number: int) -> str:
        try:
            await quit_early()
        except NodeCancelledError as exc:
            return exc.node
        return "nothing"

    assert await workflow.ainvoke(1) == "quit_early"


# -- the end of the caller -----------------------------------------------------------------------------------


async def test_calls_that_nobody_awaits_end_before_the_step_does() -> None:
    ended: list[int] = []

    @task
    async def slow(number: int) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        ended.append(number)

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> str:
        slow(1)
        slow(2)
        return "done"

    assert await workflow.ainvoke(1, THREAD) == "done"
    assert ended == [1, 2]


async def test_a_failing_caller_cancels_its_calls_and_waits_for_them() -> None:
    ended: list[str] = []

    @task
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("endless")

    @entrypoint()
    async def workflow(number: int) -> None:
        endless()
        await add(1)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await workflow.ainvoke(1)
    assert ended == ["endless"]


@pytest.mark.parametrize("saver", [None, InMemorySaver(), SuspendingSaver()], ids=type)
async def test_cancelling_the_run_ends_all_calls(saver: Any) -> None:
    started, ended = asyncio.Event(), []

    @task
    async def inner() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("inner")

    @task
    async def outer() -> None:
        try:
            await inner()
        finally:
            ended.append("outer")

    @entrypoint(checkpointer=saver)
    async def workflow(number: int) -> None:
        try:
            await outer()
        finally:
            ended.append("workflow")

    run = asyncio.create_task(workflow.ainvoke(1, THREAD))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert sorted(ended) == ["inner", "outer", "workflow"]


async def test_an_anyio_scope_that_is_cancelled_ends_all_calls_first() -> None:
    started, ended = asyncio.Event(), []

    @task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("endless")

    @entrypoint()
    async def workflow(number: int) -> None:
        await endless()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(workflow.ainvoke, 1)
            await started.wait()
            scope.cancel()

    assert ended == ["endless"]


# -- cancelling a call ---------------------------------------------------------------------------------------


async def test_cancelling_a_future_cancels_that_call_only() -> None:
    seen: list[str] = []

    @task
    async def wait(name: str, seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            seen.append(name)
            raise
        return name

    @entrypoint()
    async def workflow(number: int) -> Any:
        endless, short = wait("endless", 1_000), wait("short", 0.001)
        await add(1)
        endless.cancel()
        return await asyncio.gather(endless, short, return_exceptions=True)

    results = await workflow.ainvoke(1)

    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1] == "short"
    assert seen == ["endless"]


async def test_a_call_that_is_cancelled_before_it_started_never_runs() -> None:
    runs: list[int] = []

    @task
    async def never() -> None:
        runs.append(1)

    @entrypoint()
    async def workflow(number: int) -> str:
        never().cancel()
        return "done"

    assert await workflow.ainvoke(1) == "done"
    assert runs == []


async def test_a_timeout_around_a_call_cancels_it() -> None:
    started, ended = asyncio.Event(), []

    @task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    @entrypoint()
    async def workflow(number: int) -> str:
        try:
            async with asyncio.timeout(None) as limit:
                call = endless()
                await started.wait()
                limit.reschedule(0)
                await call
        except TimeoutError:
            return "too slow"
        return "in time"

    assert await workflow.ainvoke(1) == "too slow"
    assert ended == [1]


# -- limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3])
async def test_no_more_calls_run_at_once_than_the_limit_allows(limit: int) -> None:
    running = most = 0

    @task
    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    @entrypoint()
    async def workflow(number: int) -> None:
        await asyncio.gather(*(count() for _ in range(number)))
        await count()

    await workflow.ainvoke(20, {"max_concurrency": limit})

    assert most == limit


async def test_nested_calls_do_not_deadlock_at_a_limit_of_one() -> None:
    @task
    async def outer(depth: int) -> int:
        if not depth:
            return 1
        left, right = outer(depth - 1), outer(depth - 1)
        total = await left + await right
        return total + await add(0, 0)

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(depth: int) -> int:
        return await outer(depth)

    async with asyncio.timeout(20):
        assert await workflow.ainvoke(5, {**THREAD, "max_concurrency": 1}) == 32


async def test_a_limit_of_one_holds_for_calls_and_graphs_inside_them() -> None:
    @entrypoint()
    async def inner(number: int) -> int:
        return await add(number)

    @task
    async def middle(number: int) -> int:
        found: int = await inner.ainvoke(number)
        return found

    @entrypoint()
    async def workflow(number: int) -> list[int]:
        return await asyncio.gather(middle(1), middle(2))

    async with asyncio.timeout(20):
        assert await workflow.ainvoke(1, {"max_concurrency": 1}) == [2, 3]


async def test_a_cancelled_call_gives_its_slot_back() -> None:
    @task
    async def endless() -> None:
        await asyncio.Event().wait()

    @entrypoint()
    async def workflow(number: int) -> int:
        first, second = endless(), endless()
        await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        return await add(number)

    async with asyncio.timeout(20):
        assert await workflow.ainvoke(1, {"max_concurrency": 1}) == 2


# -- threads -------------------------------------------------------------------------------------------------


@task
def block(number: int) -> tuple[int, bool]:
    return number, threading.current_thread() is threading.main_thread()


async def test_a_sync_task_runs_in_a_worker_thread() -> None:
    @entrypoint()
    async def workflow(number: int) -> Any:
        return await block(number)

    assert await workflow.ainvoke(1) == (1, False)


async def test_a_sync_entrypoint_waits_for_calls_in_its_thread() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    def workflow(number: int) -> list[int]:
        futures = [add(n) for n in range(number)]
        assert all(isinstance(future, concurrent.futures.Future) for future in futures)
        return [future.result() for future in futures]

    assert await workflow.ainvoke(5, THREAD) == [1, 2, 3, 4, 5]


async def test_an_error_is_raised_by_result_in_a_sync_entrypoint() -> None:
    @entrypoint()
    def workflow(number: int) -> str:
        try:
            fail("no").result()
        except ValueError as exc:
            return f"caught {exc}"
        return "nothing"

    assert await workflow.ainvoke(1) == "caught no"


async def test_a_future_made_in_a_thread_can_be_awaited_by_a_loop_of_that_thread() -> None:
    @entrypoint()
    def workflow(number: int) -> int:
        async def wait() -> int:
            return await add(number)

        return asyncio.run(wait())

    assert await workflow.ainvoke(1) == 2


async def test_more_sync_tasks_than_threads_can_each_wait_for_another() -> None:
    @task
    def outer(number: int) -> int:
        return block(number).result()[0]

    @entrypoint()
    async def workflow(count: int) -> int:
        return sum(await asyncio.gather(*(outer(n) for n in range(count))))

    async with asyncio.timeout(30):
        assert await workflow.ainvoke(60) == 60 * 59 // 2


async def test_cancelling_a_run_ends_a_sync_entrypoint_that_waits_for_a_call() -> None:
    started, calls = asyncio.Event(), []

    @task
    async def endless() -> None:
        calls.append(1)
        started.set()
        await asyncio.Event().wait()

    @entrypoint()
    def workflow(number: int) -> None:
        for _ in range(3):
            try:
                endless().result()
            except concurrent.futures.CancelledError:
                continue

    run = asyncio.create_task(workflow.ainvoke(1))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(20):
            await run

    assert calls == [1]


async def test_cancelling_a_future_in_a_thread_cancels_the_call() -> None:
    ended: list[int] = []

    @task
    async def endless(started: threading.Event) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    @entrypoint()
    def workflow(number: int) -> str:
        started = threading.Event()
        future = endless(started)
        started.wait()
        future.cancel()
        return "done"

    assert await workflow.ainvoke(1) == "done"
    assert ended == [1]
