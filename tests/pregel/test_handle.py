"""A run that is started and held by its handle."""

import asyncio
import gc

import pytest
from drawings import State, chain, logs
from threads import on
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph, entrypoint, interrupt, task
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import GraphDrained
from langgraph_async.pregel import NodeBuilder, Pregel, Run
from langgraph_async.types import GraphOutput

ALL = {"log": ["a", "b", "c"]}
UPDATES = [{name: {"log": [name]}} for name in "abc"]


def abc(saver=None):
    return chain(saver=saver, a=logs("a"), b=logs("b"), c=logs("c"))


class Gate:
    """A node that waits until it is let through, and notes how it ends."""

    def __init__(self):
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.ended = False

    async def __call__(self, state):
        self.reached.set()
        try:
            await self.opened.wait()
            return {"log": ["gate"]}
        finally:
            await asyncio.sleep(0)
            self.ended = True


async def nothing_left():
    """Wait until only this task is in the loop."""
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)


# -- awaiting ----------------------------------------------------------------------------------------------------


async def test_awaiting_gives_what_ainvoke_returns_to_every_awaiter():
    run = abc().start({"log": []})

    async def result():
        return await run

    assert isinstance(run, Run)
    assert await asyncio.gather(result(), result()) == [ALL, ALL]
    assert await run == ALL
    assert run.done()


async def test_the_run_goes_on_while_nobody_awaits_it():
    gate = Gate()
    run = chain(gate=gate).start({"log": []})
    await gate.reached.wait()

    assert not run.done()
    gate.opened.set()
    assert await run == {"log": ["gate"]}


async def test_a_run_that_nobody_reads_does_not_stall_however_much_it_writes():
    async def chatty(state, writer):
        for number in range(20_000):
            writer(number)
        await writer.drain()
        return {"log": ["chatty"]}

    run = chain(chatty=chatty, after=logs("after")).start({"log": []}, stream_mode="custom")
    assert await run == {"log": ["chatty", "after"]}


async def test_a_cancelled_awaiter_leaves_the_run_alone():
    gate = Gate()
    run = chain(gate=gate).start({"log": []})

    async def result():
        return await run

    waiting = asyncio.create_task(result())
    await gate.reached.wait()
    waiting.cancel()
    await asyncio.wait([waiting])

    assert waiting.cancelled()
    assert not run.done()
    gate.opened.set()
    assert await run == {"log": ["gate"]}


async def test_what_a_node_raises_is_raised_to_every_awaiter():
    async def bad(state):
        raise ConnectionError

    run = chain(bad=bad).start({"log": []})
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await run


async def test_a_paused_run_gives_its_questions_in_both_versions():
    async def asks(state):
        return {"log": [interrupt("?")]}

    graph = chain(saver=InMemorySaver(), asks=asks)
    found = await graph.start({"log": []}, on("1"))
    second = await graph.start({"log": []}, on("2"), version="v2")

    assert [q.value for q in found["__interrupt__"]] == ["?"]
    assert isinstance(second, GraphOutput)
    assert [q.value for q in second.interrupts] == ["?"]


async def test_the_result_is_the_output_schema_whatever_parts_show():
    class Out(TypedDict):
        x: int

    async def both(state):
        return {"log": ["a"], "x": 1}

    builder = StateGraph(State, output_schema=Out)
    builder.add_node("both", both)
    builder.add_edge(START, "both")
    graph = builder.compile()
    run = graph.start({"log": []}, stream_mode="values")
    parts = [part async for part in run]

    assert parts == [part async for part in graph.astream({"log": []}, stream_mode="values")]
    assert parts[-1] == {"log": ["a"], "x": 1}
    assert await run == await graph.ainvoke({"log": []}) == {"x": 1}


async def test_output_keys_restrict_result_and_parts():
    run = abc().start({"log": [], "x": 1}, stream_mode="values", output_keys=["x"])

    assert [part async for part in run] == [{"x": 1}]
    assert await run == {"x": 1}


# -- reading -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["updates", "values", "tasks", ["updates", "custom"], ["values", "debug"]])
@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_reading_from_the_start_gives_as_many_parts_as_astream(mode, version):
    graph = abc()
    parts = [part async for part in graph.start({"log": []}, stream_mode=mode, version=version)]

    assert len(parts) == len([p async for p in graph.astream({"log": []}, stream_mode=mode, version=version)])


