"""Runs that are recorded, left, and come back to."""

import asyncio
import gc
import logging
from contextlib import aclosing

import pytest
from drawings import chain, logs
from threads import on

from langgraph_async import interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import ConfigError, EventLogError, GraphDrained, RunFailedError
from langgraph_async.pregel import background_runs
from langgraph_async.runtime import RunControl
from langgraph_async.stream.log import InMemoryEventLog


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
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)


def abc(saver=None):
    return chain(saver=saver, a=logs("a"), b=logs("b"), c=logs("c"))


@pytest.fixture
def log():
    return InMemoryEventLog()


async def read(graph, log, after=0, **options):
    options = {"stream_mode": "updates", "version": "v2", **options}
    return [part async for part in graph.astream(None, event_log=log, resume_from=after, **options)]


# -- numbers ---------------------------------------------------------------------------------------------------


async def test_parts_have_numbers_only_with_a_log(log):
    plain = [p async for p in abc().astream({}, stream_mode="updates", version="v2")]
    numbered = [p async for p in abc().astream({}, stream_mode="updates", version="v2", event_log=log)]

    assert [p.pop("seq") for p in numbered] == [1, 2, 3]
    assert numbered == plain


async def test_v1_parts_keep_their_form_with_a_log(log):
    expected = [p async for p in abc().astream({}, stream_mode=["updates", "values"])]
    assert [p async for p in abc().astream({}, stream_mode=["updates", "values"], event_log=log)] == expected


async def test_a_finished_run_is_read_again_from_any_number(log):
    parts = [p async for p in abc().astream({}, stream_mode="updates", version="v2", event_log=log, run_id="r")]

    assert await read(abc(), log, run_id="r") == parts
    assert await read(abc(), log, 2, run_id="r") == parts[2:]
    assert await read(abc(), log, 3, run_id="r") == []
    assert await read(abc(), log, 4, run_id="r") == []  # the end has a number, too


async def test_the_newest_run_of_the_thread_is_meant_when_none_is_named(log):
    graph = abc(InMemorySaver())
    async for _ in graph.astream({}, on("t"), event_log=log):
        pass
    async for _ in graph.astream({"log": ["x"]}, on("t"), stream_mode="values", event_log=log, run_id="second"):
        pass

    found = [p async for p in graph.astream(None, on("t"), stream_mode="values", event_log=log, resume_from=0)]

    assert (await log.aruns("t"))[0].run_id == "second"
    assert found[-1] == {"log": ["a", "b", "c", "x", "a", "b", "c"]}


async def test_the_reader_gets_the_modes_it_asks_for_of_those_that_are_kept(log):
    async for _ in abc().astream({}, stream_mode=["updates", "values"], event_log=log, run_id="r"):
        pass

    parts = await read(abc(), log, run_id="r", stream_mode=["values", "tasks"])
    assert {p["type"] for p in parts} == {"values"}
    assert parts[-1]["data"] == {"log": ["a", "b", "c"]}


# -- a run that goes on ------------------------------------------------------------------------------------------


async def test_a_reader_that_comes_back_gets_what_it_missed_and_then_what_comes(log):
    gate = Gate()
    graph = chain(a=logs("a"), b=logs("b"), gate=gate, c=logs("c"))
    first = graph.astream({}, stream_mode="updates", version="v2", event_log=log, run_id="r", on_disconnect="continue")
    seen = [await anext(first)]
    await first.aclose()
    await gate.reached.wait()

    async with aclosing(
        graph.astream(None, stream_mode="updates", version="v2", event_log=log, resume_from=1, run_id="r")
    ) as again:
        seen.append(await anext(again))
        gate.opened.set()
        seen.extend([p async for p in again])

    assert [p["seq"] for p in seen] == [1, 2, 3, 4]
    assert [next(iter(p["data"])) for p in seen] == ["a", "b", "gate", "c"]
    await nothing_left()


