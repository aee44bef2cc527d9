"""What storing a run may cost, counted: tasks, groups, trips to the thread of the database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from typing_extensions import TypedDict

from langgraph_async import END, START, StateGraph
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.checkpoint.sqlite.lane import Job, Lane
from langgraph_async.pregel.step.persist import MAX_STEPS_BEHIND_GROUPED


class State(TypedDict):
    number: int


async def node(state: State) -> dict[str, Any]:
    return {"number": state["number"] + 1}


def looping(saver: Any, turns: int) -> Any:
    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", lambda state: "node" if state["number"] < turns else END, ["node", END])
    return builder.compile(checkpointer=saver)


async def test_storing_a_run_of_single_tasks_opens_no_task_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    original = anyio.create_task_group
    monkeypatch.setattr(anyio, "create_task_group", lambda: opened.append(1) or original())

    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        await looping(saver, 40).ainvoke({"number": 0}, {"configurable": {"thread_id": "1"}, "recursion_limit": 50})

    assert opened == []


@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_many_steps_go_to_the_thread_of_the_database_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any
) -> None:
    trips: list[int] = []
    original = Lane.__init__

    def watched(self: Lane, conn: Any, name: str, run: Any) -> None:
        def counted(raw: Any, jobs: Sequence[Job]) -> None:
            trips.extend(len(job.work) for job in jobs if isinstance(job.work, tuple))
            run(raw, jobs)

        original(self, conn, name, counted)

    monkeypatch.setattr(Lane, "__init__", watched)
    monkeypatch.setattr("langgraph_async.pregel.loop._SLICE_S", 1e9)  # however slow the machine is
    turns = 10 * MAX_STEPS_BEHIND_GROUPED

    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        config = {"configurable": {"thread_id": "1"}, "recursion_limit": turns + 10}
        await looping(saver, turns).ainvoke({"number": 0}, config, durability=durability)

    assert sum(trips) == (turns + 2 if durability == "async" else 1)
    assert len(trips) <= turns / MAX_STEPS_BEHIND_GROUPED + 3
