from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from run_stream_graphs import Trail, asked, chain, first, leaf, nested, opened, read, simple

from langgraph_async import Command, StateGraph, ambient, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import ConfigError, GraphDrained, StreamOverflowError
from langgraph_async.func import entrypoint, task
from langgraph_async.runtime import RunControl
from langgraph_async.stream import (
    AsyncGraphRunStream,
    CustomTransformer,
    UpdatesTransformer,
)


def ask(state):
    return {"trail": [interrupt("what?")]}


def boom(state):
    raise ValueError("boom")


class Counter:
    """A node that counts how often it was run."""

    __name__ = "counted"

    def __init__(self):
        self.runs = 0

    def __call__(self, state):
        self.runs += 1
        return {"trail": [f"run {self.runs}"]}


# -- how it is called ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stream_mode", "subgraphs"])
async def test_what_the_run_stream_decides_itself_is_refused_by_name(name):
    with pytest.raises(TypeError, match=f"does not take {name}"):
        simple().astream_events({}, version="v3", **{name: "values"})


async def test_an_unknown_argument_is_refused_by_name():
    with pytest.raises(TypeError, match="unknown arguments: durabilty"):
        simple().astream_events({}, version="v3", durabilty="sync")


@pytest.mark.parametrize("options", [{}, {"version": "v1"}, {"version": "v2"}, {"version": "v9"}])
async def test_another_version_says_where_it_is_to_be_had(options):
    with pytest.raises(ConfigError, match=r"langgraph-async\[langchain\].*as_runnable"):
        simple().astream_events({}, **options)


async def test_it_gives_a_run_stream():
    assert isinstance(await opened(simple()), AsyncGraphRunStream)


async def test_arguments_of_astream_are_passed_on():
    saver = InMemorySaver()
    seen = []

    def look(state, runtime):
        seen.append(runtime.context)

    run = await opened(
        chain(look, checkpointer=saver), asked(), context={"user": "u"}, durability="exit", output_keys=["trail"]
    )
    await run.output()

    assert seen == [{"user": "u"}]
    assert len([kept async for kept in saver.alist(asked())]) == 1


async def test_the_context_of_the_call_counts_not_that_of_the_reader():
    import contextvars

    var = contextvars.ContextVar("var", default="none")
    seen = []

    def look(state):
        seen.append(var.get())

    var.set("caller")
    run = await opened(chain(look))
    var.set("reader")
    await run.output()

    assert seen == ["caller"]


# -- pulling ---------------------------------------------------------------------------------------------------


async def test_nothing_runs_before_somebody_reads():
    node = Counter()
    run = await opened(chain(node))
    for _ in range(20):
        await asyncio.sleep(0)
    assert node.runs == 0
    assert len(asyncio.all_tasks()) == 1

    await run.output()

    assert node.runs == 1


async def test_nothing_runs_while_nobody_reads():
    node = Counter()
    run = await opened(chain(first, node))
    cursor = aiter(run.values)
    assert await anext(cursor) == {"trail": ["in"]}
    assert await anext(cursor) == {"trail": ["in", "first"]}
    for _ in range(20):
        await asyncio.sleep(0)
    assert node.runs == 0

    assert await anext(cursor) == {"trail": ["in", "first", "run 1"]}


async def test_readers_at_the_same_time_take_turns_and_all_get_everything():
    run = await opened(nested())
    values, lifecycle, events = aiter(run.values), aiter(run.lifecycle), aiter(run)

    got = await asyncio.gather(read(values), read(lifecycle), read(events), run.output())

    assert [len(item["trail"]) for item in got[0]] == [1, 2, 5]
    assert [item["event"] for item in got[1]] == ["started", "completed"]
    assert [event["seq"] for event in got[2]] == list(range(1, 8))
    assert got[3] == {"trail": ["in", "first", "in", "first", "leaf"]}


async def test_at_most_one_item_waits_for_a_single_reader():
    def talk(state, writer):
        for number in range(50):
            writer(number)

    run = await opened(chain(talk), transformers=[CustomTransformer])
    cursor = aiter(run.custom)
    most, got = 0, []
    async for item in cursor:
        got.append(item)
        most = max(most, len(cursor))

    assert got == list(range(50))
    assert most == 0


async def test_projections_that_nobody_reads_keep_nothing():
    class Kept:
        pass

    def talk(state, writer):
        for _ in range(5):
            writer(Kept())

    run = await opened(chain(talk), transformers=[CustomTransformer])
    await run.output()
    gc.collect()

    assert not [item for item in gc.get_objects() if type(item) is Kept]


async def test_a_node_that_drains_its_writer_goes_on_as_its_messages_are_read():
    ahead = []

    async def speak(state, writer):
        for number in range(20_000):
            ambient.current.get().emit_message({"content": "x", "id": "m"}, {"langgraph_node": "speak"})
            ahead.append(number)
            await writer.drain()

    run = await opened(chain(speak))
    pieces = aiter((await anext(aiter(run.messages))).text)
    most = read_pieces = 0
    async for _ in pieces:
        read_pieces += 1
        most = max(most, len(ahead) - read_pieces)

    assert read_pieces == 20_000
    assert most <= 2


