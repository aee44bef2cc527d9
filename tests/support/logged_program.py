"""A program that streams a run into a log, and writes down each part the moment it has it, until it is killed.

``python logged_program.py sqlite|postgres PLACE FILE``: the numbers go into FILE, a line each.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from drawings import chain

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.stream.log.postgres import PostgresEventLog
from langgraph_async.stream.log.sqlite import SqliteEventLog


async def talks(state: Any, writer: Any) -> None:
    for number in range(1_000_000):
        writer({"token": number})
        await writer.drain()
        await asyncio.sleep(0)


async def main(kind: str, place: str, path: str) -> None:
    savers = {"sqlite": AsyncSqliteSaver, "postgres": AsyncPostgresSaver}
    logs = {"sqlite": SqliteEventLog, "postgres": PostgresEventLog}
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with savers[kind].from_conn_string(place) as saver:
        await saver.setup()
        log = logs[kind](saver, interval_s=0.002)
        await log.setup()
        config = {"configurable": {"thread_id": "t"}}
        graph = chain(saver=saver, talks=talks)
        async for part in graph.astream({}, config, stream_mode="custom", version="v2", event_log=log, run_id="r"):
            os.write(file, f"{part['seq']} {part['data']['token']}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
