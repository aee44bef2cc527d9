"""How many supersteps, and how many tasks at once: departures S10 and S11."""

import asyncio
import operator
import threading
from typing import Annotated

import pytest
from drawings import State, chain, logs, says
from threads import on
from typing_extensions import TypedDict

from langgraph_async import END, START, Command, Send, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import ConfigError, GraphRecursionError

# -- S10: supersteps -----------------------------------------------------------------------------------------


def looping(count: int, saver=None):
    """A node that runs `count` times in a run."""

    async def step(state):
        return {"log": [1]}

    builder = StateGraph(State)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: END if len(state["log"]) % count == 0 else "step")
    return builder.compile(checkpointer=saver, name="Looping")


@pytest.mark.parametrize("limit", [1, 2, 7])
@pytest.mark.parametrize("saved", [False, True])
async def test_exactly_as_many_supersteps_as_the_limit_are_run(limit, saved):
    saver = InMemorySaver() if saved else None

    assert len((await looping(limit, saver).ainvoke({"log": []}, on(recursion_limit=limit)))["log"]) == limit
    with pytest.raises(GraphRecursionError, match=f"{limit}.*'Looping'.*step {limit + 1}.*step") as caught:
        await looping(limit + 1, saver).ainvoke({"log": []}, on("other", recursion_limit=limit))

    assert (caught.value.limit, caught.value.step, caught.value.nodes) == (limit, limit + 1, ("step",))


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_run_that_goes_on_gets_exactly_the_limit_again(limit, durability):
    graph = looping(100, InMemorySaver())
    ran = []
    for value in ({"log": []}, None, None):
        with pytest.raises(GraphRecursionError):
            async for item in graph.astream(
                value, on(recursion_limit=limit), stream_mode="updates", durability=durability
            ):
                ran.append(item)

    assert len(ran) == 3 * limit


async def test_an_answered_run_gets_exactly_the_limit():
    async def ask(state):
        return {"log": [interrupt("?")]}

    graph = chain(saver=InMemorySaver(), a=logs("a"), ask=ask, b=logs("b"), c=logs("c"))
    await graph.ainvoke({"log": []}, on(recursion_limit=2))

    with pytest.raises(GraphRecursionError):
        await graph.ainvoke(Command(resume="yes"), on(recursion_limit=2))
    assert (await graph.ainvoke(None, on(recursion_limit=1)))["log"] == ["a", "yes", "b", "c"]


async def test_a_new_input_and_a_goto_get_exactly_the_limit():
    graph = chain(saver=InMemorySaver(), a=logs("a"), b=logs("b"))

    for value in ({"log": []}, {"log": []}, Command(goto="a")):
        await graph.ainvoke(value, on(recursion_limit=2))
    with pytest.raises(GraphRecursionError):
        await graph.ainvoke({"log": []}, on(recursion_limit=1))


async def test_parallel_tasks_and_sends_count_as_one_superstep():
    builder = StateGraph(State)
    builder.add_node("w", logs("w"))
    builder.add_conditional_edges(START, lambda state: [Send("w", {}) for _ in range(20)])

    assert len((await builder.compile().ainvoke({}, {"recursion_limit": 1}))["log"]) == 20


async def test_each_run_of_a_nested_graph_has_the_limit_to_itself():
    async def twice(state):
        for _ in range(2):
            await looping(3).ainvoke({"log": []})
        return {"log": ["done"]}

    assert await chain(node=twice).ainvoke({}, {"recursion_limit": 3}) == {"log": ["done"]}
    with pytest.raises(GraphRecursionError, match="'Looping'"):
        await chain(node=twice).ainvoke({}, {"recursion_limit": 2})


# -- S11: tasks at once --------------------------------------------------------------------------------------


class Gauge:
    """Counts who is at work at the same time."""

    def __init__(self) -> None:
        self.now = self.most = self.total = 0
        self._lock = threading.Lock()

    def __enter__(self):
        with self._lock:
            self.now += 1
            self.total += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_):
        with self._lock:
            self.now -= 1

    async def work(self, state=None):
        with self:
            for _ in range(3):
                await asyncio.sleep(0)
        return {"log": [1]}

    def sync_work(self, state=None):
        with self:
            threading.Event().wait(0.002)
        return {"log": [1]}


def wide(action, width: int = 6, name: str = "w"):
    builder = StateGraph(State)
    builder.add_node(name, action)
    builder.add_conditional_edges(START, lambda state: [Send(name, {}) for _ in range(width)])
    return builder.compile()


