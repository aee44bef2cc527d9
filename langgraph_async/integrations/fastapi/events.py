"""A run as server-sent events.

Each event has the stream mode as its ``event``, one line of JSON (see `encoding`) as its ``data``, and, where it can be
come back to, an ``id``. The last one is ``end``; a failure is an ``error`` before it.

Source: HTML Living Standard, section "Server-sent events".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from langgraph_async.aio.clock import SYSTEM_CLOCK, Clock
from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.config import RunnableConfig
from langgraph_async.errors import ConfigError
from langgraph_async.integrations.fastapi.disconnect import until_gone
from langgraph_async.integrations.fastapi.encoding import json_text
from langgraph_async.integrations.fastapi.failures import error_data, log, status_of
from langgraph_async.pregel.background import background_runs
from langgraph_async.pregel.graph import Pregel
from langgraph_async.pregel.handle import Run, numbered, thread_of
from langgraph_async.pregel.streams import find_run
from langgraph_async.stream.log.base import END, ERROR, Event, EventLog
from langgraph_async.stream.log.memory import InMemoryEventLog
from langgraph_async.stream.log.tail import follow
from langgraph_async.stream.parts import shape

_HEARTBEAT: Final = b": heartbeat\n\n"
_HEADERS: Final = {
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}


class GraphEventResponse(Response):
    """A response that runs a graph, or comes back to a run, and streams what happens.

    The run begins when the response is sent. When the client goes away, it is cancelled, and has ended when the
    response has; or it goes on, with ``on_disconnect="continue"``. A slow client holds the run back.

    Who comes back to a run after its last event gets a 204, which tells browsers to stop asking.

    A request that cannot be served (the thread is busy, the input has no use, the log does not have the run) gets an
    answer with that status as long as nothing was sent; later on, it is told as an ``error`` event.

    Args:
        graph: The graph.
        input: As for `astream`.
        config: As for `astream`.
        event_log: Where the events are kept, so that the client can come back; without one, events have no ids.
        run_id: The run's id; made if there is none. It is sent as the header ``X-Run-Id``.
        last_event_id: What the client sends as ``Last-Event-ID``: nothing is run, the events after it are sent. The
            number alone, ``"0"`` for all, means `run_id`, or the thread's newest run.
        on_disconnect: What becomes of the run when the client goes away.
        heartbeat_s: Seconds of silence after which a comment is sent, so that nobody takes the connection for dead.
        retry_s: After which the client shall connect again, or None to leave that to it.
        clock: What these go by.
        encode: Makes JSON of data, in one line.
        headers: Further headers.
        on_run: Given the handle of a run that this response has begun.
        options: As for `astream`: context, stream_mode, subgraphs, ...

    Example:
        >>> from fastapi import FastAPI
        >>> app = FastAPI()
        >>> @app.post("/chat/{thread}")
        ... async def chat(thread: str, text: str):
        ...     return GraphEventResponse(graph, {"text": text}, {"configurable": {"thread_id": thread}})
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        graph: Pregel[Any, Any, Any, Any],
        input: Any = None,
        config: RunnableConfig | None = None,
        *,
        event_log: EventLog | None = None,
        run_id: str | None = None,
        last_event_id: str | None = None,
        on_disconnect: Literal["cancel", "continue"] = "cancel",
        heartbeat_s: float = 15.0,
        retry_s: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        encode: Callable[[Any], str] = json_text,
        headers: Mapping[str, str] | None = None,
        on_run: Callable[[Run], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(None, headers={**_HEADERS, **(headers or {})})
        del self.headers["content-length"]
        self._graph = graph
        self._input = input
        self._config = config
        self._log = (event_log or InMemoryEventLog()).for_saver(graph.checkpointer)
        self._numbered = event_log is not None
        self._run_id = run_id
        self._last_event_id = last_event_id
        self._continues = on_disconnect == "continue"
        self._heartbeat_s = heartbeat_s
        self._retry_s = retry_s
        self._clock = clock
        self._encode = encode
        self._on_run = on_run
        self._options = {**options, "version": "v2"}
        self._sent_at = clock.monotonic()
        self._started = False
        self._failure: BaseException | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; return when the run has ended, or the client is gone and has no run any more."""
        lock = asyncio.Lock()
        self._sent_at = self._clock.monotonic()
        work = spawn(self._serve(scope, receive, send, lock), name="langgraph_async_events")
        heart = spawn(self._beat(send, lock), name="langgraph_async_heartbeat")
        try:
            await until_gone(work, receive)
        finally:
            interrupted = None
            for task in (heart, work):
                task.cancel()
                interrupted = await wait_settled(task) or interrupted
            failures = [task.exception() for task in (heart, work) if not task.cancelled()]
            if interrupted is not None:
                raise interrupted
        for failure in failures:
            if failure is not None and not isinstance(failure, OSError):  # the client is gone
                raise failure

    # -- what is sent -------------------------------------------------------------------------------------------

    async def _serve(self, scope: Scope, receive: Receive, send: Send, lock: asyncio.Lock) -> None:
        try:
            async with aclosing(self._events()) as events:
                async for run_id, event, data in events:
                    async with lock:
                        await self._send(send, self._record(run_id, event, data))
        except OSError:
            raise
        except Exception as exc:  # noqa: BLE001 - told to the client
            status = status_of(exc)
            if status is None:
                log.error("A run could not be streamed", exc_info=exc)
            async with lock:
                if self._started or status is None:
                    await self._send(send, self._told(error_data(exc)))
                else:
                    self._started = True
                    await JSONResponse({"detail": error_data(exc)}, status)(scope, receive, send)
                    return
        async with lock:
            if self._started:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:  # there is nothing left of the run, and so a browser asks no more
                self._started = True
                await Response(status_code=204, headers={"x-run-id": self.headers["x-run-id"]})(scope, receive, send)

    async def _beat(self, send: Send, lock: asyncio.Lock) -> None:
        while True:
            await self._clock.sleep(self._sent_at + self._heartbeat_s - self._clock.monotonic())
            async with lock:
                if self._clock.monotonic() - self._sent_at >= self._heartbeat_s:
                    await self._send(send, _HEARTBEAT)

    async def _send(self, send: Send, body: bytes) -> None:
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if self._retry_s is not None:
                body = f"retry: {round(self._retry_s * 1000)}\n\n".encode() + body
        self._sent_at = self._clock.monotonic()
        await send({"type": "http.response.body", "body": body, "more_body": True})

    def _record(self, run_id: str, event: Event, data: Any) -> bytes:
        number = f"id: {shown_id(run_id)}:{event.seq}\n" if self._numbered else ""
        return f"{number}event: {event.mode}\ndata: {self._encode(data)}\n\n".encode()

    def _told(self, error: dict[str, Any]) -> bytes:
        end = self._encode({"status": "failed"})
        return f"event: {ERROR}\ndata: {self._encode(error)}\n\nevent: {END}\ndata: {end}\n\n".encode()

    # -- where it comes from ------------------------------------------------------------------------------------

    async def _events(self) -> AsyncGenerator[tuple[str, Event, Any], None]:
        """Yield the run's id, an event, and what is shown of it."""
        mappers = self._graph.mappers(self._options.get("output_keys"))
        formed = numbered(shape("v2", is_list=True, subgraphs=True, mappers=mappers), "v2")
        source = self._begun() if self._last_event_id is None else self._resumed(self._last_event_id)
        async with aclosing(source) as events:
            async for run_id, event in events:
                if event.mode in (ERROR, END):
                    yield run_id, event, event.data
                else:
                    part = formed(event)
                    if not self._numbered:
                        del part["seq"]
                    yield run_id, event, part

    async def _begun(self) -> AsyncGenerator[tuple[str, Event], None]:
        run = self._graph.start(self._input, self._config, event_log=self._log, run_id=self._run_id, **self._options)
        run_id = run.run_id or ""
        self.headers["x-run-id"] = shown_id(run_id)
        background_runs().adopt(run, logs=False)
        run.on_done(_log_failure)
        if self._on_run is not None:
            self._on_run(run)
        try:
            async with aclosing(run.events()) as events:
                async for event in events:
                    if event.mode == ERROR:
                        await self._check_request(run)
                    yield run_id, event
        finally:
            if not self._continues:
                await run.aclose()

    async def _check_request(self, run: Run) -> None:
        """Raise what a run has failed with if that is the request's fault, and can still be said as such."""
        await run.ended()
        failure = run.failure()
        if failure is not None and status_of(failure) is not None and not self._started:
            raise failure

    async def _resumed(self, last_event_id: str) -> AsyncGenerator[tuple[str, Event], None]:
        named, after = parse_event_id(last_event_id)
        if not self._numbered:
            raise ConfigError("There is no event log, so nothing can be come back to: Last-Event-ID has no use here.")
        run_id = await find_run(self._log, named or self._run_id, thread_of(self._graph, self._config))
        self.headers["x-run-id"] = shown_id(run_id)
        async with aclosing(follow(self._log, run_id, after)) as events:
            async for event in events:
                yield run_id, event


def _log_failure(run: Run) -> None:
    failure = run.failure()
    if failure is not None and status_of(failure) is None:
        log.error("%r failed", run, exc_info=failure)


def shown_id(run_id: str) -> str:
    """Return a run's id as it can stand in a header and in an event."""
    return quote(run_id, safe="-._~:/")


def parse_event_id(text: str) -> tuple[str | None, int]:
    """Return the run, if it is named, and the number that an event's id holds.

    Raises:
        ConfigError: It is no such id.
    """
    run_id, _, number = text.strip().rpartition(":")
    if not number.isascii() or not number.isdigit() or len(number) > 18:
        raise ConfigError(f"{text!r} is not the id of an event: those are numbers, or 'run:number'.")
    return unquote(run_id) or None, int(number)


__all__ = ["GraphEventResponse", "parse_event_id"]
