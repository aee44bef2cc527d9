"""``stream_mode="messages"``: messages that nodes and task functions return, as whole messages (specification 5.3)."""

import dataclasses
import operator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_async import START, Command, Overwrite, Send, StateGraph, entrypoint, interrupt, task
from langgraph_async.cache.memory import InMemoryCache
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.constants import TAG_NOSTREAM
from langgraph_async.graph.message import RemoveMessage, add_messages
from langgraph_async.types import CachePolicy


class State(TypedDict, total=False):
    messages: Annotated[list, add_messages]
    other: Any


def said(id: str | None, content: str = "hi") -> dict:
    return {"role": "assistant", "content": content, **({"id": id} if id else {})}


def graph(*nodes, schema: Any = State, **options):
    builder = StateGraph(schema)
    before = START
    for node in nodes:
        builder.add_node(node.__name__, node, **options)
        builder.add_edge(before, node.__name__)
        before = node.__name__
    return builder


async def told(compiled, given, config=None, **options) -> list:
    return [item async for item in compiled.astream(given, config, stream_mode="messages", **options)]


async def ids(compiled, given, config=None, **options) -> list:
    return [message["id"] for message, _ in await told(compiled, given, config, **options)]


# -- where messages are found ------------------------------------------------------------------------------------


@dataclasses.dataclass
class DataState:
    messages: Annotated[list, add_messages] = dataclasses.field(default_factory=list)


class ModelState(BaseModel):
    messages: Annotated[list, add_messages] = []


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ({"messages": said("a")}, ["a"]),
        ({"messages": [said("a"), said("b")]}, ["a", "b"]),
        ({"other": (said("a"),)}, ["a"]),
        ({"other": said("a")}, ["a"]),
        ({"other": [said("a"), 1, said("b")]}, ["a", "b"]),
        ({"other": {"deep": said("a")}}, []),
        (Command(update={"messages": [said("a")]}), ["a"]),
        (Command(update=[("messages", said("a")), ("messages", said("b"))]), ["a", "b"]),
        ([Command(update={"messages": said("a")}), {"messages": said("b")}], ["a", "b"]),
        ({"messages": Overwrite([said("a")])}, ["a"]),
        ({"messages": [RemoveMessage(id="__remove_all__"), said("b")]}, ["b"]),
        ({"other": {"role": "admin"}}, []),
        (None, []),
    ],
    ids=str,
)
async def test_messages_in_an_output_are_told(output, found):
    async def n(state):
        return output

    assert await ids(graph(n).compile(), {"messages": []}) == found


@pytest.mark.parametrize("schema", [DataState, ModelState])
async def test_messages_in_the_fields_of_an_object_are_told(schema):
    async def n(state):
        return schema(messages=[said("a")])

    assert await ids(graph(n, schema=schema).compile(), {"messages": []}) == ["a"]


async def test_messages_of_a_graph_whose_state_is_one_list_are_told():
    async def n(state):
        return [said("a")]

    assert await ids(graph(n, schema=Annotated[list, operator.add]).compile(), []) == ["a"]


async def test_every_yield_of_a_generator_is_told_when_it_is_yielded():
    async def n(state):
        yield {"messages": said("a")}
        yield {"messages": said("b")}

    items = [i async for i in graph(n).compile().astream({"messages": []}, stream_mode=["messages", "updates"])]

    assert [mode for mode, _ in items] == ["messages", "updates", "messages", "updates"]


async def test_a_message_comes_before_the_update_of_its_node():
    async def n(state):
        return {"messages": said("a")}

    items = [i async for i in graph(n).compile().astream({"messages": []}, stream_mode=["updates", "messages"])]

    assert [mode for mode, _ in items] == ["messages", "updates"]


async def test_a_plain_node_in_a_thread_tells_its_messages_too():
    def n(state):
        return {"messages": said("a")}

    assert await ids(graph(n).compile(), {"messages": []}) == ["a"]


# -- once --------------------------------------------------------------------------------------------------------


async def test_what_a_node_was_given_is_not_told_when_it_returns_it():
    async def n(state):
        return {"messages": [*state["messages"], said("b")]}

    assert await ids(graph(n).compile(), {"messages": [said("a")], "other": said("c")}) == ["b"]


