"""Of several runs on one thread at once, none succeeds without effect (D1)."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from places import S, cfg, flat
from slow_savers import SAVERS, second_saver
from writers import WRITERS, Held, append, appending, assert_free, log_of, settled

from langgraph_async import START, StateGraph, ThreadConflictError

# -- twenty writers -----------------------------------------------------------------------------------------


async def test_by_default_who_succeeds_is_in_the_log_and_nobody_else(saver, durability):
    graph = appending(saver)

    done, errors = await settled(*(graph.ainvoke({"x": n}, cfg(), durability=durability) for n in range(WRITERS)))

    assert done
    assert {type(e) for e in errors} == {ThreadConflictError}
    assert sorted(await log_of(graph)) == sorted(result["x"] for result in done)
    assert_free(saver)


async def test_enqueued_runs_all_succeed_in_their_order(saver, durability):
    graph = appending(saver)
    config = cfg(multitask_strategy="enqueue")

    done, errors = await settled(*(graph.ainvoke({"x": n}, config, durability=durability) for n in range(WRITERS)))

    assert errors == []
    assert [result["x"] for result in done] == list(range(WRITERS))
    assert await log_of(graph) == list(range(WRITERS))
    assert_free(saver)


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_the_last_of_runs_that_take_over_succeeds(saver, durability, strategy):
    graph = appending(saver)
    config = cfg(multitask_strategy=strategy)

    done, errors = await settled(*(graph.ainvoke({"x": n}, config, durability=durability) for n in range(WRITERS)))

    assert {type(e) for e in errors} <= {ThreadConflictError}
    assert sorted(await log_of(graph)) == sorted(result["x"] for result in done)
    assert done
    assert_free(saver)


@pytest.mark.parametrize("kind", ["memory", "slow"])
@pytest.mark.parametrize("strategy", ["reject", "enqueue", "interrupt"])
async def test_with_two_savers_over_one_storage_nobody_succeeds_without_effect(kind, durability, strategy):
    first = SAVERS[kind]()
    graphs = [appending(first), appending(second_saver(first))]
    config = cfg(multitask_strategy=strategy)

    done, errors = await settled(
        *(graphs[n % 2].ainvoke({"x": n}, config, durability=durability) for n in range(WRITERS))
    )

    assert {type(e) for e in errors} <= {ThreadConflictError}
    assert sorted(await log_of(graphs[0])) == sorted(result["x"] for result in done)
    assert done


async def test_a_conflict_between_two_savers_names_what_happened():
    first = SAVERS["slow"]()
    graphs = [appending(first), appending(second_saver(first))]

    _, errors = await settled(*(graph.ainvoke({"x": 1}, cfg("thread-7")) for graph in graphs))

    assert len(errors) == 1
    assert "thread-7" in str(errors[0])
    assert errors[0].thread_id == "thread-7"


async def test_twenty_streams_on_one_thread_do_not_succeed_without_effect(saver):
    graph = appending(saver)

    async def read(n):
        async for _ in graph.astream({"x": n}, cfg()):
            pass
        return n

    done, errors = await settled(*(read(n) for n in range(WRITERS)))

    assert {type(e) for e in errors} <= {ThreadConflictError}
    assert sorted(await log_of(graph)) == sorted(done)
    assert_free(saver)


async def test_runs_on_different_threads_do_not_know_each_other(saver):
    graph = appending(saver)

    _, errors = await settled(*(graph.ainvoke({"x": n}, cfg(f"t{n}")) for n in range(WRITERS)))

    assert errors == []
    assert [await log_of(graph, f"t{n}") for n in range(WRITERS)] == [[n] for n in range(WRITERS)]


# -- a run that holds the thread ----------------------------------------------------------------------------


async def test_a_busy_thread_rejects_a_second_run_and_stores_nothing_of_it(saver):
    held = Held(saver)
    first = await held.start()

    with pytest.raises(ThreadConflictError, match="'t' is held"):
        await held.graph.ainvoke({"x": "second"}, cfg())
    held.go.set()
    result = await first

    assert held.ran == ["first"]
    assert result["log"] == ["before first", "first"]
    assert await log_of(held.graph) == result["log"]
    assert_free(saver)


async def test_a_run_that_takes_over_goes_on_from_what_the_other_had_stored(saver):
    held = Held(saver)
    first = await held.start()

    second = await held.graph.ainvoke({"x": "second"}, cfg(multitask_strategy="interrupt"))
    with pytest.raises(ThreadConflictError, match="took thread 't' over"):
        await first

    assert second["log"] == ["before first", "before second", "second"]
    assert await log_of(held.graph) == second["log"]
    assert_free(saver)


async def test_a_run_that_rolls_back_starts_from_before_the_other(saver):
    held = Held(saver)
    first = await held.start()

    second = await held.graph.ainvoke({"x": "second"}, cfg(multitask_strategy="rollback"))
    with pytest.raises(ThreadConflictError, match="took thread 't' over"):
        await first

    assert second["log"] == ["before second", "second"]
    assert await log_of(held.graph) == second["log"]
    assert_free(saver)


async def test_a_rollback_keeps_what_was_there_before_both_runs(saver):
    held = Held(saver)
    await appending(saver).ainvoke({"x": "early"}, cfg())
    first = await held.start()

    second = await held.graph.ainvoke({"x": "second"}, cfg(multitask_strategy="rollback"))
    with pytest.raises(ThreadConflictError):
        await first

    assert second["log"] == ["early", "before second", "second"]


@pytest.mark.parametrize("kind", ["slow", "primitive"])
async def test_a_rollback_of_a_run_that_has_not_begun_deletes_nothing(kind):
    saver = SAVERS[kind]()
    graph = appending(saver)
    await graph.ainvoke({"x": "early"}, cfg())
    gate = saver.close_gate("aget_tuple")
    first = asyncio.create_task(graph.ainvoke({"x": "first"}, cfg()))
    while len([c for c in saver.calls if c == "aget_tuple"]) < 2:
        await asyncio.sleep(0)

    second = asyncio.create_task(graph.ainvoke({"x": "second"}, cfg(multitask_strategy="rollback")))
    await asyncio.sleep(0)
    gate.set()
    result = await second
    with pytest.raises(ThreadConflictError):
        await first

    assert result["log"] == ["early", "second"]


async def test_a_rollback_of_a_rollback_starts_from_before_both(saver):
    held = Held(saver)
    await appending(saver).ainvoke({"x": "early"}, cfg())
    first = await held.start()
    other = Held(saver)
    second = asyncio.create_task(other.graph.ainvoke({"x": "second"}, cfg(multitask_strategy="rollback")))
    await other.entered.wait()

    third = await held.graph.ainvoke({"x": "third"}, cfg(multitask_strategy="rollback"))
    _, errors = await settled(first, second)

    assert [type(e) for e in errors] == [ThreadConflictError] * 2
    assert third["log"] == ["early", "before third", "third"]
    assert await log_of(held.graph) == third["log"]


async def test_a_rollback_takes_back_the_memory_of_graphs_inside(saver):
    entered = asyncio.Event()
    inner = StateGraph(S).add_node("a", append).add_edge(START, "a").compile(checkpointer=True)

    async def node(state):
        found = await inner.ainvoke({"x": state["x"]})
        if state["x"] == "first":
            entered.set()
            await asyncio.Event().wait()
        return {"x": found["log"]}

    graph = flat(node, saver)
    await graph.ainvoke({"x": "early"}, cfg())
    first = asyncio.create_task(graph.ainvoke({"x": "first"}, cfg()))
    await entered.wait()

    second = await graph.ainvoke({"x": "second"}, cfg(multitask_strategy="rollback"))
    with pytest.raises(ThreadConflictError):
        await first
    third = await graph.ainvoke({"x": "third"}, cfg())

    assert second["x"] == ["early", "second"]
    assert third["x"] == ["early", "second", "third"]


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_a_run_that_fails_while_it_is_taken_over_reports_the_conflict(saver, strategy):
    def fail():
        raise OSError("while cleaning up")

    held = Held(saver, ending=fail)
    first = await held.start()

    await held.graph.ainvoke({"x": "second"}, cfg(multitask_strategy=strategy))
    with pytest.raises(ThreadConflictError):
        await first

    assert_free(saver)


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_a_run_whose_node_ignores_that_it_is_taken_over_ends_and_leaves_no_cancellation_behind(saver, strategy):
    entered = asyncio.Event()

    async def node(state):
        if state["x"] == "first":
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return {"log": ["stubborn"]}
        return {"log": [state["x"]]}

    graph = flat(node, saver)
    left = []

    async def first():
        try:
            await graph.ainvoke({"x": "first"}, cfg())
        finally:
            left.append(asyncio.current_task().cancelling())
            await asyncio.sleep(0)

    task = asyncio.create_task(first())
    await entered.wait()
    second = await graph.ainvoke({"x": "second"}, cfg(multitask_strategy=strategy))
    _, errors = await settled(task)

    assert left == [0]
    assert [type(e) for e in errors] == [ThreadConflictError]
    # It finished after all, and its superstep with it: to interrupt a run keeps what it has done.
    assert second["log"] == (["stubborn", "second"] if strategy == "interrupt" else ["second"])
    assert await log_of(graph) == second["log"]
    assert_free(saver)


async def test_a_cancellation_of_ones_own_is_not_taken_for_a_conflict(saver):
    held = Held(saver)
    first = await held.start()
    first.cancel()
    second = asyncio.create_task(held.graph.ainvoke({"x": "second"}, cfg(multitask_strategy="interrupt")))
    with pytest.raises(asyncio.CancelledError):
        await first
    await second

    assert_free(saver)


# -- waiting in line ----------------------------------------------------------------------------------------


async def test_who_is_cancelled_in_line_is_skipped(saver):
    held = Held(saver)
    first = await held.start()
    config = cfg(multitask_strategy="enqueue")
    waiting = [asyncio.create_task(held.graph.ainvoke({"x": n}, config)) for n in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()

    held.go.set()
    await first
    with pytest.raises(asyncio.CancelledError):
        await waiting[1]
    await waiting[0]
    result = await waiting[2]

    assert result["log"] == ["before first", "first", "before 0", 0, "before 2", 2]
    assert_free(saver)


async def test_who_is_cancelled_when_its_turn_has_come_passes_it_on(saver):
    held = Held(saver)
    first = await held.start()
    config = cfg(multitask_strategy="enqueue")
    waiting = [asyncio.create_task(held.graph.ainvoke({"x": n}, config)) for n in range(2)]
    await asyncio.sleep(0)
    held.go.set()
    seat = saver.leases["t"]
    holder = seat.holder
    while seat.holder is holder:
        await asyncio.sleep(0)
    waiting[0].cancel()
    await first

    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    result = await waiting[1]

    assert result["log"][-2:] == ["before 1", 1]
    assert_free(saver)


async def test_a_timeout_in_line_leaves_the_line_intact(saver):
    held = Held(saver)
    first = await held.start()
    config = cfg(multitask_strategy="enqueue")

    with anyio.move_on_after(0.01) as scope:
        await held.graph.ainvoke({"x": "late"}, config)
    held.go.set()
    await first
    result = await held.graph.ainvoke({"x": "second"}, config)

    assert scope.cancelled_caught
    assert result["log"] == ["before first", "first", "before second", "second"]
    assert_free(saver)


async def test_the_line_goes_on_when_the_holder_fails(saver):
    async def node(state):
        await asyncio.sleep(0)
        if state["x"] % 2:
            raise ValueError(state["x"])
        return {"log": [state["x"]]}

    graph = flat(node, saver)
    config = cfg(multitask_strategy="enqueue")

    done, errors = await settled(*(graph.ainvoke({"x": n}, config) for n in range(6)))

    assert sorted(str(e) for e in errors) == ["1", "3", "5"]
    assert await log_of(graph) == [0, 2, 4]
    assert len(done) == 3
    assert_free(saver)


@pytest.mark.parametrize("strategy", ["reject", "enqueue", "interrupt", "rollback"])
async def test_a_node_that_runs_its_own_thread_is_told_and_does_not_hang(saver, strategy):
    async def node(state):
        return await graph.ainvoke({"x": "again"}, cfg(multitask_strategy=strategy))

    async def other(state):
        await asyncio.sleep(0)
        return {"log": ["other"]}

    graph = (
        StateGraph(S)
        .add_node("node", node)
        .add_node("other", other)
        .add_edge(START, "node")
        .add_edge(START, "other")
        .compile(checkpointer=saver)
    )

    with anyio.fail_after(5), pytest.raises(ThreadConflictError):
        await graph.ainvoke({"x": "first"}, cfg())

    assert_free(saver)


@pytest.mark.parametrize("strategy", ["enqueue", "interrupt", "rollback"])
async def test_a_node_that_runs_its_own_thread_by_way_of_another_is_told_and_does_not_hang(saver, strategy):
    async def inner_node(state):
        return await graph.ainvoke({"x": "again"}, cfg(multitask_strategy=strategy))

    inner = flat(inner_node, saver)

    async def node(state):
        return await inner.ainvoke({"x": "inner"}, cfg("another"))

    graph = flat(node, saver)

    with anyio.fail_after(5), pytest.raises(ThreadConflictError):
        await graph.ainvoke({"x": "first"}, cfg())

    assert_free(saver)
