"""A router with what can be done with the threads of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Query, Request
from fastapi.params import Depends as Dependency
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.responses import JSONResponse, Response

from langgraph_async.aio.clock import SYSTEM_CLOCK, Clock
from langgraph_async.config import RunnableConfig, merge_configs
from langgraph_async.constants import CHECKPOINT_ID, CONF, THREAD_ID
from langgraph_async.errors import ConfigError, GraphDrained, UnknownInterruptError
from langgraph_async.integrations.fastapi import models, views
from langgraph_async.integrations.fastapi.disconnect import run_ended
from langgraph_async.integrations.fastapi.encoding import jsonable
from langgraph_async.integrations.fastapi.events import GraphEventResponse
from langgraph_async.integrations.fastapi.failures import http_exception, not_found, told_to_client
from langgraph_async.pregel.background import BackgroundRuns, background_runs
from langgraph_async.pregel.graph import Pregel
from langgraph_async.pregel.handle import Run
from langgraph_async.stream.log.base import EventLog
from langgraph_async.stream.log.memory import InMemoryEventLog
from langgraph_async.types import Command, StreamMode

_GONE: Final = 499
"""Status of an answer that nobody gets: the client has gone away."""

Thread = Annotated[str, Path(description="The thread.", min_length=1, max_length=500)]
_EVENTS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events: `event` is the stream mode, `error` or `end`; `data` is a stream part as "
        "JSON; `id` is what `Last-Event-ID` takes.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


def _errors(**why: str) -> dict[int | str, dict[str, Any]]:
    return {int(status[1:]): {"model": models.ErrorBody, "description": text} for status, text in why.items()}


_BUSY: Final = _errors(
    _409="Another run has the thread, or the question is not open.", _422="The request cannot be used."
)
_MISSING: Final = _errors(_404="There is no such thread, run or checkpoint.")
_EXPIRED: Final = _errors(_410="The events are no longer kept, or the run's process is gone.")


def graph_router(
    graph: Pregel[Any, Any, Any, Any],
    *,
    event_log: EventLog | None = None,
    stream_mode: StreamMode | Sequence[StreamMode] = ("updates", "messages", "custom"),
    on_disconnect: Literal["cancel", "continue"] = "cancel",
    input_model: Any = None,
    config: Callable[..., Any] | None = None,
    context: Callable[..., Any] | None = None,
    dependencies: Sequence[Dependency] = (),
    heartbeat_s: float = 15.0,
    retry_s: float | None = None,
    clock: Clock = SYSTEM_CLOCK,
    prefix: str = "",
    tags: list[str | Enum] | None = None,
) -> APIRouter:
    """Return a router that runs a graph and shows its threads.

    ====== ==================================== ==============================================================
    POST   ``/threads/{thread_id}/invoke``      run to the end, or to a pause
    POST   ``/threads/{thread_id}/stream``      the same, as server-sent events
    GET    ``/threads/{thread_id}/stream``      join the newest run, or ``?run_id=``; ``Last-Event-ID`` resumes
    POST   ``/threads/{thread_id}/resume``      answer a question and run on
    POST   ``/threads/{thread_id}/resume/stream`` the same, as server-sent events
    POST   ``/threads/{thread_id}/cancel``      cancel or drain what runs on the thread, in this process
    GET    ``/threads/{thread_id}/runs``        the runs that the log has
    GET    ``/threads/{thread_id}/state``       the state
    POST   ``/threads/{thread_id}/state``       change the state
    GET    ``/threads/{thread_id}/history``     the states, newest first
    ====== ==================================== ==============================================================

    A client that connects again by the same POST, with ``Last-Event-ID``, gets what it missed: nothing runs twice.

    Args:
        graph: The graph; without a checkpointer, threads have neither a state nor questions.
        event_log: Where events are kept; by default in memory, in this process.
        stream_mode: What is streamed unless the request says otherwise.
        on_disconnect: What becomes of a run whose client goes away, unless the request says otherwise.
        input_model: What `input` must be, as pydantic takes it: a model, a TypedDict, ...; by default anything, and the
            API's description shows the graph's input schema.
        config: A dependency that returns a `RunnableConfig`: who asks, for example. A ``thread_id`` in it is used in
            place of the path's, so that it can keep the threads of users apart.
        context: A dependency that returns the run's context.
        dependencies: Of all routes, such as ``[Depends(signed_in)]``.
        heartbeat_s: See `GraphEventResponse`.
        retry_s: Likewise.
        clock: What these go by.
        prefix: Of all paths.
        tags: Of all routes.
    """
    config_of, context_of = Depends(config or _nothing), Depends(context or _nothing)

    async def prepare(request: Request, given_config: Any = config_of, given_context: Any = context_of) -> None:
        request.state.graph_call = (given_config, given_context)

    routes = _Routes(graph, event_log or InMemoryEventLog(clock=clock), stream_mode, on_disconnect)
    routes.events = {"heartbeat_s": heartbeat_s, "retry_s": retry_s, "clock": clock}
    routes.input_type = TypeAdapter(input_model) if input_model is not None else None
    router = APIRouter(
        prefix=prefix, tags=tags if tags is not None else [graph.name], dependencies=[*dependencies, Depends(prepare)]
    )
    _add_runs(router, routes)
    _add_threads(router, routes)
    return router


def _nothing() -> None:
    """Depend on nothing."""


def _add_runs(router: APIRouter, routes: _Routes) -> None:
    at, schema = "/threads/{thread_id}", routes.input_schema()
    router.add_api_route(
        f"{at}/invoke",
        routes.invoke,
        methods=["POST"],
        response_model=models.RunResult,
        responses=_BUSY,
        summary="Run to the end, or to a pause",
        description=f"{routes.invoke.__doc__}{schema}",
    )
    router.add_api_route(
        f"{at}/stream",
        routes.stream,
        methods=["POST"],
        response_class=Response,
        responses={**_EVENTS, **_BUSY},
        summary="Run, and stream what happens",
        description=f"{routes.stream.__doc__}{schema}",
    )
    router.add_api_route(
        f"{at}/stream",
        routes.join,
        methods=["GET"],
        response_class=Response,
        responses={**_EVENTS, **_MISSING, **_EXPIRED},
        summary="Join a run, or come back to it",
    )
    router.add_api_route(
        f"{at}/resume",
        routes.resume,
        methods=["POST"],
        response_model=models.RunResult,
        responses=_BUSY,
        summary="Answer, and run on",
    )
    router.add_api_route(
        f"{at}/resume/stream",
        routes.resume_stream,
        methods=["POST"],
        response_class=Response,
        responses={**_EVENTS, **_BUSY},
        summary="Answer, run on, and stream what happens",
    )
    router.add_api_route(
        f"{at}/cancel",
        routes.cancel,
        methods=["POST"],
        response_model=models.Cancelled,
        responses=_MISSING,
        summary="Cancel or drain what runs",
    )


def _add_threads(router: APIRouter, routes: _Routes) -> None:
    at = "/threads/{thread_id}"
    router.add_api_route(
        f"{at}/runs", routes.runs, methods=["GET"], response_model=list[models.RunInfo], summary="The thread's runs"
    )
    router.add_api_route(
        f"{at}/state",
        routes.state,
        methods=["GET"],
        response_model=models.ThreadState,
        responses=_MISSING,
        summary="The thread's state",
    )
    router.add_api_route(
        f"{at}/state",
        routes.update,
        methods=["POST"],
        response_model=models.CheckpointInfo,
        responses={**_MISSING, **_BUSY},
        summary="Change the thread's state",
    )
    router.add_api_route(
        f"{at}/history",
        routes.history,
        methods=["GET"],
        response_model=list[models.ThreadState],
        responses=_MISSING,
        summary="The thread's states, newest first",
    )


class _Routes:
    """The routes of one router."""

    def __init__(
        self,
        graph: Pregel[Any, Any, Any, Any],
        event_log: EventLog,
        stream_mode: StreamMode | Sequence[StreamMode],
        on_disconnect: Literal["cancel", "continue"],
    ) -> None:
        self._graph = graph
        self._log = event_log
        self._stream_mode = stream_mode if isinstance(stream_mode, str) else list(stream_mode)
        self._on_disconnect: Literal["cancel", "continue"] = on_disconnect
        self._running = BackgroundRuns()
        self.events: dict[str, Any] = {}
        self.input_type: TypeAdapter[Any] | None = None

    def input_schema(self) -> str:
        """Return what the API's description says of the graph's input."""
        make = self._graph.get_input_jsonschema if self.input_type is None else self.input_type.json_schema
        return views.schema_text(make)

    # -- running ------------------------------------------------------------------------------------------------

    async def invoke(self, request: Request, thread_id: Thread, body: models.RunRequest) -> Any:
        """Run the graph on a thread and return its output, with the questions if it has paused."""
        return await self._invoked(request, thread_id, body, self._input_of(body))

    async def resume(self, request: Request, thread_id: Thread, body: models.AnswerRequest) -> Any:
        """Answer a question, or several by their ids, and run on."""
        return await self._invoked(request, thread_id, body, await self._answer_of(request, thread_id, body))

    async def stream(
        self,
        request: Request,
        thread_id: Thread,
        body: models.StreamRequest,
        last_event_id: Annotated[str | None, Header(description="Send what came after this event.")] = None,
    ) -> Response:
        """Run the graph on a thread and stream what happens; with `Last-Event-ID`, come back to such a run."""
        value = None if last_event_id is not None else self._input_of(body)
        return self._streamed(request, thread_id, body, value, last_event_id)

    async def resume_stream(
        self,
        request: Request,
        thread_id: Thread,
        body: models.AnswerStreamRequest,
        last_event_id: Annotated[str | None, Header(description="Send what came after this event.")] = None,
    ) -> Response:
        """Answer, run on, and stream what happens."""
        value = None if last_event_id is not None else await self._answer_of(request, thread_id, body)
        return self._streamed(request, thread_id, body, value, last_event_id)

    async def join(
        self,
        request: Request,
        thread_id: Thread,
        run_id: Annotated[str | None, Query(description="By default the newest run of the thread.")] = None,
        last_event_id: Annotated[str, Header(description="Send what came after this event.")] = "0",
    ) -> Response:
        """Stream the events of a run that the log has, those to come included. Leaving it ends nothing."""
        config, _ = self._call(request, thread_id)
        return GraphEventResponse(
            self._graph, None, config, event_log=self._log, run_id=run_id, last_event_id=last_event_id, **self.events
        )

    async def cancel(self, request: Request, thread_id: Thread, body: models.CancelRequest | None = None) -> Any:
        """End what runs on a thread, in the process that answers."""
        wanted = body or models.CancelRequest()
        thread = _thread(self._call(request, thread_id)[0])
        runs = [run for run in self._running.on_thread(thread) if wanted.run_id in (None, run.run_id)]
        if not runs:
            raise not_found("NO_RUN", f"Nothing runs on thread {thread_id!r} in this process.")
        for run in runs:
            run.drain() if wanted.action == "drain" else run.cancel()
        if wanted.wait:
            for run in runs:
                await run.ended()
        return models.Cancelled(run_ids=[run.run_id or "" for run in runs])

    def _streamed(
        self,
        request: Request,
        thread_id: str,
        body: models.StreamRequest | models.AnswerStreamRequest,
        value: Any,
        last_event_id: str | None,
    ) -> Response:
        config, context = self._call(request, thread_id, body)
        return GraphEventResponse(
            self._graph,
            value,
            config,
            event_log=self._log,
            run_id=body.run_id,
            last_event_id=last_event_id,
            on_disconnect=body.on_disconnect or self._on_disconnect,
            on_run=lambda run: self._running.adopt(run, logs=False),
            context=context,
            stream_mode=body.stream_mode or self._stream_mode,
            subgraphs=body.subgraphs,
            **body.arguments(),
            **self.events,
        )

    async def _invoked(self, request: Request, thread_id: str, body: models.RunOptions, value: Any) -> Any:
        config, context = self._call(request, thread_id, body)
        continues = (body.on_disconnect or self._on_disconnect) == "continue"
        run_id = body.run_id or views.new_run_id()
        with told_to_client():
            run = self._graph.start(
                value, config, context=context, stream_mode="values", version="v2", run_id=run_id, **body.arguments()
            )
            background_runs().adopt(run, logs=False)
            self._running.adopt(run, logs=False)
            if not await run_ended(run, request.receive, cancel=not continues):
                return Response(status_code=_GONE)
            output = await _output(run)
        return JSONResponse(views.run_result(run_id, thread_id, run.status, output))

    # -- threads ------------------------------------------------------------------------------------------------

    async def runs(
        self, request: Request, thread_id: Thread, limit: Annotated[int, Query(ge=1, le=1000)] = 100
    ) -> list[models.RunInfo]:
        """Return the runs of a thread that the log has, the one that began last first."""
        thread = _thread(self._call(request, thread_id)[0])
        with told_to_client():
            found = await self._log.for_saver(self._graph.checkpointer).aruns(thread, limit=limit)
        return [views.run_info(run, thread_id) for run in found]

    async def state(
        self,
        request: Request,
        thread_id: Thread,
        checkpoint_id: Annotated[str | None, Query(description="By default the newest checkpoint.")] = None,
    ) -> Any:
        """Return the state of a thread, or of one of its checkpoints."""
        config, _ = self._call(request, thread_id, checkpoint_id=checkpoint_id)
        self._check_saver()
        with told_to_client():
            snapshot = await self._graph.aget_state(config)
        if snapshot.created_at is None:
            raise not_found("NO_THREAD", f"Thread {thread_id!r} has no such state.")
        return JSONResponse(views.thread_state(snapshot))

    async def history(
        self,
        request: Request,
        thread_id: Thread,
        limit: Annotated[int, Query(ge=1, le=1000)] = 20,
        before: Annotated[str | None, Query(description="Only states older than this checkpoint.")] = None,
    ) -> Any:
        """Return the states of a thread, newest first."""
        config, _ = self._call(request, thread_id)
        self._check_saver()
        bound = None if before is None else self._call(request, thread_id, checkpoint_id=before)[0]
        with told_to_client():
            found = [s async for s in self._graph.aget_state_history(config, before=bound, limit=limit)]
        return JSONResponse([views.thread_state(snapshot) for snapshot in found])

    async def update(self, request: Request, thread_id: Thread, body: models.UpdateRequest) -> models.CheckpointInfo:
        """Change the state of a thread as if a node had returned the values."""
        config, _ = self._call(request, thread_id, checkpoint_id=body.checkpoint_id)
        self._check_saver()
        with told_to_client():
            made = await self._graph.aupdate_state(config, body.values, body.as_node)
        return models.CheckpointInfo(checkpoint_id=(made.get(CONF) or {}).get(CHECKPOINT_ID))

    # -- of all -------------------------------------------------------------------------------------------------

    def _call(
        self,
        request: Request,
        thread_id: str,
        body: models.RunOptions | None = None,
        *,
        checkpoint_id: str | None = None,
    ) -> tuple[RunnableConfig, Any]:
        """Return the config and the context of what a request asks for."""
        given, context = request.state.graph_call
        own: RunnableConfig = {CONF: {THREAD_ID: thread_id}}
        at = body.checkpoint_id if body is not None else checkpoint_id
        if at is not None:
            own[CONF][CHECKPOINT_ID] = at
        if body is not None and body.multitask_strategy is not None:
            own["multitask_strategy"] = body.multitask_strategy
        return merge_configs(own, given), context

    def _check_saver(self) -> None:
        if self._graph.checkpointer is None:
            raise not_found(
                "NO_CHECKPOINTER", f"Graph {self._graph.name!r} has no checkpointer, so it keeps no threads."
            )

    def _input_of(self, body: models.RunRequest) -> Any:
        if body.command is not None:
            if body.input is not None:
                raise http_exception(ConfigError("Pass either 'input' or 'command'."))
            return body.command.command()
        if body.input is None or self.input_type is None:
            return body.input
        try:
            value = self.input_type.validate_python(body.input)
        except ValidationError as exc:
            raise HTTPException(422, jsonable(exc.errors(include_url=False, include_input=False))) from exc
        if isinstance(value, BaseModel) and type(value) is not self._graph.InputType:
            # The graph knows the keys, not the class.
            return {name: getattr(value, name) for name in value.model_fields_set}
        return value

    async def _answer_of(self, request: Request, thread_id: str, body: models.AnswerRequest) -> Command[Any]:
        """Return the command that answers what is asked now.

        Raises:
            HTTPException: Nothing is asked, or not that.
        """
        self._check_saver()
        config, _ = self._call(request, thread_id, body)
        with told_to_client():
            try:
                answer = body.resume()
            except ValueError as exc:
                raise ConfigError(str(exc)) from exc
            open_ids = {question.id for question in (await self._graph.aget_state(config)).interrupts}
            if not open_ids or (body.answers is not None and not body.answers.keys() <= open_ids):
                raise UnknownInterruptError(
                    f"Thread {thread_id!r} does not ask that now. Its state shows the open questions.",
                    reason="not_pending",
                    interrupt_ids=sorted(body.answers or ()),
                    pending_ids=sorted(open_ids),
                )
        return Command(resume=answer)


def _thread(config: Mapping[str, Any]) -> str:
    return str((config.get(CONF) or {}).get(THREAD_ID))


async def _output(run: Run) -> Any:
    """Return the output of a run that has ended.

    Raises:
        HTTPException: It was cancelled or drained: the thread goes on with neither input nor command.
    """
    if run.status == "cancelled":
        raise HTTPException(
            409, {"type": "CancelledError", "code": "RUN_CANCELLED", "message": "The run was cancelled."}
        )
    try:
        return await run
    except GraphDrained as exc:
        detail = {"type": "GraphDrained", "code": "RUN_DRAINED", "message": str(exc)}
        raise HTTPException(503, detail) from exc


__all__ = ["graph_router"]
