"""Threads that were written once, by LangGraph and by this library, are read and finished for ever.

The files beside this one are made by `record.py`; LangGraph is not needed here.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from handover import golden
from handover.database import Database, new_database, set_up
from handover.kind import Bodies, Owner, library
from handover.kinds import KINDS
from handover.view import differences, plain, settled

FILES = sorted(golden.FOLDER.glob("*.jsonl"))
THREADS = [(path, name) for path in FILES for name in golden.read(path)]
IDS = [f"{path.stem}-{name}" for path, name in THREADS]
LIBRARY = library("langgraph_async")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A SQLite file with the saver's tables, for all threads."""
    return set_up(Database("sqlite", str(tmp_path_factory.mktemp("golden") / "threads.db")), "langgraph_async")


@pytest.fixture(scope="module")
def server(postgres_dsn: str) -> Database:
    """The same on a PostgreSQL server."""
    return set_up(new_database(postgres_dsn), "langgraph_async")


@pytest.mark.parametrize(("path", "name"), THREADS, ids=IDS)
async def test_a_stored_thread_is_read_and_finished(path: Path, name: str, file: Database) -> None:
    await read_and_finish(path, name, file)


@pytest.mark.parametrize(
    ("path", "name"),
    [pytest.param(*thread, marks=() if n % 4 == 0 else pytest.mark.slow) for n, thread in enumerate(THREADS)],
    ids=IDS,
)
async def test_a_thread_stored_on_postgres_is_read_and_finished(path: Path, name: str, server: Database) -> None:
    await read_and_finish(path, name, server)


async def read_and_finish(path: Path, name: str, place: Database) -> None:
    item, kind, bodies = golden.read(path)[name], KINDS[name], Bodies(second=True)
    thread = f"{path.stem} {name}"
    async with place.saver("langgraph_async") as saver:
        await place.load(thread, golden.unpack(item["rows"])[place.layout])
        owner = Owner(LIBRARY, kind.build(LIBRARY, bodies)(saver), bodies, place, thread)

        middle = await golden.short_view(owner.graph, owner.config)
        for step in kind.finish:
            await step(owner)
        state = await owner.graph.aget_state(owner.config)

    shown = {
        "middle": middle,
        "results": owner.results,
        "end": {"values": plain(state.values), "next": plain(state.next)},
        "ran": dict(Counter(bodies.ran)),
    }
    by_peer = path.stem.startswith("langgraph-")
    if by_peer and kind.peer_cannot is not None:
        assert owner.results[-1] == kind.gives
    else:
        assert unmeant(kind.meant if by_peer else (), item, shown, exact=place.layout == "sqlite") == []


def unmeant(meant: Any, item: dict[str, Any], shown: dict[str, Any], *, exact: bool) -> list[str]:
    """Return where what is shown differs from what was recorded; ids count where they were recorded."""
    recorded = {"middle": item["middle"], **item["finished"]}
    lines = []
    for part in shown:
        one, other = recorded[part], shown[part]
        if part != "middle":
            other = settled(other, numbered=False)
        elif not exact:
            one, other = settled(one), settled(other)
        label = {"middle": "middle views", "end": "end own"}.get(part, part)
        lines += [f"{label}: {line}" for line in differences(one, other)]
    return [line for line in lines if not any(re.search(pattern, line) for pattern, _ in meant)]
