"""Threads in the formats of older versions of LangGraph are read and finished as LangGraph reads and finishes them.

The rows are today's, put back into the older form that the format's description gives.
"""

from __future__ import annotations

import base64
import copy
import json
import logging
import sqlite3
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from handover.database import Database, Rows, new_database, set_up
from handover.kind import Bodies, Owner, library
from handover.kinds import KINDS
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


def on_checkpoints(rows: Rows, change: Callable[[dict[str, Any]], None]) -> Rows:
    """Change the checkpoints of rows in either layout."""
    for row in rows["checkpoints"]:
        if "b64" in row["checkpoint"]:
            kept = msgpack.unpackb(base64.b64decode(row["checkpoint"]["b64"]), strict_map_key=False)
            change(kept)
            row["checkpoint"] = {"b64": base64.b64encode(msgpack.packb(kept)).decode()}
        else:
            change(row["checkpoint"])
    return rows


def sends_apart(rows: Rows) -> Rows:
    """Format 3: a checkpoint's sends are only among the writes of its parent."""

    def change(kept: dict[str, Any]) -> None:
        kept["v"] = 3
        kept.pop("updated_channels", None)
        for part in ("channel_values", "channel_versions"):
            kept[part].pop("__pregel_tasks", None)
        for seen in kept["versions_seen"].values():
            seen.pop("__pregel_tasks", None)

    return on_checkpoints(rows, change)


def old_names(rows: Rows) -> Rows:
    """Format 2: a node is triggered by a channel named after the node before it, the first one by `start:`."""
    names = {"branch:to:a": "start:a", "branch:to:b": "a", "branch:to:c": "b"}

    def change(kept: dict[str, Any]) -> None:
        kept["v"] = 2
        kept.pop("updated_channels", None)
        for part in ("channel_values", "channel_versions"):
            kept[part] = {names.get(key, key): value for key, value in kept[part].items()}
        kept["versions_seen"] = {
            node: {names.get(key, key): value for key, value in seen.items()}
            for node, seen in kept["versions_seen"].items()
        }

    return on_checkpoints(rows, change)


def whole_versions(rows: Rows) -> Rows:
    """Versions are numbers, as without a saver that makes strings."""

    def number(version: str) -> int:
        return int(version.partition(".")[0])

    def change(kept: dict[str, Any]) -> None:
        kept["channel_versions"] = {key: number(version) for key, version in kept["channel_versions"].items()}
        for node, seen in kept["versions_seen"].items():
            kept["versions_seen"][node] = {key: number(version) for key, version in seen.items()}

    return on_checkpoints(rows, change)


def no_updated_channels(rows: Rows) -> Rows:
    """Checkpoints do not say which channels changed."""
    return on_checkpoints(rows, lambda kept: kept.pop("updated_channels"))


def old_questions(rows: Rows) -> Rows:
    """Questions have a value and an id, and no third field."""
    for row in rows["writes"]:
        if row["channel"] == "__interrupt__":
            field = "value" if "value" in row else "blob"
            (question,) = msgpack.unpackb(base64.b64decode(row[field]["b64"]))
            module, name, fields = msgpack.unpackb(question.data)
            data = msgpack.packb([module, name, {key: fields[key] for key in ("value", "id")}])
            row[field] = {"b64": base64.b64encode(msgpack.packb([msgpack.ExtType(question.code, data)])).decode()}
    return rows


CASES = [
    ("sent_but_not_run", sends_apart),
    ("stopped_before_a_node", old_names),
    ("half_a_join", whole_versions),
    ("dead_beside_a_finished_node", whole_versions),
    ("half_a_join", no_updated_channels),
    ("parallel_questions_partly_answered", no_updated_channels),
    ("one_question", old_questions),
    ("questions_two_levels_down", old_questions),
]


