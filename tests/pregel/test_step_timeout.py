"""A bound on how long one superstep may take."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from operator import add
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async.aio.clock import FakeClock
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import GraphBuildError, NodeError, StepTimeoutError
from langgraph_async.graph import START, StateGraph
from langgraph_async.pregel.deadline import GRACE_S
from langgraph_async.types import RetryPolicy

CONFIG: Any = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    log: Annotated[list[str], add]


class Nodes:
    """A quick node, and a slow one that hangs as often as it is told to."""

    def __init__(self, hangs: int = 1) -> None:
        self.hangs = hangs
        self.ran: list[str] = []
        self.cleaned = 0

    async def quick(self, state: State) -> State:
        self.ran.append("quick")
        return {"log": ["quick"]}

    async def slow(self, state: State) -> State:
        self.ran.append("slow")
        if self.hangs:
            self.hangs -= 1
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                self.cleaned += 1
        return {"log": ["slow"]}


def graph_of(clock: FakeClock, *nodes: Any, saver: Any = None, step_timeout: Any = 2, **options: Any) -> Any:
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node, **options).add_edge(START, node.__name__)
    graph = builder.compile(checkpointer=saver, step_timeout=step_timeout)
    graph.clock = clock
    return graph


async def begun(clock: FakeClock) -> None:
    """Return when the nodes of the first step wait; the input has a step of its own, which ends at once."""
    await clock.advance(0)
    await clock.sleepers()


async def expired(run: Any, clock: FakeClock, seconds: float = 2) -> StepTimeoutError:
    task = asyncio.ensure_future(run)
    await begun(clock)
    await clock.advance(seconds - 0.1)
    assert not task.done()
    await clock.advance(0.1)
    with pytest.raises(TimeoutError) as caught:
        await task
    assert isinstance(caught.value, StepTimeoutError)
    return caught.value


@pytest.mark.parametrize("alone", [True, False])
async def test_a_step_that_takes_too_long_is_cancelled_and_fails_the_run(alone: bool) -> None:
    clock, nodes = FakeClock(), Nodes()
    graph = graph_of(clock, nodes.slow) if alone else graph_of(clock, nodes.quick, nodes.slow)
    error = await expired(graph.ainvoke({"log": []}), clock)
    assert (error.step, error.nodes, error.timeout, nodes.cleaned) == (1, ("slow",), 2.0, 1)
    assert "Step 1 of graph 'LangGraph' exceeded its step_timeout of 2s" in str(error)
    assert "'slow'" in str(error)


async def test_going_on_runs_only_what_had_not_ended() -> None:
    clock, nodes = FakeClock(), Nodes()
    graph = graph_of(clock, nodes.quick, nodes.slow, saver=InMemorySaver())
    await expired(graph.ainvoke({"log": []}, CONFIG), clock)
    assert (await graph.aget_state(CONFIG)).next == ("slow",)
    assert await graph.ainvoke(None, CONFIG) == {"log": ["quick", "slow"]}
    assert nodes.ran == ["quick", "slow", "slow"]


async def test_each_step_has_its_own_time_and_leaves_no_timer_behind() -> None:
    clock = FakeClock()

    async def waits(state: State) -> State:
        await clock.sleep(1.5)
        return {"log": ["x"]}

    builder = StateGraph(State).add_sequence([("a", waits), ("b", waits)]).add_edge(START, "a")
    graph = builder.compile(step_timeout=timedelta(seconds=2))
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    for _ in range(2):
        await begun(clock)
        await clock.advance(1.5)
    assert await run == {"log": ["x", "x"]}
    late = asyncio.create_task(clock.sleepers())
    await asyncio.sleep(0)
    assert not late.done()
    late.cancel()


async def test_what_was_streamed_before_stays_streamed() -> None:
    clock, nodes, seen = FakeClock(), Nodes(), list[Any]()
    graph = graph_of(clock, nodes.quick, nodes.slow)

    async def read() -> None:
        async for item in graph.astream({"log": []}):
            seen.append(item)

    await expired(read(), clock)
    assert seen == [{"quick": {"log": ["quick"]}}]


async def test_neither_retries_nor_handlers_outlive_the_step() -> None:
    clock, nodes, handled = FakeClock(), Nodes(), list[str]()

    async def handler(state: State, error: NodeError) -> State:
        handled.append(error.node)
        return {"log": []}

    graph = graph_of(
        clock, nodes.slow, error_handler=handler, retry_policy=RetryPolicy(retry_on=Exception, jitter=False)
    )
    await expired(graph.ainvoke({"log": []}), clock)
    assert (nodes.ran, handled) == (["slow"], [])


async def test_the_time_runs_on_while_a_node_waits_for_its_next_attempt() -> None:
    clock = FakeClock()

    async def failing(state: State) -> State:
        raise ConnectionError

    policy = RetryPolicy(initial_interval=50, jitter=False)
    error = await expired(graph_of(clock, failing, retry_policy=policy).ainvoke({"log": []}), clock)
    assert error.nodes == ("failing",)


async def test_a_step_of_a_graph_inside_may_be_handled_around_it() -> None:
    clock, nodes = FakeClock(), Nodes()

    async def handler(state: State, error: NodeError) -> State:
        return {"log": [type(error.error).__name__]}

    builder = StateGraph(State).add_node("inside", graph_of(clock, nodes.slow), error_handler=handler)
    graph = builder.add_edge(START, "inside").compile()
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    await begun(clock)
    await clock.advance(2)
    assert await run == {"log": ["StepTimeoutError"]}


async def test_tasks_that_wait_for_a_slot_end_too() -> None:
    clock, nodes = FakeClock(), Nodes(hangs=2)

    async def waiting(state: State) -> State:
        raise AssertionError

    error = await expired(graph_of(clock, nodes.slow, waiting).ainvoke({"log": []}, {"max_concurrency": 1}), clock)
    assert set(error.nodes) == {"slow", "waiting"}


async def test_cancelling_the_run_is_no_timeout() -> None:
    clock, nodes = FakeClock(), Nodes()
    run = asyncio.create_task(graph_of(clock, nodes.slow).ainvoke({"log": []}))
    await begun(clock)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert nodes.cleaned == 1


@pytest.mark.parametrize("value", [0, -1, True, "2", float("nan")])
def test_a_limit_that_is_no_positive_time_is_refused(value: Any) -> None:
    with pytest.raises(GraphBuildError, match="The step_timeout of graph 'LangGraph' must be a number of seconds"):
        graph_of(FakeClock(), Nodes().quick, step_timeout=value)


async def test_the_limit_may_be_set_on_the_compiled_graph() -> None:
    clock, nodes = FakeClock(), Nodes()
    graph = graph_of(clock, nodes.slow, step_timeout=None)
    graph.step_timeout = timedelta(seconds=3)
    assert graph.step_timeout == 3.0
    await expired(graph.ainvoke({"log": []}), clock, 3)


async def test_a_node_that_swallows_the_end_of_its_step_has_a_bounded_time_to_end() -> None:
    clock = FakeClock()
    started, release = asyncio.Event(), asyncio.Event()
    late: list[str] = []

    async def stubborn(state: State) -> State:
        started.set()
        for _ in range(2):
            with suppress(asyncio.CancelledError):
                await release.wait()
                break
        late.append("ended")
        return {"log": ["late"]}

    async def quick(state: State) -> State:
        return {"log": ["quick"]}

    builder = StateGraph(State).add_node(stubborn).add_node(quick)
    graph = builder.add_edge(START, "stubborn").add_edge(START, "quick").compile(checkpointer=InMemorySaver())
    graph.step_timeout, graph.clock = 1.0, clock
    config: Any = {"configurable": {"thread_id": "1"}}

    run = asyncio.ensure_future(graph.ainvoke({"log": []}, config))
    await started.wait()
    await clock.sleepers()
    await clock.advance(1.0)
    assert not run.done()
    await clock.advance(GRACE_S)
    with pytest.raises(StepTimeoutError, match="stubborn") as caught:
        await run
    assert "swallowed its cancellation" in str(caught.value.__notes__)

    before = (await graph.aget_state(config)).tasks
    release.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert late == ["ended"]
    assert (await graph.aget_state(config)).tasks == before
    assert [task.name for task in before if task.result is None] == ["stubborn"]


async def test_a_lone_node_that_never_suspends_needs_no_task_for_a_step_timeout() -> None:
    made: list[str] = []

    async def node(state: State) -> State:
        return {"log": [1]}

    builder = StateGraph(State)
    names = [f"node_{n}" for n in range(20)]
    for before, name in zip([START, *names], names, strict=False):
        builder.add_node(name, node).add_edge(before, name)
    graph = builder.compile()
    graph.step_timeout = 60.0
    loop = asyncio.get_running_loop()

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(options.get("name") or "")
        return asyncio.Task(coro, loop=loop, **options)

    loop.set_task_factory(factory)
    try:
        await graph.ainvoke({"log": []})
    finally:
        loop.set_task_factory(None)

    assert len(made) <= 3  # the first step has nothing to begin in; after it there is a task that stands by
