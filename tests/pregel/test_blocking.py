"""The blocking view: scripts without an event loop, sync nodes, and misuse."""

import asyncio
import contextvars
import operator
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import pytest
from typing_extensions import TypedDict

from langgraph_async import START, Command, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def counting_graph(**options):
    async def first(state):
        return {"log": ["first"]}

    def second(state):
        return {"log": [f"second after {state['log'][-1]}"]}

    builder = StateGraph(State).add_sequence([first, second]).add_edge(START, "first")
    return builder.compile(**options)


def test_invoke_runs_the_graph_without_an_event_loop():
    assert counting_graph().invoke({"log": []}) == {"log": ["first", "second after first"]}


def test_stream_yields_what_astream_yields():
    items = list(counting_graph().stream({"log": []}))

    assert items == [{"first": {"log": ["first"]}}, {"second": {"log": ["second after first"]}}]


def test_leaving_a_stream_early_ends_the_run():
    saver = InMemorySaver()
    graph = counting_graph(checkpointer=saver)
    thread = {"configurable": {"thread_id": "1"}}
    for _ in graph.stream({"log": []}, thread):
        break

    assert graph.invoke(None, thread) == {"log": ["first", "second after first"]}


def test_a_pause_is_answered_from_a_script():
    def ask(state):
        return {"log": [interrupt("name?")]}

    graph = StateGraph(State).add_node(ask).add_edge(START, "ask").compile(checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    paused = graph.invoke({"log": []}, thread)
    done = graph.invoke(Command(resume="Ada"), thread)

    assert [q.value for q in paused["__interrupt__"]] == ["name?"]
    assert done == {"log": ["Ada"]}


def test_a_batch_keeps_the_order_of_its_inputs():
    results = counting_graph().batch([{"log": [str(n)]} for n in range(5)])

    assert [r["log"][0] for r in results] == ["0", "1", "2", "3", "4"]


async def test_on_a_running_event_loop_the_async_method_is_named():
    with pytest.raises(RuntimeError, match=r"await graph\.ainvoke"):
        counting_graph().invoke({"log": []})
    with pytest.raises(RuntimeError, match=r"running event loop.*'async for \.\.\. in graph\.astream\(\.\.\.\)'"):
        next(iter(counting_graph().stream({"log": []})))


async def test_a_sync_node_may_invoke_another_graph_which_is_then_nested():
    inner = counting_graph()

    def outer_node(state):
        return {"log": inner.invoke({"log": ["in"]})["log"]}

    outer = StateGraph(State).add_node("outer", outer_node).add_edge(START, "outer").compile()
    namespaces = [ns async for ns, _ in outer.astream({"log": []}, subgraphs=True)]

    assert len(namespaces) == 3
    assert [ns[0].split(":")[0] if ns else "" for ns in namespaces] == ["outer", "outer", ""]


def test_an_error_of_a_node_reaches_the_script_unchanged():
    error = ValueError("broken")

    async def broken(state):
        raise error

    graph = StateGraph(State).add_node(broken).add_edge(START, "broken").compile()

    with pytest.raises(ValueError, match="broken") as caught:
        graph.invoke({"log": []})
    assert caught.value is error


def in_a_pool_with_the_context(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, call).result()


async def test_a_thread_that_a_node_gave_its_context_may_call_a_graph_and_its_pauses_come_through():
    def ask(state):
        return {"log": [interrupt("name?")]}

    inner = StateGraph(State).add_node(ask).add_edge(START, "ask").compile()

    async def outer(state):
        return await asyncio.to_thread(inner.invoke, {"log": []})

    graph = StateGraph(State).add_node(outer).add_edge(START, "outer").compile(checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    paused = await graph.ainvoke({"log": []}, thread)

    assert [q.value for q in paused["__interrupt__"]] == ["name?"]
    assert await graph.ainvoke(Command(resume="Ada"), thread) == {"log": ["Ada"]}


async def test_a_sync_node_may_call_a_graph_from_a_pool_of_its_own():
    inner = counting_graph()

    def outer(state):
        return in_a_pool_with_the_context(lambda: inner.invoke({"log": []}))

    graph = StateGraph(State).add_node(outer).add_edge(START, "outer").compile()

    assert await graph.ainvoke({"log": []}) == {"log": ["first", "second after first"]}


def main_thread_waits():
    """Tell whether the main thread waits for a blocking call, which has been handed over."""
    frame = sys._current_frames()[threading.main_thread().ident]
    waits = frame.f_code is threading.Condition.wait.__code__
    while frame is not None and frame.f_code.co_name != "_wait":
        frame = frame.f_back
    return waits and frame is not None


@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_ctrl_c_leaves_when_the_run_has_cleaned_up(method):
    seen = []

    async def endless(state):
        while not main_thread_waits():
            await asyncio.sleep(0)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned up")

    graph = StateGraph(State).add_node(endless).add_edge(START, "endless").compile()

    with pytest.raises(KeyboardInterrupt):
        list(getattr(graph, method)({"log": []}))

    assert seen == ["cleaned up"]
