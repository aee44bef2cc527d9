"""What does a server cost that streams a run to many clients at once, as server-sent events?

The server is uvicorn in a process of its own. Ours answers with `GraphEventResponse`; the peer has nothing of the kind,
so it answers with a plain streaming response that writes what ``astream`` yields. CPU is the server's, per client; the
column ``stored`` holds the memory that a client adds to the server, at its highest. Of the case "until the first token"
only the wall time counts: it is the mean over the clients.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import socket
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from benchmarks.measure import OURS, PEER, Case, Library, Sample, Sampler, UnavailableError, at_end, wait_for
from benchmarks.report import main

TOKENS = 50
PAUSE_S = 0.01
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class State(TypedDict):
    number: int


def app(library: Library) -> Any:
    """Return the application that is measured: one path, which streams a run."""
    fastapi = importlib.import_module("fastapi")
    responses = importlib.import_module("fastapi.responses")

    async def node(state: State, writer) -> dict[str, Any]:
        for number in range(TOKENS):
            await asyncio.sleep(PAUSE_S)
            writer(number)
        return {"number": TOKENS}

    builder = library.StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(library.START, "node")
    graph = builder.compile()
    made = fastapi.FastAPI()

    if library is OURS:
        ours = importlib.import_module("langgraph_async.integrations.fastapi")

        @made.get("/")
        async def stream() -> Any:
            return ours.GraphEventResponse(graph, {"number": 0}, stream_mode="custom")

    else:

        async def lines() -> Any:
            async for chunk in graph.astream({"number": 0}, stream_mode="custom"):
                yield f"event: custom\ndata: {chunk}\n\n"

        @made.get("/")
        async def stream() -> Any:
            return responses.StreamingResponse(lines(), media_type="text/event-stream")

    return made


def serve(name: str, port: int) -> None:
    """Serve until the process is ended."""
    uvicorn = importlib.import_module("uvicorn")
    library = OURS if name == OURS.name else PEER
    uvicorn.run(app(library), host="127.0.0.1", port=port, log_level="error", ws="none", backlog=4096)


async def client(port: int) -> tuple[float, float]:
    """Read one stream to its end; return the seconds until its first token and until its end."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    first = None
    tokens = 0
    while line := await reader.readline():
        if line.startswith(b"event: custom"):
            tokens += 1
            first = first or time.perf_counter() - began
    writer.close()
    assert tokens == TOKENS, tokens
    assert first is not None
    return first, time.perf_counter() - began


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


async def wait_until_up(port: int, server: subprocess.Popen[bytes]) -> None:
    """Return when the server answers."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise UnavailableError("the server did not start")


def prepare(library: Library, clients: int, first: bool) -> Sampler:
    for needed in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(needed) is None:
            raise UnavailableError(f"a server needs {needed}")
    if not library.installed or not Path("/proc/self/stat").exists():
        raise UnavailableError("a server's own time and memory are read from /proc")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.sse_clients", "--serve", library.name, str(port)])
    at_end(partial(stop, server))
    wait_for(wait_until_up(port, server))

    async def sample() -> Sample:
        cpu, memory, began = cpu_s(server.pid), peak_bytes(server.pid), time.perf_counter()
        times = await asyncio.gather(*(client(port) for _ in range(clients)))
        wall = (time.perf_counter() - began) / clients
        if first:
            wall = statistics.mean(until_first for until_first, _ in times)
        grown = (peak_bytes(server.pid) - memory) / clients
        return Sample((cpu_s(server.pid) - cpu) / clients, wall, grown)

    return lambda: wait_for(sample())


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server."""
    server.terminate()
    server.wait()


CASES = [
    Case(
        "sse_clients",
        f"{clients} clients, {TOKENS} tokens{', until the first token' if first else ''}",
        "client",
        partial(prepare, clients=clients, first=first),
        large=clients > 50,
    )
    for clients in (50, 500)
    for first in (False, True)
]

if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve(sys.argv[-2], int(sys.argv[-1]))
    else:
        main(CASES)
