"""A thread that no run holds is free; who comes second is told (D1, P7)."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest
from places import asks_twice, cfg, flat
from slow_savers import SAVERS, SlowSaver, second_saver
from writers import Held, appending, assert_free, log_of, settled

from langgraph_async import Command, ThreadConflictError, interrupt

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


@pytest.mark.parametrize("bad", [None, 5, Command(goto="nowhere"), Command(), Command(resume={"0" * 32: 1}, goto="no")])
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
    held = Held(saver)
    held.go.set()
    graph = held.graph
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
    while await log_of(held.graph) != ["before first"]:  # it is stored behind the run
        pass

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


@pytest.mark.parametrize("kind", ["slow", "primitive"])
async def test_a_second_answer_at_once_does_not_reach_the_next_question(kind):
    saver = SAVERS[kind]()
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
