"""Tokens of langchain-core's chat models, and events of its tools, in a run's stream."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from typing_extensions import TypedDict

pytest.importorskip("langchain_core")

from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from langgraph_async import START, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.types import TimeoutPolicy


class State(TypedDict, total=False):
    x: Any


def model(text: str, **options: Any) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter([AIMessage(content=text)]), **options)


def graph_of(node: Any, **options: Any):
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node").compile()


async def tokens(graph: Any, **options: Any) -> list[tuple[Any, dict[str, Any]]]:
    return [item async for item in graph.astream({"x": 1}, stream_mode="messages", **options)]


async def test_tokens_of_a_model_that_is_invoked_come_one_by_one():
    async def node(state: State) -> State:
        return {"x": (await model("one two three").ainvoke("hi")).content}

    found = await tokens(graph_of(node))

    assert [chunk.content for chunk, _ in found] == ["one", " ", "two", " ", "three"]
    assert all(isinstance(chunk, AIMessageChunk) for chunk, _ in found)
    assert len({chunk.id for chunk, _ in found}) == 1


async def test_tokens_come_while_the_node_runs():
    gate = asyncio.Event()

    async def node(state: State) -> State:
        async for _ in model("one two").astream("hi"):
            await gate.wait()
        return {"x": 1}

    stream = graph_of(node).astream({"x": 1}, stream_mode="messages")
    chunk, _ = await anext(stream)
    assert chunk.content == "one"
    gate.set()
    assert [chunk.content async for chunk, _ in stream] == [" ", "two"]


async def test_a_plain_node_in_a_worker_thread_streams_too():
    def node(state: State) -> State:
        return {"x": model("one two").invoke("hi").content}

    assert [chunk.content for chunk, _ in await tokens(graph_of(node))] == ["one", " ", "two"]


async def test_metadata_names_the_node_and_tags_are_added():
    async def node(state: State) -> State:
        await model("one", tags=["model tag"]).ainvoke("hi", {"metadata": {"who": "ada"}})
        return {"x": 1}

    ((_, metadata),) = await tokens(graph_of(node), config={"tags": ["run tag"]})

    assert metadata["langgraph_node"] == "node"
    assert metadata["langgraph_step"] == 1
    assert metadata["langgraph_checkpoint_ns"].startswith("node:")
    assert metadata["who"] == "ada"
    assert metadata["ls_model_type"] == "chat"
    assert set(metadata["tags"]) == {"run tag", "model tag"}


async def test_models_tagged_nostream_are_left_out():
    async def node(state: State) -> State:
        await model("quiet", tags=["nostream"]).ainvoke("hi")
        await model("loud").ainvoke("hi")
        return {"x": 1}

    assert [chunk.content for chunk, _ in await tokens(graph_of(node))] == ["loud"]


async def test_the_message_of_a_model_without_tokens_is_told_whole():
    async def node(state: State) -> State:
        await FakeListChatModel(responses=["whole"], disable_streaming=True).ainvoke("hi")
        return {"x": 1}

    found = await tokens(graph_of(node))
    assert [(type(message), message.content) for message, _ in found] == [(AIMessage, "whole")]


async def test_models_in_runnables_of_a_node_stream():
    chain = RunnableLambda(lambda state: "hi") | model("one two") | (lambda message: {"x": message.content})

    assert [chunk.content for chunk, _ in await tokens(graph_of(chain))] == ["one", " ", "two"]


async def test_graphs_inside_are_left_out_unless_asked_for():
    async def node(state: State) -> State:
        await model("one").ainvoke("hi")
        return {"x": 1}

    outer = graph_of(graph_of(node))
    assert await tokens(outer) == []
    ((ns, (chunk, _)),) = await tokens(outer, subgraphs=True)
    assert chunk.content == "one"
    assert len(ns) == 1
    assert ns[0].startswith("node:")


async def test_a_graph_that_is_streamed_inside_a_node_gets_its_own_tokens_once():
    inner_found = []

    async def inner_node(state: State) -> State:
        await model("one").ainvoke("hi")
        return {"x": 1}

    inner = graph_of(inner_node)

    async def node(state: State) -> State:
        inner_found.extend([chunk.content async for chunk, _ in inner.astream({"x": 1}, stream_mode="messages")])
        return {"x": 1}

    outer = graph_of(node)
    assert [chunk.content for _, (chunk, _) in await tokens(outer, subgraphs=True)] == ["one"]
    assert inner_found == ["one"]


async def test_two_models_at_once_keep_their_own_order():
    builder = StateGraph(State)
    for name in ("a", "b"):

        async def node(state: State, name: str = name) -> None:
            await model(" ".join(f"{name}{number}" for number in range(50))).ainvoke("hi")

        builder.add_node(name, node)
        builder.add_edge(START, name)

    found = await tokens(builder.compile())

    for name in ("a", "b"):
        mine = [c.content for c, metadata in found if metadata["langgraph_node"] == name and c.content != " "]
        assert mine == [f"{name}{number}" for number in range(50)]


async def test_a_slow_reader_holds_the_model_back():
    given = []

    class Long(GenericFakeChatModel):
        async def _astream(self, *args, **kwargs):
            async for chunk in super()._astream(*args, **kwargs):
                given.append(chunk)
                yield chunk

    async def node(state: State) -> State:
        await Long(messages=iter([AIMessage(content=" ".join(["word"] * 5_000))])).ainvoke("hi")
        return {"x": 1}

    stream = graph_of(node).astream({"x": 1}, stream_mode="messages")
    taken = 0
    async for _ in stream:
        taken += 1
        assert len(given) - taken < 300
        await asyncio.sleep(0)
    assert taken == 9_999


async def test_tokens_are_signs_of_life_of_a_node_with_an_idle_limit():
    signs = []

    async def node(state: State) -> State:
        async for _ in model("one two").astream("hi"):
            pass
        return {"x": 1}

    from langgraph_async.pregel import scope

    noted = scope.SignsOfLife.note
    scope.SignsOfLife.note = lambda self: signs.append(noted(self))
    try:
        graph = graph_of(node, timeout=TimeoutPolicy(idle_timeout=timedelta(minutes=1)))
        await graph.ainvoke({"x": 1})
    finally:
        scope.SignsOfLife.note = noted
    assert len(signs) == 5  # the model's start, three tokens, its end


# -- tools -------------------------------------------------------------------------------------------------


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def fail(a: int) -> int:
    """Fail."""
    raise ValueError("no")


@tool
async def ask(a: int) -> str:
    """Ask."""
    return interrupt("sure?")


async def tool_events(graph: Any, **options: Any) -> list[dict[str, Any]]:
    return [event async for event in graph.astream({"x": 1}, stream_mode="tools", **options)]


async def test_tools_tell_their_start_and_end():
    async def node(state: State) -> State:
        return {"x": await add.ainvoke({"type": "tool_call", "id": "call", "name": "add", "args": {"a": 1, "b": 2}})}

    first, last = await tool_events(graph_of(node))

    assert first == {"event": "tool-started", "tool_call_id": "call", "tool_name": "add", "input": {"a": 1, "b": 2}}
    assert (last["event"], last["tool_call_id"], last["output"].content) == ("tool-finished", "call", "3")


async def test_a_tool_without_a_call_id_goes_by_its_run():
    async def node(state: State) -> State:
        return {"x": await add.ainvoke({"a": 1, "b": 2})}

    first, last = await tool_events(graph_of(node))

    assert first["tool_call_id"] == last["tool_call_id"] != ""
    assert last["output"] == 3


async def test_a_tool_that_fails_tells_an_error():
    async def node(state: State) -> State:
        with pytest.raises(ValueError, match="no"):
            await fail.ainvoke({"a": 1})
        return {"x": 1}

    assert [event["event"] for event in await tool_events(graph_of(node))] == ["tool-started", "tool-error"]


async def test_a_tool_that_pauses_tells_no_error():
    async def node(state: State) -> State:
        return {"x": await ask.ainvoke({"a": 1})}

    builder = StateGraph(State).add_node(node).add_edge(START, "node")
    graph = builder.compile(checkpointer=InMemorySaver())
    found = await tool_events(graph, config={"configurable": {"thread_id": "1"}})

    assert [event["event"] for event in found] == ["tool-started"]
