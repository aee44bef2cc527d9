"""A saver is closed in its own event loop, from whichever loop that is asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

from langgraph_async import END, START, StateGraph
from langgraph_async.checkpoint.postgres import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite import AsyncSqliteSaver
from langgraph_async.errors import StorageError

THREAD: Any = {"configurable": {"thread_id": "1"}}
Make = Callable[[], Any]


class State(TypedDict):
    n: int


async def add(state: State) -> dict[str, int]:
    return {"n": state["n"] + 1}


def graph_of(saver: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("add", add)
    builder.add_edge(START, "add")
    builder.add_edge("add", END)
    return builder.compile(checkpointer=saver)


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest, postgres_dsn: str, tmp_path: Path) -> Make:
    if request.param == "sqlite":
        return lambda: AsyncSqliteSaver.from_conn_string(tmp_path / "a.db")

    async def set_up() -> None:
        async with AsyncPostgresSaver.from_conn_string(postgres_dsn) as saver:
            await saver.setup()
            await saver.adelete_thread("1")

    asyncio.run(set_up())
    return lambda: AsyncPostgresSaver.from_conn_string(postgres_dsn)


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def close(saver: Any) -> None:
    async with asyncio.timeout(30):
        await saver.aclose()
        await saver.aclose()


def test_after_blocking_methods(make: Make) -> None:
    saver = make()
    assert graph_of(saver).invoke({"n": 1}, THREAD) == {"n": 2}

    asyncio.run(close(saver))

    with pytest.raises(StorageError, match="is closed"):
        graph_of(saver).invoke({"n": 1}, THREAD)


def test_from_another_loop_while_its_own_runs(make: Make) -> None:
    saver = make()
    with running_loop() as loop:
        run = asyncio.run_coroutine_threadsafe(graph_of(saver).ainvoke({"n": 1}, THREAD), loop)
        assert run.result(30) == {"n": 2}

        asyncio.run(close(saver))

        asyncio.run_coroutine_threadsafe(close(saver), loop).result(30)
        again = asyncio.run_coroutine_threadsafe(graph_of(saver).ainvoke({"n": 1}, THREAD), loop)
        with pytest.raises(StorageError, match="is closed"):
            again.result(30)


def test_a_loop_that_does_not_run_cannot_close_it_and_the_saver_stays_as_it_is(make: Make) -> None:
    saver = make()
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(graph_of(saver).ainvoke({"n": 1}, THREAD))

        with pytest.raises(StorageError, match="event loop that it was opened in") as caught:
            asyncio.run(close(saver))

        assert caught.value.reason == "wrong_loop"
        assert loop.run_until_complete(graph_of(saver).ainvoke({"n": 5}, THREAD)) == {"n": 6}
        loop.run_until_complete(close(saver))
    finally:
        loop.close()
