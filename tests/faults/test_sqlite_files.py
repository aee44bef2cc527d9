"""Runs on SQLite files that are locked, full, read-only, damaged or missing, and savers that are left open."""

from __future__ import annotations

import asyncio
import operator
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from threads import on
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.errors import StorageError

ROOT = Path(__file__).parents[2]
DURABILITIES = ["sync", "async", "exit"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    text: str


class World:
    """A chain of three nodes, the second of which does something first."""

    def __init__(self, saver: Any, meanwhile: Any = None, text: str = "") -> None:
        self.ran: list[str] = []
        builder = StateGraph(State)
        for before, name in [(START, "a"), ("a", "b"), ("b", "c")]:
            builder.add_node(name, self.node(name, meanwhile if name == "b" else None, text))
            builder.add_edge(before, name)
        self.graph = builder.compile(checkpointer=saver)

    def node(self, name: str, meanwhile: Any, text: str) -> Any:
        async def run(state):
            self.ran.append(name)
            if meanwhile is not None:
                await meanwhile()
            return {"log": [name], "text": text}

        return run

    async def run(self, value: Any, **options: Any) -> Any:
        return await self.graph.ainvoke(value, on(), **options)


@contextmanager
def lock_of_another_process(path: Path) -> Iterator[Any]:
    """Hold the write lock in another process; give a function that lets it go."""
    code = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
conn.execute("COMMIT")
print("free", flush=True)
"""
    command = [sys.executable, "-S", "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"

        def let_go() -> None:
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "free\n"

        yield let_go
        if child.poll() is None:
            child.stdin.close()


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_run_waits_for_a_lock_that_is_given_back_in_time(tmp_path, durability):
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", busy_timeout_s=60) as saver:
        with lock_of_another_process(tmp_path / "a.db") as let_go:
            world = World(saver)
            run = asyncio.create_task(world.run({"log": []}, durability=durability))
            for _ in range(50):
                await asyncio.sleep(0)
            assert not run.done()
            let_go()
            result = await run

    assert result["log"] == world.ran == ["a", "b", "c"]


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_lock_that_is_not_given_back_is_a_clear_error_and_the_thread_goes_on(tmp_path, durability):
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", busy_timeout_s=0.05) as saver:
        held = []

        async def lock():
            if not held:
                held.append(lock_of_another_process(tmp_path / "a.db"))
                held.append(held[0].__enter__())

        world = World(saver, lock)
        with pytest.raises(StorageError) as caught:
            await world.run({"log": []}, durability=durability)
        seen = await world.graph.aget_state(on())
        held[1]()
        held[0].__exit__(None, None, None)
        result = await world.run({"log": []} if seen.created_at is None else None, durability=durability)

    said = "\n".join([str(caught.value), *caught.value.__notes__])
    assert caught.value.reason == "busy"
    for words in ("locked by another", "busy_timeout_s", "superstep", "thread 't'", "a.db"):
        assert words in said
    assert ("its input again" if durability == "exit" else "None as the input") in said
    # With "async", the superstep before may have been on its way.
    assert seen.next in {"sync": [("b",)], "async": [("b",), ("a",), ("__start__",)], "exit": [()]}[durability]
    assert result["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_full_disk_is_a_clear_error_loses_nothing_and_the_thread_goes_on_when_there_is_room(
    tmp_path, durability
):
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        small, large = World(saver), World(saver, text="x" * 10**6)
        await small.run({"log": []})
        conn = (await saver._database.opened()).writer._conn
        await conn.execute_fetchall("PRAGMA max_page_count = 60")
        with pytest.raises(StorageError) as caught:
            await large.run({"log": ["more"]}, durability=durability)
        seen = await small.graph.aget_state(on())
        await conn.execute_fetchall("PRAGMA max_page_count = 100000")
        again = {"log": ["more"]} if durability == "exit" else None
        result = await large.run(again, durability=durability)

    assert caught.value.reason == "full"
    assert "no space left" in str(caught.value)
    assert seen.values["log"][:3] == ["a", "b", "c"]
    assert seen.next in {"sync": [("a",)], "async": [("a",), ("__start__",)], "exit": [()]}[durability]
    assert result["log"] == ["a", "b", "c", "more", "a", "b", "c"]


async def test_a_read_only_file_can_be_read_and_says_that_it_cannot_be_written(tmp_path):
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        await World(saver).run({"log": []})
    async with AsyncSqliteSaver.from_conn_string(f"file:{tmp_path / 'a.db'}?mode=ro") as saver:
        world = World(saver)
        state = await world.graph.aget_state(on())
        with pytest.raises(StorageError, match="cannot be written to; check the permissions") as caught:
            await world.run({"log": []})

    assert state.values["log"] == ["a", "b", "c"]
    assert caught.value.reason == "read_only"
    assert world.ran == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="for the superuser no file is read-only")
async def test_a_file_without_permissions_says_so(tmp_path):
    (tmp_path / "a.db").touch(mode=0o000)
    with pytest.raises(StorageError, match=r"a\.db"):
        await AsyncSqliteSaver.from_conn_string(tmp_path / "a.db").setup()


async def test_a_file_in_a_folder_that_does_not_exist_says_so(tmp_path):
    with pytest.raises(StorageError, match=r"none/a\.db'.*check that its folder exists"):
        await AsyncSqliteSaver.from_conn_string(tmp_path / "none" / "a.db").setup()


async def test_a_file_that_is_no_database_says_so_and_is_left_as_it_is(tmp_path):
    (tmp_path / "a.db").write_bytes(b"precious notes" * 1000)
    with pytest.raises(StorageError, match=r"a\.db'.*not a database"):
        await AsyncSqliteSaver.from_conn_string(tmp_path / "a.db").setup()

    assert (tmp_path / "a.db").read_bytes() == b"precious notes" * 1000
    assert os.listdir(tmp_path) == ["a.db"]


async def test_a_damaged_file_says_so_and_other_threads_can_be_read(tmp_path):
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        await World(saver).run({"log": []})
        for number in range(100):
            await World(saver, text="x" * 3000).graph.ainvoke({"log": []}, on(f"{number}"))
    data = bytearray((tmp_path / "a.db").read_bytes())
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    (tmp_path / "a.db").write_bytes(data)

    failures = []
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        for number in range(100):
            try:
                await World(saver).graph.ainvoke({"log": []}, on(f"{number}"))
            except StorageError as exc:
                failures.append(exc)
    assert failures
    assert all("damaged" in str(exc) and "a.db" in "\n".join(exc.__notes__) for exc in failures)


# -- left open ----------------------------------------------------------------------------------------------------

LEFT_OPEN = """
import asyncio, sys
from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver

async def node(state):
    return {"n": 1}

async def main():
    saver = AsyncSqliteSaver.from_conn_string(sys.argv[1])
    graph = StateGraph(dict).add_node("n", node).add_edge(START, "n").compile(checkpointer=saver)
    kept.append(saver)
    await graph.ainvoke({"n": 0}, {"configurable": {"thread_id": "t"}})
    if sys.argv[2] == "in the middle":
        asyncio.ensure_future(graph.ainvoke({"n": 0}, {"configurable": {"thread_id": "u"}}))
        await asyncio.sleep(0)
        sys.exit(3)

kept = []
asyncio.run(main())
print("done", flush=True)
if sys.argv[2] == "dropped":
    kept.clear()
"""


@pytest.mark.parametrize(("how", "code"), [("dropped", 0), ("kept", 0), ("in the middle", 3)])
def test_a_saver_left_open_warns_and_does_not_keep_the_interpreter(tmp_path, how, code):
    command = [sys.executable, "-W", "default", "-c", LEFT_OPEN, str(tmp_path / "a.db"), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    conn = sqlite3.connect(tmp_path / "a.db")
    (stored,) = conn.execute("SELECT count(*) FROM checkpoints WHERE thread_id = 't'").fetchone()
    conn.close()

    assert done.returncode == code, done.stderr
    assert done.stdout == ("done\n" if code == 0 else "")
    assert "was dropped open" in done.stderr
    assert "Traceback" not in done.stderr
    assert stored == 3
