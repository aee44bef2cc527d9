"""What every event log keeps to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from langgraph_async.errors import EventLogError
from langgraph_async.stream.log import Event
from langgraph_async.types import Interrupt

END = {"status": "done"}


def events(first: int, last: int, mode: str = "custom") -> list[Event]:
    return [Event(seq, mode, ("a:1", "b:2"), {"n": seq}) for seq in range(first, last + 1)]


async def begun(open_log: Any, kind: str, count: int = 0, *, ended: bool = False, **options: Any) -> Any:
    log = await open_log(kind, **options)
    await log.abegin("r", "t")
    if count:
        await log.aappend("r", events(1, count))
    if ended:
        await log.aappend("r", [Event(count + 1, "end", (), END)])
    return log


async def test_what_is_appended_is_read_in_order(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind)
    await log.aappend("r", events(1, 3))
    await log.aappend("r", events(4, 4))

    page = await log.aread("r")

    assert list(page.events) == events(1, 4)
    assert (page.run.run_id, page.run.thread_id, page.run.status) == ("r", "t", "running")
    assert (page.run.first_seq, page.run.last_seq) == (1, 4)
    assert 0 <= page.run.silent_s < 60


async def test_reading_goes_on_after_a_number_and_in_pages(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, 5)

    assert list((await log.aread("r", 3)).events) == events(4, 5)
    assert list((await log.aread("r", 1, 2)).events) == events(2, 3)
    assert list((await log.aread("r", 5)).events) == []


async def test_values_come_back_as_they_were(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind)
    data = {
        "time": datetime(2024, 1, 2, tzinfo=UTC),
        "bytes": b"\x00\xff",
        "tuple": (1, (2,)),
        "set": {1},
        "text": "nul \0 \U0001f600",
        "question": Interrupt("?", "0" * 32),
        "big": 2**80,
        1: None,
    }
    await log.aappend("r", [Event(1, "custom", (), data), Event(2, "custom", ("n\0", "\ud800"), None)])

    found = (await log.aread("r")).events

    assert found == (Event(1, "custom", (), data), Event(2, "custom", ("n\0", "\ud800"), None))


async def test_appending_again_changes_nothing(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, 3)
    await log.aappend("r", events(2, 4))
    await log.aappend("r", events(1, 2))

    page = await log.aread("r")
    assert list(page.events) == events(1, 4)
    assert page.run.last_seq == 4


async def test_an_end_event_ends_the_run(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, 1)
    await log.aappend("r", [Event(2, "error", (), {"type": "E"}), Event(3, "end", (), {"status": "failed"})])

    assert (await log.arun("r")).status == "failed"
    assert (await log.aread("r", 2)).events[0].mode == "end"


@pytest.mark.parametrize("method", ["aappend", "aread", "arun"])
async def test_an_unknown_run_is_refused(open_log: Any, kind: str, method: str) -> None:
    log = await open_log(kind)
    with pytest.raises(EventLogError) as raised:
        await getattr(log, method)("nothing", *([events(1, 1)] if method == "aappend" else []))
    assert (raised.value.reason, raised.value.run_id) == ("unknown", "nothing")


async def test_a_run_is_entered_once(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, 1)
    with pytest.raises(EventLogError) as raised:
        await log.abegin("r", "t")
    assert raised.value.reason == "exists"
    assert list((await log.aread("r")).events) == events(1, 1)


async def test_an_event_that_was_never_stored_is_refused(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, 2)
    with pytest.raises(EventLogError) as raised:
        await log.aread("r", 3)
    assert raised.value.reason == "ahead"


async def test_only_the_newest_events_are_kept(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, max_events=8)
    for seq in range(1, 31):
        await log.aappend("r", events(seq, seq))

    first = (await log.arun("r")).first_seq

    assert 22 <= first <= 23
    assert list((await log.aread("r", first - 1)).events) == events(first, 30)
    with pytest.raises(EventLogError) as raised:
        await log.aread("r", first - 2)
    assert raised.value.reason == "dropped"


async def test_runs_are_listed_by_thread_the_newest_first(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind)
    await log.abegin("other", "u")
    await log.abegin("newest", "t")
    await log.abegin("loose", None)

    assert [run.run_id for run in await log.aruns("t")] == ["newest", "r"]
    assert [run.run_id for run in await log.aruns(limit=3)] == ["loose", "newest", "other"]
    assert (await log.arun("loose")).thread_id is None


async def test_a_thread_is_forgotten(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, 3)
    await log.abegin("other", "t2")
    await log.aappend("other", events(1, 1))

    await log.adelete_thread("t")

    assert [run.run_id for run in await log.aruns()] == ["other"]
    assert list((await log.aread("other")).events) == events(1, 1)
    await log.abegin("r", "t")
    assert (await log.aread("r")).events == ()


async def test_old_runs_are_swept(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, 1, ended=True, ttl_s=1e-9)
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)

    assert await log.asweep() == 1
    assert await log.aruns() == []


async def test_young_and_running_runs_are_not_swept(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, 1, ended=True, ttl_s=1000)
    await log.abegin("running", "t")

    assert await log.asweep() == 0
    assert len(await log.aruns()) == 2


async def test_nothing_is_swept_without_a_lifetime(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, 1, ended=True, ttl_s=None)
    assert await log.asweep() == 0


async def test_a_sign_of_life_is_noted(open_log: Any, kind: str) -> None:
    log = await begun(open_log, kind, 1)
    await log.atouch("r")
    assert (await log.arun("r")).silent_s < 60


@pytest.mark.parametrize("option", ["max_events", "ttl_s"])
async def test_a_bound_must_be_positive(open_log: Any, kind: str, option: str) -> None:
    with pytest.raises(ValueError, match=option):
        await open_log(kind, **{option: 0})


# -- databases ---------------------------------------------------------------------------------------------------


@dataclass
class Point:
    x: int


async def test_another_log_on_the_database_reads_the_same(open_log: Any, database_kind: str) -> None:
    await begun(open_log, database_kind, 3)
    other = await open_log(database_kind)
    assert list((await other.aread("r")).events) == events(1, 3)


async def test_what_cannot_be_stored_is_shown_as_text(open_log: Any, database_kind: str) -> None:
    log = await begun(open_log, database_kind)
    cycle: list[Any] = []
    cycle.append(cycle)
    await log.aappend(
        "r", [Event(1, "custom", (), {"ok": 1, "odd": [lambda: 0, (object(),)]}), Event(2, "custom", (), cycle)]
    )

    first, second = (await log.aread("r")).events

    assert first.data["ok"] == 1
    assert first.data["odd"][0]["__unstorable__"] == "builtins.function"
    assert "object object" in first.data["odd"][1][0]["repr"]
    assert second.seq == 2


async def test_a_name_that_the_database_cannot_hold_is_refused(open_log: Any, database_kind: str) -> None:
    log = await open_log(database_kind)
    with pytest.raises(ValueError, match="surrogate"):
        await log.abegin("\ud800", None)


async def test_concurrent_runs_do_not_mix(open_log: Any, kind: str) -> None:
    log = await open_log(kind)

    async def one(name: str) -> None:
        await log.abegin(name, "t")
        for seq in range(1, 11):
            await log.aappend(name, [Event(seq, "custom", (), name)])

    await asyncio.gather(*(one(f"r{n}") for n in range(20)))

    for n in range(20):
        assert [(e.seq, e.data) for e in (await log.aread(f"r{n}")).events] == [(s, f"r{n}") for s in range(1, 11)]


async def test_many_set_up_at_once(open_log: Any, database_kind: str) -> None:
    logs = [await open_log(database_kind) for _ in range(3)]
    await asyncio.gather(*(log.setup() for log in logs for _ in range(3)))
    await logs[0].abegin("r", None)
    assert (await logs[2].arun("r")).last_seq == 0
