"""A save that fails, wherever: the run stops there and says where, and the thread goes on from what is stored."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import killed_program
import pytest
from run_events import check, told

from langgraph_async.checkpoint.postgres import source
from langgraph_async.checkpoint.sqlite import database
from langgraph_async.errors import StorageError

DURABILITIES = ["sync", "async", "exit"]
PROGRAMS = ["graph", "workflow"]
ERRORS = {
    "sqlite": [lambda: OSError("no"), lambda: sqlite3.OperationalError("disk I/O error")],
    "postgres": [lambda: OSError("no"), lambda: asyncpg.PostgresIOError("no"), lambda: asyncpg.DiskFullError("full")],
}


class Failing(killed_program.Side):
    """Raises at the point at which a process would be killed."""

    def __init__(self, fail_at: int = 0, error: Any = None) -> None:
        self.runs: list[list[Any]] = [[]]
        self.fail_at, self.error = fail_at, error
        self.points = 0
        self.names: dict[str, str] = {}
        self.under_way: list[Any] = []
        self.failed = ""

    def note(self, event: str, what: Any) -> None:
        self.runs[-1].append([event, what])

    def point(self, label: str) -> None:
        # What is committed is committed, and setting up and closing are no saves.
        if label.startswith(("while", "after COMMIT", "after a statement")) or label.endswith(("setup", "aclose")):
            return
        self.points += 1
        if self.points == self.fail_at:
            self.failed = label
            self.note("killed", label)
            raise self.error


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(database, "store_batch", database.store_batch)
    monkeypatch.setattr(source._Connection, "fetch", source._Connection.fetch)
    if request.param == "postgres":
        return {"database": "postgres", "where": request.getfixturevalue("postgres_database")}
    return {"database": "sqlite"}


async def undisturbed(asked: dict[str, Any]) -> tuple[Any, int]:
    side = Failing()
    async with killed_program.saver(asked, side) as saver:
        await killed_program.drive(saver, asked, side)
    return told(side.runs[0], "result")[0], side.points


async def fail_at(number: int, asked: dict[str, Any], expected: Any) -> bool:
    """Let one point fail, go on with the same saver, and tell whether there was such a point."""
    errors = ERRORS[asked["database"]]
    side = Failing(number, errors[number % len(errors)]())
    async with killed_program.saver(asked, side) as saver:
        raised = await outcome(killed_program.drive(saver, asked, side))
        if raised is not None:
            assert raised is side.error or raised.__cause__ is side.error
            check_error(raised, side, asked)
            if side.failed.endswith("outside"):
                assert [name for name, _ in after_failure(side) if name == "rooted"] == []
            assert len(asyncio.all_tasks()) == 1
            assert not saver.leases
            side.runs.append([])
            await killed_program.drive(saver, asked, side)
    # When what several stored together failed, each of them was stored alone.
    assert len(side.runs) == 2 or side.failed in ("", "before COMMIT")
    check(side.runs, expected, asked)
    return bool(side.failed)


async def outcome(drive: Any) -> BaseException | None:
    try:
        await drive
    except (OSError, sqlite3.Error, asyncpg.PostgresError, StorageError) as exc:
        return exc
    return None


def check_error(exc: BaseException, side: Failing, asked: dict[str, Any]) -> None:
    if not side.failed.endswith(("aget_tuple", "aget_delta_channel_history")):
        notes = "\n".join(exc.__notes__)
        assert f"thread '{asked['thread']}'" in notes
        assert "superstep" in notes


def after_failure(side: Failing) -> list[Any]:
    events = side.runs[-1]
    return events[[name for name, _ in events].index("killed") :]


async def fail_everywhere(place: dict[str, Any], folder: Path, stride: int, **asked: Any) -> None:
    def one(number: int) -> dict[str, Any]:
        return {"where": str(folder / f"{number}.db"), **place, **asked, "thread": f"t{number}"}

    expected, points = await undisturbed(one(0))
    failed = [await fail_at(number, one(number), expected) for number in range(1, points + 1, stride)]

    assert failed.count(True) >= len(failed) // 2


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_save_that_fails_stops_the_run_and_the_thread_goes_on(place, tmp_path, program, durability):
    await fail_everywhere(place, tmp_path, 13, program=program, durability=durability, grouped=True)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "single"])
async def test_a_save_that_fails_anywhere_stops_the_run_and_the_thread_goes_on(
    place, tmp_path, program, durability, grouped
):
    stride = 3 if place["database"] == "sqlite" else 5
    await fail_everywhere(place, tmp_path, stride, program=program, durability=durability, grouped=grouped)
