"""A process that is killed at any moment of its saving: the next one finishes, and runs no finished task again.

Each case is a real process on a real database that kills itself with SIGKILL at the N-th point, then a second one that
goes on and is killed, too, and a third one that finishes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import killed_program
import pytest
from run_events import check, kept_by, told

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")

PROGRAM = killed_program.__file__
ROOT = Path(__file__).parents[2]
DURABILITIES = ["sync", "async", "exit"]
LOG = ["begin", "worker 0", "worker 1", "worker 2", "gather", "beside", "in1", "in2 one", "in3", "ask two", "end"]


class Server:
    """A process from which the processes to be killed are forked."""

    def __init__(self, errors: Path) -> None:
        self.errors = errors
        with errors.open("w") as file:
            self._process = subprocess.Popen(
                [sys.executable, PROGRAM, "serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                bufsize=1,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def run(self, asked: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


class Fresh:
    """Runs each process in an interpreter of its own."""

    def __init__(self, errors: Path) -> None:
        self.errors = errors

    def run(self, asked: dict[str, Any]) -> int:
        with self.errors.open("w") as file:
            command = [sys.executable, PROGRAM, json.dumps(asked)]
            return subprocess.run(command, stderr=file, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    made = [Server(tmp_path_factory.mktemp("servers") / "errors") for _ in range(2)]
    yield made
    for server in made:
        server.close()


class Case:
    """One thread, and what became of it in a row of processes.

    Attributes:
        runs: The events of each process, in order.
    """

    def __init__(self, place: dict[str, Any], program: str, durability: str, folder: Path) -> None:
        thread = uuid.uuid4().hex
        self.asked = {**place, "program": program, "durability": durability, "thread": thread}
        if place["database"] == "sqlite":
            self.asked["where"] = str(folder / f"{thread}.db")
        self.folder = folder
        self.runs: list[list[list[Any]]] = []

    def run(self, server: Server, kill_at: int = 0) -> int:
        side = self.folder / f"{self.asked['thread']}.{len(self.runs)}"
        code = server.run({**self.asked, "side": str(side), "kill_at": kill_at})
        self.runs.append([json.loads(line) for line in side.read_text().splitlines()])
        assert code in (0, -9), server.errors.read_text()
        assert (code == -9) == bool(self.told("killed", -1)), server.errors.read_text()
        return code

    def told(self, event: str, number: int) -> list[Any]:
        return told(self.runs[number], event)

    @property
    def result(self) -> Any:
        return self.told("result", -1)[0]

    def check(self, undisturbed: Any) -> None:
        check(self.runs, undisturbed, self.asked)


def kill_at_points(
    servers: list[Server], place: dict[str, Any], program: str, durability: str, folder: Path, stride: int
) -> None:
    """Kill a process at every `stride`-th point, and every other time the one after it, too."""
    undisturbed = Case(place, program, durability, folder)
    undisturbed.run(servers[0])
    points = undisturbed.told("points", 0)[0]
    free: SimpleQueue[Server] = SimpleQueue()
    for server in servers:
        free.put(server)

    def case(kill_at: int) -> int:
        server = free.get()
        try:
            found = Case(place, program, durability, folder)
            code = found.run(server, kill_at)
            if kill_at // stride % 2:
                found.run(server, 1 + kill_at * 7 % 31)
            found.run(server)
            found.check(undisturbed.result)
            return code
        finally:
            free.put(server)

    with ThreadPoolExecutor(len(servers)) as pool:
        codes = list(pool.map(case, range(1, points + 1, stride)))
    # How much is stored together depends, with "async", on the time it takes.
    assert codes.count(-9) >= len(codes) // 2


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "postgres":
        return {"database": "postgres", "where": request.getfixturevalue("postgres_database")}
    return {"database": "sqlite"}


@pytest.mark.parametrize("program", ["graph", "workflow"])
def test_a_run_that_is_killed_at_some_points_goes_on(servers, program, tmp_path):
    kill_at_points(servers, {"database": "sqlite", "grouped": True}, program, "sync", tmp_path, 23)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["graph", "workflow"])
@pytest.mark.parametrize(("durability", "stride"), [("sync", 1), ("async", 3), ("exit", 3)])
def test_a_run_that_is_killed_at_any_point_goes_on(servers, place, program, durability, stride, tmp_path):
    stride += place["database"] == "postgres"  # which takes longer, and has twice as many points
    kill_at_points(servers, {**place, "grouped": True}, program, durability, tmp_path, stride)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["graph", "workflow"])
@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_run_on_a_saver_with_only_the_primitive_methods_goes_on(servers, place, program, durability, tmp_path):
    stride = 7 if place["database"] == "sqlite" else 11
    kill_at_points(servers, {**place, "grouped": False}, program, durability, tmp_path, stride)


def test_a_fresh_interpreter_goes_on_after_one_that_was_killed(tmp_path):
    case = Case({"database": "sqlite", "grouped": True}, "graph", "sync", tmp_path)
    fresh: Any = Fresh(tmp_path / "errors")
    case.run(fresh, 30)
    left = Path(case.asked["where"] + "-wal").stat().st_size
    case.run(fresh)
    kept = kept_by(case.runs, 0)

    assert case.told("killed", 0)
    assert left > 0
    assert {"begin", "worker 0", "worker 1", "worker 2"} <= kept
    assert kept.isdisjoint(case.told("ran", 1))
    assert case.result["values"]["log"] == LOG
