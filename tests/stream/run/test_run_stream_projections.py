from __future__ import annotations

import pytest
from run_stream_graphs import asked, chain, first, opened, read, simple

from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.stream import (
    CheckpointsTransformer,
    CustomTransformer,
    DebugTransformer,
    StreamTransformer,
    TasksTransformer,
    UpdatesTransformer,
)


def boom(state):
    raise ValueError("boom")


# -- projections -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transformer", "name", "mode"),
    [
        (UpdatesTransformer, "updates", "updates"),
        (TasksTransformer, "tasks", "tasks"),
        (CustomTransformer, "custom", "custom"),
    ],
)
async def test_a_mode_can_be_had_as_a_projection_of_the_outer_graph_only(transformer, name, mode):
    def talk(state, writer):
        writer("chunk")
        return {"trail": ["talk"]}

    graph = chain(talk, ("inner", chain(talk)))
    run = await opened(graph, transformers=[transformer])
    got = await read(getattr(run, name))

    expected = [item async for item in graph.astream({"trail": ["in"]}, stream_mode=mode)]
    assert len(got) == len(expected)
    if mode != "tasks":
        assert got == expected
    else:
        assert [(item["name"], "triggers" in item) for item in got] == [
            (item["name"], "triggers" in item) for item in expected
        ]


@pytest.mark.parametrize("transformer", [CheckpointsTransformer, DebugTransformer])
async def test_checkpoints_can_be_had_as_projections(transformer):
    run = await opened(simple(checkpointer=InMemorySaver()), asked(), transformers=[transformer])
    name = "checkpoints" if transformer is CheckpointsTransformer else "debug"
    got = await read(getattr(run, name))

    found = [item.get("payload", item) for item in got if item.get("type", "checkpoint") == "checkpoint"]
    assert [item["values"]["trail"] for item in found] == [[], ["in"], ["in", "first"], ["in", "first", "leaf"]]
    if transformer is DebugTransformer:
        assert {item["type"] for item in got} == {"checkpoint", "task", "task_result"}


async def test_the_projections_can_be_seen_and_not_changed():
    run = await opened(simple(), transformers=[UpdatesTransformer])

    assert list(run.extensions) == ["values", "messages", "lifecycle", "subgraphs", "updates"]
    assert run.extensions["updates"] is run.updates
    with pytest.raises(TypeError):
        run.extensions["x"] = 1


async def test_a_projection_that_is_not_there_says_which_are():
    run = await opened(simple())

    with pytest.raises(AttributeError, match="registered projections: lifecycle, messages, subgraphs, values"):
        _ = run.nothing
    with pytest.raises(AttributeError, match=r"pass transformers=\[UpdatesTransformer\]"):
        _ = run.updates


async def test_a_projection_of_a_mode_is_kept_when_it_is_asked_for_with_the_graph():
    run = await opened(simple(transformers=[UpdatesTransformer]))

    assert await read(run.updates) == [{"first": {"trail": ["first"]}}, {"leaf": {"trail": ["leaf"]}}]


# -- interleave ------------------------------------------------------------------------------------------------


async def test_projections_are_merged_in_the_order_in_which_their_items_came():
    run = await opened(simple(), transformers=[UpdatesTransformer])

    assert [(name, item) async for name, item in run.interleave("values", "updates")] == [
        ("values", {"trail": ["in"]}),
        ("updates", {"first": {"trail": ["first"]}}),
        ("values", {"trail": ["in", "first"]}),
        ("updates", {"leaf": {"trail": ["leaf"]}}),
        ("values", {"trail": ["in", "first", "leaf"]}),
    ]


async def test_merged_projections_raise_what_the_run_fails_with_after_what_came_before():
    run = await opened(chain(first, boom))
    got = []
    with pytest.raises(ValueError, match="boom"):
        async for item in run.interleave("values", "lifecycle"):
            got.append(item)

    assert len(got) == 2


async def test_merging_takes_the_one_subscription():
    run = await opened(simple())
    cursor = run.interleave("values")

    with pytest.raises(RuntimeError, match="already has a subscriber"):
        aiter(run.values)
    assert len(await read(cursor)) == 3


@pytest.mark.parametrize("names", [(), ("values", "values"), ("nothing",), ("updates",)])
async def test_what_cannot_be_merged_is_refused(names):
    run = await opened(simple())

    with pytest.raises(ValueError, match="projection"):
        run.interleave(*names)


async def test_a_projection_that_is_no_channel_cannot_be_merged():
    class Plain(StreamTransformer):
        def init(self):
            return {"plain": 5}

        def process(self, event):
            return True

    run = await opened(simple(), transformers=[Plain])

    assert run.plain == 5
    with pytest.raises(TypeError, match="no StreamChannel"):
        run.interleave("plain")
