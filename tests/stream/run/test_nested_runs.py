from __future__ import annotations

import asyncio

import pytest
from run_stream_graphs import Trail, asked, chain, first, leaf, nested, opened, read

from langgraph_async import START, Command, Send, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import GraphDrained
from langgraph_async.func import entrypoint, task
from langgraph_async.runtime import RunControl
from langgraph_async.stream import AsyncSubgraphRunStream, StreamChannel, StreamTransformer, UpdatesTransformer
from langgraph_async.stream.run.nested import NestedRuns, child_scope, is_within, parent_scope


def boom(state):
    raise ValueError("boom")


def ask(state):
    return {"trail": [interrupt("what?")]}


async def told(run):
    """Lifecycle as pairs of event and names of the graphs on the way."""
    return [
        (item["event"], "/".join(part.partition(":")[0] for part in item["namespace"]))
        for item in await read(run.lifecycle)
    ]


# -- namespaces ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ns", "scope", "child"),
    [
        ((), (), None),
        (("a:1",), (), ("a:1",)),
        (("a:1", "b:2"), (), ("a:1",)),
        (("a:1", "1"), (), ("a:1", "1")),
        (("a:1", "1", "b:2"), (), ("a:1", "1")),
        (("a:1",), ("a:1",), None),
        (("a:1", "1"), ("a:1",), None),
        (("a:1", "b:2"), ("a:1",), ("a:1", "b:2")),
        (("a:1", "1", "b:2"), ("a:1", "1"), ("a:1", "1", "b:2")),
        (("a:1", "b:2"), ("b:2",), None),
        (("a", "b"), ("a",), ("a", "b")),
    ],
)
def test_a_namespace_lies_in_the_direct_child(ns, scope, child):
    assert child_scope(ns, scope) == child
    assert is_within(ns, scope) == (child is not None or ns == scope)
    if child is not None:
        assert parent_scope(child) == scope


def test_a_task_function_inside_a_task_of_the_same_graph_is_no_level_of_graphs():
    own = {"1", "2"}

    assert child_scope(("flow:1", "t:2"), (), own) == ("flow:1", "t:2")
    assert child_scope(("flow:1", "t:2", "n:3"), (), own) == ("flow:1", "t:2")
    assert child_scope(("flow:1", "n:3"), (), own) == ("flow:1",)
    assert child_scope(("flow:1", "1", "n:3"), (), own) == ("flow:1", "1")


async def test_graphs_called_in_task_functions_are_children_of_the_workflow():
    inner = chain(leaf)

    @task
    async def call(name):
        return await inner.ainvoke({"trail": [name]})

    @entrypoint()
    async def flow(name):
        await call(name)
        return await inner.ainvoke({"trail": ["direct"]})

    run = await flow.astream_events("called", version="v3")
    lifecycle = aiter(run.lifecycle)
    got = []
    async for handle in run.subgraphs:
        output = await handle.output()
        got.append((handle.graph_name, output["trail"], handle.status))
    told = [(item["event"], len(item["namespace"])) async for item in lifecycle]

    assert got == [("call", ["called", "leaf"], "completed"), ("flow", ["direct", "leaf"], "completed")]
    assert told == [("started", 2), ("completed", 2), ("started", 1), ("completed", 1)]


# -- lifecycle -------------------------------------------------------------------------------------------------


async def test_a_nested_graph_starts_and_completes():
    run = await opened(nested())
    started, completed = await read(run.lifecycle)

    assert started.keys() == {"event", "namespace", "graph_name", "trigger_call_id"}
    assert (started["event"], started["graph_name"]) == ("started", "inner")
    assert started["namespace"] == [f"inner:{started['trigger_call_id']}"]
    assert completed == {"event": "completed", "namespace": started["namespace"]}


async def test_graphs_at_every_depth_are_told_inner_ones_within_outer_ones():
    run = await opened(chain(("outer", chain(("inner", chain(leaf))))))

    assert await told(run) == [
        ("started", "outer"),
        ("started", "outer/inner"),
        ("completed", "outer/inner"),
        ("completed", "outer"),
    ]


async def test_a_graph_that_fails_is_told_with_its_error():
    run = await opened(nested(boom))
    cursor = aiter(run.lifecycle)
    await anext(cursor)
    failed = await anext(cursor)

    assert (failed["event"], failed["error"]) == ("failed", "boom")
    with pytest.raises(ValueError, match="boom"):
        await anext(cursor)


async def test_a_graph_that_asks_is_interrupted_and_starts_again():
    graph = nested(ask, checkpointer=InMemorySaver())
    run = await opened(graph, asked())
    assert await told(run) == [("started", "inner"), ("interrupted", "inner")]

    run = await opened(graph, asked(), Command(resume="this"))
    assert await told(run) == [("started", "inner"), ("completed", "inner")]


