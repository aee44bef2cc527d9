"""Runs that are recorded in a database: read from elsewhere, killed, held up, failing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from drawings import chain, logs, says
from postgres import database
from threads import on

from langgraph_async.aio.clock import FakeClock
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.errors import EventLogError, StorageError
from langgraph_async.serde.encrypted import EncryptedSerializer
from langgraph_async.stream.log import InMemoryEventLog
from langgraph_async.stream.log.sqlite import SqliteEventLog
from langgraph_async.stream.log.tail import follow

ROOT = Path(__file__).parents[2]


class Gate:
    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self, state: Any) -> Any:
        self.reached.set()
        await self.opened.wait()
        return {"log": ["gate"]}


async def read(graph: Any, log: Any, after: int = 0, **options: Any) -> list[Any]:
    options = {"stream_mode": "updates", "version": "v2", "run_id": "r", **options}
    return [part async for part in graph.astream(None, event_log=log, resume_from=after, **options)]


# -- elsewhere ---------------------------------------------------------------------------------------------------


async def test_a_run_of_another_process_is_followed_to_its_end(open_log: Any, database_kind: str) -> None:
    gate, clock = Gate(), FakeClock()
    graph = chain(a=logs("a"), gate=gate, c=logs("c"))
    here = await open_log(database_kind)
    there = await open_log(database_kind, clock=clock, stale_s=1e9, ttl_s=1e9)
    run = graph.start({}, stream_mode="updates", event_log=here, run_id="r")
    await gate.reached.wait()
    reading = asyncio.create_task(read(graph, there))
    await clock.sleepers()  # it has seen what there is, and waits to look again
    gate.opened.set()
    await run
    await clock.advance(there.poll_s)

    assert [(p["seq"], *p["data"]) for p in await reading] == [(1, "a"), (2, "gate"), (3, "c")]


async def test_a_run_whose_process_is_silent_counts_as_lost(open_log: Any, database_kind: str) -> None:
    here = await open_log(database_kind)
    await here.abegin("r", None)
    there = await open_log(database_kind, stale_s=1e-9)
    with pytest.raises(EventLogError, match="is gone") as raised:
        await read(chain(a=logs("a")), there)
    assert raised.value.reason == "lost"


async def test_a_run_that_this_process_does_not_know_any_more_is_lost_at_once(open_log: Any, kind: str) -> None:
    log = await open_log(kind)
    await log.abegin("r", None)
    with pytest.raises(EventLogError) as raised:
        await read(chain(a=logs("a")), log)
    assert raised.value.reason == "lost"


async def test_a_silent_run_gives_signs_of_life(open_log: Any, database_kind: str) -> None:
    gate, clock, touched = Gate(), FakeClock(), asyncio.Event()
    log = await open_log(database_kind, clock=clock)
    touch = log.atouch

    async def noted(run_id: str) -> None:
        await touch(run_id)
        touched.set()

    log.atouch = noted
    graph = chain(gate=gate)
    async with graph.start({}, event_log=log, run_id="r"):
        await gate.reached.wait()
        await clock.sleepers()
        await clock.advance(log.stale_s / 3)
        await touched.wait()


# -- killed ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("database_kind", ["sqlite", "postgres"])
async def test_what_a_client_has_seen_is_there_after_a_kill(
    database_kind: str, tmp_path: Path, request: pytest.FixtureRequest, open_log: Any
) -> None:
    seen = tmp_path / "seen"
    place = str(tmp_path / "log.db")
    if database_kind == "postgres":
        server, name = request.getfixturevalue("postgres_dsn"), f"killed_{uuid.uuid4().hex}"
        conn = await asyncpg.connect(server)
        await conn.execute(f'CREATE DATABASE "{name}"')
        await conn.close()
        place = database(server, name)
    program = str(ROOT / "tests" / "support" / "logged_program.py")
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}"}
    child = subprocess.Popen([sys.executable, program, database_kind, place, str(seen)], env=env)
    try:
        async with asyncio.timeout(60):
            while not seen.exists() or seen.read_bytes().count(b"\n") < 200:
                assert child.poll() is None
                await asyncio.sleep(0.01)  # another process
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()

    lines = [line.split() for line in seen.read_text().splitlines()]
    log = await open_log(database_kind, stale_s=1e-9, **({} if database_kind == "sqlite" else {"place": place}))
    last = int(lines[-1][0])
    stored = []
    with pytest.raises(EventLogError) as raised:
        async for event in follow(log, "r"):
            stored.append(event)

    assert raised.value.reason == "lost"
    assert [int(seq) for seq, _ in lines] == list(range(1, last + 1))
    assert [e.seq for e in stored] == list(range(1, len(stored) + 1))
    assert len(stored) >= last
    assert [e.data for e in stored] == [{"token": n} for n in range(len(stored))]
    with pytest.raises(EventLogError) as raised:
        async for _ in follow(log, "r", len(stored) + 1):
            pass
    assert raised.value.reason == "ahead"


# -- batches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drains", [True, False])
async def test_tokens_are_stored_together(open_log: Any, database_kind: str, drains: bool) -> None:
    clock = FakeClock()
    log = await open_log(database_kind, clock=clock, interval_s=1.0)
    sizes = []
    append = log.aappend

    async def counted(run_id: str, events: Any) -> None:
        sizes.append(len(events))
        await append(run_id, events)

    log.aappend = counted

    async def talks(state: Any, writer: Any) -> None:
        for number in range(2_000):
            writer(number)
            await asyncio.sleep(0)
            if drains:
                await writer.drain()

    parts = [p async for p in chain(talks=talks).astream({}, stream_mode="custom", version="v2", event_log=log)]

    assert [p["seq"] for p in parts] == list(range(1, 2_001))
    assert len(sizes) <= 2_000 / 256 + 4


async def test_a_token_waits_no_longer_than_the_interval(open_log: Any, database_kind: str) -> None:
    clock, said = FakeClock(), asyncio.Event()
    log = await open_log(database_kind, clock=clock, interval_s=1.0, stale_s=1e6, ttl_s=1e6)

    async def talks(state: Any, writer: Any) -> None:
        for number in range(3):
            writer(number)
            await writer.drain()
            await asyncio.sleep(0)
        said.set()
        await asyncio.Event().wait()

    stream = chain(talks=talks).astream({}, stream_mode="custom", event_log=log)
    assert await anext(stream) == 0
    rest = asyncio.ensure_future(anext(stream))
    await said.wait()
    assert not rest.done()
    await clock.sleepers(2)
    await clock.advance(1.0)
    assert await rest == 1
    assert await anext(stream) == 2
    await stream.aclose()


async def test_a_superstep_does_not_wait_for_the_interval(open_log: Any, database_kind: str) -> None:
    log = await open_log(database_kind, clock=FakeClock(), interval_s=1e6)
    found = [p async for p in chain(a=logs("a"), b=logs("b"), c=logs("c")).astream({}, event_log=log)]
    assert len(found) == 3


# -- slow readers ------------------------------------------------------------------------------------------------


async def test_a_reader_that_falls_far_behind_misses_nothing(open_log: Any, kind: str) -> None:
    log = await open_log(kind)

    async def talks(state: Any, writer: Any) -> None:
        for number in range(5_000):
            writer(number)
            if number % 100 == 0:
                await asyncio.sleep(0)

    graph = chain(talks=talks)
    seen = []
    async for part in graph.astream({}, stream_mode="custom", version="v2", event_log=log, run_id="r"):
        if not seen:
            for _ in range(500):
                await asyncio.sleep(0)
        seen.append(part["seq"])

    assert seen == list(range(1, 5_001))
    assert [p["seq"] for p in await read(graph, log, 4_990, stream_mode="custom")] == list(range(4_991, 5_001))


async def test_a_slow_reader_of_a_logged_run_holds_back_a_node_that_drains(open_log: Any, kind: str) -> None:
    log = await open_log(kind)
    written = read_so_far = most = 0

    async def talks(state: Any, writer: Any) -> None:
        nonlocal written, most
        for _ in range(3_000):
            written += 1
            writer(written)
            await writer.drain()
            most = max(most, written - read_so_far)

    async for _ in chain(talks=talks).astream({}, stream_mode="custom", event_log=log):
        read_so_far += 1
        await asyncio.sleep(0)

    assert read_so_far == 3_000
    assert most <= 600


# -- types and secrets -------------------------------------------------------------------------------------------


@dataclass
class Point:
    x: int


@dataclass
class PointState:
    point: Point | None = None


async def test_types_of_the_graph_come_back(tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "log.db") as saver:
        log = SqliteEventLog(saver)
        graph = chain(PointState, saver, a=says({"point": Point(3)}))
        async for _ in graph.astream({}, on("t"), stream_mode="values", event_log=log, run_id="r"):
            pass
        found = await read(graph, log, stream_mode="values", version="v2", config=None)

    assert found[-1]["data"] == PointState(Point(3))


async def test_an_encrypted_log_holds_no_plain_text_and_binds_rows_to_their_place(tmp_path: Path) -> None:
    serde = EncryptedSerializer.from_keys(b"k" * 16)
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "log.db", serde=serde) as saver:
        log = SqliteEventLog(saver)
        graph = chain(saver=saver, a=says({"x": "very secret"}))
        async for _ in graph.astream({}, on("t"), event_log=log, run_id="r"):
            pass
        assert (await read(graph, log))[0]["data"] == {"a": {"x": "very secret"}}
    assert all(b"very secret" not in path.read_bytes() for path in tmp_path.iterdir())


# -- a log that fails --------------------------------------------------------------------------------------------


class Failing(InMemoryEventLog):
    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at

    async def abegin(self, run_id: str, thread_id: str | None) -> None:
        if self.at == "begin":
            raise StorageError("no log")
        await super().abegin(run_id, thread_id)

    async def aappend(self, run_id: str, events: Any) -> None:
        if self.at == events[0].mode:
            raise StorageError("no log")
        await super().aappend(run_id, events)


@pytest.mark.parametrize("at", ["begin", "updates", "end"])
async def test_a_log_that_fails_ends_the_run_with_its_error(at: str) -> None:
    log = Failing(at)
    before = asyncio.all_tasks()
    with pytest.raises(StorageError, match="no log"):
        async for _ in chain(a=logs("a"), b=logs("b")).astream({}, event_log=log, run_id="r"):
            pass
    assert asyncio.all_tasks() == before
    assert log.live == {}


async def test_readers_of_a_run_whose_log_fails_are_told(open_log: Any) -> None:
    log, gate = Failing("updates"), Gate()
    graph = chain(gate=gate)
    run = graph.start({}, stream_mode="updates", event_log=log, run_id="r")
    await gate.reached.wait()
    reading = asyncio.create_task(read(graph, log))
    for _ in range(10):
        await asyncio.sleep(0)
    gate.opened.set()
    for waiting in (run, reading):
        with pytest.raises(StorageError):
            await waiting
