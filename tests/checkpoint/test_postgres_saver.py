"""The PostgreSQL saver keeps the contract, with a pool, on one connection, in a schema and behind a pooler."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.testing.savers import SaverContract


class TestPool(SaverContract):
    @pytest.fixture
    async def saver(self, postgres_database: str) -> AsyncIterator[AsyncPostgresSaver]:
        async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
            yield saver
