"""A program that runs a graph or a workflow on a real database, and kills itself at a given point of its saving.

``python killed_program.py`` with one description of a run (JSON) as its argument does that run. With ``serve`` it reads
descriptions, a line each, and does each in a process of its own, forked from one that has everything imported, and
answers with how that process ended: as real as a fresh interpreter, and twenty times as fast.

What happens is appended to a side file, one line for each event, so that it outlives a kill:

- ``ran`` and ``finished``: a body began, and ended;
- ``durable``: what it wrote is stored, and the saver has said so, or the database has;
- ``rooted``: so is the checkpoint of that superstep of the outermost graph;
- ``returned``: the run came back, paused or done;
- ``killed``: the point at which the process ended;
- ``result``: the state in the end, and the history.

A point is the moment before or after a call of the saver that stores something, before or after the database commits,
and the moment before a call that reads.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import operator
import os
import signal
import sys
import traceback
from functools import partial
from typing import Annotated, Any

import asyncpg
from typing_extensions import TypedDict

from langgraph_async import START, Command, Send, StateGraph, interrupt
from langgraph_async.channels.delta import DeltaChannel
from langgraph_async.checkpoint.postgres import source
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite import database
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.constants import ERROR, ERROR_SOURCE_NODE, INTERRUPT, RESUME
from langgraph_async.func import entrypoint, task
from langgraph_async.runtime import get_runtime

_UNFINISHED = {ERROR, ERROR_SOURCE_NODE, INTERRUPT, RESUME}
HANGS_S = 120
ANSWERS = {"first?": "one", "second?": "two"}


class Side:
    """The side file, and the point at which to kill the process."""

    def __init__(self, path: str, kill_at: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._kill_at = kill_at
        self.points = 0
        self.names: dict[str, str] = {}
        self.under_way: list[Any] = []

    def note(self, event: str, what: Any) -> None:
        os.write(self._file, (json.dumps([event, what]) + "\n").encode())

    def point(self, label: str) -> None:
        """Be killed here, if this is the point."""
        self.points += 1
        if self.points == self._kill_at:
            self.note("killed", label)
            self.note("under way", [self.names.get(task, task) for writes in self.under_way for task, _ in writes])
            os.kill(os.getpid(), signal.SIGKILL)

    def stored(self, writes: Any) -> None:
        """Note the tasks whose results are among these task writes."""
        for task_id, channels in writes:
            if task_id == "root":
                self.note("rooted", channels)
            elif not _UNFINISHED.issuperset(channels):
                self.note("durable", self.names.get(task_id, f"task {task_id}"))

    def stored_under_way(self) -> None:
        """Note what a statement that has just been committed has stored, before anybody says so.

        When several calls are under way it may be either's.
        """
        if len(self.under_way) == 1:
            self.stored(self.under_way[0])

    def body(self, name: str) -> None:
        self.names[get_runtime().execution_info.task_id] = name
        self.note("ran", name)


# -- savers with points -----------------------------------------------------------------------------------------


class _Watched:
    """A saver whose calls are points; mixed into a saver's class."""

    side: Side

    async def _at(self, name: str, call: Any, writes: Any = None) -> Any:
        side = self.side
        side.point(f"before {name}")
        if writes is None:
            return await call()
        side.under_way.append(writes)
        try:
            found = await call()
        finally:
            side.under_way.remove(writes)
        side.stored(writes)
        side.point(f"after {name}")
        return found

    async def setup(self):
        await self._at("setup", super().setup)

    async def aget_tuple(self, config):
        return await self._at("aget_tuple", partial(super().aget_tuple, config))

    async def aget_delta_channel_history(self, **asked):
        return await self._at("aget_delta_channel_history", partial(super().aget_delta_channel_history, **asked))

    async def aclose(self):
        await self._at("aclose", super().aclose)


