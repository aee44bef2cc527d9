"""What a running task offers to the code inside it: answers, config, runtime, calls, and a place for nested graphs.

One `TaskScope` stands behind the ambient context variable while one attempt of one task runs.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from langgraph_async import ambient
from langgraph_async.aio.threads import wait_settled
from langgraph_async.aio.throttle import Permit
from langgraph_async.config import RunnableConfig, merge_configs
from langgraph_async.constants import CONF, END, MISSING, RESUME
from langgraph_async.errors import GraphInterrupt, InvalidUpdateError, NodeError
from langgraph_async.pregel.answer import check_answer, schema_of
from langgraph_async.pregel.calling import CallStarter, Cancellable, calling_place
from langgraph_async.pregel.life import LivingWriter, SignsOfLife
from langgraph_async.pregel.model import RunScope, StepState
from langgraph_async.pregel.namespace import memory_namespace
from langgraph_async.pregel.question_ids import question_id
from langgraph_async.pregel.task import HOLE, CallTask, RescueTask, Task
from langgraph_async.runtime import NO_WRITER, ExecutionInfo, Runtime
from langgraph_async.types import Interrupt

if TYPE_CHECKING:
    from langgraph_async.stream.writer import ChunkWriter

_LOCK = threading.Lock()


class TaskScope:
    """One attempt of one task, as seen from inside it.

    Attributes:
        run: The run it belongs to.
        task: The task.
        state: The state it started from; read only.
        caller: For a called function: the scope of the task that called it.
        calls_made: How many functions it has called.
        running: Its calls that have not ended.
        refusing: It was cancelled in a worker thread, where only a call can tell it so.
        starter: Runs its calls.
        paused: It has asked, or a graph inside it has stopped at a breakpoint: whatever its code makes of the
            signal, the task is paused.
        pauses: Questions it has asked in this attempt that have no answer, in the order of the calls.
        used: How many answers this attempt has used or skipped.
        closed: The attempt is over; whatever still calls in is refused.
        graph_calls: How many graphs it has called.
        hosts: The asyncio tasks that host the runs of graphs inside it.
        permit: What a node with a limit runs by, as long as it does.
        holds_slot: It counts against the run's `max_concurrency` right now.
        body: The node's own writes, once its action has returned.
        interrupted: A cancellation of the run that its code did not feel, as it had ended already.
        invalid: Questions whose answers did not fit their schema, by the order of the calls.
        stepwise: Takes the writes of one yield of a generator, to be shown at once.
        signs: When it last gave a sign of life; None without an idle limit.
        attempt: Which attempt of the task it is, from 1.
        home: The asyncio task or thread that its code runs in, on replays; see `calling_place`.
        elders: The asyncio tasks that were there before it, on replays under Python 3.11; or None.
        returned: What its action has returned, for callback handlers; None before.
        began: By the clock's monotonic time, when the first attempt began; set for a node with retries, and when it is
            first needed.
        pushed: Writes that its code made before it returned, in their order.
        open_streams: What its code reads from and has not closed.
    """

    __slots__ = (
        "_asked",
        "_config",
        "_idle",
        "_runtime",
        "_writer",
        "attempt",
        "began",
        "body",
        "caller",
        "calls_made",
        "closed",
        "elders",
        "graph_calls",
        "holds_slot",
        "home",
        "hosts",
        "interrupted",
        "invalid",
        "open_streams",
        "paused",
        "pauses",
        "permit",
        "pushed",
        "refusing",
        "returned",
        "run",
        "running",
        "signs",
        "starter",
        "state",
        "stepwise",
        "task",
        "used",
    )

    def __init__(
        self,
        run: RunScope,
        task: Task,
        state: StepState,
        starter: CallStarter | None = None,
        caller: TaskScope | None = None,
    ) -> None:
        self.run = run
        self.task = task
        self.state = state
        self.caller = caller
        self.calls_made = 0
        self.running: set[Cancellable] | tuple[()] = ()
        self.refusing = False
        self.pauses: list[Interrupt] = []
        self.paused = False
        self.used = 0
        self.closed = False
        self.graph_calls = 0
        self.holds_slot = False
        self.permit: Permit | None = None
        self.hosts: list[asyncio.Task[Any]] = []
        self.invalid: dict[int, Interrupt] = {}
        self.body: list[tuple[str, Any]] | None = None
        self.stepwise: Callable[[list[tuple[str, Any]]], None] | None = None
        self.signs: SignsOfLife | None = None
        self.interrupted: asyncio.CancelledError | None = None
        self.attempt = 1
        self.began: float | None = None
        self.returned: Any = None
        self.home: object = None
        self.elders: weakref.WeakSet[asyncio.Task[Any]] | None = None
        self.pushed: tuple[tuple[str, Any], ...] = ()
        self.open_streams: tuple[Any, ...] = ()
        self._asked = 0
        self.starter = starter
        self._idle: asyncio.Future[None] | None = None
        self._config: RunnableConfig | None = None
        self._runtime: Runtime[Any] | None = None
        self._writer: ChunkWriter | None = None

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that runs the task."""
        return self.run.event_loop

    # -- questions --------------------------------------------------------------------------------------------

    def interrupt(self, value: Any, response_schema: Any = None) -> Any:
        """Return the next answer, or note the question and raise `GraphInterrupt`."""
        if self.closed:
            raise RuntimeError(
                f"interrupt() was called by code that outlived node {self.task.name!r}: the node had already "
                "returned, so nobody would see the question. Await everything the node starts before it returns."
            )
        with _LOCK:
            slot = self._asked
            self._asked += 1
        answer = self._answer(slot, value)
        schema, adapter = schema_of(response_schema)
        if answer is not MISSING:
            try:
                return check_answer(adapter, answer)
            except ValueError:
                self.invalid[slot] = Interrupt(value, question_id(self, slot, value), response_schema=schema)
                raise
        question = Interrupt(value, question_id(self, slot, value), response_schema=schema)
        self.pauses.append(question)
        self.paused = True
        raise GraphInterrupt([question])

    def _answer(self, slot: int, value: Any) -> Any:
        answers = self.task.answers
        if slot < len(answers) and answers[slot] is not HOLE:
            self.used = max(self.used, slot + 1)
            return answers[slot]
        answer = self.run.answers.take(question_id(self, slot, value))
        if answer is MISSING:
            return MISSING
        while len(answers) <= slot:
            answers.append(HOLE)
        answers[slot] = answer
        self.used = max(self.used, slot + 1)
        return answer

    def reopen_invalid(self) -> None:
        """Forget the answers that did not fit, so that their questions can be answered again.

        Not done when the node itself handled the misfit: then it must find the same answer when it runs again.
        """
        for slot, question in self.invalid.items():
            self.task.answers[slot] = HOLE
            self.run.answers.taken.discard(question.id)

    @property
    def rows(self) -> list[tuple[str, Any]]:
        """The answers used so far, as they are stored with whatever the attempt comes to."""
        answers = self.task.answers
        if not answers:
            return []
        stored = [Interrupt(None) if a is HOLE else a for a in answers]
        return [(RESUME, stored)]

    @property
    def around(self) -> TaskScope | None:
        """The scope of the task that this one runs in: its caller, or the task that called its graph."""
        return self.caller if self.caller is not None else self.run.parent

    @property
    def depth(self) -> int:
        """How many tasks this one runs in."""
        scope, depth = self.around, 0
        while scope is not None:
            scope, depth = scope.around, depth + 1
        return depth

    # -- messages and tools -----------------------------------------------------------------------------------

    def emit_message(self, message: Any, metadata: dict[str, Any]) -> None:
        """Tell those who listen for ``messages`` a token chunk or a whole message, with its metadata as it stands.

        Callable from any thread. A message of that id is not told again when the node returns it. Hidden nodes, and
        those tagged ``"nostream"``, tell nothing. Once the task is done it is refused with a RuntimeWarning.

        Raises:
            StreamOverflowError: More chunks wait than a slow reader can be owed.
        """
        self.run.sinks.tell(self, "messages", (message, metadata))

    def emit_tool_event(self, event: dict[str, Any]) -> None:
        """Tell those who listen for ``tools`` what happens in a tool's call, as `emit_message` does."""
        self.run.sinks.tell(self, "tools", event)

    def outlet(self, mode: Literal["messages", "tools"], tags: Sequence[str] = ()) -> Any:
        """Return the `Outlet` of this attempt for a stream mode; None when nobody listens."""
        return self.run.sinks.outlet(self, mode, tags)

    def push_write(self, key: str, value: Any) -> None:
        """Write to a state key besides what the node will return; a workflow that has no state passes it over.

        Raises:
            InvalidUpdateError: The graph has no such key.
            RuntimeError: The task is done.
        """
        spec = self.run.spec
        if self.closed:
            raise RuntimeError(f"Node {self.task.name!r} is done: nothing can be written to {key!r} in its name.")
        if key in spec.channels:
            self.push([(key, value)])
        elif END not in spec.channels:
            raise InvalidUpdateError(
                f"Node {self.task.name!r} of graph {spec.name!r} pushed to {key!r}, which no schema of the graph "
                "declares. Name the key with state_key=, or pass state_key=None to write to none."
            )

    def push(self, writes: Sequence[tuple[str, Any]]) -> None:
        """Add to the writes that are made besides what the node will return."""
        with _LOCK:
            self.pushed = (*self.pushed, *writes)

    def take_pushed(self) -> Sequence[tuple[str, Any]]:
        """Return what was pushed since the last call."""
        with _LOCK:
            pushed, self.pushed = self.pushed, ()
        return pushed

    def keep_open(self, stream: Any) -> None:
        """Note that the attempt's code reads from something that has to be closed with it."""
        with _LOCK:
            self.open_streams = (*self.open_streams, stream)

    def let_go(self, stream: Any) -> None:
        """Note that it is closed."""
        with _LOCK:
            self.open_streams = tuple(other for other in self.open_streams if other is not stream)

    async def close_streams(self) -> None:
        """Close what the attempt's code has opened to read from and left open."""
        for stream in self.open_streams:
            await stream.aclose()

    # -- config and runtime -----------------------------------------------------------------------------------

    @property
    def config(self) -> RunnableConfig:
        """The task's config: the run's, with the task's coordinates and the node's tags and metadata."""
        if self._config is None:
            task, run = self.task, self.run
            given = run.config.given if self.caller is None else self.caller.config
            base: dict[str, Any] = {k: v for k, v in given.items() if k not in ("run_name", "run_id")}
            metadata = {
                "langgraph_step": task.step,
                "langgraph_node": task.name,
                "langgraph_triggers": task.triggers,
                "langgraph_path": task.path,
                "langgraph_checkpoint_ns": task.ns,
                **task.node.metadata,
            }
            configurable = {
                "checkpoint_ns": task.ns,
                "checkpoint_id": None,
                "checkpoint_map": self.checkpoint_map,
            }
            merged = merge_configs(base, {"tags": list(task.node.tags), "metadata": metadata})
            merged[CONF] = {**(merged.get(CONF) or {}), **configurable}
            merged.setdefault("tags", [])
            if run.tracing is not None and self.caller is None:
                merged["callbacks"] = run.tracing.inherited
            merged.setdefault("callbacks", None)
            self._config = merged
        return self._config

    @property
    def runtime(self) -> Runtime[Any]:
        """The run's runtime, with the task's writer and execution info."""
        if self._runtime is None:
            run, task = self.run, self.task
            run_id = run.config.given.get("run_id")
            self._runtime = run.runtime.override(
                stream_writer=self.writer,
                heartbeat=self.heartbeat,
                execution_info=ExecutionInfo(
                    checkpoint_id=task.checkpoint_id,
                    checkpoint_ns=task.ns,
                    task_id=task.id,
                    thread_id=run.config.thread_id,
                    run_id=None if run_id is None else str(run_id),
                    node_attempt=self.attempt,
                    node_first_attempt_time=self._first_began(),
                ),
            )
        return self._runtime

    @property
    def node_error(self) -> NodeError | None:
        """For an error handler: which node failed, and with what."""
        return self.task.cause if isinstance(self.task, RescueTask) else None

    def note_beginning(self) -> None:
        """Note that the first attempt has begun, unless that is known."""
        if self.began is None:
            self.began = self.run.clock.monotonic()

    def _first_began(self) -> float:
        """Return the Unix time in seconds at which the first attempt began."""
        clock = self.run.clock
        self.note_beginning()
        assert self.began is not None
        return clock.now().timestamp() - (clock.monotonic() - self.began)

    @property
    def writer(self) -> Any:
        """The writer for custom chunks; one that drops them when nobody listens."""
        return LivingWriter(self, self._chunks) if self.is_watched() else self._chunks

    @property
    def _chunks(self) -> Any:
        if self._writer is None:
            sinks = self.run.sinks
            if not (sinks.custom or sinks.messages or sinks.tools):
                return NO_WRITER
            self._writer = sinks.chunk_writer(self)
            if self.closed:
                self._writer.close()
        return self._writer

    # -- signs of life ------------------------------------------------------------------------------------------

    def heartbeat(self) -> None:
        """Tell the idle limits of this attempt, and of those around it, that it is alive."""
        self._note_sign(only_auto=False)

    def sign(self) -> None:
        """Tell those idle limits that take anything for a sign of life that something has happened."""
        self._note_sign(only_auto=True)

    def _note_sign(self, *, only_auto: bool) -> None:
        scope: TaskScope | None = self
        while scope is not None:
            signs = scope.signs
            if signs is not None and (signs.auto or not only_auto):
                signs.note()
            scope = scope.around

    def is_watched(self) -> bool:
        """Tell whether an idle limit, of this attempt or of one around it, waits for signs of life."""
        scope: TaskScope | None = self
        while scope is not None:
            if scope.signs is not None:
                return True
            scope = scope.around
        return False

    @property
    def checkpoint_map(self) -> dict[str, str]:
        """Namespace of each graph and each calling task around what runs inside, to its checkpoint id."""
        if self.caller is None:
            return {**self.run.checkpoint_map, self.run.ns: self.task.checkpoint_id}
        return {**self.caller.checkpoint_map, self.caller.task.ns: self.task.checkpoint_id}

    def settle_in(self) -> None:
        """Note where the task's code runs, when calls of it may have to be compared with stored ones."""
        self.home = calling_place()
        if not hasattr(asyncio.Task, "get_context") and isinstance(self.home, asyncio.Task):
            self.elders = weakref.WeakSet(asyncio.all_tasks())

    def has_strays(self) -> bool:
        """Tell whether an asyncio task that the task's code has started runs; under Python 3.11, whether one may."""
        if not isinstance(self.home, asyncio.Task):
            return False
        others = asyncio.all_tasks() - {self.home}
        if self.elders is not None:
            return bool(others.difference(self.elders))
        return any(other.get_context().get(ambient.current) is self for other in others)  # type: ignore[attr-defined]

    # -- calls --------------------------------------------------------------------------------------------------

    def call(self, name: str, node: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Start a functional task as a child of this one, and return the future of its result.

        Raises:
            RuntimeError: The attempt is over.
            asyncio.CancelledError: The attempt was cancelled, and runs in a worker thread.
        """
        if self.refusing:
            raise asyncio.CancelledError(f"{self.task.name!r} was cancelled; it cannot call {name!r} any more.")
        if self.closed or self.starter is None:
            raise RuntimeError(
                f"Task {name!r} was called by code that outlived {self.task.name!r}, which started it. Await everything"
                " a node or task starts before it returns."
            )
        self.sign()
        with _LOCK:
            index = self.calls_made
            self.calls_made += 1
        return self.starter.start_call(self, CallTask(name, node, (args, kwargs), self.task, index))

    def enter_call(self, call: Cancellable) -> None:
        """Note that a call is running, and give the slot to others while any is."""
        if not self.running:
            self.running = set()
        assert isinstance(self.running, set)
        self.running.add(call)
        self._step_out()

    def is_last(self, call: Cancellable) -> bool:
        """Tell whether the task goes on when this call has ended."""
        return len(self.running) == 1 and call in self.running and not self.hosts and not self.closed

    def leave_call(self, call: Cancellable, child: TaskScope) -> None:
        """Note that a call has ended; if it was the last, this task takes its slot over."""
        assert isinstance(self.running, set)
        self.running.discard(call)
        self.sign()
        limiter = self.run.limiter
        if limiter is not None:
            if not self.waits and not self.holds_slot and not self.closed:
                # A call that was cancelled before it had a slot has none to hand over; there may be one free.
                self.holds_slot = child.holds_slot or limiter.try_acquire()
            elif child.holds_slot:
                limiter.release()
            child.holds_slot = False
        if not self.running and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def cancel_calls(self) -> None:
        """Cancel the calls that have not ended."""
        for call in tuple(self.running):
            call.cancel()

    def refuse_calls(self) -> None:
        """Cancel the calls that have not ended, and refuse more: the only way to stop a function in a thread."""
        self.refusing = True
        self.cancel_calls()

    async def finish_calls(self, error: BaseException | None) -> asyncio.CancelledError | None:
        """Wait until all calls have ended; cancel them first if the task has failed.

        Returns:
            The last cancellation that arrived meanwhile, for which the calls were cancelled; or None.
        """
        if error is not None and not (self.paused or isinstance(error, GraphInterrupt)):
            self.cancel_calls()
        interrupted: asyncio.CancelledError | None = None
        while self.running:
            self._idle = asyncio.get_running_loop().create_future()
            interrupted = await wait_settled(self._idle, self.cancel_calls) or interrupted
        return interrupted

    @property
    def waits(self) -> bool:
        """Whether a graph or function that it called has not ended."""
        return bool(self.running or self.hosts)

    def _step_out(self) -> None:
        if self.holds_slot and self.run.limiter is not None:
            self.holds_slot = False
            self.run.limiter.release()

    # -- for graphs called inside -----------------------------------------------------------------------------

    @property
    def memory_path(self) -> str:
        """Where a graph that is called here keeps memory of its own."""
        above = self.run.parent
        return memory_namespace(above.memory_path if above is not None else "", self.task.known_as, self.task.instance)

    def enter_graph(self) -> int:
        """Count a graph that is called inside the task; return which call it is."""
        count = self.graph_calls
        self.graph_calls += 1
        return count

    def host_graph(self) -> None:
        """Note that the current asyncio task runs a graph for this task, and give the task's slot to others."""
        host = asyncio.current_task()
        assert host is not None
        self.hosts.append(host)
        self._step_out()

    def hosts_last(self) -> bool:
        """Tell whether the task goes on when the graph in the current asyncio task has ended."""
        return len(self.hosts) == 1 and not self.running and not self.closed

    async def leave_graph(self, *, wait: bool) -> None:
        """Note that a graph inside has ended; with `wait`, take the slot back before the node goes on."""
        host = asyncio.current_task()
        assert host is not None
        self.hosts.remove(host)
        if self.run.limiter is not None and not self.waits and not self.holds_slot and wait and not self.closed:
            await self.run.limiter.acquire()
            self.holds_slot = True

    async def end_graphs(self) -> asyncio.CancelledError | None:
        """Cancel the graphs that the node left running, and wait for them.

        They would go on storing on a thread that the run is about to give back.

        Returns:
            The last cancellation that arrived meanwhile, or None.
        """
        self.closed = True
        interrupted: asyncio.CancelledError | None = None
        me = asyncio.current_task()
        for host in set(self.hosts):
            if host is not me:
                host.cancel()
                interrupted = await wait_settled(host) or interrupted
        return interrupted

    def give_permit_back(self) -> None:
        """Let the next attempt of whatever shares the limit start."""
        if self.permit is not None:
            self.permit.release()
            self.permit = None

    def close(self) -> None:
        """End the attempt: code that outlives it can neither ask nor write."""
        self.closed = True
        self.stepwise = None
        if self._writer is not None:
            self._writer.close()

    def pause(self, questions: tuple[Interrupt, ...]) -> None:
        """Note that a graph or function called inside has paused, so that the task pauses whatever its code does."""
        if self.closed:
            warnings.warn(
                f"A graph or task called inside node {self.task.name!r} paused after the node had ended; nobody can "
                "answer it.",
                RuntimeWarning,
                stacklevel=2,
            )
        self.paused = True
        known = {p.id for p in self.pauses}
        self.pauses.extend(q for q in questions if q.id not in known)