PEER_CANNOT = {
    ("sqlite", sends_apart): "its SQLite saver does not look for sends among the writes of the parent",
    ("sqlite", whole_versions): "it compares numbers with text when it goes on, and raises a TypeError",
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A database whose tables LangGraph made."""
    if request.param == "sqlite":
        return Database("sqlite", str(tmp_path_factory.mktemp("old") / "threads.db"))
    return set_up(new_database(request.getfixturevalue("postgres_dsn")), PEER)


async def _begun(name: str, place: Database) -> Rows:
    lg, bodies = library(PEER), Bodies()
    async with place.saver(PEER) as saver:
        owner = Owner(lg, KINDS[name].build(lg, bodies)(saver), bodies, place, str(uuid.uuid4()))
        for step in KINDS[name].begin:
            await step(owner)
        rows: Rows = json.loads(json.dumps(await place.dump(owner.thread)))
        return rows


async def _finished(name: str, package: str, place: Database, thread: str) -> list[Any]:
    """Return what a library shows of a thread, what it makes of it, and what ran."""
    lg, bodies = library(package), Bodies(second=True)
    async with place.saver(package) as saver:
        owner = Owner(lg, KINDS[name].build(lg, bodies)(saver), bodies, place, thread)
        shown = await view(owner.graph, owner.config)
        for step in KINDS[name].finish:
            await step(owner)
        state = (await view(owner.graph, owner.config))["state"]
    return [settled(part) for part in (shown, owner.results, state["values"], state["next"], sorted(bodies.ran))]


@pytest.mark.parametrize(("name", "older"), CASES, ids=[f"{older.__name__}-{name}" for name, older in CASES])
async def test_an_older_format_is_read_and_finished_as_langgraph_does(
    name: str, older: Callable[[Rows], Rows], place: Database
) -> None:
    if older is whole_versions and place.layout == "postgres":
        pytest.skip("there the rows of values are named by versions, which were never numbers")
    rows = await _begun(name, place)
    threads = {package: str(uuid.uuid4()) for package in (PEER, OURS)}
    peer_can = (place.layout, older) not in PEER_CANNOT
    # Where LangGraph cannot, what it makes of today's form counts.
    await place.load(threads[PEER], older(copy.deepcopy(rows)) if peer_can else rows)
    await place.load(threads[OURS], older(rows))

    theirs, ours = [await _finished(name, package, place, thread) for package, thread in threads.items()]

    assert differences(theirs, ours) == []


@pytest.mark.parametrize(("layout", "older"), [(layout, older) for layout, older in PEER_CANNOT])
async def test_langgraph_cannot_go_on_with_some_of_its_older_formats(
    layout: str, older: Callable[[Rows], Rows], tmp_path: Path
) -> None:
    name = next(name for name, found in CASES if found is older)
    place = Database("sqlite", str(tmp_path / "threads.db"))
    rows = await _begun(name, place)
    await place.load("today", rows)
    await place.load("older", older(rows))

    today, old = [await _finished(name, PEER, place, thread) for thread in ("today", "older")]

    assert layout == place.layout
    assert old[1:] != today[1:]


async def test_a_table_of_writes_without_paths_is_completed_and_read(tmp_path: Path) -> None:
    name = "parallel_questions_partly_answered"
    rows = await _begun(name, Database("sqlite", str(tmp_path / "new.db")))
    threads = {PEER: "theirs", OURS: "ours"}
    places = {package: Database("sqlite", str(tmp_path / f"{package}.db")) for package in threads}
    for package, place in places.items():
        _old_tables(place.address)
        await place.load(threads[package], _without_paths(rows))

    theirs, ours = [await _finished(name, package, places[package], thread) for package, thread in threads.items()]

    assert differences(json.loads(json.dumps(theirs).replace("theirs", "ours")), ours) == []


def _without_paths(rows: Rows) -> Rows:
    writes = [{key: value for key, value in row.items() if key != "task_path"} for row in rows["writes"]]
    return {**rows, "writes": writes}


def _old_tables(path: str) -> None:
    conn = sqlite3.connect(path)
    conn.executescript(
        """
        CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
            checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
            PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
        CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
            checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL,
            type TEXT, value BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
        """
    )
    conn.close()
