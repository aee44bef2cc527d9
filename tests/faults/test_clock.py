"""A thread whose next process, on another machine or after a restart, has a clock that is late."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from slow_savers import SAVERS
from threads import on
from typing_extensions import TypedDict

from langgraph_async import START, Command, StateGraph, ids, interrupt

HOUR_NS = 3600 * 10**9


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]


@pytest.fixture(params=list(SAVERS))
def saver(request: pytest.FixtureRequest) -> Any:
    return SAVERS[request.param]()


@pytest.fixture
def next_process(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that begins a process whose clock is an hour behind the one before."""
    clock = [1_800_000_000 * 10**9]

    def now() -> int:
        clock[0] += 1000
        return clock[0]

    def begin() -> None:
        clock[0] -= HOUR_NS
        monkeypatch.setattr(ids, "_last_100ns", 0)

    monkeypatch.setattr(ids.time, "time_ns", now)
    monkeypatch.setattr(ids, "_last_100ns", 0)
    return begin


def graph(saver: Any) -> Any:
    inner = StateGraph(State).add_node("in", lambda state: {"log": ["in"]}).add_edge(START, "in")
    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"log": ["a"]})
    builder.add_node("ask", lambda state: {"log": [interrupt("?")]})
    builder.add_node("sub", inner.compile(checkpointer=True))
    builder.add_edge(START, "a").add_edge("a", "ask").add_edge("ask", "sub")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_thread_goes_on_when_the_clock_is_late(saver, next_process, durability):
    runs = graph(saver)
    await runs.ainvoke({"log": ["hi"]}, on(), durability=durability)
    next_process()
    first = await runs.ainvoke(Command(resume="yes"), on(), durability=durability)
    next_process()
    await runs.ainvoke({"log": ["more"]}, on(), durability=durability)
    next_process()
    await runs.aupdate_state(on(), {"log": ["edit"]}, "a")
    next_process()
    second = await runs.ainvoke(Command(resume="again"), on(), durability=durability)
    state = await runs.aget_state(on())
    checkpoints = [s.config["configurable"]["checkpoint_id"] async for s in runs.aget_state_history(on())]

    assert first["log"][:3] == ["hi", "a", "yes"]
    assert "edit" in second["log"]
    assert second["log"][-len(first["log"]) :][-1] == "in"
    assert (state.values, state.next) == (second, ())
    assert checkpoints == sorted(set(checkpoints), reverse=True)


async def test_a_fork_is_newer_than_all_that_is_there(saver, next_process):
    runs = graph(saver)
    await runs.ainvoke({"log": ["hi"]}, on())
    await runs.ainvoke(Command(resume="yes"), on())
    old = [s async for s in runs.aget_state_history(on())][-2]
    next_process()
    await runs.ainvoke(None, old.config)

    assert (await runs.aget_state(on())).next == ("ask",)


@pytest.mark.parametrize("odd", ["", "1", "zzzz", "1f1ed1ef-7a82-423f-8001-c5ea0272fe5f", None])
def test_an_id_of_another_form_sets_no_bound(odd):
    assert ids.checkpoint_id(1, odd) < ids.checkpoint_id(1, odd)
    assert ids.checkpoint_id(1, odd)[14] == "6"


def test_an_id_comes_after_one_of_the_future():
    future = "2" + ids.checkpoint_id(1)[1:]

    assert future < ids.checkpoint_id(2, future) < "3"
    assert ids.checkpoint_id(2) < future
