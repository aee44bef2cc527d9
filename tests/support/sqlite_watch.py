"""Looks at what a SQLite saver asks of its connections."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

from langgraph_async.checkpoint.base import StepCommit, TaskWrites
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.testing.saver_contract.samples import Branch

_OURS = re.compile(r"SELECT 1 WHERE langgraph_async")


@contextlib.asynccontextmanager
async def statements(saver: AsyncSqliteSaver) -> AsyncIterator[list[str]]:
    """Collect the first word of every statement that the saver's connections run."""
    opened = await saver._database.opened()
    seen: list[str] = []

    def note(sql: str) -> None:
        if not _OURS.match(sql):
            seen.append(sql.removeprefix("-- ").split(None, 1)[0])  # so SQLite marks a statement inside another

    connections = {lane._conn for lane in (opened.writer, opened.reader)}
    for conn in connections:
        await conn.set_trace_callback(note)
    yield seen
    for conn in connections:
        await conn.set_trace_callback(None)


def step(branch: Branch, expected: Any, *writes: TaskWrites, **changed: Any) -> StepCommit:
    """Return the commit of a branch's next superstep."""
    return StepCommit(writes, *branch.next_checkpoint(**changed), expected)
