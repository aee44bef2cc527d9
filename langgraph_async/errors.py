"""What can go wrong, and, apart from it, the signals that steer a run.

    LangGraphError
    |- building a graph
    |  |- GraphBuildError (ValueError)      a drawing that cannot run; raised while building or by compile()
    |  '- SchemaError (ValueError)          a state schema, reducer or channel declaration that cannot work
    |- starting a run
    |  |- ConfigError (ValueError)          a run config or argument that cannot be used
    |  |  '- MissingCoordinateError (KeyError)  it names no thread, or no checkpoint where one is needed
    |  |- EmptyInputError                   no input, and nothing to go on with
    |  |- ResumeError (RuntimeError)        a resume that cannot be delivered
    |  |  '- UnknownInterruptError          it names an interrupt that is not pending
    |  |- MissingNodeError                  the thread waits in a node that the graph no longer has
    |  '- NonDeterministicReplayError       what runs again makes other calls than those that are stored
    |- running
    |  |- InvalidUpdateError                a write that the state cannot take
    |  |  '- ReducerError                   a reducer raised
    |  |- RouteError (ValueError)           a router's result leads nowhere
    |  |  '- UnmappedRouteError (KeyError)  its `path_map` lacks the result
    |  |- EmptyChannelError                 a channel was read before it had a value
    |  |- GraphRecursionError (RecursionError)
    |  |- UnreachedJoinError                the run ended while a join still waited
    |  |- StreamOverflowError               a node wrote more than a slow reader can be owed
    |  |- RunFailedError (RuntimeError)     a run that is read from its log did not end well
    |  |- TaskNotFound
    |  |- NodeCancelledError                a node raised CancelledError by itself
    |  |- NodeTimeoutError                  a node ran longer than its policy allows
    |  '- StepTimeoutError (TimeoutError)    a superstep took longer than the graph's `step_timeout`
    '- persisting
       |- ThreadConflictError               another run changed the thread first
       |- SerializationError (TypeError)    a value that cannot be stored, or stored bytes that cannot be read
       |  '- EncryptionError                a stored row that the keys do not open where it stands
       |- EventLogError (RuntimeError)      a log of events cannot give what was asked of it
       '- StorageError (RuntimeError)       the database refused, or cannot be used now

    GraphBubbleUp (BaseException: `except Exception` in a node cannot swallow it)
    |- GraphInterrupt                       a pause; the root graph turns it into a result
    |  '- NodeInterrupt                     deprecated spelling
    |- ParentCommand                        a command for an enclosing graph
    '- GraphDrained                         the run was asked to stop between two supersteps

Every error has a stable `code`. Errors raised by user code pass through unchanged.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langgraph_async.types import Command, Interrupt
from langgraph_async.warnings import LangGraphDeprecatedSinceV10


class ErrorCode(str, enum.Enum):
    """Stable codes of the errors that users look up."""

    GRAPH_RECURSION_LIMIT = "GRAPH_RECURSION_LIMIT"
    INVALID_CONCURRENT_GRAPH_UPDATE = "INVALID_CONCURRENT_GRAPH_UPDATE"
    INVALID_GRAPH_NODE_RETURN_VALUE = "INVALID_GRAPH_NODE_RETURN_VALUE"
    MULTIPLE_SUBGRAPHS = "MULTIPLE_SUBGRAPHS"
    INVALID_CHAT_HISTORY = "INVALID_CHAT_HISTORY"
    ENCRYPTION = "ENCRYPTION"
    NON_DETERMINISTIC_REPLAY = "NON_DETERMINISTIC_REPLAY"


def create_error_message(*, message: str, error_code: ErrorCode | str) -> str:
    """Return `message` followed by the code under which the fault is documented."""
    code = error_code.value if isinstance(error_code, ErrorCode) else error_code
    return f"{message}\nError code: {code} (docs/errors/{code}.md)"


class LangGraphError(Exception):
    """Root of all errors that this library raises by itself.

    Attributes:
        code: Stable identifier of the kind of fault.
    """

    code: str = "LANGGRAPH_ERROR"


# -- building a graph ---------------------------------------------------------------------------------------


class GraphBuildError(LangGraphError, ValueError):
    """The drawing cannot run: an unknown or duplicate name, a missing entry point, a bad option."""

    code = "GRAPH_BUILD"


class SchemaError(LangGraphError, ValueError):
    """A state schema, reducer or channel declaration cannot work."""

    code = "SCHEMA"


# -- starting a run -----------------------------------------------------------------------------------------


class ConfigError(LangGraphError, ValueError):
    """A run config or an argument of a run cannot be used."""

    code = "CONFIG"


class MissingCoordinateError(ConfigError, KeyError):
    """A config does not say which thread or checkpoint is meant.

    Attributes:
        name: The key that is missing in ``configurable``.
    """

    code = "MISSING_COORDINATE"

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError would show the quoted repr of the message


class EmptyInputError(LangGraphError):
    """The run got no usable input and there is nothing to go on with."""

    code = "EMPTY_INPUT"


class ResumeError(LangGraphError, RuntimeError):
    """A resume cannot be delivered: no saver, or more than one question is pending."""

    code = "RESUME"


class UnknownInterruptError(ResumeError):
    """A resume names an interrupt that is not pending. Nothing was stored.

    Attributes:
        reason: ``"empty_map"``, ``"not_pending"`` or ``"ambiguous"``.
        interrupt_ids: The ids that were named, sorted.
        pending_ids: The ids that can be answered now, sorted.
    """

    code = "UNKNOWN_INTERRUPT"

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        interrupt_ids: Iterable[str] = (),
        pending_ids: Iterable[str] = (),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.interrupt_ids = tuple(interrupt_ids)
        self.pending_ids = tuple(pending_ids)


class MissingNodeError(LangGraphError):
    """The thread waits in a node that the graph no longer has. Nothing was stored.

    Attributes:
        node: The name the thread knows.
        thread_id: The thread.
    """

    code = "MISSING_NODE"

    def __init__(self, message: str, *, node: str, thread_id: str | None = None) -> None:
        super().__init__(message)
        self.node = node
        self.thread_id = thread_id


class NonDeterministicReplayError(LangGraphError):
    """A workflow or node that runs again does not make the calls whose results are stored. Nothing of it was stored.

    Attributes:
        workflow: The entrypoint, task or node that made the calls.
        position: Place among its calls, from 0.
        stored: Name of the task that is stored there.
        called: Name of the task that was called there now, or None when it ended without a call there.
        thread_id: The thread.
    """

    code = "NON_DETERMINISTIC_REPLAY"

    def __init__(
        self,
        message: str,
        *,
        workflow: str,
        position: int,
        stored: str,
        called: str | None,
        thread_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.workflow = workflow
        self.position = position
        self.stored = stored
        self.called = called
        self.thread_id = thread_id


# -- running ------------------------------------------------------------------------------------------------


class EmptyChannelError(LangGraphError):
    """A channel was read that has no value (yet)."""

    code = "EMPTY_CHANNEL"


class InvalidUpdateError(LangGraphError):
    """A write cannot be taken by the state.

    Attributes:
        key: The state key, when the writes of a whole superstep could not be taken together; else ``""``.
        nodes: The nodes that wrote it, in the order of their writes.
    """

    code = "INVALID_UPDATE"
    key: str = ""
    nodes: tuple[str, ...] = ()


class ReducerError(InvalidUpdateError):
    """A reducer raised; its exception is the `__cause__`. The step was not applied.

    Attributes:
        key: The state key whose reducer raised.
        nodes: The nodes that wrote the key in that step, in the order of their writes.
    """

    code = "REDUCER"

    def __init__(self, message: str, *, key: str = "", nodes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.key = key
        self.nodes = tuple(nodes)


class RouteError(LangGraphError, ValueError):
    """The result of a conditional edge's function leads nowhere."""

    code = "ROUTE"