async def test_many_readers_see_the_same(log):
    gate = Gate()
    graph = chain(a=logs("a"), gate=gate, c=logs("c"))
    run = graph.start({}, stream_mode="updates", version="v2", event_log=log, run_id="r")
    await gate.reached.wait()
    readers = [asyncio.create_task(read(graph, log, after, run_id="r")) for after in (0, 1, 0)]
    for _ in range(20):
        await asyncio.sleep(0)
    gate.opened.set()

    found = await asyncio.gather(*readers)

    assert [[p["seq"] for p in parts] for parts in found] == [[1, 2, 3], [2, 3], [1, 2, 3]]
    assert (await run).value == {"log": ["a", "gate", "c"]}
    assert run.status == "done"


async def test_leaving_a_logged_stream_cancels_its_run_by_default(log):
    gate = Gate()
    stream = chain(a=logs("a"), gate=gate).astream({}, event_log=log, run_id="r")
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await gate.reached.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    await stream.aclose()

    assert gate.ended
    assert (await log.arun("r")).status == "cancelled"
    with pytest.raises(RunFailedError, match="'r' was cancelled"):
        await read(chain(a=logs("a")), log, run_id="r")
    await nothing_left()


async def test_the_reader_of_a_logged_run_drives(log):
    started = []

    def note(name):
        async def node(state):
            started.append(name)
            return {"log": [name]}

        return node

    graph = chain(a=note("a"), b=note("b"), c=note("c"))
    async with aclosing(graph.astream({}, stream_mode="updates", event_log=log)) as stream:
        await anext(stream)
        for _ in range(50):
            await asyncio.sleep(0)
        assert started == ["a"]
        await anext(stream)
        for _ in range(50):
            await asyncio.sleep(0)
        assert started == ["a", "b"]


async def test_a_run_that_goes_on_is_found_and_ends(log):
    gate = Gate()
    graph = chain(gate=gate)
    stream = graph.astream({}, stream_mode="tasks", on_disconnect="continue", run_id="r")
    await anext(stream)
    await stream.aclose()
    await gate.reached.wait()

    run = background_runs().find("r")
    assert run is not None
    assert not run.done()
    gate.opened.set()
    assert await run == {"log": ["gate"]}
    await asyncio.sleep(0)
    assert len(background_runs()) == 0
    await nothing_left()


async def test_a_stream_that_is_dropped_lets_its_run_go_on(log):
    gate = Gate()
    stream = chain(gate=gate).astream({}, stream_mode="tasks", on_disconnect="continue", run_id="r")
    await anext(stream)
    del stream
    gc.collect()
    await gate.reached.wait()
    gate.opened.set()

    run = background_runs().find("r")
    assert run is not None
    assert await run == {"log": ["gate"]}


async def test_background_runs_are_drained_and_then_cancelled(log):
    stuck, quick = Gate(), Gate()
    graph = chain(saver=InMemorySaver(), quick=quick, after=logs("after"))
    for name, g in (("stuck", chain(stuck=stuck)), ("quick", graph)):
        stream = g.astream({}, on(name), stream_mode="tasks", on_disconnect="continue", run_id=name, event_log=log)
        await anext(stream)
        await stream.aclose()
    await stuck.reached.wait()
    await quick.reached.wait()
    draining = asyncio.create_task(background_runs().drain(0.02))
    await asyncio.sleep(0)
    quick.opened.set()
    await draining

    assert stuck.ended
    assert (await log.arun("stuck")).status == "cancelled"
    assert (await log.arun("quick")).status == "drained"
    with pytest.raises(GraphDrained):
        await read(graph, log, run_id="quick")
    await nothing_left()


