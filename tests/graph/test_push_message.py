"""`push_message`: a message that is sent before its node returns (specification 10.1)."""

from typing import Annotated

import pytest
from langchain_core.messages import AIMessage
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph, add_messages, entrypoint, interrupt, push_message, task
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import InvalidUpdateError
from langgraph_async.types import Command


class State(TypedDict):
    messages: Annotated[list, add_messages]


def said(id, content="hi"):
    return {"role": "assistant", "content": content, "id": id}


def graph(*nodes):
    builder = StateGraph(State)
    before = START
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(before, node.__name__)
        before = node.__name__
    return builder


async def items(compiled, *modes, given=None, config=None):
    given = {"messages": []} if given is None else given
    return [item async for item in compiled.astream(given, config, stream_mode=list(modes))]


@pytest.mark.parametrize("message", [said("p"), AIMessage("hi", id="p")], ids=["dict", "object"])
async def test_a_pushed_message_is_sent_at_once_and_written_before_what_the_node_returns(message):
    async def n(state):
        assert push_message(message) == message
        return {"messages": [said("a")]}

    got = await items(graph(n).compile(), "messages", "updates", "values")

    assert [mode for mode, _ in got] == ["values", "messages", "messages", "updates", "values"]
    assert got[1][1][0] == message
    assert got[1][1][1]["langgraph_node"] == "n"
    assert got[3][1] == {"n": [{"messages": message}, {"messages": [got[2][1][0]]}]}
    assert [_id(m) for m in got[4][1]["messages"]] == ["p", "a"]


def _id(message):
    return message["id"] if isinstance(message, dict) else message.id


async def test_it_is_sent_each_time_and_not_again_with_the_output():
    async def n(state):
        push_message(said("p"))
        push_message(said("p", "more"))
        return {"messages": said("p", "all")}

    got = await items(graph(n).compile(), "messages", "values")

    assert [item[0]["content"] for mode, item in got if mode == "messages"] == ["hi", "more"]
    assert got[-1][1]["messages"] == [said("p", "all")]


async def test_without_a_state_key_it_is_only_sent():
    async def n(state):
        push_message(said("p"), state_key=None)

    got = await items(graph(n).compile(), "messages", "updates")

    assert [mode for mode, _ in got] == ["messages", "updates"]
    assert got[-1][1] == {"n": None}


async def test_it_is_written_also_when_nobody_listens():
    async def n(state):
        push_message(said("p"))

    assert (await graph(n).compile().ainvoke({"messages": []}))["messages"] == [said("p")]


async def test_a_plain_node_and_a_generator_push_too():
    def plain(state):
        push_message(said("p"))

    async def gen(state):
        push_message(said("g1"))
        yield {"messages": said("g2")}
        push_message(said("g3"))

    result = await graph(plain, gen).compile().ainvoke({"messages": []})

    assert [m["id"] for m in result["messages"]] == ["p", "g1", "g2", "g3"]


async def test_what_a_failed_attempt_pushed_is_not_written():
    from langgraph_async.types import RetryPolicy

    tries: list = []

    async def n(state):
        tries.append(1)
        push_message(said(f"p{len(tries)}"))
        if len(tries) == 1:
            raise ConnectionError

    builder = StateGraph(State)
    builder.add_node("n", n, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    builder.add_edge(START, "n")

    assert [m["id"] for m in (await builder.compile().ainvoke({"messages": []}))["messages"]] == ["p2"]


async def test_a_message_without_id_is_refused():
    async def n(state):
        push_message({"role": "assistant", "content": "hi"})

    with pytest.raises(ValueError, match="Message ID is required"):
        await graph(n).compile().ainvoke({"messages": []})


async def test_an_unknown_state_key_is_refused():
    async def n(state):
        push_message(said("p"), state_key="mesages")

    with pytest.raises(InvalidUpdateError, match="'n'.*'mesages'"):
        await graph(n).compile().ainvoke({"messages": []})


def test_it_works_only_inside_a_node():
    with pytest.raises(RuntimeError, match="push_message outside of a runnable context"):
        push_message(said("p"))


async def test_a_task_in_a_node_pushes_to_the_state_of_the_graph():
    @task
    async def t(x):
        push_message(said("p"))
        return x

    async def n(state):
        await t(1)

    got = await items(graph(n).compile(), "messages", "updates", "values")

    assert got[1][1][1]["langgraph_node"] == "t"
    assert ("updates", {"t": 1}) in got
    assert got[-1][1]["messages"] == [said("p")]


async def test_what_a_task_pushed_is_there_when_its_node_runs_again():
    ran: list = []

    @task
    async def t(x):
        ran.append(x)
        push_message(said("p"))
        return x

    async def n(state):
        await t(1)
        return {"messages": said("a", interrupt("?"))}

    compiled = graph(n).compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}

    await compiled.ainvoke({"messages": []}, config)
    result = await compiled.ainvoke(Command(resume="yes"), config)

    assert result["messages"] == [said("p"), said("a", "yes")]
    assert ran == [1]


async def test_a_workflow_which_has_no_state_only_sends():
    @task
    async def t(x):
        push_message(said("t"))
        return x

    @entrypoint()
    async def flow(x):
        push_message(said("f"))
        return await t(x)

    got = await items(flow, "messages", "updates", given="x")

    assert [item[0]["id"] for mode, item in got if mode == "messages"] == ["f", "t"]
    assert got[-1] == ("updates", {"flow": "x"})


async def test_subgraphs_are_heard_only_when_asked_for():
    async def n(state):
        push_message(said("p"), state_key=None)

    inner = graph(n).compile()

    async def outer(state):
        await inner.ainvoke(state)

    compiled = graph(outer).compile()

    assert await items(compiled, "messages") == []
    found = [i async for i in compiled.astream({"messages": []}, stream_mode="messages", subgraphs=True)]
    assert [item[0]["id"] for _, item in found] == ["p"]
