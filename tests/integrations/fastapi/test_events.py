"""Runs as server-sent events, over a real connection."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed (pip install fastapi)")
pytest.importorskip("uvicorn", reason="uvicorn is not installed (pip install uvicorn)")

import httpx
from drawings import State, chain, logs
from fastapi import FastAPI, Header
from web_server import all_events, listening, run_tasks, serving

from langgraph_async import START, StateGraph, interrupt
from langgraph_async.aio.clock import FakeClock
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import LangGraphError
from langgraph_async.integrations.fastapi import GraphEventResponse, drain_runs
from langgraph_async.pregel import background_runs
from langgraph_async.stream.log import InMemoryEventLog


class Gate:
    """A node that waits until it is let through, and notes how it ends."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, state: Any) -> Any:
        self.reached.set()
        try:
            await self.opened.wait()
            return {"log": ["gate"]}
        finally:
            await asyncio.sleep(0)
            self.ended.set()


class NodeError(LangGraphError):
    code = "NODE_SAYS_NO"


def app_of(graph: Any, **options: Any) -> FastAPI:
    app = FastAPI(lifespan=drain_runs(0.05))

    @app.post("/run")
    async def run(last_event_id: str | None = Header(None)) -> GraphEventResponse:
        config = {"configurable": {"thread_id": "t"}}
        return GraphEventResponse(graph, {}, config, last_event_id=last_event_id, **options)

    @app.get("/run")
    async def join(last_event_id: str = Header("0")) -> GraphEventResponse:
        kept = {k: v for k, v in options.items() if k in ("event_log", "heartbeat_s", "clock", "run_id")}
        return GraphEventResponse(graph, last_event_id=last_event_id, **kept)

    return app


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=30, limits=limits, trust_env=False) as client:
        yield client


@pytest.fixture
def log() -> InMemoryEventLog:
    return InMemoryEventLog()


async def turns_until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


# -- what is sent ------------------------------------------------------------------------------------------------


async def test_a_run_is_streamed_with_its_end(client: httpx.AsyncClient, log: InMemoryEventLog) -> None:
    app = app_of(chain(a=logs("a"), b=logs("b")), event_log=log, run_id="r", retry_s=2)
    async with serving(app) as url, listening(client, "POST", f"{url}/run") as reader:
        found = [event async for event in reader]
        headers = reader.response.headers

    assert [(e.id, e.event) for e in found] == [("r:1", "updates"), ("r:2", "updates"), ("r:3", "end")]
    assert found[0].data == {"type": "updates", "ns": [], "data": {"a": {"log": ["a"]}}, "seq": 1}
    assert found[2].data == {"status": "done"}
    assert reader.retry == 2000
    assert headers["x-run-id"] == "r"
    assert headers["cache-control"] == "no-store, no-transform"
    assert headers["x-accel-buffering"] == "no"
    assert "content-length" not in headers


async def test_without_a_log_events_have_no_ids(client: httpx.AsyncClient) -> None:
    async with serving(app_of(chain(a=logs("a")), stream_mode=["values", "custom"])) as url:
        found = await all_events(client, "POST", f"{url}/run")

    assert [(e.id, e.event) for e in found] == [(None, "values"), (None, "end")]
    assert found[0].data == {"type": "values", "ns": [], "data": {"log": ["a"]}, "interrupts": []}


async def test_a_pause_shows_its_question(client: httpx.AsyncClient) -> None:
    async def asks(state: Any) -> Any:
        return {"log": [interrupt({"really": "?"})]}

    graph = chain(saver=InMemorySaver(), asks=asks)
    async with serving(app_of(graph)) as url:
        found = await all_events(client, "POST", f"{url}/run")

    (question,) = found[0].data["data"]["__interrupt__"]
    assert question["value"] == {"really": "?"}
    assert len(question["id"]) == 32
    assert found[-1].data == {"status": "paused"}