async def limited(graph, limit, value=None):
    async with asyncio.timeout(20):
        return await graph.ainvoke(value or {}, {"max_concurrency": limit})


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("kind", ["work", "sync_work"])
async def test_no_more_tasks_than_the_limit_work_at_once(limit, kind):
    gauge = Gauge()

    await limited(wide(getattr(gauge, kind)), limit)

    assert gauge.most <= limit
    assert gauge.most == limit or kind == "sync_work"
    assert gauge.total == 6


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("kind", ["work", "sync_work"])
@pytest.mark.parametrize("depth", [1, 3])
async def test_nested_graphs_share_the_limit_with_the_graph_around_them(limit, kind, depth):
    gauge = Gauge()
    graph = wide(getattr(gauge, kind), 3)
    for _ in range(depth):
        graph = wide(graph, 3)

    await limited(graph, limit)

    assert gauge.total == 3 ** (depth + 1)
    assert gauge.most <= limit


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_node_that_awaits_several_graphs_at_once_does_not_block_itself(limit):
    gauge = Gauge()
    inner = wide(gauge.work, 3)

    async def gathers(state):
        with gauge:
            pass
        await asyncio.gather(inner.ainvoke({}), inner.ainvoke({}), inner.ainvoke({}))
        await gauge.work()

    await limited(wide(gathers, 3), limit)

    assert gauge.most <= limit
    assert gauge.total == 3 * (1 + 9 + 1)


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_node_keeps_to_the_limit_after_a_graph_inside_it_failed(limit):
    gauge = Gauge()

    async def fails(state):
        raise ConnectionError

    inner = chain(fails=fails)

    async def catches(state):
        with pytest.raises(ConnectionError):
            await inner.ainvoke({})
        await gauge.work()

    await limited(wide(catches), limit)

    assert (gauge.most, gauge.total) == (limit, 6)


async def test_a_node_keeps_to_the_limit_after_it_timed_a_graph_out():
    gauge = Gauge()

    async def hangs(state):
        await asyncio.Event().wait()

    inner = chain(hangs=hangs)

    async def gives_up(state):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await inner.ainvoke({})
        await gauge.work()

    await limited(wide(gives_up, 3), 1)

    assert (gauge.most, gauge.total) == (1, 3)


async def test_a_streamed_nested_graph_shares_the_limit():
    gauge = Gauge()
    inner = wide(gauge.work, 3)

    async def reads(state):
        return {"log": [len([item async for item in inner.astream({}, stream_mode="updates")])]}

    assert (await limited(wide(reads, 3), 1))["log"] == [3, 3, 3]
    assert gauge.most == 1


async def test_a_sync_node_may_call_a_graph_at_limit_one():
    gauge = Gauge()
    inner = wide(gauge.work, 2)

    def calls(state):
        return {"log": [len(inner.invoke({})["log"])]}

    assert (await limited(wide(calls, 2), 1))["log"] == [2, 2]
    assert gauge.most == 1


async def test_order_of_the_results_is_the_order_of_the_sends_at_any_limit():
    async def node(arg):
        for _ in range(10 - arg):
            await asyncio.sleep(0)
        return {"log": [arg]}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_conditional_edges(START, lambda state: [Send("node", i) for i in range(10)])

    for limit in (1, 3, 20):
        assert (await limited(builder.compile(), limit))["log"] == list(range(10))


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_run_cancelled_while_tasks_wait_for_a_slot_ends_at_once_and_leaves_the_slots_free(limit):
    started: list[int] = []
    reached = asyncio.Event()

    async def node(arg):
        started.append(1)
        reached.set()
        await asyncio.Event().wait()

    graph = wide(wide(node, 3), 3)
    run = asyncio.create_task(graph.ainvoke({}, {"max_concurrency": limit}))
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert len(started) <= limit
    assert len(asyncio.all_tasks()) == 1


async def test_a_failure_ends_the_run_although_tasks_wait_for_a_slot():
    async def node(arg):
        await asyncio.sleep(0)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await limited(wide(wide(node, 3), 3), 1)

    assert len(asyncio.all_tasks()) == 1


async def test_a_graph_that_fails_leaves_although_another_one_holds_the_slots():
    """The tasks of the failed graph that wait for a slot must not keep it from ending."""

    async def fails(arg):
        for _ in range(5):
            await asyncio.sleep(0)
        raise ConnectionError

    async def holds(state):
        await asyncio.Event().wait()

    failing, holding = wide(fails, 3), wide(holds, 3)

    async def both(state):
        await asyncio.gather(holding.ainvoke({}), failing.ainvoke({}))

    with pytest.raises(ConnectionError):
        async with asyncio.timeout(5):
            await chain(both=both).ainvoke({}, {"max_concurrency": 2})

    assert len(asyncio.all_tasks()) == 1


async def test_the_limit_holds_for_runs_that_go_on():
    gauge = Gauge()

    async def asks(state):
        interrupt("?")
        return await gauge.work()

    builder = StateGraph(State)
    for name in "abc":
        builder.add_node(name, asks)
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=InMemorySaver())
    paused = await graph.ainvoke({}, on(max_concurrency=1))
    answers = {question.id: "yes" for question in paused["__interrupt__"]}
    await graph.ainvoke(Command(resume=answers), on(max_concurrency=1))

    assert (gauge.most, gauge.total) == (1, 3)


@pytest.mark.parametrize("name", ["max_concurrency", "recursion_limit", "multitask_strategy"])
async def test_an_option_inside_configurable_is_refused(name):
    with pytest.raises(ConfigError, match=f"'{name}'.*top level"):
        await chain(a=says({})).ainvoke({}, {"configurable": {name: 1}})
    with pytest.raises(ConfigError, match=f"'{name}'.*top level"):
        await chain(a=says({})).with_config(configurable={name: 1}).ainvoke({})


async def test_two_roots_do_not_share_a_limit():
    class Pair(TypedDict, total=False):
        log: Annotated[list, operator.add]

    gauge = Gauge()
    graph = wide(gauge.work)
    await asyncio.gather(limited(graph, 1), limited(graph, 1))

    assert gauge.most == 2
