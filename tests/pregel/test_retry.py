"""Nodes and functional tasks that are tried again."""

import asyncio
from operator import add
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async.aio.clock import FakeClock
from langgraph_async.channels import LastValue
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import GraphBuildError
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import START, StateGraph
from langgraph_async.pregel import NodeBuilder, Pregel
from langgraph_async.pregel.step.retry import matches, wait_before_next
from langgraph_async.runtime import Runtime
from langgraph_async.types import Command, RetryPolicy, default_retry_on, interrupt


class State(TypedDict):
    log: Annotated[list[str], add]


class Flaky(Exception):
    """A passing fault."""


class EagerClock(FakeClock):
    """Waits for nothing, and remembers what it was asked to wait for."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


FAST = RetryPolicy(initial_interval=0.5, jitter=False)
CONFIG: Any = {"configurable": {"thread_id": "1"}}


def failing(times: int, error: type[BaseException] = Flaky) -> Any:
    left = [times]

    async def node(state: State) -> State:
        if left[0]:
            left[0] -= 1
            raise error("not yet")
        return {"log": ["done"]}

    return node


def graph_of(node: Any, policy: Any = FAST, *, saver: Any = None, clock: Any = None) -> Any:
    graph = StateGraph(State).add_node("a", node, retry_policy=policy).add_edge(START, "a").compile(checkpointer=saver)
    graph.clock = clock or EagerClock()
    return graph


# -- the policy itself --------------------------------------------------------------------------------------


def test_intervals_grow_up_to_the_greatest_one() -> None:
    policy = RetryPolicy(initial_interval=1, backoff_factor=3, max_interval=5, max_attempts=9, jitter=False)
    assert [wait_before_next([policy], Flaky(), n) for n in (1, 2, 3)] == [1, 3, 5]


def test_an_interval_too_great_for_a_float_is_the_greatest_one() -> None:
    policy = RetryPolicy(backoff_factor=10.0, max_interval=7, max_attempts=10_000, jitter=False)
    assert wait_before_next([policy], Flaky(), 9000) == 7


def test_jitter_is_added_to_the_interval() -> None:
    assert wait_before_next([RetryPolicy(initial_interval=1)], Flaky(), 1, noise=lambda: 0.25) == 1.25


def test_the_first_policy_that_matches_counts() -> None:
    never = RetryPolicy(max_attempts=1, retry_on=Flaky)
    assert wait_before_next([never, FAST], Flaky(), 1) is None
    assert wait_before_next([never, FAST], ConnectionError(), 1) == 0.5


@pytest.mark.parametrize(
    ("wanted", "expected"), [(Flaky, True), ((KeyError, Flaky), True), ((), False), (lambda e: "x" in str(e), False)]
)
def test_a_policy_matches_by_class_classes_or_predicate(wanted: Any, expected: bool) -> None:
    assert matches(RetryPolicy(retry_on=wanted), Flaky("no")) is expected


def http_error(module: str, name: str, base: type[Exception], status: int | None) -> Exception:
    """An error as an HTTP client raises it, of a class that a program has derived from the client's."""

    class Response:
        status_code = status

        def __bool__(self) -> bool:  # as that of requests: false for 4xx and 5xx
            return False

    raised = type("Derived", (type(name, (base,), {"__module__": module}),), {})("failed")
    raised.response = None if status is None else Response()  # type: ignore[attr-defined]
    return raised


@pytest.mark.parametrize(("status", "expected"), [(500, True), (503, True), (404, False), (429, False), (301, False)])
@pytest.mark.parametrize(
    "client", [("httpx", "HTTPStatusError", Exception), ("requests.exceptions", "HTTPError", OSError)]
)
def test_by_default_only_statuses_of_a_failing_server_are_retried(client: Any, status: int, expected: bool) -> None:
    assert default_retry_on(http_error(*client, status)) is expected


def test_by_default_a_failed_request_without_a_response_is_retried() -> None:
    assert default_retry_on(http_error("requests.exceptions", "HTTPError", OSError, None))
    assert not default_retry_on(http_error("requests.exceptions", "InvalidURL", ValueError, None))


@pytest.mark.parametrize(
    "error", [ValueError, KeyError, RuntimeError, OSError, TimeoutError, ImportError, StopAsyncIteration]
)
def test_by_default_what_would_come_again_is_not_retried(error: type[Exception]) -> None:
    assert not default_retry_on(error())
    assert default_retry_on(ConnectionResetError())
    assert default_retry_on(Flaky())


def test_attempts_are_counted_over_all_policies() -> None:
    twice = RetryPolicy(max_attempts=2, retry_on=Flaky, jitter=False)
    assert wait_before_next([twice, FAST], Flaky(), 1) == 0.5
    assert wait_before_next([twice, FAST], ConnectionError(), 1) == 0.5
    assert wait_before_next([twice, FAST], Flaky(), 2) is None


