"""Streams that are read slowly, late, or not at all: departures F8 and F9."""

import asyncio
import contextvars
import gc
import threading
import warnings
import weakref

import pytest
from drawings import State, chain, logs, says
from threads import on

from langgraph_async import START, StateGraph, entrypoint, get_stream_writer, task
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import StreamOverflowError
from langgraph_async.stream.bus import HARD_LIMIT, SOFT_LIMIT

# -- F8: chunks of code that outlived its node -------------------------------------------------------------------


async def test_a_chunk_of_a_left_over_task_is_refused_with_a_warning():
    go, wrote = asyncio.Event(), asyncio.Event()
    refused: list[str] = []
    kept: list = []

    async def leaves(state, writer):
        async def late():
            await go.wait()
            with pytest.warns(RuntimeWarning, match="'leaves'.*after it was done"):
                writer("late")
            refused.append("late")
            wrote.set()

        kept.append(asyncio.create_task(late()))
        writer("early")

    async def later(state, writer):
        go.set()
        await wrote.wait()
        writer("later")

    chunks = [c async for c in chain(leaves=leaves, later=later).astream({}, stream_mode="custom")]

    assert chunks == ["early", "later"]
    assert refused == ["late"]
    await kept[0]


@pytest.mark.parametrize("end", ["returns", "fails", "cancelled"])
async def test_a_writer_is_closed_however_its_node_ended(end):
    writers: list = []

    async def node(state):
        writers.append(get_stream_writer())
        writers[0]("early")
        if end == "fails":
            raise ConnectionError
        if end == "cancelled":
            await asyncio.Event().wait()

    stream = chain(node=node).astream({}, stream_mode="custom")
    assert await anext(stream) == "early"
    if end == "cancelled":
        await stream.aclose()
    elif end == "fails":
        with pytest.raises(ConnectionError):
            await anext(stream)
    else:
        assert [c async for c in stream] == []

    with pytest.warns(RuntimeWarning, match="'node'"):
        writers[0]("late")


async def test_a_writer_first_asked_for_after_the_node_ended_is_closed_too():
    contexts: list = []

    async def node(state):
        contexts.append(contextvars.copy_context())

    chunks = [c async for c in chain(node=node, b=says({})).astream({}, stream_mode="custom")]

    assert chunks == []
    with pytest.warns(RuntimeWarning, match="'node'"):
        contexts[0].run(lambda: get_stream_writer()("late"))


async def test_a_chunk_of_a_left_over_thread_is_refused():
    go, done = threading.Event(), threading.Event()
    seen: list = []

    def late(writer):
        go.wait(5)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            writer("late")
        seen.extend(caught)
        done.set()

    def leaves(state, writer):
        threading.Thread(target=late, args=(writer,)).start()
        writer("early")

    def later(state, writer):
        go.set()
        done.wait(5)
        writer("later")

    chunks = [c async for c in chain(leaves=leaves, later=later).astream({}, stream_mode="custom")]

    assert chunks == ["early", "later"]
    assert [w.category for w in seen] == [RuntimeWarning]


async def test_a_writer_of_a_nested_graph_is_closed_with_its_node():
    writers: list = []

    async def inner(state, writer):
        writers.append(writer)
        writer("in")

    graph = chain(sub=chain(inner=inner), b=says({}))
    chunks = [c async for c in graph.astream({}, stream_mode="custom", subgraphs=True)]

    assert [c for _, c in chunks] == ["in"]
    with pytest.warns(RuntimeWarning, match="'inner'"):
        writers[0]("late")


async def test_nothing_is_warned_about_when_nobody_listens():
    writers: list = []

    async def node(state, writer):
        writers.append(writer)

    await chain(node=node).ainvoke({})
    writers[0]("late")


# -- F9: slow readers ----------------------------------------------------------------------------------------------


async def test_a_node_that_drains_never_has_more_waiting_than_it_wrote_since():
    ahead: list[int] = []
    written = read = 0

    async def writes(state, writer):
        nonlocal written
        for _ in range(2_000):
            written += 1
            writer(written)
            await writer.drain()
            ahead.append(written - read)

    async for _ in chain(writes=writes).astream({}, stream_mode="custom"):
        read += 1
        await asyncio.sleep(0)

    assert read == 2_000
    assert max(ahead) <= 2


async def test_draining_in_batches_bounds_what_waits_by_the_batch():
    written = read = most = 0

    async def writes(state, writer):
        nonlocal written, most
        for number in range(5_000):
            written += 1
            most = max(most, written - read)
            writer(number)
            if number % 100 == 99:
                await writer.drain()

    async for _ in chain(writes=writes).astream({}, stream_mode="custom"):
        read += 1

    assert read == 5_000
    assert most <= 101


