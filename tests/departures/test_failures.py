"""Cancellation and failure: departures F1, F4 and F5."""

import asyncio
import gc
import traceback

import anyio
import pytest
from drawings import State, chain, logs, says
from threads import on, stored

from langgraph_async import START, Send, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import siblings

DURABILITIES = ["sync", "async", "exit"]


# -- F1: every descendant has ended before the cancellation leaves the call --------------------------------------


class Life:
    """Notes which nodes started and which of them ran their `finally` to the end.

    An anyio scope cancels again and again, and `asyncio.gather` passes each cancellation on to its members, where no
    shield holds it off: there, clean-up cannot await (`careful=False`).
    """

    def __init__(self, *, careful: bool = True) -> None:
        self.careful = careful
        self.started: list[str] = []
        self.ended: list[str] = []
        self.reached = asyncio.Event()

    def forever(self, name):
        async def node(state):
            self.started.append(name)
            self.reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                if self.careful:
                    with anyio.CancelScope(shield=True):
                        for _ in range(3):
                            await asyncio.sleep(0)
                self.ended.append(name)

        return node

    async def then(self, act) -> None:
        await self.reached.wait()
        act()

    def check(self) -> None:
        assert self.started
        assert sorted(self.started) == sorted(self.ended)
        assert len(asyncio.all_tasks()) == 1


def nested(life: Life, depth: int, how: str):
    """Nodes that never end, side by side at the bottom of some levels of graphs."""
    builder = StateGraph(State)
    for name in "ab":
        builder.add_node(name, life.forever(name))
        builder.add_edge(START, name)
    graph = builder.compile()
    for _ in range(depth):
        graph = chain(sub=calls(graph, how))
    return graph


def calls(graph, how: str):
    async def awaits(state):
        return await graph.ainvoke({})

    async def reads(state):
        async for _ in graph.astream({}):
            pass

    async def gathers(state):
        await asyncio.gather(graph.ainvoke({}), graph.ainvoke({}))

    async def groups(state):
        async with asyncio.TaskGroup() as group:
            group.create_task(graph.ainvoke({}))
            group.create_task(graph.ainvoke({}))

    async def anyio_groups(state):
        async with anyio.create_task_group() as group:
            group.start_soon(graph.ainvoke, {})
            group.start_soon(graph.ainvoke, {})

    node = {
        "node": graph,
        "await": awaits,
        "read": reads,
        "gather": gathers,
        "group": groups,
        "anyio": anyio_groups,
    }
    return node[how]


HOWS = ["node", "await", "read", "gather", "group", "anyio"]


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("how", HOWS)
async def test_a_task_cancel_ends_all_descendants(depth, how):
    life = Life()
    run = asyncio.create_task(nested(life, depth, how).ainvoke({}))
    await life.reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    life.check()


@pytest.mark.parametrize("how", HOWS)
async def test_an_anyio_scope_ends_all_descendants(how):
    life = Life(careful=how != "gather")
    with anyio.CancelScope() as scope:

        async def cancel():
            await life.reached.wait()
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(cancel)
            await nested(life, 2, how).ainvoke({})

    assert scope.cancelled_caught
    life.check()


@pytest.mark.parametrize("how", HOWS)
async def test_an_anyio_scope_around_a_reader_ends_all_descendants(how):
    life = Life()
    with anyio.CancelScope() as scope:
        soon = asyncio.create_task(life.then(scope.cancel))
        async for _ in nested(life, 2, how).astream({}, subgraphs=True):
            pass
    await soon

    assert scope.cancelled_caught
    life.check()


@pytest.mark.parametrize("how", HOWS)
async def test_fail_after_and_timeout_end_all_descendants(how):
    life = Life()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            soon = asyncio.create_task(life.then(lambda: limit.reschedule(0)))
            await nested(life, 2, how).ainvoke({})
    await soon
    life.check()

    life = Life(careful=how != "gather")
    with pytest.raises(TimeoutError), anyio.fail_after(None) as scope:
        soon = asyncio.create_task(life.then(lambda: setattr(scope, "deadline", 0)))
        await nested(life, 2, how).ainvoke({})
    await soon
    life.check()


async def test_wait_for_ends_all_descendants():
    life = Life()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(nested(life, 2, "gather").ainvoke({}), 0.3)

    life.check()


@pytest.mark.parametrize("how", HOWS)
async def test_a_failing_member_of_a_task_group_ends_a_run_beside_it(how):
    life = Life()

    async def fails():
        await life.reached.wait()
        raise ConnectionError

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(nested(life, 2, how).ainvoke({}))
            group.create_task(fails())

    life.check()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("leave", ["aclose", "break", "error"])
