"""What callback handlers of langchain-core learn of a run."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import Any

import pytest
from typing_extensions import TypedDict

pytest.importorskip("langchain_core")

from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager, BaseCallbackHandler
from langchain_core.runnables import RunnableLambda

from langgraph_async import START, Command, StateGraph, interrupt
from langgraph_async.callbacks import GraphCallbackHandler, GraphInterruptEvent, GraphResumeEvent
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.func import entrypoint, task
from langgraph_async.types import RetryPolicy


class State(TypedDict, total=False):
    x: Any


class Recorder(BaseCallbackHandler):
    """Keeps what it is told of chains, with names for ids."""

    def __init__(self):
        self.names = {}
        self.seen = []
        self.tags = {}
        self.metadata = {}

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, tags=None, metadata=None, **kwargs):
        name = kwargs.get("name")
        self.names[run_id] = name
        self.tags[name] = tags
        self.metadata[name] = metadata
        self.seen.append(("start", name, self.names.get(parent_run_id), inputs))

    def on_chain_end(self, outputs, *, run_id, **kwargs):
        self.seen.append(("end", self.names[run_id], outputs))

    def on_chain_error(self, error, *, run_id, **kwargs):
        self.seen.append(("error", self.names[run_id], type(error).__name__))


class Life(GraphCallbackHandler):
    def __init__(self):
        self.events = []

    def on_interrupt(self, event):
        self.events.append(event)

    async def on_resume(self, event):
        self.events.append(event)


async def add_one(state: State) -> State:
    return {"x": state["x"] + 1}


def chain_of(*nodes: Any, **options: Any):
    builder = StateGraph(State)
    for before, node in zip((START, *[n.__name__ for n in nodes]), nodes, strict=False):
        builder.add_node(node)
        builder.add_edge(before, node.__name__)
    return builder.compile(**options)


async def test_a_graph_is_a_run_and_its_nodes_are_runs_inside():
    seen = Recorder()

    await chain_of(add_one, name="adder").ainvoke({"x": 1}, {"callbacks": [seen]})

    assert seen.seen == [
        ("start", "adder", None, {"x": 1}),
        ("start", "add_one", "adder", {"x": 1}),
        ("end", "add_one", {"x": 2}),
        ("end", "adder", {"x": 2}),
    ]
    assert seen.tags["add_one"] == ["graph:step:1"]


async def test_run_name_tags_and_metadata_are_told():
    seen = Recorder()

    await chain_of(add_one, checkpointer=InMemorySaver()).ainvoke(
        {"x": 1},
        {
            "callbacks": [seen],
            "run_name": "mine",
            "tags": ["t"],
            "metadata": {"who": "ada"},
            "configurable": {"thread_id": 1},
        },
    )

    assert seen.seen[0][1] == "mine"
    assert seen.tags == {"mine": ["t"], "add_one": ["graph:step:1", "t"]}
    expected = {"who": "ada", "thread_id": 1, "ls_integration": "langgraph"}
    assert seen.metadata["mine"] == expected
    assert seen.metadata["add_one"].items() >= {**expected, "langgraph_node": "add_one", "langgraph_step": 1}.items()


async def test_graphs_inside_are_runs_inside_their_nodes():
    seen = Recorder()
    inner = chain_of(add_one, name="inner")

    async def outer_node(state: State) -> State:
        return await inner.ainvoke(state)

    await chain_of(outer_node, name="outer").ainvoke({"x": 1}, {"callbacks": [seen]})

    assert [entry[:3] for entry in seen.seen if entry[0] == "start"] == [
        ("start", "outer", None),
        ("start", "outer_node", "outer"),
        ("start", "inner", "outer_node"),
        ("start", "add_one", "inner"),
    ]


async def test_a_runnable_called_in_a_node_is_a_run_inside_it_without_a_config():
    seen = Recorder()
    double = RunnableLambda(lambda x: x * 2, name="double")

    async def node(state: State) -> State:
        return {"x": await double.ainvoke(state["x"])}

    await chain_of(node).ainvoke({"x": 1}, {"callbacks": [seen]})

    assert ("start", "double", "node", 1) in seen.seen


async def test_a_runnable_called_in_a_plain_node_is_a_run_inside_it():
    seen = Recorder()
    double = RunnableLambda(lambda x: x * 2, name="double")

    def node(state: State) -> State:
        return {"x": double.invoke(state["x"])}

    await chain_of(node).ainvoke({"x": 1}, {"callbacks": [seen]})

    assert ("start", "double", "node", 1) in seen.seen


async def test_routing_functions_are_runs_inside_their_nodes():
    seen = Recorder()

    def route(state: State) -> str:
        return "add_one"

    async def first(state: State) -> State:
        return {"x": 1}

    builder = StateGraph(State).add_node(first).add_node(add_one).add_edge(START, "first")
    builder.add_conditional_edges("first", route, ["add_one"])
    await builder.compile().ainvoke({"x": 0}, {"callbacks": [seen]})

    assert ("start", "route", "first", {"x": 1}) in seen.seen
    assert ("end", "route", "add_one") in seen.seen


async def test_a_failure_is_told_of_node_and_graph():
    seen = Recorder()

    async def bad(state: State) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await chain_of(bad, name="g").ainvoke({"x": 1}, {"callbacks": [seen]})

    assert seen.seen[-2:] == [("error", "bad", "ValueError"), ("error", "g", "ValueError")]


async def test_each_attempt_is_a_run():
    seen = Recorder()
    attempts = []

    async def shaky(state: State) -> State:
        attempts.append(1)
        if len(attempts) < 2:
            raise ConnectionError
        return {"x": 1}

    builder = StateGraph(State)
    builder.add_node(shaky, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    builder.add_edge(START, "shaky")
    await builder.compile().ainvoke({"x": 0}, {"callbacks": [seen]})

    assert [entry[0] for entry in seen.seen if entry[1] == "shaky"] == ["start", "error", "start", "end"]


async def test_a_pause_is_an_error_of_the_node_and_an_end_of_the_graph():
    seen = Recorder()

    async def ask(state: State) -> State:
        return {"x": interrupt("q")}

    graph = chain_of(ask, name="g", checkpointer=InMemorySaver())
    await graph.ainvoke({"x": 1}, {"callbacks": [seen], "configurable": {"thread_id": "1"}})

    assert seen.seen[-2:] == [("error", "ask", "GraphInterrupt"), ("end", "g", {"x": 1})]


async def test_a_cancelled_run_is_told_to_its_end():
    seen = Recorder()
    reached = asyncio.Event()

    async def stuck(state: State) -> None:
        reached.set()
        await asyncio.Event().wait()

    run = asyncio.create_task(chain_of(stuck, name="g").ainvoke({"x": 1}, {"callbacks": [seen]}))
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert seen.seen[-2:] == [("error", "stuck", "CancelledError"), ("error", "g", "CancelledError")]


async def test_an_async_handler_is_awaited_also_when_the_run_is_cancelled():
    reached = asyncio.Event()
    told = []

    class Slow(AsyncCallbackHandler):
        async def on_chain_error(self, error, **kwargs):
            for _ in range(5):
                await asyncio.sleep(0)
            told.append(type(error).__name__)

    async def stuck(state: State) -> None:
        reached.set()
        await asyncio.Event().wait()

    run = asyncio.create_task(chain_of(stuck).ainvoke({"x": 1}, {"callbacks": [Slow()]}))
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert told == ["CancelledError", "CancelledError"]


async def test_tasks_of_a_workflow_are_runs_inside_it():
    seen = Recorder()

    @task
    async def step(x: int) -> int:
        return x + 1

    @entrypoint()
    async def flow(x: int) -> int:
        return await step(x)

    assert await flow.ainvoke(1, {"callbacks": [seen]}) == 2
    assert next(entry[:3] for entry in seen.seen if entry[1] == "step") == ("start", "step", "flow")
    assert ("end", "step", 2) in seen.seen


@pytest.mark.parametrize("form", ["handler", "list", "manager"])
async def test_callbacks_may_be_a_handler_a_list_or_a_manager(form):
    seen = Recorder()
    given = {"handler": seen, "list": [seen], "manager": AsyncCallbackManager([seen], [seen])}[form]

    await chain_of(add_one, name="g").ainvoke({"x": 1}, {"callbacks": given})

    assert ("end", "g", {"x": 2}) in seen.seen


@pytest.mark.parametrize("given", ["a text", [1], {"on_chain_start": print}])
async def test_other_callbacks_are_refused(given):
    with pytest.raises(TypeError, match="callback handler"):
        await chain_of(add_one).ainvoke({"x": 1}, {"callbacks": given})


async def test_bound_callbacks_and_those_of_the_call_are_both_told():
    bound, called = Recorder(), Recorder()
    graph = chain_of(add_one, name="g").with_config({"callbacks": [bound]})

    await graph.ainvoke({"x": 1}, {"callbacks": AsyncCallbackManager([called], [called])})

    assert bound.seen == called.seen
    assert bound.seen[-1] == ("end", "g", {"x": 2})


async def test_a_handler_that_fails_is_logged_and_the_run_goes_on(caplog):
    class Broken(BaseCallbackHandler):
        def on_chain_start(self, *args, **kwargs):
            raise OSError("broken handler")

    with caplog.at_level(logging.WARNING):
        assert await chain_of(add_one).ainvoke({"x": 1}, {"callbacks": [Broken()]}) == {"x": 2}
    assert "broken handler" in caplog.text


# -- what happens to the graph ------------------------------------------------------------------------------


async def ask(state: State) -> State:
    return {"x": interrupt("q")}


async def test_graph_handlers_learn_of_a_pause_and_of_going_on():
    life = Life()
    saver = InMemorySaver()
    graph = chain_of(ask, checkpointer=saver)
    config = {"callbacks": [life], "configurable": {"thread_id": "1"}}

    paused = await graph.ainvoke({"x": 1}, config)
    head = (await graph.aget_state(config)).config["configurable"]["checkpoint_id"]
    assert [type(event) for event in life.events] == [GraphInterruptEvent]
    first = life.events[0]
    assert (first.status, first.checkpoint_id, first.checkpoint_ns) == ("pending", head, ())
    assert list(first.interrupts) == paused["__interrupt__"]

    await graph.ainvoke(Command(resume="a"), config)
    assert [type(event) for event in life.events[1:]] == [GraphResumeEvent]
    assert life.events[1].checkpoint_id == head
    assert life.events[1].run_id != first.run_id


@pytest.mark.parametrize("which", ["before", "after"])
async def test_a_static_breakpoint_is_told_by_its_kind(which):
    life = Life()
    graph = chain_of(add_one, ask, checkpointer=InMemorySaver(), **{f"interrupt_{which}": ["add_one"]})

    await graph.ainvoke({"x": 1}, {"callbacks": [life], "configurable": {"thread_id": "1"}})

    assert [(event.status, event.interrupts) for event in life.events] == [(f"interrupt_{which}", ())]


async def test_a_pause_in_a_graph_inside_is_told_once_by_the_outermost():
    life = Life()
    inner = chain_of(ask)
    outer = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile(checkpointer=InMemorySaver())

    await outer.ainvoke({"x": 1}, {"callbacks": [life], "configurable": {"thread_id": "1"}})

    assert [event.checkpoint_ns for event in life.events] == [()]
    assert [question.value for question in life.events[0].interrupts] == ["q"]


async def test_what_a_graph_handler_raises_is_logged(caplog):
    class Broken(GraphCallbackHandler):
        def on_interrupt(self, event):
            raise OSError("broken handler")

    graph = chain_of(ask, checkpointer=InMemorySaver())
    with caplog.at_level(logging.WARNING):
        result = await graph.ainvoke({"x": 1}, {"callbacks": [Broken()], "configurable": {"thread_id": "1"}})
    assert "__interrupt__" in result
    assert "broken handler" in caplog.text


async def test_what_a_graph_handler_raises_ends_the_run_if_it_says_so():
    class Strict(GraphCallbackHandler):
        raise_error = True

        def on_interrupt(self, event):
            raise OSError("strict handler")

    graph = chain_of(ask, checkpointer=InMemorySaver())
    with pytest.raises(OSError, match="strict handler"):
        await graph.ainvoke({"x": 1}, {"callbacks": [Strict()], "configurable": {"thread_id": "1"}})


async def test_other_handlers_are_not_told_of_pauses():
    class Other(BaseCallbackHandler):
        def on_interrupt(self, event):
            raise AssertionError

    graph = chain_of(ask, checkpointer=InMemorySaver())
    assert "__interrupt__" in await graph.ainvoke(
        {"x": 1}, {"callbacks": [Other()], "configurable": {"thread_id": "1"}}
    )


# -- what is not loaded ----------------------------------------------------------------------------------------


def test_a_run_without_langchain_loads_nothing_of_it():
    program = (
        "import asyncio, sys\n"
        "from langgraph_async import START, StateGraph\n"
        "from langgraph_async.callbacks import GraphInterruptEvent\n"
        "async def node(state): return {'x': 1}\n"
        "graph = StateGraph(dict).add_node(node).add_edge(START, 'node').compile()\n"
        "asyncio.run(graph.ainvoke({'x': 0}))\n"
        "assert not [name for name in sys.modules if name.startswith('langchain')], sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_the_config_of_a_runnable_around_is_inherited():
    seen = Recorder()
    graph = chain_of(add_one, name="g")

    async def call(value):
        return await graph.ainvoke(value)

    around = RunnableLambda(call, name="around")
    assert await around.ainvoke({"x": 1}, {"callbacks": [seen], "tags": ["t"]}) == {"x": 2}
    assert ("start", "g", "around", {"x": 1}) in seen.seen
    assert seen.tags["g"] == ["t"]


async def test_a_handler_that_a_context_adds_is_told_of_models_in_nodes():
    from langchain_core.callbacks import get_usage_metadata_callback
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    message = AIMessage("hi", usage_metadata=usage, response_metadata={"model_name": "small"})

    async def node(state: State) -> State:
        await GenericFakeChatModel(messages=iter([message]), disable_streaming=True).ainvoke("?")
        return {"x": 1}

    with get_usage_metadata_callback() as counted:
        await chain_of(node).ainvoke({"x": 0})
    assert counted.usage_metadata["small"]["total_tokens"] == 3


async def test_a_tracer_of_the_context_is_told_of_graph_and_nodes():
    from langchain_core.tracers.context import tracing_v2_callback_var

    seen = Recorder()
    token = tracing_v2_callback_var.set(seen)
    try:
        await chain_of(add_one, name="g").ainvoke({"x": 1})
    finally:
        tracing_v2_callback_var.reset(token)
    told = [entry[:2] for entry in seen.seen]
    assert told == [("start", "g"), ("start", "add_one"), ("end", "add_one"), ("end", "g")]


async def test_no_callback_manager_is_made_where_nobody_listens(monkeypatch):
    from langgraph_async.callbacks import tracing

    def made(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(tracing.AsyncCallbackManager, "configure", made)
    assert await chain_of(add_one).ainvoke({"x": 1}) == {"x": 2}