async def test_a_chunk_past_the_hard_bound_is_a_clear_error():
    written = 0

    async def floods(state, writer):
        nonlocal written
        for number in range(3 * HARD_LIMIT):
            writer(number)
            written += 1

    stream = chain(floods=floods).astream({}, stream_mode="custom")
    read = 0
    with pytest.raises(StreamOverflowError, match="drain"):
        async for _ in stream:
            read += 1

    assert written == read == HARD_LIMIT


async def test_a_flood_from_a_thread_is_bounded_alike():
    flooded, loop = asyncio.Event(), asyncio.get_running_loop()

    def floods(state, writer):
        try:
            for number in range(3 * HARD_LIMIT):
                writer(number)
        finally:
            loop.call_soon_threadsafe(flooded.set)

    read = 0
    with pytest.raises(StreamOverflowError):
        async for _ in chain(floods=floods).astream({}, stream_mode="custom"):
            await flooded.wait()
            read += 1

    assert HARD_LIMIT <= read <= HARD_LIMIT + 1


async def test_memory_is_flat_for_a_reader_that_keeps_up():
    alive: weakref.WeakSet = weakref.WeakSet()
    most = 0

    class Chunk:
        pass

    async def writes(state, writer):
        nonlocal most
        for _ in range(20_000):
            chunk = Chunk()
            alive.add(chunk)
            writer(chunk)
            del chunk
            await writer.drain()
            most = max(most, len(alive))

    async for item in chain(writes=writes).astream({}, stream_mode="custom"):
        del item

    assert most <= 3


async def test_a_superstep_does_not_start_before_the_reader_has_taken_the_last_one():
    started: list[str] = []

    def node(name):
        async def run(state):
            started.append(name)
            return {"log": [name]}

        return run

    stream = chain(a=node("a"), b=node("b"), c=node("c")).astream({}, stream_mode="updates")
    for name in "abc":
        await anext(stream)
        for _ in range(20):
            await asyncio.sleep(0)
        assert started == list("abc"[: "abc".index(name) + 1])
    await stream.aclose()


@pytest.mark.parametrize(
    "mode", ["custom", "updates", "values", "tasks", "debug", "checkpoints", ["custom", "updates"]]
)
async def test_a_reader_that_is_gone_stops_the_run_wherever_it_stands(mode):
    rounds: list[int] = []

    async def writes(state, writer):
        rounds.append(1)
        for number in range(10):
            writer(number)
            await asyncio.sleep(0)
        return {"log": [1]}

    builder = StateGraph(State)
    builder.add_node("writes", writes)
    builder.add_edge(START, "writes")
    builder.add_edge("writes", "writes")
    graph = builder.compile(checkpointer=InMemorySaver())
    for dead_after in range(6):
        stream = graph.astream({"log": []}, on(str(dead_after)), stream_mode=mode)
        for _ in range(dead_after):
            await anext(stream)
        await stream.aclose()
        ran = len(rounds)
        for _ in range(20):
            await asyncio.sleep(0)

        assert len(rounds) == ran
        assert len(asyncio.all_tasks()) == 1


async def test_a_node_that_waits_in_drain_is_cancelled_when_the_reader_leaves():
    ended: list[str] = []

    async def writes(state, writer):
        try:
            while True:
                writer(1)
                await writer.drain()
        finally:
            await asyncio.sleep(0)
            ended.append("writes")

    stream = chain(writes=writes).astream({}, stream_mode="custom")
    await anext(stream)
    await stream.aclose()

    assert ended == ["writes"]


async def test_drain_returns_at_once_when_nobody_reads():
    async def writes(state, writer):
        for _ in range(3 * HARD_LIMIT):
            writer(1)
        await writer.drain()
        return {"log": ["done"]}

    assert await chain(writes=writes).ainvoke({}) == {"log": ["done"]}
    collected = await chain(writes=writes).ainvoke({}, stream_mode="custom")
    assert len(collected) == 3 * HARD_LIMIT


async def test_drain_from_parallel_nodes_wakes_each():
    async def writes(state, writer):
        for _ in range(50):
            writer(1)
            await writer.drain()

    builder = StateGraph(State)
    for name in "abcd":
        builder.add_node(name, writes)
        builder.add_edge(START, name)

    assert len([c async for c in builder.compile().astream({}, stream_mode="custom")]) == 200


async def test_what_the_engine_tells_is_never_refused_and_never_counts_against_chunks():
    async def writes(state, writer):
        for number in range(SOFT_LIMIT):
            writer(number)
        return {"log": [1]}

    builder = StateGraph(State)
    for number in range(30):
        builder.add_node(f"n{number}", writes)
        builder.add_edge(START, f"n{number}")
    items = [i async for i in builder.compile().astream({}, stream_mode=["custom", "updates", "tasks", "values"])]

    assert len([i for i in items if i[0] == "custom"]) == 30 * SOFT_LIMIT
    assert len([i for i in items if i[0] == "updates"]) == 30


