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

import pytest
from handover.database import Database, new_database, set_up
from handover.kind import Bodies, Kind, Owner, library
from handover.kinds import KINDS
from handover.kinds_steps import compiled, linked
from handover.view import differences, settled, view

pytest.importorskip("langgraph.checkpoint.sqlite.aio")
pytest.importorskip("langgraph.checkpoint.postgres.aio")
pytestmark = pytest.mark.slow

PEER, OURS = "langgraph", "langgraph_async"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def _postgres(postgres_dsn: str) -> Database:
    """A database whose tables LangGraph made."""
    return set_up(new_database(postgres_dsn), PEER)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """Where the threads are."""
    if request.param == "sqlite":
        return Database("sqlite", str(tmp_path / "threads.db"))
    found: Database = request.getfixturevalue("_postgres")
    return found


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


_LOOP = {"a": "ab", "b": "bc", "c": "ca"}


def _loop(lg: Any, bodies: Bodies, *, asks: bool) -> Any:
    """Return a graph that goes round, and stops at each node: before it, or with a question in it."""
    builder = linked(lg, {name: _turn(lg, bodies, name, asks=asks) for name in _LOOP}, "^a ab bc")
    builder.add_conditional_edges("c", lambda state: "a" if len(state["log"]) < 9 else lg.END)
    return compiled(builder, interrupt_before=None if asks else "*")


def _turn(lg: Any, bodies: Bodies, name: str, *, asks: bool) -> Any:
    async def node(state: Any) -> Any:
        bodies.enter(name)
        return {"log": [[name, lg.interrupt(len(state["log"])) if asks else bodies.ran.count(name)]]}

    return node


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("asks", [False, True], ids=["breakpoints", "questions"])
async def test_a_thread_may_change_hands_at_every_step(place: Database, asks: bool, durability: Any) -> None:
    together = await _in_turns([PEER, OURS], place, asks=asks, durability=durability)
    alone = await _in_turns([PEER, PEER], place, asks=asks, durability=durability)

    assert [differences(*pair) for pair in together.seen] == [[]] * 9
    assert len(together.ran) == (18 if asks else 9)  # a node that asks begins again when it is answered
    assert together.ran == alone.ran
    assert differences(settled(alone.seen[-1][0]), settled(together.seen[-1][0])) == []


@dataclass
class Turns:
    """What both owners saw after each turn, and all that ran."""

    seen: list[list[Any]]
    ran: list[str]


async def _in_turns(packages: list[str], place: Database, *, asks: bool, durability: Any) -> Turns:
    thread, bodies, turns = str(uuid.uuid4()), Bodies(), Turns([], [])
    kind = Kind("loop", lambda lg, bodies: _loop(lg, bodies, asks=asks), (), ())
    async with (
        owning(kind, packages[0], place, thread, bodies) as one,
        owning(kind, packages[1], place, thread, bodies) as two,
    ):
        await one.run({"log": []}, durability=durability)
        for number in range(9):
            owner = (two, one)[number % 2]
            await owner.run(owner.lg.Command(resume=number) if asks else None, durability=durability)
            turns.seen.append([await view(each.graph, each.config) for each in (one, two)])
    turns.ran = bodies.ran
    return turns


async def test_langgraph_sees_two_questions_of_one_node_and_answers_them_in_their_order(place: Database) -> None:
    """LangGraph itself asks one question at a time in a node; it loses an answer to the second one, and asks again."""

    def build(lg: Any, bodies: Bodies) -> Any:
        async def node(state: Any) -> Any:
            return {"log": list(await asyncio.gather(*(_asked(lg, name) for name in "pq")))}

        return compiled(linked(lg, {"q": node}, "^q"))

    kind, thread = Kind("gathered", build, (), ()), str(uuid.uuid4())
    async with (
        owning(kind, OURS, place, thread, Bodies()) as ours,
        owning(kind, PEER, place, thread, Bodies()) as peer,
    ):
        await ours.run({"log": []})
        seen = [await view(owner.graph, owner.config) for owner in (ours, peer)]
        first, second = await ours.questions()
        await peer.run(peer.lg.Command(resume={second: "lost"}))
        await peer.run(peer.lg.Command(resume={first: "p!"}))
        left = await ours.questions()
        await ours.run(ours.lg.Command(resume={second: "q!"}))

    assert differences(*seen) == []
    assert left == [second]
    assert ours.results[-1] == {"log": ["p!", "q!"]}


async def _asked(lg: Any, name: str) -> Any:
    return lg.interrupt(name)
