"""A process that ends with a saver left open: it ends at once, in good order, and says what was forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from children import Child

_CODE = """
import asyncio, sys
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.testing.saver_contract.samples import Branch, at, values

async def main():
    global saver
    saver = {"sqlite": AsyncSqliteSaver, "postgres": AsyncPostgresSaver}[sys.argv[1]].from_conn_string(sys.argv[2])
    await Branch(saver, "t").put(a=1)
    print(await values(saver, at("t")))
    if sys.argv[3] == "reading":
        asyncio.get_running_loop().create_task(values(saver, at("t")))
        await asyncio.sleep(0)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("doing", ["nothing", "reading"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_process_that_leaves_a_saver_open_ends_and_warns(
    kind: str, doing: str, tmp_path: Path, postgres_database: str
) -> None:
    place = str(tmp_path / "a.db") if kind == "sqlite" else postgres_database
    child = await Child.start(_CODE, kind, place, doing, options=("-W", "default::ResourceWarning"))
    async with asyncio.timeout(60):
        code, out, errors = await child.end()

    assert (code, out) == (0, "{'a': 1}\n"), errors
    assert "saver" in errors
    assert "was dropped open" in errors
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
