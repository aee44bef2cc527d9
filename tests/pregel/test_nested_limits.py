"""Limits that are nested in one another, in any order."""

import asyncio
import random
from collections import Counter
from operator import add
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async.aio.clock import FakeClock
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import START, StateGraph
from langgraph_async.types import Limiter


class State(TypedDict):
    log: Annotated[list[str], add]


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def fan(width: int = 1, **nodes: Any) -> Any:
    builder = StateGraph(State)
    for name, (node, limit) in nodes.items():
        for number in range(width):
            builder.add_node(f"{name}{number}", node, limit=limit).add_edge(START, f"{name}{number}")
    return builder.compile()


def logs(name: str, gauge: Counter[str], most: Counter[str]) -> Any:
    async def node(state: State) -> State:
        gauge[name] += 1
        most[name] = max(most[name], gauge[name])
        await turns()
        gauge[name] -= 1
        return {"log": [name]}

    return node


@pytest.mark.parametrize("slots", [None, 1, 2])
@pytest.mark.parametrize("width", [1, 4])
async def test_functions_nested_in_both_orders_do_not_wait_for_each_other_for_ever(
    slots: int | None, width: int
) -> None:
    one, two = Limiter(concurrency=1), Limiter(concurrency=1)
    gauge, most = Counter[str](), Counter[str]()

    @task(limit=one)
    async def in_one() -> None:
        await logs("one", gauge, most)({"log": []})

    @task(limit=two)
    async def in_two() -> None:
        await logs("two", gauge, most)({"log": []})

    async def first(state: State) -> State:
        await turns()
        await in_two()
        return {"log": ["first"]}

    async def second(state: State) -> State:
        await turns()
        await in_one()
        return {"log": ["second"]}

    graph = fan(width, a=(first, one), b=(second, two))
    found = await asyncio.wait_for(graph.ainvoke({"log": []}, {"max_concurrency": slots}), 30)
    assert Counter(found["log"]) == {"first": width, "second": width}
    assert most == {"one": 1, "two": 1}
    assert one.try_acquire() is not None
    assert two.try_acquire() is not None


@pytest.mark.parametrize("slots", [None, 1, 2])
async def test_graphs_nested_in_both_orders_do_not_wait_for_each_other_for_ever(slots: int | None) -> None:
    one, two = Limiter(concurrency=1), Limiter(concurrency=1)
    gauge, most = Counter[str](), Counter[str]()
    in_one, in_two = fan(2, x=(logs("one", gauge, most), one)), fan(2, y=(logs("two", gauge, most), two))
    graph = fan(3, a=(in_two, one), b=(in_one, two))
    found = await asyncio.wait_for(graph.ainvoke({"log": []}, {"max_concurrency": slots}), 30)
    assert Counter(found["log"]) == {"one": 6, "two": 6}
    assert most == {"one": 1, "two": 1}
    assert one.try_acquire() is not None
    assert two.try_acquire() is not None


async def test_a_node_goes_on_only_with_its_place() -> None:
    one, two = Limiter(concurrency=1), Limiter(concurrency=1)
    running, most = 0, 0
    held = await two.acquire()

    @task(limit=two)
    async def inner() -> None:
        await turns()

    async def body() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await turns(5)
        running -= 1

    @entrypoint(limit=one)
    async def flow(number: int) -> int:
        await body()
        await inner()
        await body()
        return number

    runs = asyncio.gather(*(flow.ainvoke(number) for number in range(4)))
    await turns(200)
    held.release()
    assert await asyncio.wait_for(runs, 30) == [0, 1, 2, 3]
    assert most == 1


async def test_a_cancelled_wait_leaves_all_places_free() -> None:
    one, two = Limiter(concurrency=1), Limiter(concurrency=1)
    held = await two.acquire()

    @task(limit=two)
    async def inner() -> None:
        raise AssertionError

    @entrypoint(limit=one)
    async def flow(number: int) -> None:
        await inner()

    run = asyncio.create_task(flow.ainvoke(1))
    await turns(20)
    lent = one.try_acquire()
    assert lent is not None, "the place is lent while the call waits"
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    lent.release()
    held.release()
    assert one.try_acquire() is not None
    assert two.try_acquire() is not None


async def test_what_takes_turns_inside_a_place_keeps_it() -> None:
    one, two = Limiter(concurrency=1), Limiter(concurrency=1)
    held, go = await two.acquire(), asyncio.Event()

    @task(limit=two)
    async def waits() -> None:
        return None

    @task(limit=one)
    async def works() -> None:
        await go.wait()

    @entrypoint(limit=one)
    async def flow(number: int) -> None:
        await asyncio.gather(works(), waits())

    run = asyncio.create_task(flow.ainvoke(1))
    await turns(20)
    assert one.try_acquire() is None, "a sibling of what waits runs in the place"
    go.set()
    await turns(20)
    lent = one.try_acquire()
    assert lent is not None
    lent.release()
    held.release()
    await asyncio.wait_for(run, 30)
    assert one.try_acquire() is not None


@pytest.mark.parametrize("seed", range(20))
async def test_any_nesting_of_any_limits_comes_to_an_end(seed: int) -> None:
    noise, clock = random.Random(seed), FakeClock()
    limits = [
        Limiter(concurrency=1),
        Limiter(concurrency=1),
        Limiter(concurrency=2, rate=2, clock=clock),
        Limiter(concurrency=2),
    ]
    running, most, ended = Counter[int](), Counter[int](), Counter[str]()

    def made(depth: int) -> Any:
        place = noise.randrange(len(limits))
        children = [made(depth - 1) for _ in range(noise.randrange(1, 4))] if depth else []
        together, steps = noise.random() < 0.5, noise.randrange(4)

        @task(limit=limits[place])
        async def call() -> None:
            if not children:
                running[place] += 1
                most[place] = max(most[place], running[place])
                await turns(steps)
                running[place] -= 1
            elif together:
                await asyncio.gather(*(child() for child in children))
            else:
                for child in children:
                    await child()
            ended["calls"] += 1

        return call

    calls = [made(3) for _ in range(4)]

    @entrypoint()
    async def flow(number: int) -> None:
        await asyncio.gather(*(call() for call in calls))

    flow.clock = clock
    run = asyncio.create_task(flow.ainvoke(1, {"max_concurrency": noise.choice((None, 1, 3))}))
    for _ in range(400):
        if run.done():
            break
        await clock.advance(0.5)
    assert run.done()
    await run
    assert all(most[place] <= limit.concurrency for place, limit in enumerate(limits) if limit.concurrency)
    for limit in limits:
        taken = [limit.try_acquire() for _ in range(limit.concurrency or 0)]
        assert limit.rate is not None or None not in taken