async def test_a_message_that_a_node_adds_in_place_to_what_it_was_given_is_told():
    async def n(state):
        state["messages"].append(said("b"))
        return state

    assert await ids(graph(n).compile(), {"messages": [said("a")]}) == ["b"]


async def test_a_message_is_told_once_though_two_nodes_return_it():
    class Other(TypedDict):
        other: Any

    async def a(state):
        return {"messages": said("m", "first")}

    async def b(state: Other):
        return {"messages": said("m", "second")}

    items = await told(graph(a, b).compile(), {"messages": []})

    assert [message["content"] for message, _ in items] == ["first"]


async def test_what_a_send_brings_is_not_told_when_it_is_returned():
    async def n(job):
        return {"messages": [job["m"]]}

    builder = StateGraph(State)
    builder.add_node(n)
    builder.add_conditional_edges(START, lambda state: [Send("n", {"m": said("s")})], ["n"])

    assert await ids(builder.compile(), {"messages": []}) == []


async def test_a_node_that_asks_tells_what_it_returns_when_it_is_answered():
    async def n(state):
        try:
            return {"messages": said("a", interrupt("?"))}
        except BaseException:
            return {"messages": said("lost")}

    compiled = graph(n).compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}

    assert await ids(compiled, {"messages": []}, config) == []
    assert await ids(compiled, Command(resume="yes"), config) == ["a"]


async def test_a_second_run_tells_anew():
    async def n(state):
        return {"other": said("a")}

    compiled = graph(n).compile()

    assert [await ids(compiled, {"messages": []}) for _ in range(2)] == [["a"], ["a"]]


# -- ids ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["messages", "other"])
@pytest.mark.parametrize("many", [True, False])
async def test_a_message_without_id_has_the_same_in_the_stream_and_in_the_state(key, many):
    mine = said(None)

    async def n(state):
        return {key: [mine] if many else mine}

    items = [i async for i in graph(n).compile().astream({"messages": []}, stream_mode=["messages", "values"])]
    (message, _), state = items[-2][1], items[-1][1]
    kept = state[key][0] if isinstance(state[key], list) else state[key]

    assert message["id"] == kept["id"]
    assert "id" not in mine


async def test_shorthands_are_told_as_the_messages_that_they_become():
    async def n(state):
        return {"messages": ("ai", "hello")}

    items = [i async for i in graph(n).compile().astream({"messages": []}, stream_mode=["messages", "values"])]

    (message,) = [m for mode, (m, *_) in items if mode == "messages"]
    assert message == items[-1][1]["messages"][0]


async def test_nothing_gets_an_id_when_nobody_listens():
    async def n(state):
        return {"other": said(None)}

    assert "id" not in (await graph(n).compile().ainvoke({"messages": []}))["other"]


async def test_the_reader_may_change_what_it_was_told():
    async def n(state):
        return {"messages": said("a")}

    async for mode, item in graph(n).compile().astream({"messages": []}, stream_mode=["messages", "values"]):
        if mode == "messages":
            item[0]["content"] = "changed"
        last = item

    assert last["messages"][0]["content"] == "hi"


# -- metadata ----------------------------------------------------------------------------------------------------


async def test_the_metadata_says_where_a_message_comes_from():
    async def n(state):
        return {"messages": said("a")}

    config = {"metadata": {"user": "me"}, "tags": ["t", "seq:step:1"], "configurable": {"thread_id": "7"}}
    ((_, metadata),) = await told(
        graph(n, metadata={"of": "node"}).compile(checkpointer=InMemorySaver()), {"messages": []}, config
    )

    ns = metadata.pop("langgraph_checkpoint_ns")
    assert ns.startswith("n:")
    assert metadata == {
        "user": "me",
        "of": "node",
        "thread_id": "7",
        "langgraph_step": 1,
        "langgraph_node": "n",
        "langgraph_triggers": ("branch:to:n",),
        "langgraph_path": ("__pregel_pull", "n"),
        "tags": ["t"],
    }


async def test_a_run_tagged_nostream_tells_nothing():
    async def n(state):
        return {"messages": said("a")}

    assert await ids(graph(n).compile(), {"messages": []}, {"tags": [TAG_NOSTREAM]}) == []


