"""Of several runs on one thread at once, none succeeds without effect (D1, P7)."""

from __future__ import annotations

import asyncio
import gc
import threading

import anyio
import pytest

from langgraph_async import START, Command, StateGraph, ThreadConflictError, interrupt
from places import S, asks_twice, cfg, flat
from slow_savers import SAVERS, SlowSaver, second_saver

WRITERS = 20


async def append(state):
    await asyncio.sleep(0)
    return {"log": [state["x"]]}


def appending(saver):
    return flat(append, saver)


async def settled(*runs):
    """Return what the runs come to, successes and errors apart."""
    found = await asyncio.gather(*runs, return_exceptions=True)
    errors = [f for f in found if isinstance(f, BaseException)]
    return [f for f in found if not isinstance(f, BaseException)], errors


async def log_of(graph, thread="t"):
    return (await graph.aget_state(cfg(thread))).values.get("log", [])


def assert_free(saver):
    assert saver.leases == {}


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

    done, errors = await settled(*(graph.ainvoke({"x": n}, cfg(f"t{n}")) for n in range(WRITERS)))

    assert errors == []
    assert [await log_of(graph, f"t{n}") for n in range(WRITERS)] == [[n] for n in range(WRITERS)]


# -- a run that holds the thread ----------------------------------------------------------------------------


class Held:
    """A graph whose first run waits inside its node."""

    def __init__(self, saver, *, ending=None):
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.ran: list = []
        self._ending = ending

        async def before(state):
            return {"log": [f"before {state['x']}"]}

        async def node(state):
            self.ran.append(state["x"])
            if len(self.ran) == 1:
                self.entered.set()
                try:
                    await self.go.wait()
                finally:
                    if self._ending is not None:
                        self._ending()
            return {"log": [state["x"]]}

        self.graph = (
            StateGraph(S)
            .add_node("before", before)
            .add_node("node", node)
            .add_edge(START, "before")
            .add_edge("before", "node")
            .compile(checkpointer=saver)
        )

    async def start(self, **more):
        task = asyncio.create_task(self.graph.ainvoke({"x": "first"}, cfg(), **more))
        await self.entered.wait()
        return task


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
async def test_a_run_that_finishes_while_it_is_taken_over_does_not_leave_a_cancellation_behind(saver, strategy):
    """Its node takes no notice of the cancellation."""
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
    with pytest.raises(ThreadConflictError):
        await task

    assert left == [0]
    assert second["log"][-1] == "second"
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
    await first
    waiting[0].cancel()

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


# -- nothing keeps a thread that has no run -----------------------------------------------------------------


@pytest.mark.parametrize("operation", ["aget_tuple", "acommit"])
async def test_a_failing_saver_gives_the_thread_back(operation):
    saver = SlowSaver()
    graph = appending(saver)
    saver.fails[operation] = OSError("disk")

    with pytest.raises(OSError, match="disk"):
        await graph.ainvoke({"x": 1}, cfg())

    assert_free(saver)
    saver.fails.clear()
    assert (await graph.ainvoke({"x": 2}, cfg()))["log"] == [2]


@pytest.mark.parametrize("how", ["fails", "cancelled"])
async def test_a_rollback_that_cannot_delete_gives_the_thread_back(how):
    saver = SlowSaver()
    held = Held(saver)
    first = await held.start()
    gate = saver.close_gate("adelete_thread")
    if how == "fails":
        saver.fails["adelete_thread"] = OSError("disk")

    second = asyncio.create_task(held.graph.ainvoke({"x": "second"}, cfg(multitask_strategy="rollback")))
    with pytest.raises(ThreadConflictError):
        await first
    while "adelete_thread" not in saver.calls:
        await asyncio.sleep(0)
    if how == "cancelled":
        second.cancel()
    gate.set()
    with pytest.raises((OSError, asyncio.CancelledError)):
        await second

    assert_free(saver)


@pytest.mark.parametrize(
    "bad", [{"x": 1, "nope": 2}, None, 5, Command(goto="nowhere"), Command(), Command(resume={"0" * 32: 1}, goto="no")]
)
async def test_an_input_that_is_refused_gives_the_thread_back(saver, bad):
    graph = appending(saver)

    with pytest.raises(Exception):  # noqa: B017
        await graph.ainvoke(bad, cfg())

    assert_free(saver)


