"""What a run costs, counted: tasks, calls, objects. No clocks."""

import asyncio
import contextlib
import contextvars
import gc
import operator
import sys
import threading
import weakref
from typing import Annotated

import pytest
from drawings import State, chain, logs
from threads import on
from typing_extensions import TypedDict

from langgraph_async import END, START, Send, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.pregel import loop as loop_module
from langgraph_async.pregel import runner as runner_module


class Tasks:
    """Counts the asyncio tasks made while it is entered."""

    def __enter__(self):
        self.made = 0
        self._loop = asyncio.get_running_loop()
        self._before = self._loop.get_task_factory()

        def factory(loop, coro, **options):
            self.made += 1
            return asyncio.Task(coro, loop=loop, **options)

        self._loop.set_task_factory(factory)
        return self

    def __exit__(self, *_):
        self._loop.set_task_factory(self._before)


async def suspends(state):
    await asyncio.sleep(0)
    return {"log": [1]}


async def never_suspends(state):
    return {"log": [1]}


def fan_out(node, width):
    builder = StateGraph(State)
    builder.add_node("n", node)
    builder.add_conditional_edges(START, lambda state: [Send("n", i) for i in range(width)])
    return builder.compile()


@pytest.mark.parametrize("node", [suspends, never_suspends])
@pytest.mark.parametrize("saved", [False, True])
async def test_a_chain_makes_no_task(node, saved):
    graph = chain(saver=InMemorySaver() if saved else None, **{f"n{i}": node for i in range(10)})
    with Tasks() as tasks:
        await graph.ainvoke({"log": []}, on())

    assert tasks.made == 0


@pytest.mark.parametrize("width", [2, 10, 300])
async def test_tasks_that_never_suspend_share_one_worker(width):
    with Tasks() as tasks:
        await fan_out(never_suspends, width).ainvoke({})

    assert tasks.made == 1


@pytest.mark.parametrize("width", [2, 10, 300])
async def test_tasks_that_suspend_have_a_worker_each(width):
    with Tasks() as tasks:
        await fan_out(suspends, width).ainvoke({})

    assert 2 <= tasks.made <= width + 1


async def test_ten_thousand_sends_keep_their_order():
    async def node(arg):
        if arg % 100 == 0:
            await asyncio.sleep(0)
        return {"log": [arg]}

    assert (await fan_out(node, 10_000).ainvoke({}))["log"] == list(range(10_000))


async def test_ten_thousand_sends_that_end_in_reverse_keep_their_order():
    gates = [asyncio.Event() for _ in range(10_001)]
    gates[10_000].set()

    async def node(arg):
        await gates[arg + 1].wait()
        gates[arg].set()
        return {"log": [arg]}

    assert (await fan_out(node, 10_000).ainvoke({}))["log"] == list(range(10_000))


def calls_in(run):
    """Count the Python and C calls that `run` makes in this thread."""
    count = 0

    def tracer(frame, event, arg):
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    sys.setprofile(tracer)
    try:
        coro = run()
        try:
            while True:
                coro.send(None)
        except StopIteration:
            pass
    finally:
        sys.setprofile(None)
    return count


def ring(idle_nodes, keys, steps):
    fields = {"log": Annotated[list, operator.add], **{f"k{i}": int for i in range(keys)}}
    schema = TypedDict("Schema", fields, total=False)

    class Reads(TypedDict):
        log: Annotated[list, operator.add]

    async def step(state: Reads):
        return {"log": [1]}

    builder = StateGraph(schema)
    builder.add_node("step", step)
    for number in range(idle_nodes):
        builder.add_node(f"idle{number}", logs("idle"))
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: END if len(state["log"]) >= steps else "step")
    return builder.compile()


async def test_a_step_costs_the_same_number_of_calls_however_large_the_graph():
    def per_step(graphs):
        few, many = graphs
        return calls_in(lambda: many.ainvoke({"log": []})) - calls_in(lambda: few.ainvoke({"log": []}))

    def warm(*sizes):
        return ring(*sizes, 5), ring(*sizes, 45)

    small, large = warm(1, 1), warm(500, 300)
    for graph in (*small, *large):
        await graph.ainvoke({"log": []})

    assert per_step(large) <= per_step(small) * 1.05 + 20