async def test_a_failure_is_an_event_without_a_traceback(client: httpx.AsyncClient, caplog: Any) -> None:
    async def bad(state: Any) -> Any:
        raise NodeError("no luck")

    async with serving(app_of(chain(a=logs("a"), bad=bad))) as url:
        found = await all_events(client, "POST", f"{url}/run")

    assert [e.event for e in found] == ["updates", "error", "end"]
    assert found[1].data == {"type": "NodeError", "code": "NODE_SAYS_NO", "message": "no luck"}
    assert found[2].data == {"status": "failed"}
    assert "no luck" in caplog.text


async def test_odd_values_do_not_break_the_stream(client: httpx.AsyncClient) -> None:
    class Odd:
        def __repr__(self) -> str:
            raise ValueError

    async def node(state: Any, writer: Any) -> None:
        writer({"odd": Odd(), "nan": float("nan"), "bytes": b"\xff", "line": "a\nb\r\n\nc", "half": "\ud800"})

    async with serving(app_of(chain(node=node), stream_mode="custom")) as url:
        found = await all_events(client, "POST", f"{url}/run")

    data = found[0].data["data"]
    assert data["odd"]["repr"] == "<test_odd_values_do_not_break_the_stream.<locals>.Odd>"
    assert (data["nan"], data["bytes"], data["line"], data["half"]) == ("NaN", "/w==", "a\nb\r\n\nc", "\ud800")
    assert found[-1].data == {"status": "done"}


async def test_a_busy_thread_is_a_409(client: httpx.AsyncClient) -> None:
    gate = Gate()
    graph = chain(saver=InMemorySaver(), gate=gate)
    async with serving(app_of(graph)) as url:
        first = asyncio.create_task(all_events(client, "POST", f"{url}/run"))
        await gate.reached.wait()
        second = await client.post(f"{url}/run")
        gate.opened.set()
        events = await first

    assert second.status_code == 409
    assert second.json()["detail"]["code"] == "THREAD_CONFLICT"
    assert "Traceback" not in second.text
    assert events[-1].data == {"status": "done"}


async def test_silence_is_broken_by_heartbeats(client: httpx.AsyncClient) -> None:
    gate, clock = Gate(), FakeClock()
    async with serving(app_of(chain(gate=gate), heartbeat_s=15.0, clock=clock)) as url:
        opening = asyncio.create_task(client.send(client.build_request("POST", f"{url}/run"), stream=True))
        await gate.reached.wait()
        await clock.sleepers()
        assert not opening.done()
        await clock.advance(15)
        response = await opening
        lines = response.aiter_lines()
        assert await anext(lines) == ": heartbeat"
        await clock.advance(16)
        assert (await anext(lines), await anext(lines)) == ("", ": heartbeat")
        gate.opened.set()
        rest = [line async for line in lines]
        await response.aclose()

    assert rest.count(": heartbeat") == 0
    assert "event: end" in rest


# -- clients that go away ----------------------------------------------------------------------------------------


def nested(gate: Gate) -> Any:
    """A graph with a graph in a node, beside a node in a thread."""
    inner = chain(first=logs("first"), gate=gate)
    builder = StateGraph(State)
    builder.add_node("calls", inner)
    builder.add_node("other", logs("other"))
    builder.add_edge(START, "calls")
    builder.add_edge(START, "other")
    return builder.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("when", ["streaming", "silent"])
async def test_after_a_client_went_away_no_task_of_its_run_is_alive(client: httpx.AsyncClient, when: str) -> None:
    gate = Gate()
    async with serving(app_of(nested(gate), subgraphs=True)) as url:
        before = run_tasks()
        if when == "streaming":
            async with listening(client, "POST", f"{url}/run") as reader, aclosing(aiter(reader)) as events:
                await anext(events)
                await gate.reached.wait()
        else:
            asking = asyncio.create_task(client.post(f"{url}/run"))
            await gate.reached.wait()
            asking.cancel()
            await asyncio.wait([asking])
        await gate.ended.wait()
        await turns_until(lambda: run_tasks() <= before and len(background_runs()) == 0)


