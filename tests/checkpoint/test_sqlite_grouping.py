"""How the SQLite saver groups, what a group costs, and that its parts stay apart."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlite_watch import statements, step
from typing_extensions import TypedDict

from langgraph_async.checkpoint.base import StepCommit, TaskWrites
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.errors import SerializationError, ThreadConflictError
from langgraph_async.graph.state import StateGraph
from langgraph_async.testing.saver_contract.samples import Branch, Unstorable, at, id_of, listed, load, values


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", synchronous="NORMAL") as saver:
        yield saver


class State(TypedDict):
    n: int


def _counting(saver: AsyncSqliteSaver, limit: int) -> Any:
    async def add(state: State) -> State:
        await asyncio.sleep(0)
        return {"n": state["n"] + 1}

    builder = StateGraph(State).add_node("add", add).add_edge("__start__", "add")
    builder.add_conditional_edges("add", lambda state: "add" if state["n"] < limit else "__end__")
    return builder.compile(checkpointer=saver)


async def test_commits_that_come_together_share_a_transaction(saver: AsyncSqliteSaver) -> None:
    branches = [Branch(saver) for _ in range(200)]
    async with statements(saver) as seen:
        await asyncio.gather(*(saver.acommit(b.head, step(b, None, a=1)) for b in branches))

    assert seen.count("COMMIT") <= 2
    assert len(seen) <= 16


async def test_a_commit_is_one_transaction_of_few_statements(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver)
    await branch.put(a=0)
    tasks = [TaskWrites(f"t{i}", "", [("a", i), ("b", i)]) for i in range(20)]
    async with statements(saver) as seen:
        await saver.acommit(branch.head, step(branch, id_of(branch.head), *tasks, a=1))

    assert seen == ["BEGIN", "WITH", "INSERT", "INSERT", "COMMIT"]


async def test_a_run_of_many_supersteps_has_far_fewer_transactions(saver: AsyncSqliteSaver) -> None:
    async with statements(saver) as seen:
        await _counting(saver, 60).ainvoke(
            {"n": 0}, {"configurable": {"thread_id": "1"}, "recursion_limit": 100}, durability="async"
        )

    assert seen.count("COMMIT") <= 30
    assert len(await listed(saver, at("1"))) == 62


async def test_concurrent_runs_share_transactions(saver: AsyncSqliteSaver) -> None:
    graph = _counting(saver, 5)
    async with statements(saver) as seen:
        results = await asyncio.gather(
            *(graph.ainvoke({"n": 0}, {"configurable": {"thread_id": f"{i}"}}) for i in range(50))
        )

    assert results == [{"n": 5}] * 50
    assert seen.count("COMMIT") <= 60  # and not 50 x 7


async def test_listing_does_not_ask_for_each_checkpoint(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver)
    for i in range(90):
        await branch.put(a=i)
        await branch.write(("a", i))
    async with statements(saver) as seen:
        assert len(await listed(saver, at(branch.thread_id))) == 90

    assert seen.count("SELECT") <= 2
    assert seen.count("WITH") <= 1


async def test_reading_one_asks_twice(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver)
    await branch.put(a=1)
    async with statements(saver) as seen:
        await load(saver, at(branch.thread_id))

    assert seen == ["BEGIN", "SELECT", "SELECT", "COMMIT"]


async def test_a_conflict_in_a_group_fails_alone(saver: AsyncSqliteSaver) -> None:
    branches = [Branch(saver) for _ in range(9)]
    late = branches[4]
    await late.fork().put(a="first")
    results = await asyncio.gather(
        *(saver.acommit(b.head, step(b, None, a=1)) for b in branches), return_exceptions=True
    )

    assert [isinstance(r, ThreadConflictError) for r in results] == [b is late for b in branches]
    assert await values(saver, at(late.thread_id)) == {"a": "first"}
    assert [len(await listed(saver, at(b.thread_id))) for b in branches] == [1] * 9


async def test_a_row_that_the_database_refuses_fails_its_commit_alone(saver: AsyncSqliteSaver) -> None:
    branches = [Branch(saver, "bad \ud800" if i == 2 else None) for i in range(5)]
    results = await asyncio.gather(
        *(saver.acommit(b.head, step(b, None, a=1)) for b in branches), return_exceptions=True
    )

    assert [isinstance(r, Exception) for r in results] == [i == 2 for i in range(5)]
    assert [len(await listed(saver, at(b.thread_id))) for b in branches if b is not branches[2]] == [1] * 4


async def test_commits_of_a_group_see_those_before_them(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver)
    commits = [step(branch, None, a=0)]
    assert commits[0].checkpoint is not None
    for i in range(1, 30):
        head = commits[-1].checkpoint
        assert head is not None
        commits.append(step(branch, head["id"], a=i))
    await asyncio.gather(*(saver.acommit(branch.head, c) for c in commits))

    assert await values(saver, at(branch.thread_id)) == {"a": 29}
    assert len(await listed(saver, at(branch.thread_id))) == 30


async def test_writes_of_one_task_in_a_group_count_in_their_order(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver)
    await branch.put(a=0)
    tasks = [
        TaskWrites("t", "", [("a", 1), ("b", 1)]),
        TaskWrites("t", "", [("a", 2)]),
        TaskWrites("t", "", [("c", 3)], replace=True),
        TaskWrites("t", "", [("__error__", "e")]),
        TaskWrites("t", "", [("d", 4), ("e", 5)]),
        TaskWrites("t", "", [("__error__", None)]),
    ]
    await asyncio.gather(*(saver.acommit(branch.head, StepCommit([task])) for task in tasks))

    assert await branch.pending() == [("t", "__error__", None), ("t", "c", 3), ("t", "e", 5)]


async def test_a_chain_stops_at_the_commit_that_comes_too_late(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver)
    first, second, third = step(branch, None, a=1), step(branch, "other", a=2), step(branch, "none", a=3)
    with pytest.raises(ThreadConflictError) as caught:
        await saver.acommit_chain([(branch.head, c) for c in (first, second, third)])

    assert first.checkpoint is not None
    assert caught.value.found == first.checkpoint["id"]
    assert await listed(saver, at(branch.thread_id)) == [first.checkpoint["id"]]


async def test_a_chain_stores_what_comes_before_an_unstorable_value(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver)
    commits = [step(branch, None, a=1), step(branch, None, a=Unstorable())]
    with pytest.raises(SerializationError, match="'a'"):
        await saver.acommit_chain([(branch.head, c) for c in commits])

    assert await values(saver, at(branch.thread_id)) == {"a": 1}


@pytest.mark.parametrize("turns", range(14))
async def test_a_cancelled_commit_is_stored_whole_or_not_at_all(saver: AsyncSqliteSaver, turns: int) -> None:
    branch = Branch(saver)
    await branch.put(a=0)
    old = branch.head
    commit = step(branch, id_of(old), TaskWrites("t", "", [("a", 1)]), a=1)
    task = asyncio.ensure_future(saver.acommit(old, commit))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    found = await listed(saver, at(branch.thread_id))
    writes = (await load(saver, old)).pending_writes

    assert (len(found), writes) in [(1, []), (2, [("t", "a", 1)])]
    assert task.cancelled() or len(found) == 2
    assert (await saver.acommit(at("next"), step(Branch(saver, "next"), None, a=1))) is not None


async def test_cancelling_every_task_leaves_the_writer_at_work(saver: AsyncSqliteSaver) -> None:
    branches = [Branch(saver) for _ in range(5)]
    tasks = [asyncio.ensure_future(saver.acommit(b.head, step(b, None, a=1))) for b in branches]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait(tasks)

    assert [len(await listed(saver, at(b.thread_id))) for b in branches] == [1] * 5


async def test_a_writer_cancelled_before_it_began_is_replaced(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver)
    task = asyncio.ensure_future(saver.acommit(branch.head, step(branch, None, a=1)))
    await asyncio.sleep(0)
    for other in asyncio.all_tasks() - {asyncio.current_task(), task}:
        other.cancel()
    await task

    assert await values(saver, at(branch.thread_id)) == {"a": 1}


async def test_of_twenty_runs_over_two_savers_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    async with AsyncSqliteSaver.from_conn_string(path) as one, AsyncSqliteSaver.from_conn_string(path) as two:
        graphs = [_counting(saver, 3) for saver in (one, two)]
        thread: Any = {"configurable": {"thread_id": "1"}}
        results = await asyncio.gather(
            *(graphs[i % 2].ainvoke({"n": 0}, thread, durability="sync") for i in range(20)), return_exceptions=True
        )
        history = await listed(one, at("1"))

    won = [r for r in results if not isinstance(r, BaseException)]
    assert won == [{"n": 3}]
    assert all(isinstance(r, ThreadConflictError) for r in results if r not in won)
    assert len(history) == 5


async def test_reading_does_not_wait_for_a_writer(saver: AsyncSqliteSaver, tmp_path: Path) -> None:
    branch = Branch(saver)
    await branch.put(a=1)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with asyncio.timeout(5):
        found = await values(saver, at(branch.thread_id))
    other.execute("ROLLBACK")
    other.close()

    assert found == {"a": 1}


async def test_a_checkpoint_is_stored_in_the_form_that_langgraph_reads(saver: AsyncSqliteSaver, tmp_path: Path) -> None:
    branch = Branch(saver, "thread")
    first = await branch.put({"note": "\u00e9"}, a=1)
    second = await branch.put(b=2)
    await branch.write(("a", None), ("__error__", "e"), task="t", path="~p")
    conn = sqlite3.connect(tmp_path / "a.db")
    rows = conn.execute("SELECT * FROM checkpoints ORDER BY checkpoint_id").fetchall()
    writes = conn.execute("SELECT task_id, task_path, idx, channel, type, value FROM writes ORDER BY idx").fetchall()
    conn.close()

    assert [row[:5] for row in rows] == [
        ("thread", "", id_of(first), None, "msgpack"),
        ("thread", "", id_of(second), id_of(first), "msgpack"),
    ]
    assert saver.serde.loads_typed(rows[1][4:6])["channel_values"] == {"a": 1, "b": 2}
    assert rows[0][6].decode() == '{"source": "input", "step": -1, "parents": {}, "note": "\u00e9"}'
    assert writes == [("t", "~p", -1, "__error__", "msgpack", b"\xa1e"), ("t", "~p", 0, "a", "null", b"")]
