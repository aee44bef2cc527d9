"""Nodes and functional tasks that share a limit."""

import asyncio
from operator import add
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async.aio.clock import FakeClock
from langgraph_async.errors import GraphBuildError
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import START, StateGraph
from langgraph_async.pregel import NodeBuilder
from langgraph_async.types import Limiter, RetryPolicy, TimeoutPolicy


class State(TypedDict):
    log: Annotated[list[str], add]


class Flaky(Exception):
    """A passing fault."""


class Gauge:
    """A node that measures how many of it run at once."""

    def __init__(self) -> None:
        self.now = self.most = self.runs = 0

    async def __call__(self, state: State) -> State:
        self.now += 1
        self.runs += 1
        self.most = max(self.most, self.now)
        for _ in range(3):
            await asyncio.sleep(0)
        self.now -= 1
        return {"log": ["done"]}


def fan(node: Any, width: int, **options: Any) -> Any:
    builder = StateGraph(State)
    for number in range(width):
        builder.add_node(f"n{number:03}", node, **options).add_edge(START, f"n{number:03}")
    return builder.compile()


@pytest.mark.parametrize("slots", [None, 1, 2, 5])
async def test_no_more_run_at_once_than_the_limit_allows(slots: int | None) -> None:
    gauge = Gauge()
    found = await fan(gauge, 10, limit=Limiter(concurrency=3)).ainvoke({"log": []}, {"max_concurrency": slots})
    assert len(found["log"]) == 10
    assert gauge.most == min(3, slots or 3)


async def test_graphs_and_runs_share_the_limit_by_its_object() -> None:
    gauge, limit = Gauge(), Limiter(concurrency=2)
    one, two = fan(gauge, 4, limit=limit), fan(gauge, 4, limit=limit)
    await asyncio.gather(*(graph.ainvoke({"log": []}) for graph in (one, two, one)))
    assert (gauge.most, gauge.runs) == (2, 12)


async def test_nodes_start_as_often_as_the_rate_allows_and_in_order() -> None:
    clock, started = FakeClock(), list[float]()

    async def node(state: State) -> State:
        started.append(clock.monotonic())
        return {"log": []}

    run = asyncio.create_task(fan(node, 5, limit=Limiter(rate=2, burst=2, clock=clock)).ainvoke({"log": []}))
    await clock.sleepers()
    await clock.advance(10)
    await run
    assert started == [0, 0, 0.5, 1.0, 1.5]


async def test_each_attempt_takes_a_permit_and_none_while_it_waits_for_the_next() -> None:
    clock, limit, attempts = FakeClock(), Limiter(concurrency=1), list[int]()

    async def node(state: State) -> State:
        assert limit.try_acquire() is None
        attempts.append(1)
        if len(attempts) < 3:
            raise Flaky
        return {"log": ["done"]}

    graph = fan(node, 1, limit=limit, retry_policy=RetryPolicy(jitter=False, initial_interval=1, backoff_factor=1))
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    for _ in range(2):
        await clock.sleepers()
        permit = limit.try_acquire()
        assert permit is not None
        permit.release()
        await clock.advance(1)
    assert await run == {"log": ["done"]}
    assert limit.try_acquire() is not None


@pytest.mark.parametrize("policy", [TimeoutPolicy(run_timeout=1), TimeoutPolicy(idle_timeout=1)])
async def test_the_wait_counts_against_no_timeout(policy: TimeoutPolicy) -> None:
    clock = FakeClock()
    graph = fan(Gauge(), 2, limit=Limiter(rate=1, per=100, clock=clock), timeout=policy)
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    await clock.sleepers()
    await clock.advance(100)
    assert await run == {"log": ["done", "done"]}


async def test_a_node_that_waits_for_a_permit_leaves_its_slot_to_others() -> None:
    limit, ran = Limiter(concurrency=1), asyncio.Event()

    async def other(state: State) -> State:
        ran.set()
        return {"log": ["other"]}

    builder = StateGraph(State).add_node("a", Gauge(), limit=limit).add_node("b", other)
    graph = builder.add_edge(START, "a").add_edge(START, "b").compile()
    held = await limit.acquire()
    run = asyncio.create_task(graph.ainvoke({"log": []}, {"max_concurrency": 1}))
    await ran.wait()
    held.release()
    assert await run == {"log": ["done", "other"]}


async def test_cancelling_a_run_ends_the_wait_and_takes_no_permit() -> None:
    limit = Limiter(concurrency=1)
    held = await limit.acquire()
    run = asyncio.create_task(fan(Gauge(), 3, limit=limit).ainvoke({"log": []}))
    for _ in range(10):
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.wait([run])
    held.release()
    assert run.cancelled()
    assert limit.try_acquire() is not None


async def test_a_failing_sibling_ends_the_wait() -> None:
    limit = Limiter(concurrency=1)
    held = await limit.acquire()

    async def failing(state: State) -> State:
        await asyncio.sleep(0)
        raise Flaky

    builder = StateGraph(State).add_node("a", Gauge(), limit=limit).add_node("b", failing)
    with pytest.raises(Flaky):
        await builder.add_edge(START, "a").add_edge(START, "b").compile().ainvoke({"log": []})
    held.release()
    assert limit.try_acquire() is not None


@pytest.mark.parametrize("slots", [None, 1, 2])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("places", [1, 2])
async def test_graphs_inside_one_another_share_a_limit_without_waiting_for_ever(
    slots: int | None, depth: int, places: int
) -> None:
    gauge, limit = Gauge(), Limiter(concurrency=places)
    graph: Any = gauge
    for _ in range(depth + 1):
        graph = fan(graph, 3, limit=limit)
    await asyncio.wait_for(graph.ainvoke({"log": []}, {"max_concurrency": slots}), 30)
    assert gauge.runs == 3 ** (depth + 1)
    assert gauge.most <= places


@pytest.mark.parametrize("slots", [None, 1])
async def test_tasks_share_the_limit_of_the_entrypoint_that_calls_them(slots: int | None) -> None:
    gauge, limit = Gauge(), Limiter(concurrency=1)

    @task(limit=limit)
    async def step(number: int) -> int:
        await gauge({"log": []})
        return number

    @entrypoint(limit=limit)
    async def workflow(numbers: list[int]) -> list[int]:
        return list(await asyncio.gather(*(step(number) for number in numbers)))

    runs = [workflow.ainvoke([1, 2, 3], {"max_concurrency": slots}) for _ in range(2)]
    assert await asyncio.wait_for(asyncio.gather(*runs), 30) == [[1, 2, 3]] * 2
    assert (gauge.most, gauge.runs) == (1, 6)


async def test_a_node_built_by_hand_has_a_limit() -> None:
    limit = Limiter(concurrency=1)
    assert NodeBuilder().subscribe_only("a").set_limit(limit).build().limit is limit


def test_what_is_no_limiter_is_refused_by_the_name_of_its_node() -> None:
    with pytest.raises(GraphBuildError, match=r"The limit of node 'a' cannot be used: expected a Limiter, got 3"):
        StateGraph(State).add_node("a", Gauge(), limit=3)  # type: ignore[arg-type]
    with pytest.raises(GraphBuildError, match="The limit of a task cannot be used"):
        task(limit=3)  # type: ignore[call-overload]
