"""Every way to leave a run stream, at every turn of the event loop: nothing of the run is left."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from run_stream_graphs import asked, chain, first, nested, opened, read

from langgraph_async import ambient
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.stream import StreamTransformer, UpdatesTransformer

TURNS = range(90)


class Hanging:
    """A node that waits for ever, and notes how it was left."""

    def __init__(self):
        self.running = 0
        self.reached = asyncio.Event()

    async def __call__(self, state):
        self.running += 1
        try:
            ambient.current.get().emit_message({"content": "a", "id": "m"}, {"langgraph_node": "leaf"})
            self.reached.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.running -= 1


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


def only_this_task():
    return asyncio.all_tasks() == {asyncio.current_task()}


async def deep(run):
    """Read the text of a message in a nested graph."""
    async for handle in run.subgraphs:
        async for stream in handle.messages:
            await stream.text


READERS = {
    "values": lambda run: read(run.values),
    "events": read,
    "output": lambda run: run.output(),
    "interrupts": lambda run: run.interrupts(),
    "interleave": lambda run: read(run.interleave("values", "lifecycle")),
    "deep": deep,
}


@pytest.mark.parametrize("reader", READERS)
async def test_a_reader_that_is_cancelled_at_any_turn_takes_the_run_with_it(reader):
    node = Hanging()
    graph = nested(node, checkpointer=InMemorySaver())
    for turn in TURNS:
        run = await opened(graph, asked(f"thread {turn}"))
        task = asyncio.create_task(READERS[reader](run))
        await turns(turn)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert node.running == 0
        assert only_this_task()
    assert node.reached.is_set(), "more turns are needed"


async def test_an_anyio_cancellation_at_any_turn_takes_the_run_with_it():
    node = Hanging()
    graph = nested(node)
    for turn in TURNS:
        run = await opened(graph)
        async with anyio.create_task_group() as group:
            group.start_soon(run.output)
            await turns(turn)
            group.cancel_scope.cancel()

        assert node.running == 0
        assert only_this_task()
    assert node.reached.is_set()


async def test_a_run_can_be_aborted_at_any_turn_while_somebody_reads():
    node = Hanging()
    graph = nested(node, checkpointer=InMemorySaver())
    for turn in TURNS:
        run = await opened(graph, asked(f"thread {turn}"))
        values, output = asyncio.create_task(read(run.values)), asyncio.create_task(run.output())
        nested_text = asyncio.create_task(deep(run))
        await turns(turn)
        while turn == TURNS[-1] and not node.running:
            await asyncio.sleep(0)
        await run.abort()

        assert node.running == 0
        assert asyncio.all_tasks() <= {asyncio.current_task(), values, output, nested_text}
        await asyncio.wait_for(asyncio.gather(values, output, nested_text), 10)
    assert node.reached.is_set()
    assert values.result() == [{"trail": ["in"]}, {"trail": ["in", "first"]}]
    assert output.result() == {"trail": ["in", "first"]}


async def test_an_abort_that_is_cancelled_at_any_turn_has_ended_the_run_all_the_same():
    for turn in range(30):
        node = Hanging()
        run = await opened(nested(node))
        reader = asyncio.create_task(read(run.values))
        await node.reached.wait()
        abort = asyncio.create_task(run.abort())
        await turns(turn)
        abort.cancel()
        await asyncio.wait([abort])
        await run.abort()

        assert node.running == 0
        await reader
        assert only_this_task()


async def test_aborting_is_idempotent_and_may_happen_twice_at_once():
    run = await opened(nested(Hanging()))
    await anext(aiter(run.values))
    await asyncio.gather(run.abort(), run.abort())
    await run.abort()

    assert only_this_task()
    assert await run.output() == {"trail": ["in"]}
    assert (await run.interrupted(), await run.interrupts()) == (False, [])


async def test_a_run_that_was_aborted_before_it_began_never_runs():
    node = Hanging()
    run = await opened(chain(("leaf", node)))
    await run.abort()

    assert await read(run.values) == []
    assert await run.output() is None
    assert not node.reached.is_set()


async def test_aborting_a_run_that_has_ended_changes_nothing():
    run = await opened(chain(first))
    output = await run.output()
    await run.abort()

    assert await run.output() == output


async def test_leaving_the_context_aborts():
    node = Hanging()
    async with await opened(nested(node)) as run:
        async for _ in run.subgraphs:
            break
    assert node.running == 0
    assert only_this_task()

    node = Hanging()
    with pytest.raises(KeyError, match="mine"):
        async with await opened(nested(node)) as run:
            handle = await anext(aiter(run.subgraphs))
            await anext(aiter(handle.messages))
            assert node.running == 1
            raise KeyError("mine")
    assert node.running == 0
    assert only_this_task()


async def test_a_reader_that_only_waits_for_another_leaves_the_run_alone():
    go = asyncio.Event()

    async def wait(state):
        await go.wait()
        return {"trail": ["waited"]}

    run = await opened(chain(("leaf", wait)))
    puller = asyncio.create_task(run.output())
    await turns(5)
    waiter = asyncio.create_task(read(run.values))
    await turns(60)
    waiter.cancel()
    await asyncio.wait([waiter])
    go.set()

    assert waiter.cancelled()
    assert await puller == {"trail": ["in", "waited"]}


async def test_other_readers_learn_that_the_run_was_cancelled_after_what_came_before():
    node = Hanging()
    run = await opened(nested(node))
    values, lifecycle = aiter(run.values), aiter(run.lifecycle)
    puller = asyncio.create_task(run.output())
    await node.reached.wait()
    puller.cancel()
    await asyncio.wait([puller])

    assert [await anext(values), await anext(values)] == [{"trail": ["in"]}, {"trail": ["in", "first"]}]
    for reading in (anext(values), run.output(), run.interrupted()):
        with pytest.raises(asyncio.CancelledError, match="Another consumer"):
            await reading
    assert [(await anext(lifecycle))["event"] for _ in range(2)] == ["started", "failed"]


async def test_a_transformer_that_waits_is_cancelled_with_its_reader_and_by_an_abort():
    reached = asyncio.Event()
    left = []

    class Waiting(StreamTransformer):
        async def aprocess(self, event):
            reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.append(True)

    run = await opened(chain(first), transformers=[Waiting])
    reader = asyncio.create_task(run.output())
    await reached.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert left == [True]
    assert only_this_task()

    reached.clear()
    run = await opened(chain(first), transformers=[Waiting])
    reader = asyncio.create_task(run.output())
    await reached.wait()
    await run.abort()
    await reader
    assert left == [True, True]
    assert only_this_task()


async def test_a_cancelled_run_can_be_taken_up_again():
    node = Hanging()
    graph = nested(node, checkpointer=InMemorySaver())
    run = await opened(graph, asked())
    reader = asyncio.create_task(run.output())
    await node.reached.wait()
    reader.cancel()
    await asyncio.wait([reader])

    state = await graph.aget_state(asked())
    assert state.next == ("inner",)
    again = await graph.astream_events(None, asked(), version="v3", transformers=[UpdatesTransformer])
    node.reached.clear()
    reader = asyncio.create_task(again.output())
    await node.reached.wait()
    await again.abort()
    assert await reader == {"trail": ["in", "first"]}


async def test_a_node_that_leaves_a_run_stream_behind_ends_it():
    inside = Hanging()

    async def careless(state):
        run = await opened(chain(("leaf", inside)))
        await anext(aiter(run.messages))
        kept.append(run)
        return {"trail": ["left"]}

    kept = []
    run = await opened(chain(careless))

    assert await run.output() == {"trail": ["in", "left"]}
    assert inside.running == 0
    with pytest.raises(asyncio.CancelledError):
        await kept[0].output()
    assert only_this_task()
