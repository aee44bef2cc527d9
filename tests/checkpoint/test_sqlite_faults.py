"""The SQLite saver among other processes, on full disks, on old databases, and when it is left open."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from sqlite_watch import step

from langgraph_async.checkpoint.base import TaskWrites
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.errors import StorageError
from langgraph_async.testing.saver_contract.samples import Branch, at, id_of, listed, load, values

ROOT = Path(__file__).parents[2]
HEAD = """
import asyncio, sys
from langgraph_async.checkpoint.base import StepCommit, TaskWrites
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.testing.saver_contract.samples import Branch, id_of
"""


def _child(code: str, *args: Any, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "default", "-c", HEAD + code, *map(str, args)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.slow)])
async def test_processes_can_set_up_one_file_at_once(tmp_path: Path, count: int) -> None:
    code = """
async def main():
    async with AsyncSqliteSaver.from_conn_string(sys.argv[1], busy_timeout_s=60) as saver:
        await Branch(saver).put(a=1)
asyncio.run(main(), debug=False)
"""
    children = [_child(code, tmp_path / "a.db") for _ in range(count)]
    outcomes = [(child.communicate(timeout=100)[1], child.returncode) for child in children]

    assert outcomes == [("", 0)] * count
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        assert len(await listed(saver, None)) == count


async def test_a_killed_process_leaves_whole_commits_only(tmp_path: Path) -> None:
    code = """
async def run(saver, name):
    branch, expected = Branch(saver, name), None
    for i in range(10**6):
        writes = [TaskWrites("t", "", [("a", i), ("b", i)])] if expected else []
        commit = StepCommit(writes, *branch.next_checkpoint(a=["x" * 3000, i]), expected)
        branch.head = await saver.acommit(branch.head, commit)
        expected = id_of(branch.head)
        if i == 20:
            print("going", flush=True)
async def main():
    async with AsyncSqliteSaver.from_conn_string(sys.argv[1], synchronous="NORMAL") as saver:
        await asyncio.gather(*(run(saver, f"{i}") for i in range(5)))
asyncio.run(main(), debug=False)
"""
    child = _child(code, tmp_path / "a.db")
    assert child.stdout is not None
    assert child.stdout.readline() == "going\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()

    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        for name in map(str, range(5)):
            history = [item async for item in saver.alist(at(name))]
            numbers = [item.checkpoint["channel_values"]["a"][1] for item in history]
            assert numbers == list(range(len(history)))[::-1]
            assert [len(item.pending_writes or ()) for item in history] == [0] + [2] * (len(history) - 1)
        conn = sqlite3.connect(tmp_path / "a.db")
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        conn.close()


async def test_a_database_that_others_lock_is_a_clear_error(tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", busy_timeout_s=0.05) as saver:
        branches = [Branch(saver) for _ in range(3)]
        other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        commits = [saver.acommit(b.head, step(b, None, a=1)) for b in branches]
        results = await asyncio.gather(*commits, return_exceptions=True)
        other.execute("COMMIT")
        other.close()

        assert [getattr(r, "reason", None) for r in results] == ["busy"] * 3
        assert "busy_timeout_s" in str(results[0])
        assert await listed(saver, None) == []
        assert await Branch(saver).put(a=1)


async def test_a_lock_that_is_given_back_in_time_is_waited_for(tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", busy_timeout_s=30) as saver:
        other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        task = asyncio.ensure_future(Branch(saver, "t").put(a=1))
        for _ in range(10):
            await asyncio.sleep(0)
        other.execute("COMMIT")
        other.close()
        await task

        assert await values(saver, at("t")) == {"a": 1}


async def test_a_full_disk_stores_nothing_of_what_does_not_fit(tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        branch = Branch(saver, "before")
        await branch.put(a=1)
        head = branch.head
        opened = await saver._database.opened()
        await opened.writer._conn.execute_fetchall("PRAGMA max_page_count = 60")
        large = step(branch, id_of(head), TaskWrites("t", "", [("a", "w" * 1000)]), a="x" * 10**6)
        small = [Branch(saver) for _ in range(3)]
        commits = [saver.acommit(head, large), *(saver.acommit(b.head, step(b, None, a=1)) for b in small)]
        results = await asyncio.gather(*commits, return_exceptions=True)

        assert isinstance(results[0], StorageError)
        assert results[0].reason == "full"
        assert [isinstance(r, BaseException) for r in results[1:]] == [False] * 3
        assert await listed(saver, at("before")) == [id_of(head)]
        assert (await load(saver, head)).pending_writes == []


async def test_closing_waits_for_what_is_under_way(tmp_path: Path) -> None:
    saver = AsyncSqliteSaver.from_conn_string(tmp_path / "a.db")
    await saver.setup()
    tasks = [asyncio.ensure_future(Branch(saver, f"{i}").put(a=i)) for i in range(20)]
    await asyncio.sleep(0)
    await saver.aclose()
    await asyncio.gather(*tasks)

    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as again:
        assert len(await listed(again, None)) == 20


async def test_a_closed_saver_says_so(tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        await saver.setup()
    await saver.aclose()
    with pytest.raises(StorageError, match="is closed") as caught:
        await saver.aget_tuple(at("t"))

    assert caught.value.reason == "closed"


def test_another_event_loop_is_refused(tmp_path: Path) -> None:
    saver = AsyncSqliteSaver.from_conn_string(tmp_path / "a.db")
    with asyncio.Runner() as first:
        first.run(saver.setup())
        with asyncio.Runner() as second, pytest.raises(StorageError, match="another event loop") as caught:
            second.run(saver.aget_tuple(at("t")))
        first.run(saver.aclose())

    assert caught.value.reason == "wrong_loop"


@pytest.mark.filterwarnings("default::ResourceWarning")
async def test_a_saver_dropped_open_warns(tmp_path: Path) -> None:
    saver = AsyncSqliteSaver.from_conn_string(tmp_path / "a.db")
    await saver.setup()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del saver
        gc.collect()

    assert any("was dropped open" in str(item.message) for item in caught)


async def test_a_copy_with_another_allowlist_is_no_second_owner(tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
        copy = saver.with_allowlist([("some.module", "Name")])
        assert copy is not saver
        await Branch(copy, "t").put(a=1)
        del copy
        gc.collect()

        assert await values(saver, at("t")) == {"a": 1}


def test_a_saver_left_open_does_not_keep_the_interpreter(tmp_path: Path) -> None:
    code = """