async def test_a_node_that_floods_the_stream_gets_a_clear_error():
    async def flood(state, writer):
        for number in range(20_000):
            writer(number)

    run = await opened(chain(flood), transformers=[CustomTransformer])

    with pytest.raises(StreamOverflowError, match="does not keep up"):
        await run.output()


# -- what it gives ---------------------------------------------------------------------------------------------


async def test_values_are_the_states_of_the_outer_graph():
    run = await opened(nested())

    assert await read(run.values) == [
        {"trail": ["in"]},
        {"trail": ["in", "first"]},
        {"trail": ["in", "first", "in", "first", "leaf"]},
    ]


async def test_output_is_the_last_state_again_and_again():
    run = await opened(simple())

    assert await run.output() == {"trail": ["in", "first", "leaf"]}
    assert await run.output() == {"trail": ["in", "first", "leaf"]}
    assert (await run.interrupted(), await run.interrupts()) == (False, [])


async def test_output_has_the_type_of_the_schema():
    from pydantic import BaseModel

    class Model(BaseModel):
        x: int

    def add(state):
        return {"x": state.x + 1}

    run = await chain(add, schema=Model).astream_events({"x": 1}, version="v3")

    assert await run.output() == Model(x=2)


@pytest.mark.parametrize("build", [chain, lambda node, **options: nested(node, **options)])
async def test_a_paused_run_tells_its_questions_wherever_they_are_asked(build):
    graph = build(ask, checkpointer=InMemorySaver())
    run = await opened(graph, asked())

    assert await run.interrupted() is True
    assert [question.value for question in await run.interrupts()] == ["what?"]
    snapshot = await graph.aget_state(asked())
    assert [q.id for q in await run.interrupts()] == [q.id for q in snapshot.interrupts]

    resumed = await opened(graph, asked(), Command(resume="this"))
    assert (await resumed.output())["trail"][-1] == "this"
    assert await resumed.interrupted() is False


async def test_parallel_questions_are_told_all():
    builder = StateGraph(Trail)
    for name in ("a", "b"):
        builder.add_node(name, ask)
        builder.add_edge("__start__", name)
    run = await opened(builder.compile(checkpointer=InMemorySaver()), asked())

    assert len({question.id for question in await run.interrupts()}) == 2


@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_the_question_left_alone_is_told_again(depth):
    builder = StateGraph(Trail)
    for name in ("a", "b"):
        builder.add_node(name, ask)
        builder.add_edge("__start__", name)
    graph = builder.compile()
    for _ in range(depth):
        graph = chain(("inner", graph))
    graph = graph.copy({"checkpointer": InMemorySaver()})
    run = await opened(graph, asked())
    answered, left = await run.interrupts()

    run = await opened(graph, asked(), Command(resume={answered.id: "this"}))

    assert await run.interrupts() == [left]
    snapshot = await graph.aget_state(asked())
    assert list(snapshot.interrupts) == [left]


async def test_the_question_of_a_graph_called_by_a_hidden_node_is_told():
    builder = StateGraph(Trail)
    builder.add_node("inner", chain(("inside", ask)))
    builder.add_edge("__start__", "inner")
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.nodes["inner"] = replace(graph.nodes["inner"], tags=("langsmith:hidden",))
    run = await opened(graph, asked())

    assert [item["event"] async for item in run.lifecycle] == ["started", "interrupted"]
    assert [question.value for question in await run.interrupts()] == ["what?"]


async def test_a_static_breakpoint_asks_nothing():
    run = await opened(simple(checkpointer=InMemorySaver()), asked(), interrupt_before=["leaf"])

    assert await run.output() == {"trail": ["in", "first"]}
    assert (await run.interrupted(), await run.interrupts()) == (False, [])


async def test_a_breakpoint_after_a_node_is_passed_on():
    run = await opened(simple(checkpointer=InMemorySaver()), asked(), interrupt_after="*")

    assert await run.output() == {"trail": ["in", "first"]}


async def test_a_drained_run_raises_that_it_was():
    control = RunControl()

    def drain(state):
        control.request_drain("later")

    run = await opened(chain(drain, leaf, checkpointer=InMemorySaver()), asked(), control=control)

    with pytest.raises(GraphDrained):
        await run.output()


# -- protocol events -------------------------------------------------------------------------------------------


async def test_events_say_method_namespace_time_data_and_number():
    before = time.time_ns() // 1_000_000
    run = await opened(simple())
    events = await read(run)

    assert [event["seq"] for event in events] == [1, 2, 3]
    assert {event["type"] for event in events} == {"event"}
    assert {event["method"] for event in events} == {"values"}
    assert [event["params"]["data"]["trail"][-1] for event in events] == ["in", "first", "leaf"]
    for event in events:
        assert event["params"]["namespace"] == []
        assert event["params"]["interrupts"] == ()
        assert before <= event["params"]["timestamp"] <= time.time_ns() // 1_000_000


