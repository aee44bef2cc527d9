"""Savers that fail, are slow, or speak only part of the contract."""

import asyncio

import pytest
from drawings import chain, logs
from faulty_saver import FaultySaver, PathlessSaver, SaverFailed, SlowSaver
from threads import on, stored

from langgraph_async import Command, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver

DURABILITIES = ["sync", "async", "exit"]
METHODS = ["aget_tuple", "acommit", "aput", "aput_writes"]


class Counting:
    """Two plain nodes, one that asks, and how often each was run."""

    def __init__(self, saver):
        self.ran: list[str] = []
        self.graph = chain(saver=saver, a=self.node("a"), sub=chain(b=self.node("b")), ask=self.ask, c=self.node("c"))

    def node(self, name):
        async def run(state):
            self.ran.append(name)
            await asyncio.sleep(0)
            return {"log": [name]}

        return run

    async def ask(self, state):
        return {"log": [interrupt("?")]}


async def finish(graph, config):
    """Go on from whatever is stored until the run is over."""
    out = None
    for _ in range(4):
        tuple_ = await graph.checkpointer.aget_tuple(config)
        if tuple_ is None:
            out = await graph.ainvoke({"log": []}, config)
        else:
            out = await graph.ainvoke(None, config)
        if "__interrupt__" in out:
            out = await graph.ainvoke(Command(resume="yes"), config)
        if out["log"][-1:] == ["c"]:
            return out
    return out


@pytest.mark.parametrize(
    ("grouped", "turns", "after"),
    [(True, 0, False), (True, 2, True), (False, 0, True), (False, 2, False)],
)
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("method", METHODS)
async def test_a_saver_that_fails_once_at_any_call_fails_the_run_and_the_thread_can_go_on(
    method, durability, grouped, turns, after
):
    at = 0
    while True:
        assert at < 50
        saver = FaultySaver(method, at, turns=turns, grouped=grouped, after=after)
        world = Counting(saver)
        raised = None
        try:
            out = await world.graph.ainvoke({"log": []}, on(), durability=durability)
            assert "__interrupt__" in out
            await world.graph.ainvoke(Command(resume="yes"), on(), durability=durability)
        except SaverFailed as exc:
            raised = exc
        assert (raised is not None) == saver.failed, saver.calls
        assert len(asyncio.all_tasks()) == 1
        assert not saver.leases
        if not saver.failed:
            break
        assert raised is saver.error
        out = await finish(world.graph, on())
        assert out["log"] in (["a", "a", "b", "yes", "c"], ["a", "a", "b", "a", "a", "b", "yes", "c"])
        at += 1


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_nothing_is_saved_after_a_failed_save(durability):
    for at in range(3):
        saver = FaultySaver("acommit", at, turns=1)
        world = Counting(saver)
        try:
            await world.graph.ainvoke({"log": []}, on(), durability=durability)
        except SaverFailed:
            failed_at = [i for i, name in enumerate(saver.calls) if name == "acommit"][at]
            later = [name for name in saver.calls[failed_at + 1 :] if name != "aget_tuple"]
            assert later == [], saver.calls


@pytest.mark.parametrize("method", ["acommit", "aput", "aput_writes", "aget_tuple"])
@pytest.mark.parametrize("immediate", [False, True])
async def test_an_immediate_saver_that_fails_fails_the_run(method, immediate):
    for at in range(8):
        saver = FaultySaver(method, at, immediate=immediate, grouped=method == "acommit")
        world = Counting(saver)
        try:
            await world.graph.ainvoke({"log": []}, on())
        except SaverFailed:
            assert saver.failed
        else:
            assert not saver.failed
        assert len(asyncio.all_tasks()) == 1
        assert not saver.leases


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), BaseException("b")])
async def test_a_saver_that_raises_anything_at_all_does_not_hang_the_run(error, immediate):
    for at in range(5):
        saver = FaultySaver("acommit", at, error=error, immediate=immediate)
        run = _swallow(Counting(saver).graph.ainvoke({"log": []}, on()))
        async with asyncio.timeout(10):
            raised = await run
        assert raised is not None
        assert len(asyncio.all_tasks()) == 1
        assert not saver.leases


async def _swallow(awaitable):
    try:
        await awaitable
    except BaseException as exc:
        return exc
    return None


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_failing_saver_fails_a_stream_after_what_came_before(streamed):
    saver = FaultySaver("acommit", 3, turns=1)
    items = []
    with pytest.raises(SaverFailed):
        async for item in chain(saver=saver, a=logs("a"), b=logs("b"), c=logs("c"), d=logs("d")).astream(
            {"log": []}, on(), durability="sync"
        ):
            items.append(item)

    assert items[0] == {"a": {"log": ["a"]}}
    assert streamed in (False, True)


async def test_durability_async_lets_only_a_few_supersteps_wait_for_a_slow_saver():
    """One writer at a time, and the run at most a few supersteps ahead of it."""
    ahead: list[int] = []
    saver = SlowSaver(turns=20)
    steps = 0

    async def step(state):
        nonlocal steps
        steps += 1
        ahead.append(steps - saver.saves)
        return {"log": [1]}

    nodes = {f"n{i:02}": step for i in range(30)}
    await chain(saver=saver, **nodes).ainvoke({"log": []}, on(), durability="async")

    assert saver.most == 1
    assert max(ahead) <= 5
    assert len(asyncio.all_tasks()) == 1


async def test_durability_sync_is_never_ahead_of_its_saver():
    saver = SlowSaver(turns=3)
    graph = None
    seen = []

    async def step(state):
        kept = await stored(graph, on(), saver.inner)
        seen.append(kept.values["log"] == state["log"])
        return {"log": [1]}

    graph = chain(saver=saver, a=step, b=step, c=step)
    await graph.ainvoke({"log": []}, on(), durability="sync")

    assert seen == [True, True, True]


async def test_durability_exit_saves_once_at_the_end():
    saver = FaultySaver()
    await chain(saver=saver, a=logs("a"), b=logs("b")).ainvoke({"log": []}, on(), durability="exit")

    assert saver.calls == ["aget_tuple", "acommit"]


async def test_one_grouped_call_stores_a_superstep():
    saver = FaultySaver()
    await chain(saver=saver, a=logs("a"), b=logs("b")).ainvoke({"log": []}, on())

    assert saver.calls == ["aget_tuple", *["acommit"] * 4]


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_saver_whose_put_writes_knows_no_task_path_works(durability):
    saver = PathlessSaver()
    world = Counting(saver)
    out = await world.graph.ainvoke({"log": []}, on(), durability=durability)
    assert "__interrupt__" in out

    out = await world.graph.ainvoke(Command(resume="yes"), on(), durability=durability)

    assert out["log"] == ["a", "a", "b", "yes", "c"]


async def test_a_saver_that_suspends_although_it_is_declared_immediate_is_told_so():
    saver = FaultySaver(turns=1, immediate=True)
    with pytest.raises(RuntimeError, match="immediate"):
        await chain(saver=saver, a=logs("a")).ainvoke({"log": []}, on())

    assert not saver.leases
    assert InMemorySaver