async def test_leaving_a_stream_ends_all_descendants(how, leave):
    life = Life()
    builder = StateGraph(State)
    builder.add_node("quick", logs("quick"))
    builder.add_node("deep", nested(life, 1, how))
    builder.add_edge(START, "quick")
    builder.add_edge(START, "deep")
    stream = builder.compile().astream({}, stream_mode="updates")
    assert await anext(stream) == {"quick": {"log": ["quick"]}}
    await life.reached.wait()
    if leave == "aclose":
        await stream.aclose()
    elif leave == "error":
        with pytest.raises(ConnectionError):
            await stream.athrow(ConnectionError())
    else:
        del stream
        gc.collect()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    life.check()


async def test_a_sibling_of_a_failed_node_has_ended_before_the_error_leaves():
    life = Life()

    async def fails(state):
        await life.reached.wait()
        raise ConnectionError

    builder = StateGraph(State)
    builder.add_node("deep", nested(life, 1, "gather"))
    builder.add_node("fails", fails)
    builder.add_edge(START, "deep")
    builder.add_edge(START, "fails")
    with pytest.raises(ConnectionError):
        await builder.compile().ainvoke({})

    life.check()


@pytest.mark.parametrize("outcome", ["fails", "returns"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_graph_that_a_node_left_running_ends_with_the_node(outcome, streamed):
    life = Life()
    inner = nested(life, 0, "node")
    kept: list = []

    async def leaves(state):
        if streamed:
            stream = inner.astream({})
            kept.append((stream, asyncio.create_task(anext(stream))))
        else:
            kept.append(asyncio.create_task(inner.ainvoke({})))
        await life.reached.wait()
        if outcome == "fails":
            raise ConnectionError
        return {"log": ["left"]}

    graph = chain(saver=InMemorySaver(), leaves=leaves)
    if outcome == "fails":
        with pytest.raises(ConnectionError):
            await graph.ainvoke({}, on())
    else:
        assert await graph.ainvoke({}, on()) == {"log": ["left"]}

    assert sorted(life.started) == sorted(life.ended)
    for item in kept:
        task = item[1] if streamed else item
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is not None
    assert len(asyncio.all_tasks()) == 1


# -- F4: what a cancelled run leaves on the thread -------------------------------------------------------------


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("how", ["task", "anyio", "aclose", "timeout"])
async def test_a_cancelled_run_keeps_what_is_finished_and_records_what_is_not(durability, how):
    ran: list[str] = []
    calm = asyncio.Event()
    reached = asyncio.Event()

    async def quick(state):
        ran.append("quick")
        return {"log": ["quick"]}

    async def slow(state):
        ran.append("slow")
        reached.set()
        await calm.wait()
        return {"log": ["slow"]}

    builder = StateGraph(State)
    builder.add_node("first", logs("first"))
    builder.add_node("quick", quick)
    builder.add_node("slow", slow)
    builder.add_edge(START, "first")
    builder.add_edge("first", "quick")
    builder.add_edge("first", "slow")
    graph = builder.compile(checkpointer=InMemorySaver())

    async def run():
        await graph.ainvoke({"log": ["in"]}, on(), durability=durability)

    if how == "task":
        task = asyncio.create_task(run())
        await reached.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    elif how == "anyio":
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await reached.wait()
            group.cancel_scope.cancel()
    elif how == "timeout":
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run(), 0.3)
    else:
        stream = graph.astream({"log": ["in"]}, on(), stream_mode="updates", durability=durability)
        async for item in stream:
            if "quick" in item:
                break
        await reached.wait()
        await stream.aclose()

    kept = await stored(graph, on())
    assert kept.values == {"log": ["in", "first"]}
    assert kept.next == ("slow",)
    assert "CancelledError" in repr(kept.errors["slow"])
    calm.set()
    assert await graph.ainvoke(None, on()) == {"log": ["in", "first", "quick", "slow"]}
    assert ran == ["quick", "slow", "slow"]


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_run_cancelled_in_a_subgraph_goes_on_inside_it(durability):
    ran: list[str] = []
    calm, reached = asyncio.Event(), asyncio.Event()

    async def a(state):
        ran.append("a")
        return {"log": ["a"]}

    async def b(state):
        ran.append("b")
        reached.set()
        await calm.wait()
        return {"log": ["b"]}

    graph = chain(saver=InMemorySaver(), sub=chain(a=a, b=b))
    task = asyncio.create_task(graph.ainvoke({"log": []}, on(), durability=durability))
    await reached.wait()
    task.cancel()
    await asyncio.wait([task])

    assert (await stored(graph, on())).next == ("sub",)
    calm.set()
    assert (await graph.ainvoke(None, on()))["log"] == ["a", "b"]
    assert ran == ["a", "b", "b"]


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_failed_run_keeps_what_is_finished_and_records_what_is_not(durability):
    ran: list[str] = []

    async def quick(state):
        ran.append("quick")
        return {"log": ["quick"]}

    async def bad(state):
        ran.append("bad")
        await asyncio.sleep(0)
        if ran.count("bad") == 1:
            raise ConnectionError("once")
        return {"log": ["bad"]}

    builder = StateGraph(State)
    for name, node in {"quick": quick, "bad": bad}.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=InMemorySaver())

    with pytest.raises(ConnectionError):
        await graph.ainvoke({"log": []}, on(), durability=durability)
    kept = await stored(graph, on())
    assert kept.next == ("bad",)
    assert "once" in repr(kept.errors["bad"])
    assert (await graph.ainvoke(None, on(), durability=durability))["log"] == ["bad", "quick"]
    assert sorted(ran) == ["bad", "bad", "quick"]


