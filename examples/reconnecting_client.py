"""A client whose connection keeps breaking, and that misses nothing: the run goes on, and each event comes once.

Run it as it stands: it serves a graph on a free port and reads it over a connection that it cuts itself. Needs
``pip install 'langgraph-async[fastapi]' uvicorn httpx``.
"""

from __future__ import annotations

import asyncio
import json
import operator
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import httpx
import uvicorn
from fastapi import FastAPI
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph
from langgraph_async.checkpoint.sqlite import AsyncSqliteSaver
from langgraph_async.integrations.fastapi import drain_runs, graph_router
from langgraph_async.stream.log.sqlite import SqliteEventLog
from langgraph_async.types import StreamWriter


class State(TypedDict, total=False):
    written: Annotated[int, operator.add]


async def write(state: State, writer: StreamWriter) -> State:
    for number in range(1, 21):
        writer(f"line {number}")
        await asyncio.sleep(0)
    return {"written": 20}


def graph(saver: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node(write)
    builder.add_edge(START, "write")
    return builder.compile(checkpointer=saver)


class Events:
    """Reads a run's events, however often the connection breaks.

    The first request starts the run. All others carry the id of the last event that came, so that the server sends
    what came after it and starts nothing.
    """

    def __init__(self, http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
        self._http = http
        self._path = path
        self._body = body
        self._last_id: str | None = None
        self.connections = 0

    async def connect(self) -> AsyncIterator[tuple[str, str, Any]]:
        """Yield ids, names and data until the run ends or the connection does."""
        headers = {} if self._last_id is None else {"Last-Event-ID": self._last_id}
        self.connections += 1
        name = number = ""
        async with self._http.stream("POST", self._path, json=self._body, headers=headers) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "id":
                    number = value
                elif field == "event":
                    name = value
                elif field == "data":
                    self._last_id = number
                    yield number, name, json.loads(value)


async def read(http: httpx.AsyncClient) -> None:
    events = Events(http, "/threads/1/stream", {"input": {}})
    numbers: list[int] = []
    lines: list[str] = []
    ended = False
    while not ended:
        async with aclosing(events.connect()) as connection:
            since = 0
            async for number, name, data in connection:
                numbers.append(int(number.split(":")[1]))
                if name == "custom":
                    lines.append(data["data"])
                ended = name == "end"
                since += 1
                if since == 6:
                    break  # the connection breaks
    print(f"{len(lines)} lines, from {lines[0]!r} to {lines[-1]!r}, over {events.connections} connections")
    print("without gaps or repeats:", numbers == list(range(1, len(numbers) + 1)))


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncSqliteSaver.from_conn_string(Path(folder) / "chat.db") as saver:
            app = FastAPI(lifespan=drain_runs())
            app.include_router(
                graph_router(
                    graph(saver), event_log=SqliteEventLog(saver), stream_mode="custom", on_disconnect="continue"
                )
            )
            with socket.socket() as sock:
                sock.bind(("127.0.0.1", 0))
                sock.listen()  # the client waits until the server is up
                server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
                serving = asyncio.create_task(server.serve([sock]))
                address = f"http://127.0.0.1:{sock.getsockname()[1]}"
                async with httpx.AsyncClient(base_url=address, trust_env=False) as http:
                    await read(http)
                server.should_exit = True
                await serving


if __name__ == "__main__":
    asyncio.run(main())