# -- nodes --------------------------------------------------------------------------------------------------


async def test_a_node_is_tried_again_until_it_succeeds() -> None:
    clock = EagerClock()
    assert await graph_of(failing(2), clock=clock).ainvoke({"log": []}) == {"log": ["done"]}
    assert clock.slept == [0.5, 1.0]


async def test_a_node_that_never_succeeds_fails_with_its_last_error() -> None:
    clock = EagerClock()
    with pytest.raises(Flaky):
        await graph_of(failing(3), clock=clock).ainvoke({"log": []})
    assert clock.slept == [0.5, 1.0]


async def test_an_error_that_no_policy_matches_is_not_retried() -> None:
    clock = EagerClock()
    with pytest.raises(ValueError, match="not yet"):
        await graph_of(failing(1, ValueError), clock=clock).ainvoke({"log": []})
    assert clock.slept == []


async def test_a_node_without_policies_takes_those_of_the_defaults() -> None:
    builder = StateGraph(State).set_node_defaults(retry_policy=FAST).add_node("a", failing(1)).add_edge(START, "a")
    graph = builder.compile()
    graph.clock = EagerClock()
    assert await graph.ainvoke({"log": []}) == {"log": ["done"]}


async def test_a_raw_graph_has_policies_for_nodes_without_their_own() -> None:
    calls: list[int] = []

    def once_bad(value: int) -> int:
        calls.append(value)
        if len(calls) == 1:
            raise Flaky
        return value + 1

    graph = Pregel(
        nodes={"n": NodeBuilder().subscribe_only("in").do(once_bad).write_to("out")},
        channels={"in": LastValue(int), "out": LastValue(int)},
        input_channels="in",
        output_channels="out",
        retry_policy=FAST,
    )
    graph.clock = EagerClock()
    assert await graph.ainvoke(1) == 2


async def test_an_attempt_knows_its_number_and_when_the_first_began() -> None:
    clock = FakeClock()
    seen: list[tuple[int, float | None]] = []

    async def node(state: State, runtime: Runtime) -> State:
        info = runtime.execution_info
        assert info is not None
        seen.append((info.node_attempt, info.node_first_attempt_time))
        if len(seen) < 3:
            raise Flaky
        return {"log": []}

    run = asyncio.create_task(graph_of(node, clock=clock).ainvoke({"log": []}))
    first = clock.now().timestamp()
    for seconds in (0.5, 1.0):
        await clock.sleepers()
        await clock.advance(seconds)
    await run
    assert seen == [(1, first), (2, first), (3, first)]


async def test_an_attempt_does_not_see_what_the_one_before_changed_in_place() -> None:
    seen: list[list[str]] = []

    async def node(state: State) -> State:
        seen.append(list(state["log"]))
        state["log"].append("dirt")
        if len(seen) == 1:
            raise Flaky
        return {"log": []}

    await graph_of(node).ainvoke({"log": ["x"]})
    assert seen == [["x"], ["x"]]


async def test_a_question_is_no_failure() -> None:
    asked: list[int] = []

    async def node(state: State) -> State:
        asked.append(1)
        return {"log": [interrupt("?")]}

    graph = graph_of(node, RetryPolicy(retry_on=Exception), saver=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    assert len(asked) == 1


async def test_an_answer_given_is_used_by_the_next_attempt_too() -> None:
    answers: list[str] = []

    async def node(state: State) -> State:
        answers.append(interrupt("?"))
        if len(answers) == 1:
            raise Flaky
        return {"log": [interrupt("and?")]}

    graph = graph_of(node, saver=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    paused = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert [q.value for q in paused["__interrupt__"]] == ["and?"]
    assert await graph.ainvoke(Command(resume="fine"), CONFIG) == {"log": ["fine"]}
    assert answers == ["yes", "yes", "yes"]


async def test_siblings_run_while_a_node_waits_for_its_next_attempt() -> None:
    clock = FakeClock()
    done = asyncio.Event()

    async def sibling(state: State) -> State:
        done.set()
        return {"log": ["sibling"]}

    builder = StateGraph(State).add_node("a", failing(1), retry_policy=FAST).add_node("b", sibling)
    graph = builder.add_edge(START, "a").add_edge(START, "b").compile()
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}, {"max_concurrency": 1}))
    await clock.sleepers()
    await done.wait()
    await clock.advance(0.5)
    assert await run == {"log": ["done", "sibling"]}