class _Grouped(_Watched):
    async def acommit(self, config, commit):
        return await self._at(
            "acommit" + _within(config), partial(super().acommit, config, commit), _stores([(config, commit)])
        )

    async def acommit_chain(self, commits):
        name = f"acommit_chain of {len(commits)}" + _within(commits[0][0])
        await self._at(name, partial(super().acommit_chain, commits), _stores(commits))


class _Single(_Watched):
    """Has only the primitive methods."""

    can_commit = False

    async def aput(self, config, *stored):
        return await self._at(
            "aput" + _within(config), partial(super().aput, config, *stored), _root(config, stored[1])
        )

    async def aput_writes(self, config, writes, task_id, task_path=""):
        finished = [(task_id, [channel for channel, _ in writes])]
        await self._at(
            "aput_writes" + _within(config), partial(super().aput_writes, config, writes, task_id, task_path), finished
        )


def watched(base: Any, side: Side, *, grouped: bool) -> Any:
    """Return a class of savers whose calls are points."""
    return type("Watched", (_Grouped if grouped else _Single, base), {"side": side})


def _stores(commits: Any) -> list[tuple[str, Any]]:
    """Return task id and channels of every task's writes, and ``("root", step)`` for a checkpoint."""
    found = [(w.task_id, [channel for channel, _ in w.writes]) for _, commit in commits for w in commit.writes]
    return [
        *found,
        *(x for config, commit in commits if commit.checkpoint is not None for x in _root(config, commit.metadata)),
    ]


def _within(config: Any) -> str:
    return " inside" if config["configurable"].get("checkpoint_ns") else " outside"


def _root(config: Any, metadata: Any) -> list[tuple[str, Any]]:
    return [("root", metadata["step"])] if not config["configurable"].get("checkpoint_ns") else []


class _Commits:
    """A SQLite connection before and after whose commits are points."""

    def __init__(self, conn: Any, side: Side) -> None:
        self._conn, self._side = conn, side

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)

    def execute(self, sql: str, *parameters: Any) -> Any:
        if sql != "COMMIT":
            return self._conn.execute(sql, *parameters)
        self._side.point("before COMMIT")
        found = self._conn.execute(sql)
        self._side.stored_under_way()
        self._side.point("after COMMIT")
        return found


_STORE_BATCH = database.store_batch
_FETCH = asyncpg.Connection.fetch


def saver(asked: dict[str, Any], side: Side) -> Any:
    """Return a saver with points. Replaces `database.store_batch`, or `source._Connection.fetch`."""
    grouped, where = asked["grouped"], asked["where"]
    if asked["database"] == "sqlite":
        database.store_batch = lambda conn, jobs: _STORE_BATCH(_Commits(conn, side), jobs)  # type: ignore[arg-type]
        return watched(AsyncSqliteSaver, side, grouped=grouped).from_conn_string(where, synchronous="NORMAL")

    async def fetch(self: Any, sql: str, *arguments: Any, **options: Any) -> Any:
        call = asyncio.ensure_future(_FETCH(self, sql, *arguments, **options))
        await asyncio.sleep(0)
        side.point("while a statement is under way")
        rows = await call
        if "INSERT" in sql:
            if not rows:  # nothing was refused
                side.stored_under_way()
            side.point("after a statement")
        return rows

    source._Connection.fetch = fetch
    return watched(AsyncPostgresSaver, side, grouped=grouped).from_conn_string(where, max_size=2)


# -- what is run ------------------------------------------------------------------------------------------------


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    deltas: Annotated[list, DeltaChannel(lambda value, writes: [*value, *(x for w in writes for x in w)])]
    number: int