async def test_a_cancelled_run_gives_the_thread_back(saver, durability):
    held = Held(saver)
    first = await held.start(durability=durability)

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert_free(saver)
    result = await held.graph.ainvoke({"x": "second"}, cfg(), durability=durability)
    assert result["log"][-1] == "second"


# -- streams ------------------------------------------------------------------------------------------------


async def test_after_breaking_off_a_stream_a_new_run_works_at_once(saver, durability):
    graph = appending(saver)
    async for _ in graph.astream({"x": 1}, cfg(), durability=durability):
        break

    result = await graph.ainvoke({"x": 2}, cfg(), durability=durability)

    assert result["log"][-1] == 2
    assert_free(saver)


async def test_after_breaking_off_a_wrapped_stream_a_new_run_works_at_once(saver):
    graph = appending(saver)

    async def inner():
        async for item in graph.astream({"x": 1}, cfg()):
            yield item

    async def outer():
        async for item in inner():
            yield item

    async for _ in outer():
        break
    result = await graph.ainvoke({"x": 2}, cfg())

    assert result["log"][-1] == 2
    assert_free(saver)


async def test_breaking_off_and_starting_again_works_many_times(saver):
    graph = appending(saver)
    for n in range(10):
        async for _ in graph.astream({"x": n}, cfg()):
            break

    result = await graph.ainvoke({"x": "last"}, cfg())

    assert result["log"][-1] == "last"
    assert_free(saver)


async def test_a_stream_that_nobody_began_to_read_holds_nothing(saver):
    graph = appending(saver)
    stream = graph.astream({"x": 1}, cfg())

    result = await graph.ainvoke({"x": 2}, cfg())
    await stream.aclose()

    assert result["log"] == [2]
    assert_free(saver)


async def test_a_stream_that_is_still_read_holds_the_thread(saver):
    graph = appending(saver)
    stream = graph.astream({"x": 1}, cfg())
    await anext(stream)

    with pytest.raises(ThreadConflictError):
        await graph.ainvoke({"x": 2}, cfg())
    await stream.aclose()
    result = await graph.ainvoke({"x": 2}, cfg())

    assert result["log"][-1] == 2
    assert_free(saver)


async def test_a_stream_collected_late_gives_the_thread_back(saver):
    graph = appending(saver)
    stream = graph.astream({"x": 1}, cfg())
    await anext(stream)
    cycle = [stream]
    cycle.append(cycle)
    del stream, cycle
    gc.collect()

    result = await graph.ainvoke({"x": 2}, cfg())

    assert result["log"][-1] == 2
    assert_free(saver)


# -- updates ------------------------------------------------------------------------------------------------


async def test_an_update_while_a_run_is_under_way_is_refused(saver):
    held = Held(saver)
    first = await held.start()

    with pytest.raises(ThreadConflictError):
        await held.graph.aupdate_state(cfg(), {"log": ["update"]}, as_node="node")
    held.go.set()
    result = await first

    assert await log_of(held.graph) == result["log"] == ["before first", "first"]
    assert_free(saver)


async def test_updates_at_once_do_not_succeed_without_effect(saver):
    graph = appending(saver)
    await graph.ainvoke({"x": "x"}, cfg())

    async def update(n):
        await graph.aupdate_state(cfg(), {"log": [n]})
        return n

    done, errors = await settled(*(update(n) for n in range(10)))

    assert {type(e) for e in errors} <= {ThreadConflictError}
    assert sorted((await log_of(graph))[1:]) == sorted(done)
    assert done
    assert_free(saver)


async def test_updates_over_two_savers_do_not_succeed_without_effect():
    first = SlowSaver()
    graphs = [appending(first), appending(second_saver(first))]
    await graphs[0].ainvoke({"x": "x"}, cfg())

    async def update(n):
        await graphs[n % 2].aupdate_state(cfg(), {"log": [n]})
        return n

    done, errors = await settled(*(update(n) for n in range(10)))

    assert {type(e) for e in errors} <= {ThreadConflictError}
    assert sorted((await log_of(graphs[0]))[1:]) == sorted(done)
    assert done