async def test_a_run_ends_with_its_client_behind_a_middleware_too(client: httpx.AsyncClient) -> None:
    gate = Gate()
    app = app_of(nested(gate), subgraphs=True)

    @app.middleware("http")
    async def passes(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    async with serving(app) as url:
        before = run_tasks()
        async with listening(client, "POST", f"{url}/run") as reader, aclosing(aiter(reader)) as events:
            await anext(events)
            await gate.reached.wait()
        await gate.ended.wait()
        await turns_until(lambda: run_tasks() <= before and len(background_runs()) == 0)


async def test_a_run_goes_on_without_its_client_if_asked_to(client: httpx.AsyncClient, log: InMemoryEventLog) -> None:
    gate = Gate()
    graph = chain(a=logs("a"), gate=gate, b=logs("b"))
    async with serving(app_of(graph, event_log=log, on_disconnect="continue", run_id="r")) as url:
        async with listening(client, "POST", f"{url}/run") as reader, aclosing(aiter(reader)) as events:
            seen = [await anext(events)]
        await gate.reached.wait()
        await turns_until(lambda: not log.live["r"].driven)
        joining = asyncio.create_task(
            all_events(client, "GET", f"{url}/run", headers={"Last-Event-ID": str(seen[-1].id)})
        )
        await turns_until(lambda: len(log.live) == 1)
        gate.opened.set()
        seen += await joining

    assert [e.id for e in seen] == ["r:1", "r:2", "r:3", "r:4"]
    assert [e.event for e in seen] == ["updates", "updates", "updates", "end"]


async def test_the_same_post_with_an_event_id_runs_nothing_twice(
    client: httpx.AsyncClient, log: InMemoryEventLog
) -> None:
    calls = 0

    async def counted(state: Any) -> Any:
        nonlocal calls
        calls += 1
        return {"log": [calls]}

    async with serving(app_of(chain(a=counted, b=counted), event_log=log)) as url:
        first = await all_events(client, "POST", f"{url}/run")
        again = await all_events(client, "POST", f"{url}/run", headers={"Last-Event-ID": str(first[0].id)})
        end = await client.post(f"{url}/run", headers={"Last-Event-ID": str(first[-1].id)})

    assert calls == 2
    assert again == first[1:]
    assert end.status_code == 204


async def test_a_run_id_cannot_break_the_stream(client: httpx.AsyncClient, log: InMemoryEventLog) -> None:
    run_id = "a b\r\n\nevent: end\ndata: \u00e9%"
    async with serving(app_of(chain(a=logs("a")), event_log=log, run_id=run_id)) as url:
        first = await all_events(client, "POST", f"{url}/run")
        again = await all_events(client, "POST", f"{url}/run", headers={"Last-Event-ID": str(first[0].id)})

    assert [e.event for e in first] == ["updates", "end"]
    assert again == first[1:]


async def test_reconnecting_after_every_event_gives_each_exactly_once(
    client: httpx.AsyncClient, log: InMemoryEventLog
) -> None:
    async def talks(state: Any, writer: Any) -> None:
        for number in range(40):
            writer(number)
            await writer.drain()

    graph = chain(a=talks, b=talks)
    seen: list[Any] = []
    async with serving(
        app_of(graph, event_log=log, on_disconnect="continue", run_id="r", stream_mode=["custom", "updates"])
    ) as url:
        while not seen or seen[-1].event != "end":
            headers = {"Last-Event-ID": seen[-1].id} if seen else {}
            connected = listening(client, "POST", f"{url}/run", headers=headers)
            async with connected as reader, aclosing(aiter(reader)) as events:
                seen.append(await anext(events))

    assert [e.id for e in seen] == [f"r:{n}" for n in range(1, 84)]
    assert [e.data["data"] for e in seen if e.event == "custom"] == [*range(40), *range(40)]


@pytest.mark.parametrize(
    ("event_id", "status"), [("r:9", 409), ("nothing:1", 404), ("soup", 422), ("r:-1", 422), ("r:1", 200)]
)
async def test_what_cannot_be_come_back_to_is_refused(
    client: httpx.AsyncClient, log: InMemoryEventLog, event_id: str, status: int
) -> None:
    async with serving(app_of(chain(a=logs("a")), event_log=log, run_id="r")) as url:
        await all_events(client, "POST", f"{url}/run")
        response = await client.get(f"{url}/run", headers={"Last-Event-ID": event_id})
    assert response.status_code == status


async def test_fifty_clients_at_once_get_each_their_own(client: httpx.AsyncClient, log: InMemoryEventLog) -> None:
    async def talks(state: Any, writer: Any) -> None:
        for number in range(20):
            writer(number)
            await asyncio.sleep(0)

    app = FastAPI()
    graph = chain(talks=talks)

    @app.post("/run/{n}")
    async def run(n: int) -> GraphEventResponse:
        return GraphEventResponse(graph, {}, event_log=log, run_id=f"r{n}", stream_mode="custom")

    async with serving(app) as url:
        found = await asyncio.gather(*(all_events(client, "POST", f"{url}/run/{n}") for n in range(50)))

    for n, events in enumerate(found):
        assert [e.id for e in events] == [f"r{n}:{seq}" for seq in range(1, 22)]
        assert [e.data["data"] for e in events[:-1]] == list(range(20))


async def test_a_slow_client_holds_its_run_back(client: httpx.AsyncClient) -> None:
    written = 0

    async def talks(state: Any, writer: Any) -> None:
        nonlocal written
        for _ in range(3_000):
            writer("x" * 10_000)
            written += 1
            await writer.drain()

    async with (
        serving(app_of(chain(talks=talks), stream_mode="custom")) as url,
        listening(client, "POST", f"{url}/run") as reader,
        aclosing(aiter(reader)) as events,
    ):
        await anext(events)
        before = -1
        while before != written:
            before = written
            for _ in range(200):
                await asyncio.sleep(0)
        assert written < 3_000
        rest = [event async for event in events]
    assert len(rest) == 3_000


async def test_a_client_is_told_that_its_run_was_drained(client: httpx.AsyncClient, caplog: Any) -> None:
    gate = Gate()
    graph = chain(gate=gate, b=logs("b"))
    async with serving(app_of(graph)) as url:
        streaming = asyncio.create_task(all_events(client, "POST", f"{url}/run"))
        await gate.reached.wait()
        for run in background_runs():
            run.drain("maintenance")
        gate.opened.set()
        found = await streaming
        del run
        gc.collect()

    assert [e.event for e in found] == ["updates", "end"]
    assert found[-1].data == {"status": "drained", "reason": "maintenance"}
    assert "never retrieved" not in caplog.text


# -- shutdown ----------------------------------------------------------------------------------------------------


async def test_the_lifespan_ends_what_goes_on_in_the_background(
    client: httpx.AsyncClient, log: InMemoryEventLog
) -> None:
    gate = Gate()
    graph = chain(a=logs("a"), gate=gate)
    async with serving(app_of(graph, event_log=log, on_disconnect="continue", run_id="r")) as url:
        async with listening(client, "POST", f"{url}/run") as reader, aclosing(aiter(reader)) as events:
            await anext(events)
        await gate.reached.wait()
        assert len(background_runs()) == 1

    assert gate.ended.is_set()
    assert len(background_runs()) == 0
    assert (await log.arun("r")).status == "cancelled"


async def test_a_lifespan_of_the_users_is_left_after_the_runs_have_ended(client: httpx.AsyncClient) -> None:
    gate, order = Gate(), []
    graph = chain(a=logs("a"), gate=gate)

    @asynccontextmanager
    async def mine(app: Any) -> AsyncIterator[dict[str, Any]]:
        yield {"db": 1}
        order.append(gate.ended.is_set())

    app = FastAPI(lifespan=drain_runs(0.01, lifespan=mine))

    @app.post("/run")
    async def run() -> GraphEventResponse:
        return GraphEventResponse(graph, {}, on_disconnect="continue")

    async with serving(app) as url:
        async with listening(client, "POST", f"{url}/run") as reader, aclosing(aiter(reader)) as events:
            await anext(events)
        await gate.reached.wait()

    assert order == [True]
