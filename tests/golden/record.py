"""Records what a library writes for each kind of thread, so that it stays readable for ever.

    nox -s golden                                    # both libraries
    python tests/golden/record.py langgraph          # needs LangGraph and its savers
    python tests/golden/record.py langgraph_async
    python tests/golden/record.py show FILE KIND     # what a file has, unpacked

A file holds, for each kind: the rows that the first owner leaves, in both layouts, what it shows of those in SQLite,
and what comes of the thread when the same library goes on. Files of older versions stay: what was written once must
be read for ever. The tests beside this file do not need LangGraph.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tempfile
import uuid
import warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "support")]

from handover import golden  # noqa: E402
from handover.database import Database  # noqa: E402
from handover.kind import Bodies, Kind, Owner, library  # noqa: E402
from handover.kinds import KINDS  # noqa: E402
from handover.view import plain, settled  # noqa: E402
from postgres import postgres_server  # noqa: E402


async def begun(kind: Kind, package: str, place: Database) -> tuple[str, Any]:
    """Let a library begin a thread; return the thread's id and what the library shows of it."""
    lg = library(package)
    async with place.saver(package) as saver:
        bodies = Bodies()
        owner = Owner(lg, kind.build(lg, bodies)(saver), bodies, place, str(uuid.uuid4()))
        for step in kind.begin:
            await step(owner)
        return owner.thread, await golden.short_view(owner.graph, owner.config)


async def finished(kind: Kind, package: str, place: Database, thread: str) -> dict[str, Any]:
    """Let a library finish a thread; return what it gave, what it shows then, and what ran."""
    lg = library(package)
    async with place.saver(package) as saver:
        bodies = Bodies(second=True)
        owner = Owner(lg, kind.build(lg, bodies)(saver), bodies, place, thread)
        for step in kind.finish:
            await step(owner)
        state = await owner.graph.aget_state(owner.config)
        end = {"values": plain(state.values), "next": plain(state.next)}
        shown: dict[str, Any] = settled({"results": owner.results, "end": end}, numbered=False)
        return {**shown, "ran": dict(Counter(bodies.ran))}


async def recorded(kind: Kind, package: str, places: list[Database]) -> dict[str, Any]:
    """Return all that is kept of a kind."""
    found: dict[str, Any] = {"kind": kind.name}
    layouts: dict[str, Any] = {}
    for place in places:
        thread, shown = await begun(kind, package, place)
        layouts[place.layout] = json.loads(json.dumps(await place.dump(thread)).replace(thread, "t"))
        if place.layout == "sqlite":
            found["middle"] = json.loads(json.dumps(shown).replace(thread, "t"))
            found["finished"] = await finished(kind, package, place, thread)
    return {**found, "rows": golden.pack(layouts)}


async def record(package: str, dsn: str) -> None:
    """Write the file of a library's installed version."""
    with tempfile.TemporaryDirectory() as scratch:
        places = [Database("sqlite", f"{scratch}/threads.db"), Database("postgres", dsn)]
        async with places[1].saver(package) as saver:
            await saver.setup()
        kinds = [kind for name, kind in KINDS.items() if name not in golden.LEFT_OUT]
        found = [await recorded(kind, package, places) for kind in kinds]
    number = library_version(package)
    golden.write(golden.FOLDER / f"{package}-{number}.jsonl", found)


def library_version(package: str) -> str:
    """Return a library's version."""
    module = sys.modules[package]
    return str(getattr(module, "__version__", None) or version(package))


def show(file: str, kind: str) -> None:
    """Print what a file has of a kind."""
    item = golden.read(Path(file))[kind]
    print(json.dumps({**item, "rows": golden.unpack(item["rows"])}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    if sys.argv[1] == "show":
        show(*sys.argv[2:])
        sys.exit()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with postgres_server() as server:
        asyncio.run(record(sys.argv[1], server))
