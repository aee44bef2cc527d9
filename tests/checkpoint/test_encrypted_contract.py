"""Every saver keeps the contract with a serializer that encrypts; of those that are slow, with ``-m slow``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.serde.encrypted import EncryptedSerializer
from langgraph_async.testing.savers import SaverContract

pytest.importorskip("cryptography")


def serde() -> EncryptedSerializer:
    return EncryptedSerializer.from_keys(b"k" * 32)


class TestMemory(SaverContract):
    @pytest.fixture
    def saver(self) -> InMemorySaver:
        return InMemorySaver(serde=serde())


@pytest.mark.slow
class TestSqlite(SaverContract):
    @pytest.fixture
    async def saver(self, tmp_path: Path) -> AsyncIterator[AsyncSqliteSaver]:
        path = tmp_path / "a.db"
        async with AsyncSqliteSaver.from_conn_string(path, synchronous="NORMAL", serde=serde()) as saver:
            yield saver


@pytest.mark.slow
class TestPostgres(SaverContract):
    @pytest.fixture
    async def saver(self, postgres_database: str) -> AsyncIterator[AsyncPostgresSaver]:
        async with AsyncPostgresSaver.from_conn_string(postgres_database, max_size=4, serde=serde()) as saver:
            yield saver
