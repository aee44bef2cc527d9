"""The SQLite saver keeps the contract, on a file, in memory and on a connection of the user's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite
import pytest

from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.testing.savers import SaverContract


class TestFile(SaverContract):
    @pytest.fixture
    async def saver(self, tmp_path: Path) -> AsyncIterator[AsyncSqliteSaver]:
        async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", synchronous="NORMAL") as saver:
            yield saver


class TestMemory(SaverContract):
    @pytest.fixture
    async def saver(self) -> AsyncIterator[AsyncSqliteSaver]:
        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            yield saver


class TestOwnConnection(SaverContract):
    @pytest.fixture
    async def saver(self) -> AsyncIterator[AsyncSqliteSaver]:
        async with aiosqlite.connect(":memory:") as conn, AsyncSqliteSaver(conn) as saver:
            yield saver