async def test_a_version_2_part_holds_message_and_metadata():
    async def n(state):
        return {"messages": said("a")}

    (part,) = await told(graph(n).compile(), {"messages": []}, version="v2")

    assert (part["type"], part["ns"], part["data"][0]) == ("messages", (), said("a"))


# -- nested graphs -----------------------------------------------------------------------------------------------


def outer_with(inner):
    async def n(state):
        return {"messages": said("a")}

    sub = graph(n).compile()

    async def caller(state):
        return await inner(sub)

    return graph(caller).compile()


async def test_a_nested_graph_is_told_through_its_node_unless_subgraphs_are_asked_for():
    outer = graph(*[_named(graph(_says).compile(), "sub")]).compile()

    ((_, metadata),) = await told(outer, {"messages": []})
    assert metadata["langgraph_node"] == "sub"

    ((ns, (_, metadata)),) = await told(outer, {"messages": []}, subgraphs=True)
    assert ns[0].startswith("sub:")
    assert metadata["langgraph_node"] == "_says"


async def _says(state):
    return {"messages": said("a")}


def _named(sub, name):
    async def call(state):
        return await sub.ainvoke(state)

    call.__name__ = name
    return call


async def test_a_graph_streamed_inside_a_node_tells_its_own_messages_to_that_node():
    heard: list = []

    async def inner(sub):
        async for message, _ in sub.astream({"messages": []}, stream_mode="messages"):
            heard.append(message["id"])

    assert await ids(outer_with(inner), {"messages": []}) == []
    assert heard == ["a"]


@pytest.mark.parametrize("subgraphs", [False, True])
async def test_a_child_on_a_thread_of_its_own_does_not_leak(subgraphs):
    async def inner(sub):
        own = sub.copy({"checkpointer": InMemorySaver()})
        await own.ainvoke({"messages": []}, {"configurable": {"thread_id": "own"}})

    assert await told(outer_with(inner), {"messages": []}, subgraphs=subgraphs) == []


async def test_a_command_for_the_graph_around_is_told_there():
    async def n(state):
        return Command(graph=Command.PARENT, update={"messages": said("a")})

    outer = graph(_named(graph(n).compile(), "sub")).compile()

    ((_, metadata),) = await told(outer, {"messages": []})
    assert metadata["langgraph_node"] == "sub"


# -- functions, caches -------------------------------------------------------------------------------------------


async def test_results_of_tasks_and_workflows_are_told():
    @task
    async def one(x):
        return said("one")

    @task
    async def two(x):
        return {"k": said("two"), "l": [said("three")]}

    @entrypoint()
    async def flow(x):
        return [await one(x), await two(x), said("own")]

    items = await told(flow, "x")

    assert [(m["id"], metadata["langgraph_node"]) for m, metadata in items] == [
        ("one", "one"),
        ("two", "two"),
        ("three", "two"),
        ("own", "flow"),
    ]
    assert all(ns == () for ns, _ in await told(flow, "x", subgraphs=True))


async def test_a_message_without_id_of_a_task_is_told_once_though_the_workflow_returns_it():
    @task
    async def one(x):
        return said(None)

    @entrypoint()
    async def flow(x):
        return await one(x)

    items = [i async for i in flow.astream("x", stream_mode=["messages", "values"])]

    assert [mode for mode, _ in items] == ["messages", "values"]
    assert items[0][1][0] == items[1][1]


async def test_a_cached_result_is_told():
    async def n(state):
        return {"messages": said("a")}

    compiled = graph(n, cache_policy=CachePolicy()).compile(cache=InMemoryCache())

    assert [await ids(compiled, {"messages": []}) for _ in range(2)] == [["a"], ["a"]]


# -- langchain-core ----------------------------------------------------------------------------------------------


async def test_langchain_messages_are_told_as_they_are():
    from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

    async def n(state):
        new = [HumanMessage("q", id="q"), ToolMessage("t", tool_call_id="c", id="t"), AIMessage("no id")]
        return {"messages": [RemoveMessage(id="h"), *new]}

    items = [
        i
        async for i in graph(n)
        .compile()
        .astream({"messages": [HumanMessage("hi", id="h")]}, stream_mode=["messages", "values"])
    ]

    messages = [item[0] for mode, item in items if mode == "messages"]
    assert [type(m) for m in messages] == [HumanMessage, ToolMessage, AIMessage]
    assert messages == items[-1][1]["messages"]