def graph(saver: Any, side: Side) -> Any:
    """Six supersteps: a fan-out, a subgraph that asks beside a node that does not, a question, an end."""

    def node(name: str) -> Any:
        async def run(state):
            side.body(name)
            await asyncio.sleep(0)
            side.note("finished", name)
            return {"log": [name], "deltas": [name], "number": len(name)}

        return run

    def asking(name: str, question: str) -> Any:
        async def run(state):
            answer = interrupt(question)
            side.body(name)
            await asyncio.sleep(0)
            side.note("finished", name)
            return {"log": [f"{name} {answer}"], "deltas": [answer]}

        return run

    async def worker(state):
        return {"log": (await node(f"worker {state['number']}")(state))["log"]}

    inner = StateGraph(State)
    for name, run in [("in1", node("in1")), ("in2", asking("in2", "first?")), ("in3", node("in3"))]:
        inner.add_node(name, run)
    inner.add_edge(START, "in1").add_edge("in1", "in2").add_edge("in2", "in3")

    async def beside(state):
        return {"log": (await node("beside")(state))["log"]}

    async def sub(state):
        found = await inside.ainvoke({"log": [], "number": 1})
        return {"log": found["log"], "deltas": found["deltas"], "number": found["number"]}

    inside = inner.compile()
    outer = StateGraph(State)
    for name, run in [
        *((name, node(name)) for name in ("begin", "gather", "end")),
        ("worker", worker),
        ("sub", sub),
        ("beside", beside),
        ("ask", asking("ask", "second?")),
    ]:
        outer.add_node(name, run)
    outer.add_edge(START, "begin")
    outer.add_conditional_edges("begin", lambda state: [Send("worker", {"number": n}) for n in range(3)], ["worker"])
    outer.add_edge("worker", "gather").add_edge("gather", "sub").add_edge("gather", "beside")
    outer.add_edge(["sub", "beside"], "ask").add_edge("ask", "end")
    return outer.compile(checkpointer=saver)


def workflow(saver: Any, side: Side) -> Any:
    """Calls side by side, questions in a call and in the workflow itself, a call that calls."""

    @task
    async def part(name: str) -> str:
        side.body(name)
        await asyncio.sleep(0)
        side.note("finished", name)
        return name

    @task
    async def outer(name: str) -> str:
        return await part(f"{name} 1") + await part(f"{name} 2")

    @task
    async def asks(name: str) -> str:
        answer: str = interrupt("first?")
        side.body(name)
        side.note("finished", name)
        return f"{name} {answer}"

    @entrypoint(checkpointer=saver)
    async def flow(given: dict, *, previous: Any = None) -> Any:
        log = [await part("begin")]
        log += await asyncio.gather(*(part(f"worker {n}") for n in range(3)))
        log.append(await outer("outer"))
        log.append(await asks("asks"))
        answer = interrupt("second?")
        log += [answer, await part("end")]
        return entrypoint.final(value=log, save={"saved": log})

    return flow


PROGRAMS = {"graph": (graph, {"log": [], "number": 0}), "workflow": (workflow, {})}


async def drive(opened: Any, asked: dict[str, Any], side: Side) -> None:
    """Go on from whatever is stored, until the run is over, and note what it has come to."""
    build, given = PROGRAMS[asked["program"]]
    runs = build(opened, side)
    config: Any = {"configurable": {"thread_id": asked["thread"]}}
    while True:
        state = await runs.aget_state(config)
        value: Any = None
        if state.created_at is None:
            value = given
        elif state.interrupts:
            value = Command(resume={q.id: ANSWERS[q.value] for q in state.interrupts})
        elif not state.next:
            break
        result = await runs.ainvoke(value, config, durability=asked["durability"])
        side.note("returned", "paused" if "__interrupt__" in result else "done")
    history = [
        [s.metadata.get("source"), s.metadata.get("step"), list(s.next), s.values]
        async for s in runs.aget_state_history(config)
    ]
    side.note("result", {"values": state.values, "history": history})


async def main(asked: dict[str, Any]) -> None:
    side = Side(asked["side"], asked.get("kill_at", 0))
    async with saver(asked, side) as opened:
        await drive(opened, asked, side)
    side.note("points", side.points)


def serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            try:
                asyncio.run(main(json.loads(line)))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        asyncio.run(main(json.loads(sys.argv[1])))