def note_instances(monkeypatch):
    alive: weakref.WeakSet = weakref.WeakSet()
    for kind in (loop_module.PregelLoop, runner_module.PregelRunner):

        def noted(self, *args, _before=kind.__init__, **kwargs):
            alive.add(self)
            _before(self, *args, **kwargs)

        monkeypatch.setattr(kind, "__init__", noted)
    return alive


async def fails(state):
    raise ConnectionError


async def waits(state):
    await asyncio.Event().wait()


async def run_once(graph, how):
    if how == "stream":
        async for _ in graph.astream({"log": []}, on(), stream_mode=["updates", "values", "custom", "tasks"]):
            pass
    elif how == "cancel":
        run = asyncio.create_task(graph.ainvoke({"log": []}, on()))
        for _ in range(10):
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait([run])
    else:
        with contextlib.suppress(ConnectionError):
            await graph.ainvoke({"log": []}, on(), interrupt_before=["b"] if how == "pause" else None)


@pytest.mark.parametrize("how", ["invoke", "stream", "fail", "pause", "cancel", "parallel"])
@pytest.mark.parametrize("saved", [False, True])
async def test_the_objects_of_a_run_go_without_the_garbage_collector(how, saved, monkeypatch):
    alive = note_instances(monkeypatch)
    node = {"fail": fails, "cancel": waits}.get(how, suspends)
    saver = InMemorySaver() if saved else None
    graph = chain(saver=saver, a=suspends, b=node) if how != "parallel" else fan_out(suspends, 5)
    gc.collect()
    gc.disable()
    try:
        await run_once(graph, how)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

        assert list(alive) == []
    finally:
        gc.enable()


# -- contexts ------------------------------------------------------------------------------------------------------

VAR = contextvars.ContextVar("VAR", default="unset")


@pytest.mark.parametrize("shape", ["alone", "parallel", "sends", "limited", "streamed", "saved"])
async def test_what_a_node_sets_reaches_neither_the_caller_nor_any_other_node(shape):
    seen: list[str] = []

    async def sets(state):
        seen.append(VAR.get())
        VAR.set("node")
        await asyncio.sleep(0)
        seen.append("own " + VAR.get())
        return {"log": [1]}

    def sync_sets(state):
        seen.append(VAR.get())
        VAR.set("thread")

    async def gen_sets(state):
        seen.append(VAR.get())
        VAR.set("gen")
        yield {"log": [1]}
        seen.append("own " + VAR.get())

    token = VAR.set("caller")
    try:
        if shape == "parallel":
            builder = StateGraph(State)
            for name, node in {"a": sets, "b": sync_sets, "c": gen_sets, "d": sets}.items():
                builder.add_node(name, node)
                builder.add_edge(START, name)
            await builder.compile().ainvoke({})
        elif shape == "sends":
            await fan_out(sets, 5).ainvoke({})
        else:
            graph = chain(saver=InMemorySaver() if shape == "saved" else None, a=sets, b=sync_sets, c=gen_sets, d=sets)
            if shape == "streamed":
                async for _ in graph.astream({}, on()):
                    assert VAR.get() == "caller"
            else:
                await graph.ainvoke({}, on(max_concurrency=1 if shape == "limited" else None))

        assert VAR.get() == "caller"
        assert {s for s in seen if not s.startswith("own")} == {"caller"}
        assert {s for s in seen if s.startswith("own")} <= {"own node", "own gen"}
    finally:
        VAR.reset(token)


async def test_a_sync_node_runs_in_another_thread_and_a_router_in_the_loops():
    threads: dict[str, int] = {}

    def node(state):
        threads["node"] = threading.get_ident()

    def router(state):
        threads["router"] = threading.get_ident()
        return END

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", router)
    await builder.compile().ainvoke({"log": []})

    assert threads["router"] == threading.get_ident() != threads["node"]


async def test_a_chain_that_never_suspends_lets_the_event_loop_turn():
    turns = 0

    async def ticks():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(ticks())
    await ring(1, 1, 3_000).ainvoke({"log": []})
    ticking.cancel()

    assert turns > 3