async def test_a_stream_that_was_never_started_costs_nothing():
    ran: list[int] = []

    async def node(state):
        ran.append(1)

    stream = chain(node=node).astream({})
    del stream
    gc.collect()
    await asyncio.sleep(0)

    assert ran == []
    assert logs


# -- F9: everybody who writes waits for the reader -----------------------------------------------------------------


async def slow(stream, each):
    async for item in stream:
        each(item)
        for _ in range(3):
            await asyncio.sleep(0)


def looping(steps, *, writes=False):
    """A graph of one node that runs `steps` times, and may write a chunk each time."""
    ran = []

    async def turn(state, writer):
        ran.append(1)
        if writes:
            writer(len(ran))
        return {"x": len(ran)}

    builder = StateGraph(State)
    builder.add_node("turn", turn)
    builder.add_edge(START, "turn")
    builder.add_conditional_edges("turn", lambda _: "turn" if len(ran) < steps else "__end__")
    return builder.compile(name="inner"), ran


@pytest.mark.parametrize("mode", ["updates", "custom"])
async def test_a_nested_graph_waits_for_a_reader_that_hears_it(mode):
    inner, ran = looping(1_500, writes=True)
    read = most = 0

    async def calls(state):
        await inner.ainvoke({}, {"recursion_limit": 2_000})

    def each(item):
        nonlocal read, most
        read += 1
        most = max(most, len(ran) - read)

    await slow(chain(calls=calls).astream({}, stream_mode=mode, subgraphs=True), each)

    assert len(ran) == 1_500
    assert most <= SOFT_LIMIT + 10


async def test_a_nested_graph_that_nobody_hears_waits_for_nobody():
    inner, ran = looping(600)

    async def calls(state, writer):
        writer("held")
        await inner.ainvoke({}, {"recursion_limit": 700})

    stream = chain(calls=calls).astream({}, stream_mode="custom")
    await anext(stream)
    for _ in range(20_000):
        if len(ran) == 600:
            break
        await asyncio.sleep(0)
    assert len(ran) == 600
    await stream.aclose()


async def test_draining_in_a_graph_that_its_caller_streams_waits_for_the_outer_reader_too():
    written = read = most = 0

    async def writes(state, writer):
        nonlocal written, most
        for _ in range(1_000):
            written += 1
            writer(written)
            await writer.drain()
            most = max(most, written - read)

    inner = chain(writes=writes)

    async def calls(state):
        async for _ in inner.astream({}, stream_mode="custom"):
            pass

    def each(_):
        nonlocal read
        read += 1

    await slow(chain(calls=calls).astream({}, stream_mode="custom", subgraphs=True), each)

    assert read == 1_000
    assert most <= 2


async def test_the_calls_of_a_workflow_wait_for_the_reader():
    done = read = most = 0

    @task
    async def call(n):
        nonlocal done
        done += 1
        return n

    @entrypoint()
    async def workflow(value):
        nonlocal most
        for n in range(1_500):
            await call(n)
            most = max(most, done - read)
        return done

    def each(_):
        nonlocal read
        read += 1

    await slow(workflow.astream(1, stream_mode="updates"), each)

    assert done == 1_500
    assert most <= SOFT_LIMIT + 10


async def test_a_node_in_a_thread_can_wait_for_the_reader():
    written = read = most = 0

    def writes(state, writer):
        nonlocal written, most
        for _ in range(300):
            written += 1
            writer(written)
            writer.drain_blocking()
            most = max(most, written - read)

    def each(_):
        nonlocal read
        read += 1

    await slow(chain(writes=writes).astream({}, stream_mode="custom"), each)

    assert read == 300
    assert most <= 2


async def test_a_thread_that_waits_for_a_reader_who_leaves_goes_on():
    went_on = threading.Event()

    def writes(state, writer):
        for n in range(10):
            writer(n)
        writer.drain_blocking()
        went_on.set()

    stream = chain(writes=writes).astream({}, stream_mode="custom")
    await anext(stream)
    await stream.aclose()
    assert went_on.is_set()


async def test_waiting_for_the_reader_in_the_event_loop_is_refused():
    async def writes(state, writer):
        with pytest.raises(RuntimeError, match=r"await writer\.drain"):
            writer.drain_blocking()

    async for _ in chain(writes=writes).astream({}, stream_mode="custom"):
        pass


@pytest.mark.parametrize("read_by", ["nobody", "ainvoke"])
async def test_a_thread_whose_chunks_nobody_reads_does_not_wait(read_by):
    def writes(state, writer):
        writer(1)
        writer.drain_blocking()
        return {"x": 1}

    graph = chain(writes=writes)
    found = await (graph.start({}, stream_mode="custom") if read_by == "nobody" else graph.ainvoke({}))
    assert found["x"] == 1
