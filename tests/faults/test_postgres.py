"""The PostgreSQL saver while connections are cut, servers are away and callers are cancelled, at every point.

Where the points are is told by the wire: whatever a call sends, and whatever it is answered, is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import asyncpg
import pytest
from drawings import chain
from postgres_proxy import Proxy, Way, postgres_proxy
from threads import on

from langgraph_async import Command, interrupt
from langgraph_async.checkpoint.base import StepCommit, TaskWrites
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.errors import StorageError
from langgraph_async.testing.saver_contract.samples import Branch, at, id_of, listed

WAYS: tuple[Way, ...] = ("asked", "answered")


@pytest.fixture
async def proxy(postgres_database: str) -> AsyncIterator[Proxy]:
    async with postgres_proxy(postgres_database) as proxy:
        yield proxy


@pytest.fixture
async def observer(postgres_database: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(postgres_database)
    yield conn
    await conn.close()


# -- cut connections ----------------------------------------------------------------------------------------------


def _graph(saver: Any) -> Any:
    def step(name: str) -> Any:
        async def run(state: Any) -> Any:
            await asyncio.sleep(0)
            return {"log": [name]}

        return run

    async def ask(state: Any) -> Any:
        return {"log": [interrupt("?")]}

    return chain(saver=saver, a=step("a"), sub=chain(b=step("b")), ask=ask, c=step("c"))


async def _paused_and_resumed(graph: Any, thread: str, durability: Any) -> Any:
    paused = await graph.ainvoke({"log": []}, on(thread), durability=durability)
    assert [question.value for question in paused["__interrupt__"]] == ["?"]
    return await graph.ainvoke(Command(resume="yes"), on(thread), durability=durability)


async def _history(graph: Any, thread: str) -> list[Any]:
    """What is told of a thread, without what differs from run to run."""
    return [
        (state.values, state.next, state.metadata["step"], state.metadata["source"])
        async for state in graph.aget_state_history(on(thread))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_run_whose_connections_are_cut_at_any_point_once_ends_as_if_nothing_had_been(
    proxy: Proxy, way: Way, durability: str
) -> None:
    calm = _graph(InMemorySaver())
    result = await _paused_and_resumed(calm, "t", durability)
    history = await _history(calm, "t")
    point, reached = 0, True
    while reached:
        reached = False

        def cut(now: Way, number: int, point: int = point) -> None:
            nonlocal reached
            if (now, number) == (way, point) and not reached:
                reached = True
                proxy.cut()

        async with AsyncPostgresSaver.from_conn_string(proxy.dsn, max_size=2) as saver:
            graph = _graph(saver)
            proxy.watch(cut)
            assert await _paused_and_resumed(graph, f"t{point}", durability) == result
            proxy.watch(None)
            assert await _history(graph, f"t{point}") == history
        point += 1
    assert point > 3


async def test_a_backend_terminated_during_a_statement_is_replaced(postgres_database: str, observer: Any) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database, max_size=2) as saver:
        branch = Branch(saver, "t")
        await branch.put(a=[0])
        blocker = await asyncpg.connect(postgres_database)
        async with asyncio.TaskGroup() as group, blocker.transaction():
            await blocker.execute("LOCK TABLE checkpoints, checkpoint_blobs IN ACCESS EXCLUSIVE MODE")
            put, got = group.create_task(branch.put(a=[1])), group.create_task(_exhausted(saver.alist(at("t"))))
            killed = await _terminated_waiters(observer, 2)
        await blocker.close()

        assert killed == 2
        assert len(got.result()) in (1, 2)
        assert await listed(saver, at("t")) == [id_of(put.result()), *[id_of(i.config) for i in got.result()][-1:]]


async def _exhausted(items: Any) -> list[Any]:
    return [item async for item in items]


async def _terminated_waiters(conn: Any, count: int) -> int:
    async with asyncio.timeout(30):
        while True:
            pids = [pid for (pid,) in await conn.fetch("SELECT DISTINCT pid FROM pg_locks WHERE NOT granted")]
            if len(pids) >= count:
                return len([await conn.fetchval("SELECT pg_terminate_backend($1)", pid) for pid in pids])


async def test_idle_connections_that_were_terminated_are_replaced(postgres_database: str, observer: Any) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database, min_size=4, max_size=4) as saver:
        for n in range(4):
            await Branch(saver, f"t{n}").put(a=n)
            await observer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert len(await asyncio.gather(*(listed(saver, at(f"t{n}")) for _ in range(8)))) == 8


async def test_a_run_whose_server_is_away_fails_clearly_and_the_thread_goes_on_when_it_is_back(proxy: Proxy) -> None:
    ran: list[str] = []

    def step(name: str) -> Any:
        async def run(state: Any) -> Any:
            ran.append(name)
            if ran == ["a", "b"]:
                proxy.refuses = True
                proxy.cut()
            return {"log": [name]}

        return run

    async with AsyncPostgresSaver.from_conn_string(proxy.dsn, max_size=2) as saver:
        graph = chain(saver=saver, a=step("a"), b=step("b"), c=step("c"))
        with pytest.raises(StorageError, match="connection failed") as caught:
            await graph.ainvoke({"log": []}, on(), durability="sync")
        proxy.refuses = False

        assert caught.value.reason == "failed"
        assert await graph.ainvoke(None, on(), durability="sync") == {"log": ["a", "b", "c"]}
    assert ran == ["a", "b", "b", "c"]


# -- cancelled callers --------------------------------------------------------------------------------------------


async def _sweep(saver: Any, branch: Branch) -> None:
    await saver.asweep()


def _commit(branch: Branch) -> StepCommit:
    writes = (TaskWrites("t", "", [("a", 1), ("b", [2])]),)
    return StepCommit(writes, *branch.fork().next_checkpoint(a=[1], b=[2]), id_of(branch.head))


async def _chain(saver: Any, branch: Branch) -> None:
    twin = branch.fork()
    first = StepCommit((), *twin.next_checkpoint(a=[1]), id_of(branch.head))
    second = StepCommit((), *twin.next_checkpoint(a=[2]), first.checkpoint["id"])  # type: ignore[index]
    await saver.acommit_chain([(branch.head, first), (at(branch.thread_id, "", first.checkpoint["id"]), second)])  # type: ignore[index]


async def _first(items: Any) -> None:
    async for _ in items:
        break
    await items.aclose()


CALLS: dict[str, Callable[[Any, Branch], Awaitable[Any]]] = {
    "setup": lambda saver, branch: saver.setup(),
    "aget_tuple": lambda saver, branch: saver.aget_tuple(branch.head),
    "alist": lambda saver, branch: _exhausted(saver.alist(at(branch.thread_id))),
    "alist, left": lambda saver, branch: _first(saver.alist(at(branch.thread_id))),
    "alist_threads": lambda saver, branch: _exhausted(saver.alist_threads()),
    "history": lambda saver, branch: saver.aget_delta_channel_history(config=branch.head, channels=["a"]),
    "aput": lambda saver, branch: branch.fork().put(a=[2]),
    "aput_writes": lambda saver, branch: branch.write(("a", 1), ("b", 2)),
    "acommit": lambda saver, branch: saver.acommit(branch.head, _commit(branch)),
    "acommit_chain": _chain,
    "adelete_thread": lambda saver, branch: saver.adelete_thread(branch.thread_id),
    "adelete_for_runs": lambda saver, branch: saver.adelete_for_runs(["run"]),
    "acopy_thread": lambda saver, branch: saver.acopy_thread(branch.thread_id, branch.thread_id + " copy"),
    "aprune, latest": lambda saver, branch: saver.aprune([branch.thread_id]),
    "aprune, all": lambda saver, branch: saver.aprune([branch.thread_id], strategy="delete"),
    "asweep": _sweep,
}
ROWS = {
    "checkpoints": "thread_id, checkpoint_id",
    "checkpoint_blobs": "thread_id, channel, version",
    "checkpoint_writes": "thread_id, checkpoint_id, task_id, idx",
}


@asynccontextmanager
async def _saver(proxy: Proxy, kind: str) -> AsyncIterator[AsyncPostgresSaver]:
    if kind == "single":
        conn = await asyncpg.connect(proxy.dsn)
        yield AsyncPostgresSaver(conn, ttl_s=1e-9)
        await conn.close()
        return
    options: Any = {"max_size": 1, "statement_cache": kind == "pool"}
    async with AsyncPostgresSaver.from_conn_string(proxy.dsn, ttl_s=1e-9, **options) as saver:
        yield saver


async def _prepare(saver: Any, observer: Any, name: str) -> Branch:
    for table in ROWS:
        await observer.execute(f"DELETE FROM {table}")
    if name == "setup":
        await observer.execute("DELETE FROM checkpoint_migrations WHERE v > 5")
    branch = Branch(saver, "t")
    await branch.put({"run_id": "run"}, a=[0])
    await branch.write(("a", 1))
    await branch.put({"run_id": "run"}, a=[1])
    await saver.acopy_thread("t", "bystander")
    return branch


async def _stored(observer: Any) -> Any:
    """Return how many rows there are, leaving out ids that differ each time."""
    return [await observer.fetchval(f"SELECT count(*) FROM {table}") for table in ROWS]


async def _at_rest(observer: Any) -> None:
    """Wait until the server has nothing more to do; it must not be left in a transaction, nor hold a lock."""
    busy = (
        "SELECT state, query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND state IS DISTINCT FROM 'idle' AND backend_type = 'client backend'"
    )
    held = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    async with asyncio.timeout(30):
        while await observer.fetch(busy) or await observer.fetchval(held):
            await observer.execute("SELECT pg_stat_clear_snapshot()")


def _cancelling(kind: str) -> tuple[Callable[[Any], Awaitable[None]], Callable[[], None]]:
    """Return a way to await a call, and one to cancel it."""
    if kind == "anyio":
        scope = anyio.CancelScope()

        async def await_inside(call: Any) -> None:
            with scope:
                await call

        return await_inside, scope.cancel
    tasks: list[asyncio.Task[Any]] = []

    async def await_task(call: Any) -> None:
        tasks.append(asyncio.ensure_future(call))
        await asyncio.wait(tasks)
        if not tasks[0].cancelled():
            tasks[0].result()

    def cancel() -> None:
        tasks[0].cancel()

    return await_task, cancel


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("cancel", ["asyncio", "anyio"])
@pytest.mark.parametrize("kind", ["pool", "single", "uncached"])
async def test_a_call_cancelled_at_any_point_is_done_or_undone_and_leaves_the_connection_to_others(
    proxy: Proxy, observer: Any, name: str, cancel: str, kind: str
) -> None:
    await _cancel_everywhere(proxy, observer, name, cancel, kind)


@pytest.mark.parametrize(("name", "kind"), [("alist", "pool"), ("adelete_thread", "single")])
async def test_a_cancelled_call_leaves_the_connection_to_others(
    proxy: Proxy, observer: Any, name: str, kind: str
) -> None:
    await _cancel_everywhere(proxy, observer, name, "anyio", kind)


async def _cancel_everywhere(proxy: Proxy, observer: Any, name: str, cancel: str, kind: str) -> None:
    if name == "setup" and kind == "uncached":
        pytest.skip("setup is run without the pooler")
    call = CALLS[name]
    async with _saver(proxy, kind) as saver:
        branch = await _prepare(saver, observer, name)
        before = await _stored(observer)
        await call(saver, branch)
        after = await _stored(observer)
        for way in WAYS:
            point, reached = 0, True
            while reached:
                branch = await _prepare(saver, observer, name)
                reached = await _cancelled_at(proxy, partial(call, saver, branch), cancel, way, point)
                await _at_rest(observer)
                # Sweeping, and pruning of several, is a transaction for each.
                assert await _stored(observer) in (before, after), (way, point)
                async with asyncio.timeout(30):
                    await saver.aget_tuple(branch.head)
                    await saver.adelete_thread("other")
                    await saver.setup()
                point += 1
            assert point > 1
        for turns in range(8):
            branch = await _prepare(saver, observer, name)
            await _cancelled_after(partial(call, saver, branch), cancel, turns)
            await _at_rest(observer)
            assert await _stored(observer) in (before, after), turns
        async with asyncio.timeout(30):
            await saver.setup()


async def _cancelled_at(proxy: Proxy, call: Callable[[], Any], cancel: str, way: Way, point: int) -> bool:
    """Cancel a call when the piece of that number comes, and tell whether it came."""
    reached = False
    run, end = _cancelling(cancel)

    def on_piece(now: Way, number: int) -> None:
        nonlocal reached
        if (now, number) == (way, point) and not reached:
            reached = True
            end()

    proxy.watch(on_piece)
    async with asyncio.timeout(30):
        await run(call())
    proxy.watch(None)
    return reached


async def _cancelled_after(call: Callable[[], Any], cancel: str, turns: int) -> None:
    run, end = _cancelling(cancel)

    async def later() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        end()

    canceller = asyncio.ensure_future(later())
    async with asyncio.timeout(30):
        await run(call())
    await canceller
