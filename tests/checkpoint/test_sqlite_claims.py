"""Claims on threads of a SQLite database: who can see each other, and what is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.checkpoint.sqlite.claims import OFFERED, claim_file
from langgraph_async.errors import StorageError

pytestmark = pytest.mark.skipif(not OFFERED, reason="there are no claims on this system")


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", synchronous="NORMAL") as saver:
        yield saver


def descriptors(path: Path) -> int:
    """Return how many descriptors of a file this process has."""
    found = path.stat()
    count = 0
    for name in os.listdir("/dev/fd"):
        try:
            there = os.fstat(int(name))
        except OSError:
            continue
        count += (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
    return count


async def test_savers_of_one_file_see_each_others_claims(saver: AsyncSqliteSaver, tmp_path: Path) -> None:
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
    claim = await saver.aclaim("t")
    assert claim is not None

    async with (
        AsyncSqliteSaver.from_conn_string(f"file:{tmp_path}/a.db") as by_uri,
        AsyncSqliteSaver.from_conn_string(tmp_path / "b.db") as by_link,
        aiosqlite.connect(tmp_path / "a.db") as conn,
        AsyncSqliteSaver.from_conn_string(tmp_path / "c.db") as other,
    ):
        assert await by_uri.aclaim("t") is None
        assert await by_link.aclaim("t") is None
        assert await AsyncSqliteSaver(conn).aclaim("t") is None
        elsewhere = await other.aclaim("t")
        assert elsewhere is not None
        await elsewhere.arelease()
    await claim.arelease()


async def test_databases_in_memory_do_not_see_each_other(tmp_path: Path) -> None:
    async with (
        AsyncSqliteSaver.from_conn_string(":memory:") as one,
        AsyncSqliteSaver.from_conn_string(":memory:") as other,
    ):
        claims = [await one.aclaim("t"), await other.aclaim("t")]

        assert None not in claims


async def test_the_file_beside_the_database_stays_empty_and_is_opened_once(
    saver: AsyncSqliteSaver, tmp_path: Path
) -> None:
    file = tmp_path / "a.db-claims"
    claims = [await saver.aclaim(f"t{n}") for n in range(5)]

    assert descriptors(file) == 1
    for claim in claims:
        assert claim is not None
        await claim.arelease()
    assert descriptors(file) == 0
    assert file.stat().st_size == 0


async def test_who_may_write_to_the_database_may_claim(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    (tmp_path / "a.db").chmod(0o662)
    mask = os.umask(0o077)
    try:
        async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db") as saver:
            await saver.aclaim("t")
    finally:
        os.umask(mask)

    assert (tmp_path / "a.db-claims").stat().st_mode & 0o777 == 0o662


async def test_a_claim_leaves_the_database_as_it_is(saver: AsyncSqliteSaver, tmp_path: Path) -> None:
    def dump() -> list[str]:
        with sqlite3.connect(tmp_path / "a.db") as conn:
            return list(conn.iterdump())

    before = dump()
    claim = await saver.aclaim("t")

    assert claim is not None
    assert dump() == before
    await claim.arelease()


async def test_a_file_that_cannot_be_used_is_named(saver: AsyncSqliteSaver, tmp_path: Path) -> None:
    (tmp_path / "a.db-claims").mkdir()

    with pytest.raises(StorageError, match=r"a\.db-claims.*claims=False"):
        await saver.aclaim("t")


async def test_an_input_makes_no_file(saver: AsyncSqliteSaver, tmp_path: Path) -> None:
    graph: Any = StateGraph(dict).add_node("n", lambda state: state).add_edge(START, "n").compile(checkpointer=saver)
    await graph.ainvoke({"a": 1}, {"configurable": {"thread_id": "t"}})

    assert not (tmp_path / "a.db-claims").exists()


class Cycle:
    """Goes, with what it holds, when garbage is collected, in the middle of whatever is going on."""

    def __init__(self, claim: object) -> None:
        self.me = self
        self.claim = claim


async def test_a_claim_that_goes_while_another_is_made_ends(
    saver: AsyncSqliteSaver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.db")
    stat = os.stat

    def collecting(*args: Any, **more: Any) -> Any:
        gc.collect()
        return stat(*args, **more)

    Cycle(claim_file(path, "t"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", collecting)
        other = claim_file(path, "u")

    assert other is not None
    assert claim_file(path, "t") is not None
    assert claim_file(path, "u") is None


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="forking with threads warns there")
async def test_a_child_neither_has_nor_ends_the_claims_of_its_parent(saver: AsyncSqliteSaver, tmp_path: Path) -> None:
    claim = await saver.aclaim("t")
    assert claim is not None
    child = os.fork()
    if child == 0:  # pragma: no cover - not measured in a child
        refused = claim_file(str(tmp_path / "a.db"), "t") is None
        claim.__del__()  # type: ignore[attr-defined]
        still = claim_file(str(tmp_path / "a.db"), "t") is None
        os._exit(0 if refused and still else 1)
    _, status = os.waitpid(child, 0)

    assert status == 0
    assert await saver.aclaim("t") is None
    await claim.arelease()


async def test_a_run_whose_event_loop_ended_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def left_alone() -> None:
        claim = await asyncio.to_thread(claim_file, str(path), "t")
        assert claim is not None
        await asyncio.Event().wait()

    path.touch()

    def run() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(left_alone())
        while not (tmp_path / "a.db-claims").exists():
            loop.run_until_complete(asyncio.sleep(0))
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    await asyncio.to_thread(run)
    gc.collect()

    assert claim_file(str(path), "t") is not None