async def main():
    global saver
    saver = AsyncSqliteSaver.from_conn_string(sys.argv[1])
    await Branch(saver, "t").put(a=1)
asyncio.run(main(), debug=False)
print("done")
"""
    child = _child(code, tmp_path / "a.db")
    out, _ = child.communicate(timeout=60)

    assert (out, child.returncode) == ("done\n", 0)


async def test_a_connection_in_a_transaction_of_its_owner_is_left_alone(tmp_path: Path) -> None:
    async with aiosqlite.connect(tmp_path / "a.db") as conn, AsyncSqliteSaver(conn) as saver:
        await Branch(saver, "t").put(a=1)
        await conn.execute("CREATE TABLE own (x)")
        await conn.execute("INSERT INTO own VALUES (1)")
        with pytest.raises(StorageError, match="in a transaction") as caught:
            await Branch(saver).put(a=2)
        assert await values(saver, at("t")) == {"a": 1}
        await conn.rollback()
        await Branch(saver).put(a=2)
        left = await conn.execute_fetchall("SELECT count(*) FROM own")

    assert caught.value.reason == "in_use"
    assert list(left) == [(0,)]


async def test_a_connection_of_the_users_may_be_unopened_and_have_a_row_factory(tmp_path: Path) -> None:
    conn = aiosqlite.connect(tmp_path / "a.db")
    saver = AsyncSqliteSaver(conn)
    await saver.setup()
    conn.row_factory = sqlite3.Row
    await Branch(saver, "t").put(a=1)
    found = await values(saver, at("t"))
    await saver.aclose()
    await conn.close()

    assert found == {"a": 1}


OLD = """
CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""


def _old(path: Path) -> None:
    serde = AsyncSqliteSaver.from_conn_string(":memory:").serde
    kind, data = serde.dumps_typed(
        {"v": 1, "id": "1", "ts": "", "channel_values": {"a": 1}, "channel_versions": {"a": 1}, "versions_seen": {}}
        | {"pending_sends": ["send"]}
    )
    conn = sqlite3.connect(path)
    conn.executescript(OLD)
    conn.execute("INSERT INTO checkpoints VALUES ('t', '', '1', NULL, ?, ?, NULL)", (kind, data))
    conn.execute("INSERT INTO writes VALUES ('t', '', '1', 'x', 0, 'a', ?, ?)", serde.dumps_typed(2))
    conn.commit()
    conn.close()


async def test_an_old_database_gets_the_column_it_lacks(tmp_path: Path) -> None:
    _old(tmp_path / "old.db")
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "old.db") as saver:
        await saver.aput_writes(at("t", "", "1"), [("a", 3)], "w", "~p")
        found = await load(saver, at("t"))

    assert found.pending_writes == [("x", "a", 2), ("w", "a", 3)]
    assert found.checkpoint["channel_values"] == {"a": 1, "__pregel_tasks": ["send"]}
    assert found.checkpoint["channel_versions"] == {"a": 1, "__pregel_tasks": 1}
    assert (found.metadata, found.checkpoint["updated_channels"]) == ({}, None)


async def test_an_old_database_can_be_read_where_it_cannot_be_written(tmp_path: Path) -> None:
    _old(tmp_path / "old.db")
    async with AsyncSqliteSaver.from_conn_string(f"file:{tmp_path / 'old.db'}?mode=ro") as saver:
        found = await load(saver, at("t"))
        with pytest.raises(StorageError) as caught:
            await Branch(saver).put(a=1)

    assert found.pending_writes == [("x", "a", 2)]
    assert caught.value.reason == "read_only"


async def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError, match="not a database"):
        await AsyncSqliteSaver.from_conn_string(tmp_path / "a.db").setup()
    with pytest.raises(StorageError, match="unable to open"):
        await AsyncSqliteSaver.from_conn_string(tmp_path / "none" / "a.db").setup()


@pytest.mark.parametrize("options", [{"synchronous": "OFF"}, {"busy_timeout_s": -1}, {"ttl_s": 0}])
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        AsyncSqliteSaver.from_conn_string(":memory:", **options)


@pytest.mark.parametrize(("option", "level"), [("FULL", 2), ("NORMAL", 1)])
async def test_the_database_is_as_safe_as_the_option_says(tmp_path: Path, option: Any, level: int) -> None:
    async with AsyncSqliteSaver.from_conn_string(os.fspath(tmp_path / "a.db"), synchronous=option) as saver:
        opened = await saver._database.opened()
        conn = opened.writer._conn
        found = [
            *await conn.execute_fetchall("PRAGMA synchronous"),
            *await conn.execute_fetchall("PRAGMA journal_mode"),
        ]

    assert found == [(level,), ("wal",)]