async def test_an_update_through_another_saver_makes_the_run_fail_and_stays():
    saver = SlowSaver()
    held = Held(saver)
    other = Held(second_saver(saver))
    first = await held.start()

    await other.graph.aupdate_state(cfg(), {"log": ["update"]}, as_node="node")
    held.go.set()
    with pytest.raises(ThreadConflictError):
        await first

    assert await log_of(held.graph) == ["before first", "update"]


# -- event loops --------------------------------------------------------------------------------------------


async def test_a_run_in_another_event_loop_is_told_that_the_thread_is_busy(saver):
    held = Held(saver)
    first = await held.start()
    found = []

    def elsewhere():
        for strategy in ("reject", "enqueue", "interrupt", "rollback"):
            config = cfg(multitask_strategy=strategy)
            try:
                found.append(asyncio.run(held.graph.ainvoke({"x": "elsewhere"}, config)))
            except BaseException as exc:
                found.append(exc)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    await asyncio.to_thread(thread.join)
    held.go.set()
    await first

    assert [type(f) for f in found] == [ThreadConflictError] * 4
    assert await log_of(held.graph) == ["before first", "first"]
    assert_free(saver)


def test_one_event_loop_after_another_may_use_a_thread():
    for kind in SAVERS.values():
        graph = appending(kind())
        for n in range(3):
            asyncio.run(graph.ainvoke({"x": n}, cfg()))

        assert asyncio.run(log_of(graph)) == [0, 1, 2]


def test_a_thread_is_not_held_by_an_event_loop_that_was_shut_down():
    for kind in SAVERS.values():
        saver = kind()

        async def abandon(saver=saver):
            held = Held(saver)
            await held.start()

        asyncio.run(abandon())

        assert asyncio.run(appending(saver).ainvoke({"x": 2}, cfg()))["log"][-1] == 2


# -- P7: two resumes at once --------------------------------------------------------------------------------


@pytest.mark.parametrize("by_id", [False, True])
async def test_of_two_resumes_at_once_one_wins_and_the_body_runs_once(place, saver, durability, by_id):
    ran = []

    async def node(state):
        answer = interrupt("why")
        await asyncio.sleep(0)
        ran.append(answer)
        return {"log": [answer]}

    graph = place(node, saver)
    first = await graph.ainvoke({"x": 1}, cfg(), durability=durability)
    asked = first["__interrupt__"][0].id

    done, errors = await settled(
        *(
            graph.ainvoke(Command(resume={asked: n} if by_id else n), cfg(), durability=durability)
            for n in ("one", "two")
        )
    )

    assert [result["log"] for result in done] == [["one"]]
    assert [type(e) for e in errors] == [ThreadConflictError]
    assert ran == ["one"]


async def test_a_second_answer_at_once_does_not_reach_the_next_question(saver):
    graph = flat(asks_twice, saver)
    await graph.ainvoke({}, cfg())

    async def late():
        await asyncio.sleep(0)
        return await graph.ainvoke(Command(resume="twice"), cfg())

    stream = graph.astream(Command(resume="once"), cfg())
    reading = asyncio.create_task(anext(stream))
    done, errors = await settled(late())
    await reading
    await stream.aclose()
    state = await graph.aget_state(cfg())

    assert done == []
    assert [type(e) for e in errors] == [ThreadConflictError]
    assert [q.value for q in state.interrupts] == ["two"]


async def test_of_two_resumes_over_two_savers_one_wins():
    saver = SlowSaver()
    graphs = [flat(asks_once_slowly, saver), flat(asks_once_slowly, second_saver(saver))]
    await graphs[0].ainvoke({}, cfg())

    done, errors = await settled(*(graph.ainvoke(Command(resume=n), cfg()) for n, graph in enumerate(graphs)))

    assert len(done) == 1
    assert [type(e) for e in errors] == [ThreadConflictError]
    assert await log_of(graphs[0]) == done[0]["log"]


async def asks_once_slowly(state):
    answer = interrupt("why")
    await asyncio.sleep(0)
    return {"log": [answer]}
