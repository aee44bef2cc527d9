"""Opening and closing SQLite databases while those who asked for it are cancelled: no thread is left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.errors import StorageError
from langgraph_async.testing.saver_contract.samples import Branch, at, values


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and not t.name.startswith("asyncio_")]
    for thread in left:
        thread.join(10)
    assert [thread for thread in left if thread.is_alive()] == []


def _start(call: Any) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(call)


async def _after(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def _cancelled(kind: str, call: Any, turns: int) -> None:
    """Run a call that is cancelled after some turns of the loop."""
    if kind == "asyncio":
        task = _start(call)
        await _after(turns)
        task.cancel()
        await asyncio.wait([task])
        return
    with anyio.CancelScope() as scope:
        canceller = _start(_after(turns))
        canceller.add_done_callback(lambda _: scope.cancel())
        await call
    await canceller


KINDS = pytest.mark.parametrize("kind", ["asyncio", "anyio"])


@KINDS
@pytest.mark.parametrize("turns", [*range(12), 20, 40])
async def test_a_cancelled_opening_leaves_a_saver_that_can_be_used_and_closed(
    tmp_path: Path, kind: str, turns: int
) -> None:
    saver = AsyncSqliteSaver.from_conn_string(tmp_path / "a.db")
    await _cancelled(kind, saver.setup(), turns)
    await Branch(saver, "t").put(a=1)
    assert await values(saver, at("t")) == {"a": 1}
    await saver.aclose()


@KINDS
@pytest.mark.parametrize("turns", [*range(12), 20, 40])
async def test_a_saver_whose_entering_was_cancelled_is_closed(tmp_path: Path, kind: str, turns: int) -> None:
    saver = AsyncSqliteSaver.from_conn_string(tmp_path / "a.db")

    async def use() -> None:
        async with saver:
            await asyncio.Event().wait()

    await _cancelled(kind, use(), turns)


@KINDS
@pytest.mark.parametrize("turns", range(8))
async def test_a_cancelled_closing_closes_all_the_same(tmp_path: Path, kind: str, turns: int) -> None:
    saver = AsyncSqliteSaver.from_conn_string(tmp_path / "a.db")
    await Branch(saver, "t").put(a=1)
    await _cancelled(kind, saver.aclose(), turns)
    if not turns and kind == "asyncio":  # a task that never began
        await saver.aclose()
    with pytest.raises(StorageError, match="is closed"):
        await saver.aget_tuple(at("t"))


@pytest.mark.parametrize("turns", range(8))
async def test_closing_while_it_is_being_opened_leaves_nothing_open(tmp_path: Path, turns: int) -> None:
    saver = AsyncSqliteSaver.from_conn_string(tmp_path / "a.db")
    opening = _start(saver.setup())
    await _after(turns)
    await asyncio.gather(saver.aclose(), saver.aclose())
    await asyncio.wait([opening])
    assert opening.exception() is None or isinstance(opening.exception(), StorageError)
