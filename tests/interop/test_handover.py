"""Threads that LangGraph begins are finished here, and the other way round, on the databases that both can use.

Both libraries have the database open at the same time, each with a saver of its own, as two processes would.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from handover.database import Database
from handover.kind import Bodies, Kind, Owner, library
from handover.kinds import KINDS
from handover.view import differences, settled, view
from postgres import database

PEER, OURS = "langgraph", "langgraph_async"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def _postgres(postgres_dsn: str) -> str:
    """A database whose tables LangGraph made."""
    name = f"handover_{uuid.uuid4().hex}"

    async def make() -> str:
        conn = await asyncpg.connect(postgres_dsn)
        await conn.execute(f'CREATE DATABASE "{name}"')
        await conn.close()
        async with Database("postgres", database(postgres_dsn, name)).saver(PEER) as saver:
            await saver.setup()
        return database(postgres_dsn, name)

    return asyncio.run(make())


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """Where the threads are."""
    if request.param == "sqlite":
        return Database("sqlite", str(tmp_path / "threads.db"))
    return Database("postgres", request.getfixturevalue("_postgres"))


@asynccontextmanager
async def owning(kind: Kind, package: str, place: Database, thread: str, bodies: Bodies) -> AsyncIterator[Owner]:
    lg = library(package)
    async with place.saver(package) as saver:
        yield Owner(lg, kind.build(lg, bodies)(saver), bodies, place, thread)


@dataclass
class Shown:
    """What was seen of a thread: in the middle and at the end, by each owner, what calls gave, and what ran."""

    middle: list[Any]
    end: list[Any]
    results: list[Any]
    ran: list[Counter[str]]


async def hand_over(kind: Kind, one: str, other: str, place: Database) -> Shown:
    thread, first_bodies, second_bodies = str(uuid.uuid4()), Bodies(), Bodies(second=True)
    async with (
        owning(kind, one, place, thread, first_bodies) as first,
        owning(kind, other, place, thread, second_bodies) as second,
    ):
        for step in kind.begin:
            await step(first)
        second.thread = first.thread
        middle = [await view(owner.graph, owner.config) for owner in (first, second)]
        for step in kind.finish:
            await step(second)
        end = [await view(owner.graph, owner.config) for owner in (first, second)]
    ran = [Counter(bodies.ran) for bodies in (first_bodies, second_bodies)]
    return Shown(middle, end, [*first.results, *second.results], ran)


def compared(kind: Kind, own: Shown, shown: Shown) -> list[str]:
    """Return where the owners see the thread differently, and where it differs from one that never changed hands."""
    pairs = {"middle views": shown.middle, "end views": shown.end}
    if kind.peer_cannot is None:
        pairs |= {
            "middle own": [own.middle[0], shown.middle[0]],
            "end own": [own.end[0], shown.end[0]],
            "results": [own.results, shown.results],
            "ran": [[dict(ran) for ran in side.ran] for side in (own, shown)],
        }
    lines = []
    for label, (one, other) in pairs.items():
        if not label.endswith("views"):
            one, other = (settled(side, numbered=not kind.meant) for side in (one, other))
        lines += [f"{label}: {line}" for line in differences(one, other)]
    return [line for line in lines if not any(re.search(pattern, line) for pattern, _ in kind.meant)]


@pytest.mark.parametrize(("one", "other"), [(PEER, OURS), (OURS, PEER)], ids=["we-finish", "peer-finishes"])
@pytest.mark.parametrize("name", KINDS)
async def test_a_thread_begun_by_one_is_finished_by_the_other(name: str, one: str, other: str, place: Database) -> None:
    kind = KINDS[name]
    own = await hand_over(kind, PEER, PEER, place)
    shown = await hand_over(kind, one, other, place)

    assert compared(kind, own, shown) == []
    if kind.peer_cannot is not None and other == OURS:
        assert shown.results[-1] == kind.gives != own.results[-1]