async def test_parts_that_came_while_nobody_read_are_not_kept():
    gate = Gate()
    run = chain(a=logs("a"), gate=gate, c=logs("c")).start({"log": []}, stream_mode="updates")
    await gate.reached.wait()
    gate.opened.set()

    assert [part async for part in run] == [{"gate": {"log": ["gate"]}}, UPDATES[2]]


async def test_the_run_waits_for_its_reader_and_goes_on_when_it_has_left():
    started = []

    def notes(name):
        async def node(state):
            started.append(name)
            return {"log": [name]}

        return node

    run = chain(a=notes("a"), b=notes("b"), c=notes("c")).start({"log": []}, stream_mode="updates")
    async for _ in run:
        for _ in range(20):
            await asyncio.sleep(0)
        assert started == ["a"]
        break

    assert await run == ALL
    assert started == ["a", "b", "c"]


async def test_a_second_reader_at_a_time_is_refused():
    run = abc().start({"log": []}, stream_mode="updates")
    first = aiter(run)
    await anext(first)
    with pytest.raises(RuntimeError, match="one reader"):
        await anext(aiter(run))

    await first.aclose()
    assert await run == ALL


async def test_reading_raises_what_the_run_failed_with_after_its_parts():
    async def bad(state):
        raise ConnectionError

    run = chain(a=logs("a"), bad=bad).start({"log": []}, stream_mode="updates")
    parts = []
    with pytest.raises(ConnectionError):
        async for part in run:
            parts.append(part)
    assert parts == UPDATES[:1]


# -- ending ------------------------------------------------------------------------------------------------------


async def test_cancelling_ends_every_task_before_the_await_raises_and_the_thread_goes_on():
    gate, saver = Gate(), InMemorySaver()
    graph = chain(saver=saver, a=logs("a"), gate=gate)
    run = graph.start({"log": []}, on())
    await gate.reached.wait()
    run.cancel()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert gate.ended
    assert len(asyncio.all_tasks()) == 1
    run.cancel()
    gate.opened.set()
    assert await graph.ainvoke(None, on()) == {"log": ["a", "gate"]}


async def test_a_run_cancelled_before_its_first_turn_stores_nothing():
    graph = abc(InMemorySaver())
    run = graph.start({"log": []}, on())
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert (await graph.aget_state(on())).values == {}


async def test_cancelling_a_run_that_is_held_by_its_reader_ends_it():
    run = abc().start({"log": []}, stream_mode="updates")
    reader = aiter(run)
    await anext(reader)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await reader.aclose()
    assert len(asyncio.all_tasks()) == 1


async def test_a_node_that_swallows_the_cancellation_ends_the_run_all_the_same():
    reached = asyncio.Event()

    async def stubborn(state):
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"log": ["stubborn"]}

    run = chain(stubborn=stubborn, after=logs("after")).start({"log": []})
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


@pytest.mark.parametrize("leaves", ["end", "error", "cancel"])
async def test_leaving_the_block_cancels_the_run_and_waits(leaves):
    gate = Gate()

    async def block():
        async with chain(gate=gate).start({"log": []}):
            await gate.reached.wait()
            if leaves == "error":
                raise ConnectionError
            if leaves == "cancel":
                asyncio.current_task().cancel()
                await asyncio.sleep(0)

    around = asyncio.create_task(block())
    await asyncio.wait([around])

    assert gate.ended
    assert len(asyncio.all_tasks()) == 1
    assert around.cancelled() == (leaves == "cancel")
    if leaves == "error":
        assert isinstance(around.exception(), ConnectionError)


async def test_a_failure_that_nobody_asks_for_is_reported_to_the_loop():
    reports = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    async def bad(state):
        raise ConnectionError

    async with chain(bad=bad).start({"log": []}) as run:
        while not run.done():
            await asyncio.sleep(0)
    await asyncio.sleep(0)  # what is told of the run's end has been told
    del run
    gc.collect()

    assert [type(report["exception"]) for report in reports] == [ConnectionError]


async def test_a_dropped_handle_warns_and_ends_the_run():
    gate = Gate()
    held = [chain(gate=gate).start({"log": []})]
    await gate.reached.wait()
    with pytest.warns(ResourceWarning, match="'G' was dropped"):
        held.clear()
    await nothing_left()

    assert gate.ended


