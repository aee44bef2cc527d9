"""The PostgreSQL saver under contention, cut connections and cancellation."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import asyncpg
import pytest

from langgraph_async.checkpoint.base import StepCommit, TaskWrites
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.constants import END, START
from langgraph_async.errors import StorageError, ThreadConflictError
from langgraph_async.graph.state import StateGraph
from langgraph_async.testing.saver_contract.samples import Branch, at, id_of, listed, load, pending, values

_ROOT = Path(__file__).parents[2]


@pytest.fixture
async def conn(postgres_database: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(postgres_database)
    yield conn
    await conn.close()


@pytest.fixture
async def savers(postgres_database: str) -> AsyncIterator[tuple[AsyncPostgresSaver, AsyncPostgresSaver]]:
    async with (
        AsyncPostgresSaver.from_conn_string(postgres_database, max_size=2) as one,
        AsyncPostgresSaver.from_conn_string(postgres_database, max_size=2) as other,
    ):
        yield one, other


def _commit(branch: Branch, expected: str | None, **changed: Any) -> StepCommit:
    writes = (TaskWrites("t", "", [("a", 1), ("b", [2])]),) if expected else ()
    return StepCommit(writes, *branch.next_checkpoint(**changed), expected)


async def _waiting(conn: Any, count: int) -> None:
    """Wait until so many statements wait for a lock."""
    async with asyncio.timeout(30):
        while True:
            await conn.execute("SELECT pg_stat_clear_snapshot()")
            found = await conn.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if found >= count:
                return


# -- compare and set ----------------------------------------------------------------------------------------------


async def test_of_two_statements_that_saw_the_same_head_one_wins(savers: Any, conn: Any) -> None:
    branch = Branch(savers[0])
    head = await savers[0].acommit(branch.head, _commit(branch, None, a=0))
    branch.head = head
    twin = branch.fork()
    async with asyncio.TaskGroup() as group, conn.transaction():  # both statements begin, and wait for the gate
        await conn.fetch("SELECT 1 FROM checkpoint_blobs WHERE channel = '__gate__' FOR UPDATE")
        calls = [
            group.create_task(_outcome(saver.acommit(head, _commit(b, id_of(head), a=[n], n=n))))
            for n, (saver, b) in enumerate(zip(savers, (branch, twin), strict=True))
        ]
        await _waiting(conn, 2)
    results = [call.result() for call in calls]
    winner = next(n for n, result in enumerate(results) if isinstance(result, dict))
    found = await values(savers[0], at(branch.thread_id))

    assert [type(result) for result in results].count(ThreadConflictError) == 1
    assert found == {"a": [winner], "n": winner}
    assert len(await listed(savers[0], at(branch.thread_id))) == 2


async def test_of_two_statements_that_saw_no_thread_one_wins(savers: Any, conn: Any) -> None:
    branches = [Branch(saver, "new") for saver in savers]
    transaction = conn.transaction()
    await transaction.start()
    await conn.execute(
        "INSERT INTO checkpoint_blobs (thread_id, channel, version, type) VALUES ('new', '__gate__', '', 'empty')"
    )
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(_outcome(b.saver.acommit(b.head, _commit(b, None, a=[1])))) for b in branches]
        await _waiting(conn, 2)
        await transaction.rollback()
    results = [call.result() for call in calls]

    assert [type(result) for result in results].count(ThreadConflictError) == 1
    assert len(await listed(savers[0], at("new"))) == 1


async def test_a_thread_deleted_under_a_waiting_commit_stays_deleted(savers: Any, conn: Any) -> None:
    branch = Branch(savers[0], "thread")
    branch.head = await savers[0].acommit(branch.head, _commit(branch, None, a=[0]))
    async with asyncio.TaskGroup() as group, conn.transaction():
        await conn.execute("DELETE FROM checkpoint_blobs")
        await conn.execute("DELETE FROM checkpoints")
        late = _commit(branch, id_of(branch.head), a=[1])
        call = group.create_task(_outcome(savers[0].acommit(branch.head, late)))
        await _waiting(conn, 1)
    result = call.result()

    assert isinstance(result, ThreadConflictError)
    assert result.found is None
    assert await listed(savers[0], at("thread", None)) == []


async def test_a_gate_that_somebody_passed_without_moving_the_head_refuses_nobody(savers: Any, conn: Any) -> None:
    branch = Branch(savers[0], "thread")
    branch.head = await savers[0].acommit(branch.head, _commit(branch, None, a=[0]))
    async with asyncio.TaskGroup() as group, conn.transaction():
        await conn.execute("UPDATE checkpoint_blobs SET blob = NULL WHERE channel = '__gate__'")
        commit = _commit(branch, id_of(branch.head), a=[1])
        call = group.create_task(_outcome(savers[0].acommit(branch.head, commit)))
        await _waiting(conn, 1)

    assert isinstance(call.result(), dict)
    assert await values(savers[0], at("thread")) == {"a": [1]}


async def test_a_conflict_refuses_only_its_own_thread(savers: Any) -> None:
    saver = savers[0]
    branches = [Branch(saver) for _ in range(10)]
    for branch in branches:
        branch.head = await saver.acommit(branch.head, _commit(branch, None, a=[0]))
    heads = [branch.head for branch in branches]
    await branches[3].fork().put(a="moved")
    results = await asyncio.gather(
        *(_outcome(saver.acommit(h, _commit(b, id_of(h), a=[1]))) for b, h in zip(branches, heads, strict=True))
    )

    assert [n for n, result in enumerate(results) if isinstance(result, ThreadConflictError)] == [3]
    assert await pending(saver, heads[3]) == []


async def test_commits_through_several_savers_never_both_win(savers: Any) -> None:
    branch = Branch(savers[0])
    wins = 0
    for round_ in range(20):
        head = branch.head
        forks = [branch.fork() for _ in range(4)]
        expected = id_of(head) if round_ else None
        results = await asyncio.gather(
            *(_outcome(savers[n % 2].acommit(head, _commit(f, expected, a=[n]))) for n, f in enumerate(forks))
        )
        won = [f for f, result in zip(forks, results, strict=True) if isinstance(result, dict)]
        assert len(won) == 1
        wins += 1
        branch = won[0]
        branch.head = (await load(savers[0], at(branch.thread_id))).config

    assert len(await listed(savers[0], at(branch.thread_id))) == wins


async def _outcome(call: Any) -> Any:
    try:
        return await call
    except (ThreadConflictError, StorageError) as exc:
        return exc


# -- runs ---------------------------------------------------------------------------------------------------------


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def _graph(saver: Any, nodes: int = 3, between: Any = None) -> Any:
    builder = StateGraph(State)
    for n in range(nodes):

        async def work(state: State, n: int = n) -> dict[str, Any]:
            if between is not None:
                await between(n)
            return {"log": [f"n{n}"]}

        builder.add_node(f"n{n}", work)
        builder.add_edge(START if n == 0 else f"n{n - 1}", f"n{n}")
    builder.add_edge(f"n{nodes - 1}", END)
    return builder.compile(checkpointer=saver)


def _config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


async def test_of_twenty_runs_on_one_thread_through_two_savers_none_is_lost(savers: Any) -> None:
    graphs = [_graph(saver) for saver in savers]
    calls = [graphs[n % 2].ainvoke({"log": [f"in{n}"]}, _config("t"), durability="sync") for n in range(20)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    done = [result for result in results if isinstance(result, dict)]
    state = await graphs[0].aget_state(_config("t"))

    assert done
    assert all(isinstance(r, (dict, ThreadConflictError)) for r in results)
    assert state.values["log"] in [result["log"] for result in done]
    assert len(state.values["log"]) % 4 == 0


@pytest.mark.parametrize("statement_cache", [True, False])
async def test_terminated_connections_between_two_steps_go_unnoticed(
    postgres_database: str, conn: Any, statement_cache: bool
) -> None:
    async def cut(n: int) -> None:
        await conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    options: Any = {"min_size": 3, "statement_cache": statement_cache}
    async with AsyncPostgresSaver.from_conn_string(postgres_database, **options) as saver:
        result = await _graph(saver, between=cut).ainvoke({"log": []}, _config("t"), durability="sync")
        history = [item async for item in saver.alist(at("t"))]

    assert result == {"log": ["n0", "n1", "n2"]}
    assert len(history) == 5


@pytest.mark.parametrize("stored", [True, False])
async def test_a_commit_whose_answer_was_lost_is_stored_once(postgres_database: str, stored: bool) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
        branch = Branch(saver)
        branch.head = await saver.acommit(branch.head, _commit(branch, None, a=[0]))
        fetch, cuts = asyncpg.Connection.fetch, 1

        async def cutting(self: Any, *args: Any) -> Any:
            nonlocal cuts
            if stored:
                rows = await fetch(self, *args)
            if cuts:
                cuts -= 1
                self.terminate()
                raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
            return rows if stored else await fetch(self, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncpg.Connection, "fetch", cutting)
            old, commit = branch.head, _commit(branch, id_of(branch.head), a=[1])
            config = await saver.acommit(old, commit)

        assert await values(saver, config) == {"a": [1]}
        assert await pending(saver, old) == [("t", "a", 1), ("t", "b", [2])]
        assert len(await listed(saver, at(branch.thread_id))) == 2


async def test_deleting_over_a_terminated_connection_is_done_all_the_same(postgres_database: str, conn: Any) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database, min_size=1) as saver:
        for turns in range(5):
            await Branch(saver, "t").put(a=[1])
            await conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            await saver.adelete_thread("t")
            assert await listed(saver, at("t", None)) == []


async def test_a_server_that_went_away_is_told(postgres_database: str, conn: Any) -> None:
    single = await asyncpg.connect(postgres_database)
    saver = AsyncPostgresSaver(single)
    await Branch(saver).put(a=1)
    await conn.execute("SELECT pg_terminate_backend($1)", single.get_server_pid())

    with pytest.raises(StorageError, match="connection failed"):
        await Branch(saver).put(a=1)


# -- cancellation -------------------------------------------------------------------------------------------------


async def test_a_cancelled_commit_is_stored_whole_or_not_at_all(savers: Any) -> None:
    saver = savers[0]
    outcomes = set()
    for turns in range(60):
        branch = Branch(saver)
        branch.head = await saver.acommit(branch.head, _commit(branch, None, a=[0]))
        old, commit = branch.head, _commit(branch, id_of(branch.head), a=[1], b=[2])
        call = asyncio.get_running_loop().create_task(saver.acommit(old, commit))
        for _ in range(turns % 20):
            await asyncio.sleep(0 if turns < 40 else 0.0005)
        call.cancel()
        await asyncio.wait([call])
        ids = await listed(saver, at(branch.thread_id))
        written = await pending(saver, old)
        outcomes.add(len(ids))

        assert (len(ids), len(written)) in {(1, 0), (2, 2)}
        if len(ids) == 2:
            assert await values(saver, at(branch.thread_id)) == {"a": [1], "b": [2]}
    assert outcomes == {1, 2}


async def test_a_cancelled_read_leaves_the_connection_usable(postgres_database: str) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database, max_size=1) as saver:
        branch = Branch(saver)
        await branch.put(a=[1])
        for turns in range(30):
            calls = [
                asyncio.get_running_loop().create_task(call)
                for call in (
                    saver.aget_tuple(branch.head),
                    saver.aget_delta_channel_history(config=branch.head, channels=["a"]),
                    _first(saver.alist(at(branch.thread_id))),
                    saver.adelete_thread("other"),
                )
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            assert await values(saver, branch.head) == {"a": [1]}


async def _first(items: Any) -> Any:
    async for item in items:
        return item


async def test_closing_stores_what_is_waiting(postgres_database: str) -> None:
    saver = AsyncPostgresSaver.from_conn_string(postgres_database, max_size=1)
    branches = [Branch(saver) for _ in range(50)]
    calls = [asyncio.get_running_loop().create_task(branch.put(a=[1])) for branch in branches]
    await asyncio.sleep(0)
    await saver.aclose()
    await asyncio.wait(calls)

    async with AsyncPostgresSaver.from_conn_string(postgres_database) as again:
        assert len(await listed(again, None)) == 50


# -- setting up ---------------------------------------------------------------------------------------------------


async def test_an_index_that_was_left_half_built_is_built_again(postgres_database: str, conn: Any) -> None:
    await conn.execute("DELETE FROM checkpoint_migrations WHERE v > 6")
    await conn.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'checkpoint_blobs_thread_id_idx'::regclass"
    )
    async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
        await saver.setup()

    assert await conn.fetchval("SELECT count(*) FROM pg_index WHERE NOT indisvalid") == 0
    assert await conn.fetchval("SELECT max(v) FROM checkpoint_migrations") == 9


async def test_tables_of_the_shallow_saver_are_refused(empty_postgres_database: str) -> None:
    conn = await asyncpg.connect(empty_postgres_database)
    await conn.execute("CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint JSONB)")
    with pytest.raises(StorageError, match="shallow"):
        await AsyncPostgresSaver(conn).setup()
    await conn.close()