def test_a_question_beats_an_error():
    runs = NestedRuns((), deep=True)
    start = {"id": "1", "name": "a", "input": None, "triggers": ()}
    end = {"id": "1", "name": "a", "result": {}}

    def feed(namespace, data):
        return list(runs.feed({"method": "tasks", "params": {"namespace": namespace, "data": data}}))

    feed([], start)
    (run,) = feed(["a:1"], {**start, "id": "2", "name": "leaf"})
    ended = feed([], {**end, "error": ValueError("boom"), "interrupts": [{"id": "q"}]})

    assert ended == [run]
    assert run.status == "interrupted"


async def test_a_drained_graph_is_told_as_drained():
    control = RunControl()

    def drain(state):
        control.request_drain("later")

    run = await opened(chain(("inner", chain(drain, leaf)), checkpointer=InMemorySaver()), asked(), control=control)
    got = []
    with pytest.raises(GraphDrained):
        async for item in run.lifecycle:
            got.append(item["event"])

    assert got == ["started", "drained"]


async def test_each_call_of_a_graph_in_one_node_is_told():
    inner = chain(leaf)

    async def twice(state):
        await inner.ainvoke({"trail": []})
        await inner.ainvoke({"trail": []})

    run = await opened(chain(twice))
    items = await read(run.lifecycle)

    assert [(item["event"], len(item["namespace"])) for item in items] == [
        ("started", 1),
        ("started", 2),
        ("completed", 2),
        ("completed", 1),
    ]
    assert {item["graph_name"] for item in items[:2]} == {"twice"}
    assert items[0]["trigger_call_id"] == items[1]["trigger_call_id"]


async def test_a_graph_with_memory_of_its_own_is_told_in_each_round():
    inner = chain(leaf, checkpointer=True)
    builder = StateGraph(Trail)
    builder.add_node("inner", inner)
    builder.add_edge(START, "inner")
    builder.add_conditional_edges("inner", lambda state: "inner" if len(state["trail"]) < 4 else "__end__")
    run = await opened(builder.compile(checkpointer=InMemorySaver()), asked())
    items = await read(run.lifecycle)

    assert [item["event"] for item in items] == ["started", "completed"] * 2
    assert {tuple(item["namespace"]) for item in items} == {("inner",)}
    assert len({item["trigger_call_id"] for item in items if item["event"] == "started"}) == 2


async def test_the_name_of_an_agent_is_told_instead_of_its_node():
    inner = chain(leaf).with_config(metadata={"lc_agent_name": "Researcher"})
    run = await opened(chain(("inner", inner)))

    assert (await read(run.lifecycle))[0]["graph_name"] == "Researcher"


@pytest.mark.parametrize(
    "given",
    [
        {"type": "tool_call", "id": "call-1", "name": "look", "args": {}},
        [{"type": "tool_call", "id": "call-1", "name": "look", "args": {}}],
        {"tool_call": {"id": "call-1", "name": "look", "args": {}}, "state": {}},
    ],
)
async def test_a_graph_called_for_a_tool_call_says_which(given):
    inner = chain(leaf)

    async def tool(state):
        await inner.ainvoke({"trail": []})

    builder = StateGraph(Trail)
    builder.add_node("fan", lambda state: Command(goto=Send("tool", given)))
    builder.add_node("tool", tool)
    builder.add_edge(START, "fan")
    run = await opened(builder.compile())

    assert (await read(run.lifecycle))[0]["cause"] == {"type": "toolCall", "tool_call_id": "call-1"}


async def test_an_aborted_run_tells_that_its_graphs_have_not_completed():
    run = await opened(nested())
    cursor = aiter(run.lifecycle)
    await anext(cursor)
    await run.abort()

    assert [(item["event"], item["error"]) async for item in cursor] == [("failed", "The run was aborted.")]


# -- handles ---------------------------------------------------------------------------------------------------


async def test_a_handle_is_given_for_each_direct_child_and_leads_to_its_own():
    run = await opened(chain(("outer", chain(("inner", chain(leaf))))))
    seen = []
    async for outer in run.subgraphs:
        assert isinstance(outer, AsyncSubgraphRunStream)
        seen.append((outer.graph_name, outer.status))
        async for inner in outer.subgraphs:
            seen.append((inner.graph_name, inner.status, len(inner.path)))
            await inner.output()
            seen.append((inner.graph_name, inner.status))
        await outer.output()
        seen.append((outer.graph_name, outer.status))

    assert seen == [
        ("outer", "started"),
        ("inner", "started", 2),
        ("inner", "completed"),
        ("outer", "completed"),
    ]


async def test_a_handle_loses_nothing_of_its_graph():
    run = await opened(nested(), transformers=[UpdatesTransformer])
    handle = await anext(aiter(run.subgraphs))
    got = [(name, item) async for name, item in handle.interleave("values", "updates")]

    assert got == [
        ("values", {"trail": ["in", "first"]}),
        ("updates", {"leaf": {"trail": ["leaf"]}}),
        ("values", {"trail": ["in", "first", "leaf"]}),
    ]