# -- F5: several failures of one superstep ---------------------------------------------------------------------


def failing(*makers, saver=None):
    builder = StateGraph(State)
    for name, node in makers:
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


def raises(exc):
    async def node(state):
        raise exc

    return node


async def test_the_first_of_several_failures_is_raised_and_holds_the_others():
    first, second, third = ConnectionError("1"), ValueError("2"), KeyError("3")
    graph = failing(("a", raises(first)), ("b", raises(second)), ("c", raises(third)))

    with pytest.raises(ConnectionError) as caught:
        await graph.ainvoke({})

    assert caught.value is first
    assert siblings(first) == (second, third)
    notes = "\n".join(first.__notes__)
    assert "'a'" in notes
    assert "'b' failed too: ValueError('2')" in notes
    assert "'c' failed too: KeyError('3')" in notes


async def test_a_failure_during_the_clean_up_of_a_cancelled_sibling_is_attached():
    async def breaks_in_finally(state):
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("clean-up")

    async def bad(state):
        await asyncio.sleep(0)
        raise ConnectionError("first")

    with pytest.raises(ConnectionError) as caught:
        await failing(("a", breaks_in_finally), ("b", bad)).ainvoke({})

    assert [str(exc) for exc in siblings(caught.value)] == ["clean-up"]


async def test_failures_of_sends_are_attached_in_the_order_in_which_they_happened():
    async def node(arg):
        for _ in range(arg):
            await asyncio.sleep(0)
        raise ValueError(arg)

    builder = StateGraph(State)
    builder.add_node("n", node)
    builder.add_conditional_edges(START, lambda state: [Send("n", 0), Send("n", 0), Send("n", 0)])
    with pytest.raises(ValueError) as caught:
        await builder.compile().ainvoke({})

    assert len(siblings(caught.value)) == 2


async def test_one_exception_object_raised_by_two_nodes_is_not_attached_to_itself():
    same = ConnectionError("same")
    with pytest.raises(ConnectionError):
        await failing(("a", raises(same)), ("b", raises(same))).ainvoke({})

    assert siblings(same) == ()


async def test_a_failed_task_of_each_kind_is_recorded_and_run_again():
    broken = [True]

    def flaky(name):
        async def node(state):
            if broken:
                raise ConnectionError(name)
            return {"log": [name]}

        return node

    graph = failing(("a", flaky("a")), ("b", flaky("b")), ("c", logs("c")), saver=InMemorySaver())
    with pytest.raises(ConnectionError, match="a"):
        await graph.ainvoke({"log": []}, on())

    kept = await stored(graph, on())
    assert set(kept.errors) == {"a", "b"}
    broken.clear()
    assert (await graph.ainvoke(None, on()))["log"] == ["a", "b", "c"]


async def test_siblings_of_a_nested_failure_come_through():
    first, second = ConnectionError("1"), ValueError("2")
    inner = failing(("a", raises(first)), ("b", raises(second)))
    with pytest.raises(ConnectionError):
        await chain(sub=inner).ainvoke({})

    assert siblings(first) == (second,)
    assert [note for note in first.__notes__ if "'sub'" in note]


async def test_an_exception_that_takes_no_notes_or_attributes_does_no_harm():
    class Closed(Exception):
        __slots__ = ()

        def add_note(self, note):
            raise AttributeError("no notes")

        def __setattr__(self, name, value):
            raise AttributeError("frozen")

    with pytest.raises(Closed):
        await failing(("a", raises(Closed())), ("b", raises(ValueError()))).ainvoke({})


# -- what users see -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["await", "node", "sync", "stream"])
async def test_a_traceback_begins_in_the_users_code_and_a_note_names_the_node(how):
    def breaks():
        raise ConnectionError("deep")

    async def bad(state):
        breaks()

    def sync_bad(state):
        breaks()

    graph = chain(bad=sync_bad if how == "sync" else bad)
    if how == "node":
        graph = chain(sub=graph)
    with pytest.raises(ConnectionError) as caught:
        if how == "stream":
            async for _ in graph.astream({}):
                pass
        else:
            await graph.ainvoke({})

    frames = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    first_engine = next((i for i, name in enumerate(frames) if "langgraph_async" in name), len(frames))
    assert frames[-1] == __file__
    assert all("langgraph_async" in name for name in frames[first_engine:-2]) or how == "node"
    assert any("'bad'" in note for note in caught.value.__notes__)
    assert says
