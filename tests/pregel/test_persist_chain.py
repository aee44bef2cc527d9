"""Supersteps that wait for the saver are stored together, where the saver can."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from typing_extensions import TypedDict

from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.graph.state import StateGraph
from langgraph_async.pregel import loop

THREAD: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 100}


class State(TypedDict):
    n: int


class ChainSaver(InMemorySaver):
    """A saver that suspends, and notes how many commits each call brought."""

    immediate = False

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.calls: list[int] = []
        self.steps: list[int] = []
        self.fail_at = fail_at

    async def acommit(self, config: Any, commit: Any) -> Any:
        step = (commit.metadata or {}).get("step")
        if step is not None and step == self.fail_at:
            raise OSError("the disk is gone")
        self.steps.append(step)
        return await super().acommit(config, commit)

    async def acommit_chain(self, commits: Any) -> None:
        await asyncio.sleep(0)
        self.calls.append(len(commits))
        await super().acommit_chain(commits)


def _counting(saver: InMemorySaver, limit: int) -> Any:
    async def step(state: State) -> State:
        return {"n": state["n"] + 1}

    builder = StateGraph(State).add_node("step", step).add_edge("__start__", "step")
    builder.add_conditional_edges("step", lambda state: "step" if state["n"] < limit else "__end__")
    return builder.compile(checkpointer=saver)


async def test_supersteps_that_wait_are_stored_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_SLICE_S", 1e9)  # on a slow machine the saver would get more turns
    saver = ChainSaver()

    await _counting(saver, 40).ainvoke({"n": 0}, THREAD, durability="async")

    assert saver.steps == list(range(-1, 41))
    assert sum(saver.calls) > 30
    assert 10 <= max(saver.calls) <= 17


class SlowSaver(ChainSaver):
    """A saver that takes longer than the run to get as far ahead as it may; notes the sizes of all its groups."""

    async def acommit(self, config: Any, commit: Any) -> Any:
        await self._take(1)
        return await super().acommit(config, commit)

    async def acommit_chain(self, commits: Any) -> None:
        await self._take(len(commits))
        for config, commit in commits:
            await super().acommit(config, commit)

    async def _take(self, size: int) -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        self.calls.append(size)


async def test_what_is_being_stored_does_not_keep_the_next_group_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_SLICE_S", -1)  # the saver gets a turn after each superstep
    saver = SlowSaver()

    await _counting(saver, 80).ainvoke({"n": 0}, THREAD, durability="async")

    assert saver.steps == list(range(-1, 81))
    assert min(saver.calls[2:-1]) >= 16
    assert max(saver.calls) <= 17


async def test_durability_sync_stores_each_superstep_before_the_next() -> None:
    saver = ChainSaver()

    await _counting(saver, 10).ainvoke({"n": 0}, THREAD, durability="sync")

    assert saver.calls == []
    assert saver.steps == list(range(-1, 11))


async def test_nothing_is_stored_after_a_commit_that_failed() -> None:
    saver = ChainSaver(fail_at=7)

    with pytest.raises(OSError, match="the disk is gone"):
        await _counting(saver, 40).ainvoke({"n": 0}, THREAD, durability="async")

    assert saver.steps == list(range(-1, 7))
    assert (await _counting(saver, 40).aget_state(THREAD)).values == {"n": 6}