def test_a_background_run_ends_with_its_event_loop():
    gates = []
    log = InMemoryEventLog()

    async def main():
        gate = Gate()
        gates.append(gate)
        stream = chain(gate=gate).astream({}, stream_mode="tasks", on_disconnect="continue", event_log=log, run_id="r")
        await anext(stream)
        await stream.aclose()
        await gate.reached.wait()

    asyncio.run(main())

    assert gates[0].ended
    assert asyncio.run(log.arun("r")).status == "cancelled"


async def test_a_background_run_that_fails_is_logged(caplog):
    async def bad(state):
        raise ConnectionError("no")

    stream = chain(a=logs("a"), bad=bad).astream({}, stream_mode="updates", on_disconnect="continue", run_id="r")
    await anext(stream)
    with caplog.at_level(logging.ERROR, "langgraph_async"):
        await stream.aclose()
        async with asyncio.timeout(10):
            while len(background_runs()):
                await asyncio.sleep(0)

    assert "failed in the background" in caplog.text


# -- ends --------------------------------------------------------------------------------------------------------


async def test_a_failure_is_raised_to_who_started_the_run_and_told_to_those_who_read_the_log(log):
    async def bad(state):
        raise ConnectionError("no")

    graph = chain(a=logs("a"), bad=bad)
    with pytest.raises(ConnectionError):
        async for _ in graph.astream({}, event_log=log, run_id="r"):
            pass

    with pytest.raises(RunFailedError, match="ConnectionError: no") as raised:
        await read(graph, log, run_id="r")
    assert (raised.value.status, raised.value.error_type, raised.value.error_code) == (
        "failed",
        "ConnectionError",
        None,
    )
    assert [e.mode for e in (await log.aread("r")).events] == ["updates", "error", "end"]


async def test_a_pause_is_an_end(log):
    async def asks(state):
        return {"log": [interrupt("?")]}

    async for _ in chain(saver=InMemorySaver(), asks=asks).astream({}, on("t"), event_log=log):
        pass

    assert [r.status for r in await log.aruns("t")] == ["paused"]


async def test_a_drain_is_an_end(log):
    control = RunControl()

    async def node(state):
        control.request_drain("bye")

    with pytest.raises(GraphDrained):
        async for _ in chain(node=node, after=logs("x")).astream({}, event_log=log, run_id="r", control=control):
            pass

    assert (await log.aread("r")).events[-1].data == {"status": "drained", "reason": "bye"}


# -- refusals ----------------------------------------------------------------------------------------------------


async def test_a_run_id_is_used_once(log):
    async for _ in abc().astream({}, event_log=log, run_id="r"):
        pass
    with pytest.raises(EventLogError, match="already") as raised:
        async for _ in abc().astream({}, event_log=log, run_id="r"):
            pass
    assert raised.value.reason == "exists"
    await nothing_left()


@pytest.mark.parametrize(
    ("options", "reason"), [({"run_id": "other"}, "unknown"), ({"run_id": "r", "after": 9}, "ahead")]
)
async def test_what_the_log_does_not_have_is_refused(log, options, reason):
    async for _ in abc().astream({}, event_log=log, run_id="r"):
        pass
    with pytest.raises(EventLogError) as raised:
        await read(abc(), log, **options)
    assert raised.value.reason == reason


async def test_a_number_that_a_running_run_has_not_reached_is_refused(log):
    gate = Gate()
    async with chain(gate=gate).start({}, event_log=log, run_id="r") as run:
        await gate.reached.wait()
        with pytest.raises(EventLogError) as raised:
            await read(abc(), log, 5, run_id="r")
        assert raised.value.reason == "ahead"
    assert run.status == "cancelled"


async def test_events_that_are_no_longer_kept_are_refused():
    log = InMemoryEventLog(max_events=2)
    async for _ in abc().astream({}, event_log=log, run_id="r"):
        pass
    with pytest.raises(EventLogError, match="the oldest one is 3") as raised:
        await read(abc(), log, 1, run_id="r")
    assert raised.value.reason == "dropped"
    assert [p["seq"] for p in await read(abc(), log, 2, run_id="r")] == [3]


