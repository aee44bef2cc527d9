"""A saver whose statements are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver


@asynccontextmanager
async def counting(dsn: str, **options: Any) -> AsyncIterator[tuple[AsyncPostgresSaver, list[str]]]:
    """Give a saver, and the statements that it has executed so far."""
    queries: list[str] = []

    async def watch(conn: Any) -> None:
        conn.add_query_logger(lambda record: queries.append(record.query))

    async with AsyncPostgresSaver.from_conn_string(dsn, connect={"init": watch}, **options) as saver:
        yield saver, queries