async def test_events_of_nested_graphs_say_their_namespace_and_tasks_are_not_told():
    run = await opened(nested())
    events = await read(run)

    assert {event["method"] for event in events} == {"values", "lifecycle"}
    assert sorted({len(event["params"]["namespace"]) for event in events}) == [0, 1]
    assert all(event["params"]["namespace"] == [] for event in events if event["method"] == "lifecycle")


async def test_the_events_have_one_reader():
    run = await opened(simple())
    aiter(run)

    with pytest.raises(RuntimeError, match="already has a subscriber"):
        aiter(run)


async def test_modes_that_nobody_needs_are_not_told():
    run = await opened(simple())
    assert {event["method"] async for event in run} == {"values"}

    run = await opened(simple(), transformers=[UpdatesTransformer])
    assert {event["method"] async for event in run} == {"values", "updates"}


# -- errors ----------------------------------------------------------------------------------------------------


async def test_an_error_reaches_every_reader_after_what_came_before():
    run = await opened(chain(first, boom))
    cursors = [aiter(run.values), aiter(run.lifecycle), aiter(run.messages), aiter(run.subgraphs), aiter(run)]
    counts = []
    for cursor in cursors:
        got = []
        with pytest.raises(ValueError, match="boom"):
            async for item in cursor:
                got.append(item)
        counts.append(len(got))

    assert counts == [2, 0, 0, 0, 2]
    for read_to_end in (run.output, run.interrupted, run.interrupts):
        with pytest.raises(ValueError, match="boom"):
            await read_to_end()


async def test_the_error_is_the_one_that_the_node_raised():
    error = ValueError("boom")

    def fails(state):
        raise error

    run = await opened(chain(fails))
    with pytest.raises(ValueError, match="boom") as caught:
        await run.output()
    assert caught.value is error


async def test_a_reader_who_comes_after_a_failure_learns_of_it():
    run = await opened(chain(boom))
    with pytest.raises(ValueError, match="boom"):
        await run.output()

    with pytest.raises(ValueError, match="boom"):
        await read(run.values)


# -- workflows -------------------------------------------------------------------------------------------------


async def test_a_workflow_has_run_streams_too():
    @task
    async def double(number):
        return number * 2

    @entrypoint()
    async def flow(number):
        return await double(number) + 1

    run = await flow.astream_events(3, version="v3", transformers=[UpdatesTransformer])

    assert await read(run.updates) == [{"double": 6}, {"flow": 7}]
    assert await run.output() == 7


# -- inside a node ---------------------------------------------------------------------------------------------


async def test_a_run_stream_inside_a_node_is_a_graph_inside():
    inner = simple()

    async def call(state):
        run = await inner.astream_events({"trail": ["in"]}, version="v3")
        events = await read(run)
        assert {tuple(event["params"]["namespace"]) for event in events} == {()}
        return {"trail": (await run.output())["trail"]}

    run = await opened(chain(("call", call)))
    started = [item for item in await read(run.lifecycle) if item["event"] == "started"]

    assert [item["graph_name"] for item in started] == ["call"]
    assert await run.output() == {"trail": ["in", "in", "first", "leaf"]}


async def test_a_question_asked_in_a_run_stream_inside_a_node_pauses_the_node():
    inner = chain(("inside", ask))

    async def call(state):
        run = await inner.astream_events({"trail": ["in"]}, version="v3")
        return {"trail": (await run.output())["trail"]}

    graph = chain(("call", call), checkpointer=InMemorySaver())
    run = await opened(graph, asked())
    assert [question.value for question in await run.interrupts()] == ["what?"]

    run = await opened(graph, asked(), Command(resume="this"))
    assert await run.output() == {"trail": ["in", "in", "this"]}


async def test_a_node_cannot_wait_for_the_run_stream_that_it_is_part_of():
    runs = []

    async def wait(state):
        with pytest.raises(RuntimeError, match="cannot wait"):
            await runs[0].abort()
        return {"trail": ["refused"]}

    runs.append(await opened(chain(wait)))

    assert await runs[0].output() == {"trail": ["in", "refused"]}


# -- dropping --------------------------------------------------------------------------------------------------


async def test_a_run_stream_that_is_dropped_in_the_middle_cancels_its_run_and_warns():
    run = await opened(simple())
    await anext(aiter(run.values))
    held = [run]
    del run
    with pytest.warns(ResourceWarning, match="dropped before its run ended"):
        _drop(held)
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0)


async def test_a_run_stream_that_was_never_read_is_dropped_silently():
    run = await opened(simple())
    del run
    gc.collect()


def _drop(held):
    held.clear()
    gc.collect()


def test_run_streams_need_nothing_of_langchain():
    program = """
import asyncio, sys
sys.modules["langchain_core"] = None
from run_stream_graphs import chain, opened
from langgraph_async import ambient

def speak(state):
    ambient.current.get().emit_message({"content": "a", "id": "m"}, {"langgraph_node": "speak"})

async def main():
    run = await opened(chain(speak))
    print([await message.output() async for message in run.messages])

asyncio.run(main())
"""
    support = Path(__file__).parents[2] / "support"
    path = os.pathsep.join([str(support), str(support.parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )

    assert done.stdout.strip() == "[{'role': 'assistant', 'content': 'a', 'id': 'm'}]", done.stderr
