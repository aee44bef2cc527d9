"""Compiled graphs as Runnables of langchain-core."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

pytest.importorskip("langchain_core")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.config import RunnableConfig
from langgraph_async.integrations.langchain import as_runnable


class State(TypedDict, total=False):
    x: int


async def add_one(state: State) -> State:
    return {"x": state["x"] + 1}


@pytest.fixture
def runnable():
    builder = StateGraph(State).add_node(add_one).add_edge(START, "add_one")
    return as_runnable(builder.compile(name="adder"))


async def test_it_is_invoked_as_the_graph_is(runnable):
    assert await runnable.ainvoke({"x": 1}) == {"x": 2}


def test_it_blocks_without_a_loop(runnable):
    assert runnable.invoke({"x": 1}) == {"x": 2}
    assert list(runnable.stream({"x": 1})) == [{"add_one": {"x": 2}}]


async def test_it_streams_as_the_graph_does(runnable):
    assert [part async for part in runnable.astream({"x": 1}, stream_mode=["values", "updates"])] == [
        ("values", {"x": 1}),
        ("updates", {"add_one": {"x": 2}}),
        ("values", {"x": 2}),
    ]


async def test_it_is_piped(runnable):
    chain = RunnableLambda(lambda x: {"x": x}) | runnable | (lambda state: state["x"] * 10)

    assert await chain.ainvoke(1) == 20


async def test_it_runs_batches(runnable):
    assert await runnable.abatch([{"x": number} for number in range(5)]) == [{"x": n + 1} for n in range(5)]


async def test_config_is_bound_and_taken_over():
    seen = []

    async def node(state: State, config: RunnableConfig) -> State:
        seen.append((config["tags"], config["configurable"]["user"]))
        return {"x": 1}

    graph = StateGraph(State).add_node(node).add_edge(START, "node").compile()
    bound = as_runnable(graph).with_config(tags=["bound"])

    await bound.ainvoke({"x": 0}, {"tags": ["call"], "configurable": {"user": "ada"}})

    assert [(sorted(tags), user) for tags, user in seen] == [(["bound", "call"], "ada")]


async def test_the_usual_limit_of_runnables_does_not_limit_supersteps():
    async def count(state: State) -> State:
        return {"x": state["x"] + 1}

    builder = StateGraph(State).add_node(count).add_edge(START, "count")
    builder.add_conditional_edges("count", lambda state: "count" if state["x"] < 40 else "__end__")

    assert await as_runnable(builder.compile()).ainvoke({"x": 0}) == {"x": 40}


async def test_events_name_graph_nodes_and_models():
    async def talk(state: State) -> State:
        await GenericFakeChatModel(messages=iter([AIMessage(content="hi there")])).ainvoke("?")
        return {"x": 2}

    builder = StateGraph(State).add_node(talk).add_edge(START, "talk")
    events = [e async for e in as_runnable(builder.compile(name="g")).astream_events({"x": 1}, version="v2")]

    assert [(event["event"], event["name"]) for event in events] == [
        ("on_chain_start", "g"),
        ("on_chain_start", "talk"),
        ("on_chat_model_start", "GenericFakeChatModel"),
        ("on_chat_model_stream", "GenericFakeChatModel"),
        ("on_chat_model_stream", "GenericFakeChatModel"),
        ("on_chat_model_stream", "GenericFakeChatModel"),
        ("on_chat_model_end", "GenericFakeChatModel"),
        ("on_chain_stream", "talk"),
        ("on_chain_end", "talk"),
        ("on_chain_stream", "g"),
        ("on_chain_end", "g"),
    ]
    by_name = {(event["event"], event["name"]): event for event in events}
    root = events[0]["run_id"]
    assert by_name["on_chain_start", "talk"]["parent_ids"] == [root]
    assert by_name["on_chain_start", "talk"]["tags"] == ["graph:step:1"]
    assert by_name["on_chain_stream", "g"]["data"] == {"chunk": {"talk": {"x": 2}}}
    assert by_name["on_chain_end", "g"]["data"]["output"] == {"x": 2}


async def test_callbacks_bound_to_it_are_told_with_events():
    told = []

    class Recorder(BaseCallbackHandler):
        def on_chain_start(self, serialized, inputs, **kwargs):
            told.append(kwargs.get("name"))

    builder = StateGraph(State).add_node(add_one).add_edge(START, "add_one")
    bound = as_runnable(builder.compile(name="g")).with_config(callbacks=[Recorder()])
    async for _ in bound.astream_events({"x": 1}, version="v2"):
        pass

    assert told == ["g", "add_one"]


async def test_leaving_the_events_ends_the_run():
    ended = []

    async def stuck(state: State) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    graph = StateGraph(State).add_node(stuck).add_edge(START, "stuck").compile()
    before = asyncio.all_tasks()
    events = as_runnable(graph).astream_events({"x": 1}, version="v2")
    async for event in events:
        if event["name"] == "stuck":
            break
    await events.aclose()

    assert ended == [True]
    assert asyncio.all_tasks() <= before


async def test_a_checkpoint_is_stored_when_the_reader_of_events_leaves():
    saver = InMemorySaver()
    builder = StateGraph(State).add_node(add_one).add_edge(START, "add_one")
    graph = builder.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "1"}}

    events = as_runnable(graph).astream_events({"x": 1}, config, version="v2")
    async for event in events:
        if event["event"] == "on_chain_end" and event["name"] == "add_one":
            break
    await events.aclose()

    assert (await graph.aget_state(config)).values["x"] in (1, 2)


async def test_it_works_as_a_node_of_another_graph(runnable):
    builder = StateGraph(State).add_node("inner", runnable).add_edge(START, "inner")
    graph = builder.compile()

    assert await graph.ainvoke({"x": 1}) == {"x": 2}
    parts = [part async for part in graph.astream({"x": 1}, stream_mode="updates", subgraphs=True)]
    assert [update for _, update in parts] == [{"add_one": {"x": 2}}, {"inner": {"x": 2}}]


async def test_it_has_the_name_and_schemas_of_the_graph(runnable):
    assert runnable.get_name() == "adder"
    assert runnable.get_input_jsonschema()["properties"]["x"]["type"] == "integer"
    assert runnable.get_output_jsonschema()["properties"]["x"]["type"] == "integer"


async def test_runnables_are_nodes_and_get_the_nodes_config():
    seen = []

    def note(state: State, config: Any) -> State:
        seen.append(config["metadata"]["langgraph_node"])
        return {"x": state["x"] + 5}

    chain = RunnableLambda(note) | RunnableLambda(lambda state: {"x": state["x"] * 2})
    graph = StateGraph(State).add_node("chain", chain).add_edge(START, "chain").compile()

    assert await graph.ainvoke({"x": 1}) == {"x": 12}
    assert seen == ["chain"]


async def test_a_reducer_works_behind_a_pipe():
    class Log(TypedDict):
        log: Annotated[list[str], lambda a, b: a + b]

    async def node(state: Log) -> Log:
        return {"log": ["node"]}

    graph = StateGraph(Log).add_node(node).add_edge(START, "node").compile()
    assert await (as_runnable(graph) | (lambda state: state["log"])).ainvoke({"log": ["in"]}) == ["in", "node"]
