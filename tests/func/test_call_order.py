"""A workflow that runs again and makes other calls than before: what is noticed, and what is no fault."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

import pytest

from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.config import RunnableConfig
from langgraph_async.errors import NonDeterministicReplayError
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import StateGraph
from langgraph_async.types import Command, RetryPolicy, interrupt

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
Body = Callable[[], Awaitable[Any]]
runs: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _no_runs() -> None:
    runs.clear()


@task
async def a(value: Any = None) -> str:
    runs["a"] += 1
    return "a"


@task
async def b(value: Any = None) -> str:
    runs["b"] += 1
    return "b"


@task
async def c(value: Any = None) -> str:
    runs["c"] += 1
    return "c"


@task
async def outer(body: Any) -> Any:
    return await BODIES[body]()


@task
async def ask() -> Any:
    return interrupt("question")


BODIES: dict[str, Body] = {}


class Workflow:
    """An entrypoint whose code can be changed between runs."""

    def __init__(self, **options: Any) -> None:
        self.body: Body
        self.saver = InMemorySaver()

        @entrypoint(checkpointer=self.saver, **options)
        async def flow(value: int) -> Any:
            return await self.body()

        self.graph = flow

    async def run(self, body: Body, value: Any = None) -> Any:
        self.body = body
        return await self.graph.ainvoke(value, THREAD)

    async def refused(self, body: Body, value: Any = None) -> NonDeterministicReplayError:
        with pytest.raises(NonDeterministicReplayError) as caught:
            await self.run(body, value)
        return caught.value


async def a_b_ask() -> Any:
    return [await a(), await b(), interrupt("question")]


async def b_a_ask() -> Any:
    return [await b(), await a(), interrupt("question")]


ANSWER = Command(resume="x")


# -- noticed -------------------------------------------------------------------------------------------------


async def test_another_order_of_calls_is_an_error_that_names_what_changed() -> None:
    flow = Workflow()
    await flow.run(a_b_ask, 1)

    error = await flow.refused(b_a_ask, ANSWER)

    assert (error.workflow, error.position, error.stored, error.called) == ("flow", 0, "a", "b")
    assert error.thread_id == "1"
    assert error.code == "NON_DETERMINISTIC_REPLAY"
    for part in ("'flow'", "call number 0", "'a'", "'b'", "thread '1'", "docs/errors/NON_DETERMINISTIC_REPLAY.md"):
        assert part in str(error)
    assert runs == {"a": 1, "b": 1}


async def test_the_thread_goes_on_with_the_old_code() -> None:
    flow = Workflow()
    await flow.run(a_b_ask, 1)
    before = await flow.saver.aget_tuple(THREAD)
    await flow.refused(b_a_ask, ANSWER)

    assert await flow.saver.aget_tuple(THREAD) == before
    assert await flow.run(a_b_ask, ANSWER) == ["a", "b", "x"]
    assert runs == {"a": 1, "b": 1}


async def test_it_is_refused_each_time() -> None:
    flow = Workflow()
    await flow.run(a_b_ask, 1)

    for _ in range(3):
        await flow.refused(b_a_ask, ANSWER)


async def test_the_step_can_be_begun_anew() -> None:
    flow = Workflow()
    await flow.run(a_b_ask, 1)
    await flow.refused(b_a_ask, ANSWER)

    snapshot = await flow.graph.aget_state(THREAD)
    await flow.graph.ainvoke(None, snapshot.config)

    assert await flow.run(b_a_ask, ANSWER) == ["b", "a", "x"]
    assert runs == {"a": 2, "b": 2}


async def test_a_call_put_before_others_is_noticed() -> None:
    async def changed() -> Any:
        return [await c(), await a_b_ask()]

    flow = Workflow()
    await flow.run(a_b_ask, 1)

    assert (await flow.refused(changed, ANSWER)).called == "c"
    assert runs["c"] == 0


async def test_a_call_that_is_left_out_is_noticed() -> None:
    async def changed() -> Any:
        return [await a(), interrupt("question")]

    async def ended() -> Any:
        return await a()

    flow = Workflow()

    async def dies() -> Any:
        await asyncio.gather(a(), b())
        raise KillSwitch

    await _killed(flow, dies)

    assert (await flow.refused(ended)).called is None
    assert (await flow.refused(ended)).position == 1


async def test_code_that_catches_the_error_does_not_go_on() -> None:
    async def changed() -> Any:
        try:
            return await b()
        except Exception:
            return await c()

    flow = Workflow()
    await flow.run(a_b_ask, 1)

    await flow.refused(changed, ANSWER)

    assert runs == {"a": 1, "b": 1}
    assert await flow.run(a_b_ask, ANSWER) == ["a", "b", "x"]


async def test_a_call_in_the_place_of_one_that_asked_is_noticed() -> None:
    async def asks() -> Any:
        return [await a(), await ask()]

    async def changed() -> Any:
        return [await a(), await b()]

    flow = Workflow()
    await flow.run(asks, 1)

    assert (await flow.refused(changed, ANSWER)).stored == "ask"


async def test_calls_of_a_task_are_compared_too() -> None:
    flow = Workflow()
    BODIES["x"] = a_b_ask

    async def body() -> Any:
        return await outer("x")

    await flow.run(body, 1)
    BODIES["x"] = b_a_ask

    assert (await flow.refused(body, ANSWER)).workflow == "outer"
    BODIES["x"] = a_b_ask
    assert await flow.run(body, ANSWER) == ["a", "b", "x"]


async def test_calls_of_a_node_are_compared_too() -> None:
    class State(TypedDict, total=False):
        log: Any

    bodies = [a_b_ask, b_a_ask]

    async def node(state: State) -> State:
        return {"log": await bodies.pop(0)()}

    builder = StateGraph(State)
    builder.add_node(node)
    builder.set_entry_point("node")
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": None}, THREAD)

    with pytest.raises(NonDeterministicReplayError, match="'node'"):
        await graph.ainvoke(ANSWER, THREAD)


async def test_calls_from_a_worker_thread_are_compared_too() -> None:
    order = [a, b]

    @entrypoint(checkpointer=InMemorySaver())
    def flow(value: int) -> Any:
        return [one().result() for one in order] + [interrupt("question")]

    await flow.ainvoke(1, THREAD)
    order.reverse()

    with pytest.raises(NonDeterministicReplayError):
        await flow.ainvoke(ANSWER, THREAD)


# -- no fault ------------------------------------------------------------------------------------------------


class KillSwitch(BaseException):
    """Ends a run as the end of the process would: nothing more is stored."""


async def _killed(flow: Workflow, body: Body) -> None:
    """Run, and lose whatever the run stored as it died."""
    with pytest.raises(KillSwitch):
        await flow.run(body, 1)
    for rows in flow.saver.writes.values():
        for key in [key for key, row in rows.items() if row[1] == "__error__"]:
            del rows[key]


async def test_after_a_crash_more_calls_may_follow() -> None:
    async def dies() -> Any:
        await a()
        raise KillSwitch

    async def goes_on() -> Any:
        return [await a(), await b()]

    flow = Workflow()
    await _killed(flow, dies)

    assert await flow.run(goes_on) == ["a", "b"]
    assert runs == {"a": 1, "b": 1}


async def test_what_cleaned_up_after_a_pause_is_no_other_call() -> None:
    async def body() -> Any:
        try:
            answer = interrupt("question")
        finally:
            if not runs["a"]:
                await a()
        return [answer, await b()]

    flow = Workflow()
    await flow.run(body, 1)

    assert await flow.run(body, ANSWER) == ["x", "b"]


async def test_what_cleaned_up_after_a_pause_of_a_task_is_no_other_call() -> None:
    async def body() -> Any:
        try:
            answer = await ask()
        finally:
            if not runs["a"]:
                await a()
        return [answer, await b()]

    flow = Workflow()
    await flow.run(body, 1)

    assert await flow.run(body, ANSWER) == ["x", "b"]


async def test_what_reported_a_failure_is_no_other_call() -> None:
    async def fails() -> Any:
        try:
            raise ValueError("once")
        except ValueError:
            await c()
            raise

    async def works() -> Any:
        return [await a(), await b()]

    flow = Workflow()
    with pytest.raises(ValueError, match="once"):
        await flow.run(fails, 1)

    assert await flow.run(works) == ["a", "b"]


async def test_a_fallback_for_a_task_that_failed_once_is_no_other_call() -> None:
    @task
    async def flaky() -> str:
        runs["flaky"] += 1
        if runs["flaky"] == 1:
            raise ValueError("once")
        return "flaky"

    async def body() -> Any:
        try:
            first = await flaky()
        except ValueError:
            first = await b()
        answer = interrupt("question")
        return [first, answer, await c()]

    flow = Workflow()
    await flow.run(body, 1)

    assert await flow.run(body, ANSWER) == ["flaky", "x", "c"]


async def test_what_an_attempt_that_was_retried_called_is_no_other_call() -> None:
    async def body() -> Any:
        runs["body"] += 1
        if runs["body"] == 1:
            await a()
            raise ValueError("once")
        return [await b(), interrupt("question")]

    flow = Workflow(retry_policy=RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError))
    await flow.run(body, 1)

    assert await flow.run(body, ANSWER) == ["b", "x"]


async def test_branches_that_reach_their_calls_at_another_speed_are_no_other_order() -> None:
    slow = asyncio.Event()

    async def first() -> Any:
        await a(1)
        if not runs["b"]:
            await slow.wait()
        return await c(1)

    async def second() -> Any:
        await a(2)
        found = await b()
        slow.set()
        return found

    async def body() -> Any:
        return [await asyncio.gather(first(), second()), interrupt("question")]

    flow = Workflow()
    await flow.run(body, 1)

    assert await flow.run(body, ANSWER) == [["c", "b"], "x"]


async def test_a_branch_that_has_not_called_yet_is_no_other_order() -> None:
    called = asyncio.Event()

    @task
    async def waiting() -> str:
        await called.wait()
        return "waiting"

    async def branch() -> Any:
        await asyncio.sleep(0)
        found = b()
        called.set()
        return await found

    async def body() -> Any:
        beside = asyncio.create_task(branch())
        found = [await waiting(), await c(), await beside]
        return [*found, interrupt("question")]

    flow = Workflow()
    await flow.run(body, 1)

    assert await flow.run(body, ANSWER) == ["waiting", "c", "b", "x"]


async def test_a_cancelled_call_is_no_other_call() -> None:
    async def body() -> Any:
        pending = a()
        pending.cancel()
        return [await b(), interrupt("question"), await c()]

    flow = Workflow()
    await flow.run(body, 1)

    assert await flow.run(body, ANSWER) == ["b", "x", "c"]


async def test_a_new_input_may_take_another_way() -> None:
    flow = Workflow()
    await flow.run(a_b_ask, 1)
    await flow.run(b_a_ask, 2)

    assert await flow.run(b_a_ask, ANSWER) == ["b", "a", "x"]