async def test_a_new_run_waits_for_one_that_is_being_cancelled():
    gate, saver = Gate(), InMemorySaver()
    graph = chain(saver=saver, gate=gate)
    run = graph.start({"log": []}, on())
    await gate.reached.wait()
    run.cancel()
    gate.opened.set()

    assert await graph.ainvoke({"log": []}, on()) == {"log": ["gate"]}
    await run.aclose()


# -- draining ----------------------------------------------------------------------------------------------------


async def test_draining_lets_the_step_in_flight_finish_and_the_thread_goes_on():
    gate, saver = Gate(), InMemorySaver()
    graph = chain(saver=saver, gate=gate, c=logs("c"))
    run = graph.start({"log": []}, on())
    await gate.reached.wait()
    run.drain("deploy")
    gate.opened.set()
    with pytest.raises(GraphDrained, match="deploy"):
        await run

    assert (await graph.aget_state(on())).values == {"log": ["gate"]}
    assert await graph.start(None, on()) == {"log": ["gate", "c"]}


# -- kinds of graphs, and where they are started ------------------------------------------------------------------


async def test_an_entrypoint_is_started_too():
    @task
    async def double(number):
        return 2 * number

    @entrypoint()
    async def flow(number):
        return await double(number) + 1

    run = flow.start(3, stream_mode="updates")
    assert [part async for part in run] == [{"double": 6}, {"flow": 7}]
    assert await run == 7


async def test_a_hand_made_graph_is_started_too():
    from langgraph_async.channels import LastValue

    async def double(number):
        return 2 * number

    graph = Pregel(
        nodes={"n": NodeBuilder().subscribe_only("a").do(double).write_to("b")},
        channels={"a": LastValue(int), "b": LastValue(int)},
        input_channels="a",
        output_channels="b",
    )
    assert await graph.start(3) == 6


async def test_a_node_may_start_a_graph_inside_and_await_it():
    inner = chain(a=logs("a"))

    async def outer(state):
        run = inner.start({"log": []})
        return await run

    saver = InMemorySaver()
    assert await chain(saver=saver, outer=outer).ainvoke({"log": []}, on()) == {"log": ["a"]}


@pytest.mark.parametrize("turns", [0, 1, 5])
async def test_a_node_that_returns_ends_what_it_has_started(turns):
    gate, runs = Gate(), []

    async def outer(state):
        runs.append(chain(gate=gate).start({"log": []}))
        for _ in range(turns):
            await asyncio.sleep(0)
        return {"log": ["outer"]}

    assert await chain(outer=outer).ainvoke({"log": []}) == {"log": ["outer"]}
    assert runs[0].done()
    assert len(asyncio.all_tasks()) == 1


async def test_a_graph_started_inside_gives_the_slot_of_its_node_to_its_own_nodes():
    async def outer(state):
        first, second = chain(a=logs("a")).start({"log": []}), chain(b=logs("b")).start({"log": []})
        return {"log": [*(await first)["log"], *(await second)["log"]]}

    found = await chain(outer=outer).ainvoke({"log": []}, {"max_concurrency": 1})
    assert found == {"log": ["a", "b"]}


@pytest.mark.parametrize("waits", ["await", "aclose", "read"])
async def test_a_node_that_waits_for_its_own_run_is_refused(waits):
    box = []

    async def node(state):
        if waits == "await":
            await box[0]
        elif waits == "aclose":
            await box[0].aclose()
        else:
            await anext(aiter(box[0]))

    box.append(chain(node=node).start({"log": []}))
    with pytest.raises(RuntimeError, match="'node' cannot wait"):
        await box[0]


async def test_a_handle_knows_its_run_and_thread():
    run = abc(InMemorySaver()).start({"log": []}, {**on("7"), "run_id": "r"})
    assert (run.thread_id, run.run_id) == ("7", "r")
    assert repr(run) == "<Run of 'G', thread '7', going on>"
    await run
    assert repr(run) == "<Run of 'G', thread '7', ended>"

    other = abc().start({"log": []})
    assert (other.thread_id, other.run_id) == (None, None)
    await other


def test_starting_without_an_event_loop_is_refused():
    with pytest.raises(RuntimeError, match="needs a running event loop"):
        abc().start({"log": []})