async def test_a_run_of_another_thread_is_not_shown(log):
    graph = abc(InMemorySaver())
    async for _ in graph.astream({}, on("mine"), event_log=log, run_id="r"):
        pass
    with pytest.raises(EventLogError):
        async for _ in graph.astream(None, on("other"), event_log=log, run_id="r", resume_from=0):
            pass


@pytest.mark.parametrize(
    "options",
    [
        {"resume_from": 0},
        {"resume_from": -1, "event_log": InMemoryEventLog()},
        {"resume_from": True, "event_log": InMemoryEventLog()},
        {"resume_from": 0, "event_log": InMemoryEventLog()},
        {"on_disconnect": "stay"},
    ],
)
async def test_arguments_that_make_no_sense_are_refused(options):
    with pytest.raises(ConfigError):
        async for _ in abc().astream(None, **options):
            pass


async def test_a_graph_in_a_node_can_neither_outlast_it_nor_have_a_log_of_its_own(log):
    inner = abc()

    async def calls(state):
        refused = 0
        for options in ({"event_log": log}, {"on_disconnect": "continue"}):
            try:
                async for _ in inner.astream({}, **options):
                    pass
            except ConfigError:
                refused += 1
        return {"x": refused}

    assert (await chain(calls=calls).ainvoke({}))["x"] == 2


# -- the handle --------------------------------------------------------------------------------------------------


async def test_a_handle_says_how_its_run_stands_and_ended():
    async def bad(state):
        raise ConnectionError("no")

    async def asks(state):
        interrupt("?")

    gate = Gate()
    running = chain(gate=gate).start({})
    await gate.reached.wait()
    assert running.status == "running"
    running.cancel()
    runs = [
        running,
        abc().start({}),
        chain(bad=bad).start({}),
        chain(saver=InMemorySaver(), asks=asks).start({}, on("t")),
    ]
    seen = []
    for run in runs:
        run.on_done(seen.append)
        await run.ended()
    await asyncio.sleep(0)

    assert [run.status for run in runs] == ["cancelled", "done", "failed", "paused"]
    assert [type(run.failure()) for run in runs] == [type(None), type(None), ConnectionError, type(None)]
    assert len(seen) == 4


async def test_a_handle_gives_all_events_with_the_end(log):
    run = abc().start({}, stream_mode="updates", event_log=log, run_id="r")
    await run.ended()

    assert [(e.seq, e.mode) async for e in run.events()] == [(1, "updates"), (2, "updates"), (3, "updates"), (4, "end")]
    async with abc().start({}) as plain:
        with pytest.raises(RuntimeError, match="event_log="):
            await anext(plain.events())


async def test_a_logged_run_has_one_reader_that_drives(log):
    gate = Gate()
    async with chain(a=logs("a"), gate=gate).start({}, stream_mode="updates", event_log=log) as run:
        first = aiter(run)
        await anext(first)
        with pytest.raises(RuntimeError, match="one reader"):
            await anext(aiter(run))
        await first.aclose()
        await gate.reached.wait()


async def test_a_run_of_another_event_loop_is_read_by_looking_at_the_log(log):
    gate = Gate()
    graph = chain(a=logs("a"), gate=gate)
    run = graph.start({}, stream_mode="updates", event_log=log, run_id="r")
    await gate.reached.wait()

    def elsewhere():
        return asyncio.run(read(graph, log, run_id="r"))

    reading = asyncio.get_running_loop().run_in_executor(None, elsewhere)
    gate.opened.set()
    await run
    assert [p["seq"] for p in await reading] == [1, 2]


def test_the_blocking_stream_takes_a_log_too(log):
    parts = list(abc().stream({}, stream_mode="updates", version="v2", event_log=log, run_id="r"))
    again = list(abc().stream(None, stream_mode="updates", version="v2", event_log=log, run_id="r", resume_from=1))
    assert again == parts[1:]