async def test_a_node_that_waits_is_not_tried_again_when_a_sibling_fails() -> None:
    clock = FakeClock()
    fail = asyncio.Event()
    tries: list[int] = []

    async def flaky(state: State) -> State:
        tries.append(1)
        raise Flaky

    async def sibling(state: State) -> State:
        await fail.wait()
        raise ValueError("the end")

    builder = StateGraph(State).add_node("a", flaky, retry_policy=FAST).add_node("b", sibling)
    graph = builder.add_edge(START, "a").add_edge(START, "b").compile()
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    await clock.sleepers()
    fail.set()
    with pytest.raises(ValueError, match="the end"):
        await run
    assert len(tries) == 1


async def test_cancelling_a_run_ends_the_wait() -> None:
    clock = FakeClock()
    run = asyncio.create_task(graph_of(failing(9), clock=clock).ainvoke({"log": []}))
    await clock.sleepers()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_an_attempt_that_was_cancelled_is_not_repeated() -> None:
    tries: list[int] = []
    started = asyncio.Event()

    async def node(state: State) -> State:
        tries.append(1)
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise Flaky("in the clean-up")

    run = asyncio.create_task(graph_of(node).ainvoke({"log": []}))
    await started.wait()
    run.cancel()
    with pytest.raises((asyncio.CancelledError, Flaky)):
        await run
    assert len(tries) == 1


async def test_a_graph_inside_goes_on_where_the_failed_attempt_left_it() -> None:
    ran: list[str] = []

    async def first(state: State) -> State:
        ran.append("first")
        return {"log": ["first"]}

    async def second(state: State) -> State:
        ran.append("second")
        if ran.count("second") == 1:
            raise Flaky
        return {"log": ["second"]}

    builder = StateGraph(State).add_node("first", first).add_node("second", second)
    inner = builder.add_edge(START, "first").add_edge("first", "second").compile()
    graph = graph_of(inner, saver=InMemorySaver())
    assert await graph.ainvoke({"log": []}, CONFIG) == {"log": ["first", "second"]}
    assert ran == ["first", "second", "second"]


async def test_a_retried_node_shows_one_result() -> None:
    events = [e async for e in graph_of(failing(2)).astream({"log": []}, stream_mode="tasks")]
    assert [("result" in e, e.get("error")) for e in events] == [(False, None), (True, None)]


async def test_a_retried_node_stores_no_error() -> None:
    graph = graph_of(failing(2), saver=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    history = [s async for s in graph.aget_state_history(CONFIG)]
    assert all(t.error is None for s in history for t in s.tasks)


async def test_what_a_predicate_raises_fails_the_node() -> None:
    def broken(error: Exception) -> bool:
        raise LookupError("predicate")

    with pytest.raises(LookupError, match="predicate"):
        await graph_of(failing(1), RetryPolicy(retry_on=broken)).ainvoke({"log": []})


# -- functional tasks ---------------------------------------------------------------------------------------


async def test_a_called_task_is_tried_again_by_itself() -> None:
    calls: list[str] = []

    @task(retry_policy=FAST)
    async def flaky() -> str:
        calls.append("task")
        if len(calls) < 3:
            raise Flaky
        return "ok"

    @entrypoint()
    async def flow(value: int) -> str:
        calls.insert(0, "flow")
        return await flaky()

    flow.clock = EagerClock()
    assert await flow.ainvoke(1) == "ok"
    assert calls == ["flow", "task", "task"]


async def test_a_retried_entrypoint_does_not_repeat_the_tasks_that_succeeded() -> None:
    calls: list[str] = []

    @task
    async def once() -> str:
        calls.append("task")
        return "ok"

    @entrypoint(retry_policy=FAST)
    async def flow(value: int) -> str:
        found = await once()
        calls.append("flow")
        if calls.count("flow") == 1:
            raise Flaky
        return found

    flow.clock = EagerClock()
    assert await flow.ainvoke(1) == "ok"
    assert calls == ["task", "flow", "flow"]


# -- bad policies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [3, "often", [3], RetryPolicy(max_attempts=0), RetryPolicy(initial_interval=-1), RetryPolicy(retry_on=3)],  # type: ignore[arg-type]
)
def test_a_bad_policy_is_refused_by_the_name_of_its_node(policy: Any) -> None:
    with pytest.raises(GraphBuildError, match="node 'fetch'"):
        StateGraph(State).add_node("fetch", failing(0), retry_policy=policy)


def test_a_bad_policy_of_a_task_is_refused() -> None:
    bad: Any = 3
    with pytest.raises(GraphBuildError, match="retry_policy of task 'fetch'"):
        task(name="fetch", retry_policy=bad)


def test_a_bad_default_policy_is_refused() -> None:
    bad: Any = 3
    with pytest.raises(GraphBuildError, match="node defaults"):
        StateGraph(State).set_node_defaults(retry_policy=bad)
