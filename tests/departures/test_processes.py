"""Several processes on one thread: one of them runs the node, and when it is killed, the next one can (P7)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import asyncpg
import contender
import pytest

ROOT = Path(__file__).parents[2]


class Process:
    """A contender, which is killed at the end if it has not ended."""

    def __init__(self, process):
        self.process = process

    async def hear(self):
        return (await self.process.stdout.readline()).decode().strip()

    async def tell(self):
        self.process.stdin.write(b"\n")
        await self.process.stdin.drain()

    async def kill(self):
        self.process.kill()
        await self.process.wait()

    async def end(self):
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        await self.process.communicate()


class Place:
    """A database, and the file in which nodes leave a line."""

    def __init__(self, database, file, stack):
        self.database = database
        self.file = file
        self.stack = stack

    async def contenders(self, count, run, *strategy):
        """Start processes, and return them when all are ready."""
        made = await asyncio.gather(*(self._start(run, *strategy) for _ in range(count)))
        assert [await one.hear() for one in made] == ["ready"] * count
        return made

    async def _start(self, *arguments):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            contender.__file__,
            self.database,
            str(self.file),
            *arguments,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        one = Process(process)
        self.stack.push_async_callback(one.end)
        return one

    async def ask(self):
        """Run the graph until it asks."""
        async with contender.saver_for(self.database) as saver:
            graph = contender.graph_for(saver, self.file)
            await graph.ainvoke({"asks": True}, {"configurable": {"thread_id": "t"}})

    def bodies(self):
        return len(self.file.read_text().split())

    async def notices_the_end(self):
        """Wait until the server has noticed that a process is gone, which it is told of by the system."""
        if not self.database.startswith("postgresql:"):
            return
        conn = await asyncpg.connect(self.database)
        locks = await conn.fetch(
            "SELECT (classid::bigint << 32) | objid::bigint AS key FROM pg_locks WHERE locktype = 'advisory'"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        for lock in locks:
            await conn.execute("SELECT pg_advisory_lock($1)", lock["key"])
        await conn.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    return str(tmp_path / "a.db") if request.param == "sqlite" else request.getfixturevalue("postgres_database")


@pytest.fixture
async def place(database, tmp_path):
    async with contextlib.AsyncExitStack() as stack:
        yield Place(database, tmp_path / "bodies", stack)


@pytest.mark.parametrize(("count", "run"), [(2, "exit"), (4, "answer")])
async def test_of_several_processes_at_once_one_runs_the_node(place, run, count):
    if run == "answer":
        await place.ask()
    contenders = await place.contenders(count, run)
    await asyncio.gather(*(one.tell() for one in contenders))
    heard = await asyncio.gather(*(one.hear() for one in contenders))
    winner = contenders[heard.index("running")]
    await winner.tell()

    assert await winner.hear() == "done"
    assert sorted(heard) == ["ThreadConflictError"] * (count - 1) + ["running"]
    assert place.bodies() == 1


@pytest.mark.slow
async def test_of_several_processes_with_an_input_one_has_its_result_stored(place):
    contenders = await place.contenders(3, "input")
    await asyncio.gather(*(one.tell() for one in contenders))
    heard = await asyncio.gather(*(one.hear() for one in contenders))
    running = [one for one, text in zip(contenders, heard, strict=True) if text == "running"]
    await asyncio.gather(*(one.tell() for one in running))
    ends = await asyncio.gather(*(one.hear() for one in running))

    # Who comes when another's input is stored already goes on from there, so that the other cannot store.
    assert sorted(ends) == ["ThreadConflictError"] * (len(running) - 1) + ["done"]
    assert place.bodies() == len(running)


@pytest.mark.slow
async def test_processes_that_wait_run_one_after_another(place):
    contenders = await place.contenders(3, "exit", "enqueue")
    await asyncio.gather(*(one.tell() for one in contenders))
    left = {asyncio.ensure_future(one.hear()): one for one in contenders}
    for turn in range(3):
        heard, _ = await asyncio.wait(left, return_when="FIRST_COMPLETED")
        assert [future.result() for future in heard] == ["running"]
        assert place.bodies() == turn + 1
        one = left.pop(heard.pop())
        await one.tell()
        assert await one.hear() == "done"


async def test_an_answer_can_be_given_at_once_when_who_had_it_was_killed(place):
    await place.ask()
    first, second, third = await place.contenders(3, "answer")
    await first.tell()
    assert await first.hear() == "running"
    await second.tell()
    assert await second.hear() == "ThreadConflictError"
    await first.kill()
    await place.notices_the_end()
    await third.tell()

    assert await third.hear() == "running"
    await third.tell()
    assert await third.hear() == "done"
    assert place.bodies() == 2


@pytest.mark.slow
async def test_who_waits_goes_on_when_who_had_the_thread_was_killed(place):
    await place.ask()
    first, second = await place.contenders(2, "answer", "enqueue")
    await first.tell()
    assert await first.hear() == "running"
    await second.tell()
    await first.kill()

    assert await second.hear() == "running"
    await second.tell()
    assert await second.hear() == "done"
    assert place.bodies() == 2
