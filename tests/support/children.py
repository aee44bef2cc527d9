"""Processes of their own that a test talks to, line by line."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Child:
    """A process that runs some code, with `arguments` as its ``sys.argv[1:]``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    @classmethod
    async def start(cls, code: str, *arguments: str, options: tuple[str, ...] = ()) -> Child:
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, *options, "-c", code, *arguments, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe
            )
        )

    async def read(self) -> str:
        """Return the next line that it prints; empty when it has ended."""
        return (await self._stdout.readline()).decode().rstrip("\n")

    async def write(self, line: str) -> None:
        self._stdin.write(line.encode() + b"\n")
        await self._stdin.drain()

    async def end(self) -> tuple[int | None, str, str]:
        """Wait for its end, and return its code, the rest of its output, and its errors."""
        out, errors = await self._process.communicate()
        return self._process.returncode, out.decode(), errors.decode()
