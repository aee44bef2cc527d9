"""A wide fan-out with failures, retries, a handler, a limit and a timeout comes to the same every time."""

import asyncio
import random
from collections import Counter
from operator import add
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async.aio.clock import FakeClock
from langgraph_async.errors import NodeError
from langgraph_async.graph import START, StateGraph
from langgraph_async.types import Limiter, RetryPolicy

WIDTH, FAILING, ATTEMPTS, TIMEOUT_S = 200, 20, 3, 5.0


class State(TypedDict):
    log: Annotated[list[str], add]


class Flaky(Exception):
    """A passing fault that does not pass."""


async def run_once(seed: int) -> tuple[list[str], Counter[str], int]:
    """Run the graph; the seed sets how long each attempt takes, and in which order they so end."""
    noise, clock, calls = random.Random(seed), FakeClock(), Counter[str]()
    limit = Limiter(concurrency=25, clock=clock)
    running = most = 0

    def named(number: int) -> Any:
        async def node(state: State) -> State:
            nonlocal running, most
            calls[f"node {number}"] += 1
            running += 1
            most = max(most, running)
            try:
                if number % 20 == 1:  # hangs, until its time is up
                    await asyncio.Event().wait()
                await clock.sleep(noise.choice((0.0, 0.25, 0.5, 1.0)))
                if number % 20 == 11:
                    raise Flaky(number)
            finally:
                running -= 1
            return {"log": [f"node {number}"]}

        return node

    async def handler(state: State, error: NodeError) -> State:
        calls[f"handler {error.node}"] += 1
        await clock.sleep(noise.choice((0.0, 0.5)))
        return {"log": [f"{error.node}: {type(error.error).__name__}"]}

    builder = StateGraph(State)
    policy = RetryPolicy(max_attempts=ATTEMPTS, jitter=False, initial_interval=0.5)
    for number in range(WIDTH):
        builder.add_node(
            f"n{number:03}", named(number), retry_policy=policy, error_handler=handler, timeout=TIMEOUT_S, limit=limit
        )
        builder.add_edge(START, f"n{number:03}")
    graph = builder.compile()
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    while not run.done():
        await clock.advance(1)
    assert running == 0
    return (await run)["log"], calls, most


def check(outcome: tuple[list[str], Counter[str], int]) -> None:
    log, calls, most = outcome
    hanging, failing = range(1, WIDTH, 20), range(11, WIDTH, 20)
    assert len(hanging) + len(failing) == FAILING
    names = {n: f"n{n:03}: NodeTimeoutError" for n in hanging} | {n: f"n{n:03}: Flaky" for n in failing}
    assert log == [names.get(n, f"node {n}") for n in range(WIDTH)]
    expected = {f"node {n}": ATTEMPTS if n in names else 1 for n in range(WIDTH)}
    assert calls == Counter(expected | {f"handler n{n:03}": 1 for n in names})
    assert most == 25


async def test_it_comes_to_the_same_result_and_the_same_calls_in_a_few_runs() -> None:
    for seed in range(2):
        check(await run_once(seed))


@pytest.mark.slow
async def test_it_comes_to_the_same_result_and_the_same_calls_in_a_hundred_runs() -> None:
    for seed in range(100):
        check(await run_once(seed))
