"""Stands between a saver and its PostgreSQL server, and cuts or refuses connections when a test says so."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

Way = Literal["asked", "answered"]


class Proxy:
    """Counts what clients send ("asked") and the server sends ("answered"), in pieces as they come.

    Attributes:
        dsn: The connection string that leads here.
        refuses: Whether new connections are closed at once.
        on_piece: Called with the way and its number before a piece is passed on, which it is not if that cuts.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.refuses = False
        self.on_piece: Callable[[Way, int], None] | None = None
        self.counts: dict[Way, int] = {"asked": 0, "answered": 0}
        self.open: set[asyncio.StreamWriter] = set()

    def watch(self, on_piece: Callable[[Way, int], None] | None) -> None:
        """Count from zero again, and call `on_piece` from now on."""
        self.counts = {"asked": 0, "answered": 0}
        self.on_piece = on_piece

    def cut(self) -> None:
        """Cut all connections, without a farewell."""
        for writer in self.open:
            writer.transport.abort()

    async def pass_on(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(1 << 16):
                number = self.counts[way]
                self.counts[way] += 1
                if self.on_piece is not None:
                    self.on_piece(way, number)
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def postgres_proxy(dsn: str) -> AsyncIterator[Proxy]:
    """Give a proxy to a server that is reached through a Unix socket or TCP."""
    parts = urlsplit(dsn)
    query: dict[str, Any] = dict(parse_qsl(parts.query))
    host, port = query.get("host") or parts.hostname or "localhost", int(query.get("port") or parts.port or 5432)
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if proxy.refuses:
            writer.transport.abort()
            return
        if host.startswith("/"):
            behind, before = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            behind, before = await asyncio.open_connection(host, port)
        both = {writer, before}
        proxy.open |= both
        try:
            await asyncio.gather(proxy.pass_on("asked", reader, before), proxy.pass_on("answered", behind, writer))
        finally:
            proxy.open -= both
            for each in both:
                each.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    with tempfile.TemporaryDirectory(prefix="lgpx-", dir="/tmp") as folder:
        query.update(host=folder, port="5432")
        user = parts.netloc.rpartition("@")[0]
        here = urlunsplit(parts._replace(netloc=f"{user}@" if user else "", query=urlencode(query, safe="/")))
        proxy = Proxy(here)
        server = await asyncio.start_unix_server(accept, Path(folder, ".s.PGSQL.5432"))
        try:
            yield proxy
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