class UnmappedRouteError(RouteError, KeyError):
    """The result of a conditional edge's function is not a key of its `path_map`."""

    code = "UNMAPPED_ROUTE"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class GraphRecursionError(LangGraphError, RecursionError):
    """The run used up its `recursion_limit` supersteps and was not finished.

    Attributes:
        limit: Supersteps the run was allowed.
        step: Number of the superstep that was not started.
        nodes: Nodes that would have run in it.
        path: The nodes of the last supersteps of the run, at most ten, oldest first; each node once per superstep.
    """

    code = ErrorCode.GRAPH_RECURSION_LIMIT.value

    def __init__(
        self,
        message: str = "",
        *,
        limit: int | None = None,
        step: int | None = None,
        nodes: Sequence[str] = (),
        path: Sequence[tuple[str, ...]] = (),
    ) -> None:
        super().__init__(message)
        self.limit = limit
        self.step = step
        self.nodes = tuple(nodes)
        self.path = tuple(path)


class UnreachedJoinError(LangGraphError):
    """The run ended while a join still waited for some of its sources.

    Attributes:
        join: The node behind the join.
        missing: The sources that never ran, in the order of the edge.
    """

    code = "UNREACHED_JOIN"

    def __init__(self, message: str, *, join: str = "", missing: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.join = join
        self.missing = tuple(missing)


class StreamOverflowError(LangGraphError):
    """A node wrote more custom chunks, without draining, than a slow reader can be owed."""

    code = "STREAM_OVERFLOW"


class RunFailedError(LangGraphError, RuntimeError):
    """A run that is read from its event log failed, or was cancelled. Whoever started it has its own exception.

    Attributes:
        run_id: The run.
        status: ``"failed"`` or ``"cancelled"``.
        error_type: Name of the exception's class, or None.
        error_code: Its `code`, or None when it has none.
    """

    code = "RUN_FAILED"

    def __init__(
        self, message: str, *, run_id: str, status: str, error_type: str | None = None, error_code: str | None = None
    ) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.status = status
        self.error_type = error_type
        self.error_code = error_code


class TaskNotFound(LangGraphError):
    """A distributed executor was asked for a task that does not exist."""

    code = "TASK_NOT_FOUND"


class NodeCancelledError(LangGraphError):
    """A node raised `asyncio.CancelledError` although nobody cancelled it.

    Attributes:
        node: The node.
    """

    code = "NODE_CANCELLED"

    def __init__(self, node: str, message: str | None = None) -> None:
        super().__init__(message or f"Node '{node}' raised asyncio.CancelledError")
        self.node = node


class NodeTimeoutError(LangGraphError):
    """A node ran longer than its `TimeoutPolicy` allows.

    Attributes:
        node: The node.
        elapsed: Seconds since the attempt started.
        kind: ``"run"`` or ``"idle"``: which limit was hit.
        timeout: The limit that was hit, in seconds.
        idle_timeout: The configured idle limit in seconds, or None.
        run_timeout: The configured run limit in seconds, or None.
    """

    code = "NODE_TIMEOUT"

    def __init__(
        self,
        node: str,
        elapsed: float,
        *,
        kind: Literal["run", "idle"],
        idle_timeout: float | None = None,
        run_timeout: float | None = None,
    ) -> None:
        if kind not in ("run", "idle"):
            raise ValueError(f"kind must be 'run' or 'idle', got {kind!r}")
        limit = run_timeout if kind == "run" else idle_timeout
        if limit is None:
            raise ValueError(f"{kind}_timeout is required when kind is {kind!r}")
        super().__init__(f"Node '{node}' exceeded its {kind} timeout of {limit:.3f}s (elapsed: {elapsed:.3f}s)")
        self.node = node
        self.elapsed = elapsed
        self.kind = kind
        self.timeout = limit
        self.idle_timeout = idle_timeout
        self.run_timeout = run_timeout


class StepTimeoutError(LangGraphError, TimeoutError):
    """A superstep took longer than the graph's `step_timeout` allows.

    Attributes:
        graph: The graph.
        step: Number of the superstep.
        nodes: The nodes that had not ended, each once, in the order in which they started.
        timeout: The limit, in seconds.
    """

    code = "STEP_TIMEOUT"

    def __init__(self, graph: str, step: int, nodes: Sequence[str], timeout: float) -> None:
        named = tuple(dict.fromkeys(nodes))
        super().__init__(
            f"Step {step} of graph {graph!r} exceeded its step_timeout of {timeout:g}s while these nodes were running: "
            f"{', '.join(map(repr, named))}. They were cancelled. With a saver, ainvoke(None, config) runs them again "
            "and keeps the results of those that had ended. Raise step_timeout, or bound the nodes with timeout=."
        )
        self.graph = graph
        self.step = step
        self.nodes = named
        self.timeout = timeout


@dataclass(frozen=True, slots=True)
class NodeError:
    """What an error handler is given: which node failed, and with what."""

    node: str
    error: BaseException


# -- persisting ---------------------------------------------------------------------------------------------


class ThreadConflictError(LangGraphError):
    """Another run changed, or is changing, the thread. Nothing of the losing run's step was stored.

    Attributes:
        thread_id: The thread.
        expected: Checkpoint id that this run took for the newest, or None for an empty thread.
        found: Checkpoint id that is the newest, when known.
    """

    code = "THREAD_CONFLICT"

    def __init__(
        self, message: str, *, thread_id: str | None = None, expected: str | None = None, found: str | None = None
    ) -> None:
        super().__init__(message)
        self.thread_id = thread_id
        self.expected = expected
        self.found = found


class SerializationError(LangGraphError, TypeError):
    """A value cannot be stored, or stored bytes cannot be read.

    Attributes:
        path: Where in the value: keys and indexes from the outside in.
    """

    code = "SERIALIZATION"

    def __init__(self, message: str, *, path: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.path = tuple(path)


class EncryptionError(SerializationError):
    """A stored row is not one that the encrypted serializer wrote there, with a key that it has.

    Attributes:
        reason: ``"plaintext"`` (the row is not encrypted), ``"unbound"`` (it is encrypted, but not for a certain place,
            as LangGraph does it), ``"unknown_key"`` (by a key that is not among those given), ``"malformed"`` (it is
            cut off, or has another form) or ``"changed"`` (it was changed, was moved there from another place, or was
            written with another key).
        where: The row: kind, thread, namespace, channel and, where it has them, checkpoint, task, position, version.
    """

    code = "ENCRYPTION"

    def __init__(
        self, message: str, *, reason: str, path: Sequence[str] = (), where: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, path=path)
        self.reason = reason
        self.where = dict(where or {})


class EventLogError(LangGraphError, RuntimeError):
    """A log of events cannot give, or take, what was asked of it.

    Attributes:
        run_id: The run.
        reason: ``"unknown"`` (there is no such run), ``"exists"`` (a run with this id is in the log already),
            ``"dropped"`` (events after the named one are no longer kept), ``"ahead"`` (the named event was never
            stored) or ``"lost"`` (the process that ran it ended without a word).
    """

    code = "EVENT_LOG"

    def __init__(self, message: str, *, run_id: str, reason: str) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.reason = reason


class StorageError(LangGraphError, RuntimeError):
    """The database could not do what it was asked for. Nothing of that call was stored.

    Attributes:
        reason: ``"busy"`` (others hold its lock: try again), ``"full"``, ``"read_only"``, ``"closed"``,
            ``"wrong_loop"`` (used from another event loop), ``"in_use"`` (the connection has an open transaction
            that is not ours), ``"incomplete"`` (what a value is rebuilt from was deleted) or ``"failed"``; the
            database's own error, if any, is the `__cause__`.
    """

    code = "STORAGE"

    def __init__(self, message: str, *, reason: str = "failed") -> None:
        super().__init__(message)
        self.reason = reason


def is_invalid_resume(exc: BaseException) -> bool:
    """Tell whether `exc` says that an answer did not fit the schema its question asked for."""
    if isinstance(exc, BaseExceptionGroup):
        return any(is_invalid_resume(inner) for inner in exc.exceptions)
    return bool(getattr(exc, "__langgraph_invalid_resume__", False))


def leaves_thread(exc: BaseException) -> bool:
    """Tell whether `exc` says that the code does not fit what the thread holds, which then stays as it is."""
    return isinstance(exc, (MissingNodeError, NonDeterministicReplayError))


def siblings(exc: BaseException) -> tuple[BaseException, ...]:
    """Return the failures of other tasks of the same superstep that `exc` was raised for.

    The first failure of a superstep is the one that is raised; later ones, for example from a sibling's
    clean-up while it was being cancelled, are attached to it, in the order in which they happened.
    """
    found: tuple[BaseException, ...] = getattr(exc, "__langgraph_siblings__", ())
    return found


# -- control-flow signals: not errors ----------------------------------------------------------------------


class GraphBubbleUp(BaseException):
    """Base of the signals that steer a run.

    They derive from `BaseException` so that ``except Exception`` in user code cannot swallow them.
    """


class GraphInterrupt(GraphBubbleUp):
    """A pause. ``args[0]`` is the sequence of `Interrupt`; empty for a static breakpoint."""

    def __init__(self, interrupts: Sequence[Interrupt] = ()) -> None:
        super().__init__(tuple(interrupts))

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The questions asked."""
        found: tuple[Interrupt, ...] = self.args[0]
        return found


class NodeInterrupt(GraphInterrupt):
    """Deprecated: raise a pause by hand. Call `interrupt()` instead."""

    def __init__(self, value: Any, id: str | None = None) -> None:
        warnings.warn(
            "NodeInterrupt is deprecated and will be removed. Please use `langgraph_async.types.interrupt` instead.",
            LangGraphDeprecatedSinceV10,
            stacklevel=2,
        )
        super().__init__([Interrupt(value=value) if id is None else Interrupt(value=value, id=id)])


class ParentCommand(GraphBubbleUp):
    """A command for an enclosing graph. ``args[0]`` is the `Command`."""

    left_graph: bool = False
    """Whether the signal has left the graph in which it was raised, and so reached the parent."""

    def __init__(self, command: Command[Any]) -> None:
        super().__init__(command)

    @property
    def command(self) -> Command[Any]:
        """The command to apply in the enclosing graph."""
        found: Command[Any] = self.args[0]
        return found


class GraphDrained(GraphBubbleUp):
    """The run was asked to stop, and stopped between two supersteps with work left.

    Attributes:
        reason: What the request gave as its reason.
    """

    def __init__(self, reason: str = "shutdown") -> None:
        super().__init__(f"Graph drained: {reason}")
        self.reason = reason