async def test_the_output_of_a_handle_is_there_before_the_run_goes_on():
    after = []

    def later(state):
        after.append(True)

    run = await opened(chain(("inner", chain(leaf)), later))
    handle = await anext(aiter(run.subgraphs))

    assert await handle.output() == {"trail": ["in", "leaf"]}
    assert after == []
    assert handle.path == (f"inner:{handle.trigger_call_id}",)
    await run.output()
    assert after == [True]


async def test_a_handle_yields_the_events_of_its_graph_with_numbers_of_their_own():
    run = await opened(nested())
    handle = await anext(aiter(run.subgraphs))
    events = await read(handle)

    assert [event["seq"] for event in events] == [1, 2]
    assert {tuple(event["params"]["namespace"]) for event in events} == {handle.path}


async def test_a_handle_raises_what_its_graph_failed_with():
    run = await opened(nested(boom))
    handles = aiter(run.subgraphs)
    handle = await anext(handles)
    values = aiter(handle.values)

    for read_to_end in (handle.output, handle.interrupted, handle.interrupts):
        with pytest.raises(ValueError, match="boom"):
            await read_to_end()
    assert (handle.status, handle.error) == ("failed", "boom")
    with pytest.raises(ValueError, match="boom"):
        await read(values)
    with pytest.raises(ValueError, match="boom"):
        await anext(handles)


async def test_a_graph_whose_failure_is_handled_by_its_node_has_completed_for_the_run():
    inner = chain(boom)

    async def careful(state):
        try:
            await inner.ainvoke({"trail": []})
        except ValueError:
            return {"trail": ["handled"]}

    run = await opened(chain(careful))
    handle = await anext(aiter(run.subgraphs))
    await run.output()

    assert handle.status == "completed"


async def test_a_handle_tells_the_questions_of_its_graph():
    run = await opened(nested(ask, checkpointer=InMemorySaver()), asked())
    handle = await anext(aiter(run.subgraphs))

    assert await handle.interrupted()
    assert [question.value for question in await handle.interrupts()] == ["what?"]
    assert handle.status == "interrupted"
    assert [q.id for q in await handle.interrupts()] == [q.id for q in await run.interrupts()]


async def test_parallel_graphs_have_handles_that_are_kept_apart():
    inner = chain(leaf)
    builder = StateGraph(Trail)
    builder.add_node("fan", lambda state: Command(goto=[Send("inner", {"trail": [str(n)]}) for n in range(3)]))
    builder.add_node("inner", inner)
    builder.add_edge(START, "fan")
    run = await opened(builder.compile())
    handles = await read(run.subgraphs)

    assert len({handle.path for handle in handles}) == 3
    assert sorted([(await handle.output())["trail"][0] for handle in handles]) == ["0", "1", "2"]


async def test_a_task_started_for_each_handle_loses_nothing():
    inner = chain(leaf)
    builder = StateGraph(Trail)
    builder.add_node("fan", lambda state: Command(goto=[Send("inner", {"trail": [str(n)]}) for n in range(3)]))
    builder.add_node("inner", inner)
    builder.add_edge(START, "fan")
    run = await opened(builder.compile())
    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(read(handle.values)) async for handle in run.subgraphs]

    assert sorted(len(reader.result()) for reader in readers) == [2, 2, 2]


async def test_aborting_a_handle_ends_the_whole_run_and_leaving_it_does_not():
    run = await opened(nested())
    async with await anext(aiter(run.subgraphs)) as handle:
        pass
    assert await handle.output() == {"trail": ["in", "first", "leaf"]}

    run = await opened(nested())
    handle = await anext(aiter(run.subgraphs))
    await handle.abort()
    assert len(asyncio.all_tasks()) == 1
    assert handle.status == "failed"
    assert await run.output() == {"trail": ["in", "first"]}


async def test_a_projection_of_a_user_is_there_for_each_graph():
    class Count(StreamTransformer):
        def init(self):
            self.channel = StreamChannel()
            return {"count": self.channel}

        def process(self, event):
            if event["method"] == "values":
                self.channel.push(len(event["params"]["data"]["trail"]))
            return True

    run = await opened(nested(), transformers=[Count])
    handle = await anext(aiter(run.subgraphs))

    assert await read(handle.count) == [2, 3]


async def test_nested_graphs_that_nobody_reads_get_no_transformers(monkeypatch):
    from langgraph_async.stream.run import runs

    opened_children = []
    monkeypatch.setattr(runs, "_open_child", lambda *args: opened_children.append(args))
    run = await runs_of(first)
    await run.output()

    assert opened_children == []


async def runs_of(node):
    return await opened(chain(node, ("inner", chain(leaf))))
