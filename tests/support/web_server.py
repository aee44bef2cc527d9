"""A uvicorn server on loopback, in the test's own event loop, and what its clients read."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[str]:
    """Serve `app` and give its address; on leaving, the server shuts down in good order."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="error", ws="none", lifespan=options.pop("lifespan", "on"), **options)
        server = _Server(config)
        serve = asyncio.create_task(server.serve([sock]))
        try:
            await asyncio.wait([serve, asyncio.ensure_future(server.up.wait())], return_when=asyncio.FIRST_COMPLETED)
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serve


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()


@dataclass
class Sent:
    """One server-sent event, as a client that follows the standard reads it."""

    event: str
    data: Any
    id: str | None = None


@dataclass
class EventReader:
    """Takes a response apart.

    Attributes:
        comments: The comments so far.
        retry: The last reconnection time, in milliseconds.
    """

    response: httpx.Response
    comments: list[str] = field(default_factory=list)
    retry: int | None = None

    async def __aiter__(self) -> AsyncIterator[Sent]:
        event, data, number = "message", [], None
        async for line in self.response.aiter_lines():
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if data:
                    yield Sent(event, json.loads("\n".join(data)), number)
                event, data = "message", []
            elif not name:
                self.comments.append(value)
            elif name == "event":
                event = value
            elif name == "data":
                data.append(value)
            elif name == "id":
                number = value
            elif name == "retry":
                self.retry = int(value)


@asynccontextmanager
async def listening(client: httpx.AsyncClient, method: str, url: str, **options: Any) -> AsyncIterator[EventReader]:
    """Open a stream of events."""
    async with client.stream(method, url, **options) as response:
        if response.status_code == 200:
            assert response.headers["content-type"].startswith("text/event-stream")
        yield EventReader(response)


async def all_events(client: httpx.AsyncClient, method: str, url: str, **options: Any) -> list[Sent]:
    """Return the events of a stream to its end."""
    async with listening(client, method, url, **options) as reader:
        return [event async for event in reader]


def run_tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks of the event loop that are not the server's own, nor the client's."""
    return {
        task
        for task in asyncio.all_tasks()
        if task is not asyncio.current_task()
        and "uvicorn" not in repr(task.get_coro())
        and "Server" not in repr(task.get_coro())
        and "run_asgi" not in repr(task.get_coro())
        and "LifespanOn" not in repr(task.get_coro())
    }
