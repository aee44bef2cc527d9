"""The words users write with: `Send`, `Command`, `interrupt`, policies, and what state reads return."""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, NotRequired, TypeAlias, final

from typing_extensions import TypeAliasType, TypedDict, TypeVar

from langgraph_async import ambient
from langgraph_async.aio.throttle import Limiter as Limiter
from langgraph_async.constants import MISSING, PARENT, PLACEHOLDER_ID, Missing
from langgraph_async.ids import interrupt_id
from langgraph_async.typing import OutputT, StateT
from langgraph_async.warnings import LangGraphDeprecatedSinceV10, LangGraphDeprecatedSinceV11

if TYPE_CHECKING:
    from langgraph_async.checkpoint.base import BaseCheckpointSaver

    Checkpointer: TypeAlias = bool | BaseCheckpointSaver[Any] | None
    """A saver; None for the enclosing graph's; True for memory of one's own under it; False for none."""
else:
    Checkpointer = Any  # savers are a floor above this one

N = TypeVar("N", bound=Hashable, default=str)
T = TypeVar("T", default=Any)

All: TypeAlias = Literal["*"]
StreamMode: TypeAlias = Literal["values", "updates", "custom", "messages", "checkpoints", "tasks", "debug", "tools"]
StreamWriter: TypeAlias = Callable[[Any], None]
Durability: TypeAlias = Literal["sync", "async", "exit"]
MultitaskStrategy: TypeAlias = Literal["reject", "enqueue", "interrupt", "rollback"]


# -- policies -----------------------------------------------------------------------------------------------


_CLIENT_ERRORS: Final = {"httpx": "HTTPStatusError", "requests": "HTTPError"}
"""Classes, by package, of the errors of HTTP clients that hold a server's answer."""


def default_retry_on(exc: Exception) -> bool:
    """Tell whether `exc` looks like a passing fault: connection errors, 5xx answers and unknown errors are,
    programming errors, other answers and other operating-system errors are not."""
    if isinstance(exc, ConnectionError):
        return True
    if any(_CLIENT_ERRORS.get(kind.__module__.partition(".")[0]) == kind.__name__ for kind in type(exc).__mro__):
        status = getattr(getattr(exc, "response", None), "status_code", None)
        return status is None or 500 <= status < 600
    permanent = (
        ValueError,
        TypeError,
        ArithmeticError,
        ImportError,
        LookupError,
        NameError,
        SyntaxError,
        RuntimeError,
        ReferenceError,
        StopIteration,
        StopAsyncIteration,
        OSError,
    )
    return not isinstance(exc, permanent)


class RetryPolicy(NamedTuple):
    """When and how often a failed attempt of a node is repeated. Intervals are in seconds."""

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    """Attempts in all, the first one included."""
    jitter: bool = True
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] = default_retry_on


def _seconds(name: str, value: float | timedelta | None) -> float | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ValueError(f"{name} must be a number of seconds or a timedelta, got {value!r}")
    if not seconds > 0:
        raise ValueError(f"{name} must be greater than 0, got {value!r}")
    return float(seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeoutPolicy:
    """How long one attempt of an async node may take.

    Attributes:
        run_timeout: Seconds, or a timedelta, from the start of the attempt. Never refreshed.
        idle_timeout: Seconds, or a timedelta, without a sign of life.
        refresh_on: What counts as a sign of life: any write, chunk or child call (``"auto"``), or only
            ``runtime.heartbeat()`` (``"heartbeat"``).
    """

    run_timeout: float | timedelta | None = None
    idle_timeout: float | timedelta | None = None
    refresh_on: Literal["auto", "heartbeat"] = "auto"

    @classmethod
    def coerce(cls, value: float | timedelta | TimeoutPolicy | None) -> TimeoutPolicy | None:
        """Return `value` as a policy with both limits in float seconds; a bare number is the run limit.

        Raises:
            ValueError: A limit is not positive, or `refresh_on` is unknown.
        """
        if value is None:
            return None
        if not isinstance(value, TimeoutPolicy):
            return cls(run_timeout=_seconds("timeout", value))
        if value.refresh_on not in ("auto", "heartbeat"):
            raise ValueError(f"refresh_on must be 'auto' or 'heartbeat', got {value.refresh_on!r}")
        run, idle = _seconds("run_timeout", value.run_timeout), _seconds("idle_timeout", value.idle_timeout)
        if run is None and idle is None:
            return None
        if type(value.run_timeout) in (float, type(None)) and type(value.idle_timeout) in (float, type(None)):
            return value
        return cls(run_timeout=run, idle_timeout=idle, refresh_on=value.refresh_on)


def default_cache_key(*args: Any, **kwargs: Any) -> bytes:
    """Return a key for the arguments of a call: equal arguments give equal keys, whatever the order of dict keys."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.fast = True  # else the bytes tell a value that occurs twice from two equal values
    pickler.dump((_freeze(args), _freeze(kwargs)))
    return buffer.getvalue()


def _freeze(value: Any, depth: int = 10) -> Any:
    if depth <= 0 or isinstance(value, (str, bytes, int, float, bool)) or value is None:
        return value
    if isinstance(value, Mapping):
        items = [(_freeze(k, depth - 1), _freeze(v, depth - 1)) for k, v in value.items()]
        return ("mapping", tuple(sorted(items, key=lambda item: repr(item[0]))))
    if isinstance(value, (set, frozenset)):
        return ("set", tuple(sorted((_freeze(v, depth - 1) for v in value), key=repr)))
    if isinstance(value, Sequence):
        return tuple(_freeze(v, depth - 1) for v in value)
    if hasattr(value, "tobytes") and hasattr(value, "shape"):
        return ("array", str(getattr(value, "dtype", "")), tuple(value.shape), value.tobytes())
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class CachePolicy:
    """How a node's result is cached.

    Attributes:
        key_func: From the node's input, or the arguments of a task, to a key (str or bytes). Inputs with equal keys
            share a result. Without a key for an input, by an exception, the node runs uncached.
        ttl: Seconds until an entry expires, or None for never.
    """

    key_func: Callable[..., str | bytes] = default_cache_key
    ttl: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TracePolicy:
    """What a tracer records of a node's input and output. Never changes what the node gets or gives."""

    process_inputs: Callable[[Any], Any] | None = None
    process_outputs: Callable[[Any], Any] | None = None


def omit_payload(value: Any) -> dict[str, Any]:  # noqa: ARG001
    """Record nothing: a ready processor for `TracePolicy`."""
    return {}


def has_saver_methods(candidate: Any) -> bool:
    """Tell whether something can read and store checkpoints, async or blocking."""
    forms = (("aget_tuple", "aput"), ("get_tuple", "put"))
    return not isinstance(candidate, type) and any(all(hasattr(candidate, name) for name in form) for form in forms)


def ensure_valid_checkpointer(checkpointer: Checkpointer) -> Checkpointer:
    """Return the `checkpointer` argument of `compile`, checked.

    Raises:
        TypeError: It is neither a saver, a bool nor None.
    """
    if checkpointer is None or isinstance(checkpointer, bool):
        return checkpointer
    if not has_saver_methods(checkpointer):
        raise TypeError(
            f"Invalid checkpointer provided. Expected a saver (an instance with aget_tuple and aput, or get_tuple and "
            f"put), None, True or False; got {checkpointer!r}."
        )
    return checkpointer


# -- control ------------------------------------------------------------------------------------------------


@final
@dataclass(init=False, slots=True)
class Interrupt(Generic[T]):
    """A question that a paused task asks.

    Attributes:
        value: What the node passed to `interrupt()`.
        id: 32 hex digits; `Command(resume={id: answer})` answers this question.
        response_schema: JSON schema of a valid answer, or None.
    """

    value: T
    id: str
    response_schema: dict[str, Any] | None = None

    def __init__(
        self,
        value: T,
        id: str = PLACEHOLDER_ID,
        *,
        response_schema: dict[str, Any] | None = None,
        ns: Sequence[str] | None = None,
    ) -> None:
        self.value = value
        self.id = interrupt_id("|".join(ns)) if ns is not None and id == PLACEHOLDER_ID else id
        self.response_schema = response_schema

    @classmethod
    def from_ns(cls, value: T, ns: str) -> Interrupt[T]:
        """Return the first question of the task in namespace `ns`."""
        return cls(value, interrupt_id(ns))

    @property
    def interrupt_id(self) -> str:
        """Deprecated spelling of `id`."""
        warnings.warn("`interrupt_id` is deprecated. Use `id` instead.", LangGraphDeprecatedSinceV10, stacklevel=2)
        return self.id

    def __hash__(self) -> int:
        return hash(self.id)


def interrupt(value: Any, *, response_schema: Any = None) -> Any:
    """Ask `value` of whoever runs the graph, and return the answer.

    The first time, the task is paused here; after ``Command(resume=answer)`` the node runs again from its
    beginning and this call returns the answer. Questions of one node are matched with their answers by the
    order of the calls, so keep that order stable.

    Args:
        value: Anything that can be stored; it is shown to the caller in `Interrupt.value`.
        response_schema: A JSON schema (dict), only shown to the caller, or a type, which pydantic then checks
            and converts the answer with.

    Returns:
        The answer, exactly as it was given: None, empty and false values included.

    Raises:
        GraphInterrupt: There is no answer yet. It derives from BaseException; let it pass.
        RuntimeError: Called outside of a node.

    Example:
        >>> async def approve(state):
        ...     return {"approved": interrupt({"question": "Send the report?"})}
    """
    return ambient.running_task("interrupt").interrupt(value, response_schema)


@dataclass(frozen=True, slots=True)
class Send:
    """Run `node` in the next superstep with `arg` as its input, whatever the state is.

    Attributes:
        node: Name of the node.
        arg: Its input, passed on as it is.
        timeout: Overrides the node's timeout: seconds, timedelta or `TimeoutPolicy`.
    """

    node: str
    arg: Any
    _: KW_ONLY
    timeout: TimeoutPolicy | None = None

    def __init__(self, /, node: str, arg: Any, *, timeout: float | timedelta | TimeoutPolicy | None = None) -> None:
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "arg", arg)
        object.__setattr__(self, "timeout", TimeoutPolicy.coerce(timeout))

    def __hash__(self) -> int:
        return hash((self.node, repr(self.arg), self.timeout))

    def __repr__(self) -> str:
        more = f", timeout={self.timeout!r}" if self.timeout is not None else ""
        return f"Send(node={self.node!r}, arg={self.arg!r}{more})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command(Generic[N]):
    """Update the state and steer the run: returned by a node, or given as the input of a run.

    Attributes:
        graph: None for the current graph, `Command.PARENT` for the one around it.
        update: Dict, sequence of (key, value) pairs, or schema object.
        resume: As input of a run: the answer to a pending question, delivered as it is (None too), or a dict
            from interrupt ids to answers.
        goto: Node name, `Send`, or a sequence of them, to run next.
    """

    graph: str | None = None
    update: Any = None
    resume: Any = MISSING
    goto: Send | Sequence[Send | N] | N = ()

    PARENT: ClassVar[Literal["__parent__"]] = PARENT

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={value!r}"
            for name, value in (("graph", self.graph), ("update", self.update), ("goto", self.goto))
            if value
        )
        if self.resume is not MISSING:
            shown = f"{shown}, resume={self.resume!r}" if shown else f"resume={self.resume!r}"
        return f"Command({shown})"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replace the value of a reduced key instead of adding to it."""

    value: Any
    type: Literal["__overwrite__"] = "__overwrite__"


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """Marks a stored value as the whole value of a channel that is otherwise stored as its writes."""

    value: Any


class StateUpdate(NamedTuple):
    """One update for `abulk_update_state`."""

    values: dict[str, Any] | Any | None
    as_node: str | None = None
    task_id: str | None = None


# -- what state reads return --------------------------------------------------------------------------------


class PregelTask(NamedTuple):
    """A task of a checkpoint's next superstep, as state reads show it."""

    id: str
    name: str
    path: tuple[Any, ...]
    error: Exception | str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    """None, the config of the subgraph in it, or (when asked for) that subgraph's `StateSnapshot`."""
    result: Any = None


class StateSnapshot(NamedTuple):
    """The state of a thread at one checkpoint."""

    values: dict[str, Any] | Any
    next: tuple[str, ...]
    """Names of the tasks that are still to run; empty when the run has finished. When all of `tasks` have finished, but
    the process ended before the superstep was closed, they are those that follow."""
    config: Any
    metadata: Any
    created_at: str | None
    parent_config: Any
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class GraphOutput(Generic[T]):
    """Result of ``ainvoke(..., version="v2")``: the output, in the type of the output schema, and open questions.

    It can be read like the dict that ``version="v1"`` returns; that is deprecated.
    """

    value: T
    interrupts: tuple[Interrupt, ...] = field(default=())

    def __getitem__(self, key: Any) -> Any:
        _read_as_dict("result[key]")
        if key == "__interrupt__":
            return self.interrupts
        if isinstance(self.value, Mapping):
            return self.value[key]
        try:
            return getattr(self.value, key)
        except (AttributeError, TypeError):
            raise KeyError(key) from None

    def __contains__(self, key: object) -> bool:
        _read_as_dict("key in result")
        if key == "__interrupt__":
            return bool(self.interrupts)
        if isinstance(self.value, Mapping):
            return key in self.value
        return isinstance(key, str) and hasattr(self.value, key)


def _read_as_dict(how: str) -> None:
    warnings.warn(
        f"`{how}` is deprecated for a GraphOutput. Use `result.value` and `result.interrupts` instead.",
        LangGraphDeprecatedSinceV11,
        stacklevel=3,
    )


# -- what streams give --------------------------------------------------------------------------------------


class TaskPayload(TypedDict):
    """An item of ``tasks`` for a task that is about to run."""

    id: str
    name: str
    input: Any
    triggers: Sequence[str]
    metadata: NotRequired[dict[str, Any]]


class TaskResultPayload(TypedDict):
    """An item of ``tasks`` for a task that has ended; the interrupts are dicts of the fields of `Interrupt`."""

    id: str
    name: str
    error: BaseException | None
    interrupts: list[dict[str, Any]]
    result: dict[str, Any]


class CheckpointTask(TypedDict):
    """A task of an item of ``checkpoints``: with its error, or with what it gave and asks."""

    id: str
    name: str
    error: NotRequired[Any]
    result: NotRequired[Any]
    interrupts: NotRequired[Sequence[dict[str, Any]]]
    state: Any


class CheckpointPayload(TypedDict, Generic[StateT]):
    """An item of ``checkpoints``: what `StateSnapshot` shows, as plain data."""

    config: Any
    metadata: Any
    values: StateT
    next: list[str]
    parent_config: Any
    tasks: list[CheckpointTask]


class DebugPayload(TypedDict, Generic[StateT]):
    """An item of ``debug``: an item of ``checkpoints`` or ``tasks``, its step, and when it came."""

    step: int
    timestamp: str
    type: Literal["checkpoint", "task", "task_result"]
    payload: CheckpointPayload[StateT] | TaskPayload | TaskResultPayload


class _Part(TypedDict):
    ns: tuple[str, ...]
    seq: NotRequired[int]  # with an event log only: the part's number within its run


class ValuesStreamPart(_Part, Generic[T]):
    """The output after a superstep, and the questions of a run that is paused."""

    type: Literal["values"]
    data: T
    interrupts: tuple[Interrupt, ...]


class UpdatesStreamPart(_Part):
    """What one task wrote, by the name of its node."""

    type: Literal["updates"]
    data: dict[str, Any]


class CustomStreamPart(_Part):
    """What a node gave to its stream writer."""

    type: Literal["custom"]
    data: Any


class MessagesStreamPart(_Part):
    """A token chunk or a whole message, with its metadata."""

    type: Literal["messages"]
    data: tuple[Any, dict[str, Any]]


class TasksStreamPart(_Part):
    """The begin or the end of a task."""

    type: Literal["tasks"]
    data: TaskPayload | TaskResultPayload


class CheckpointStreamPart(_Part, Generic[StateT]):
    """A new checkpoint."""

    type: Literal["checkpoints"]
    data: CheckpointPayload[StateT]


class DebugStreamPart(_Part, Generic[StateT]):
    """A new checkpoint, or the begin or the end of a task."""

    type: Literal["debug"]
    data: DebugPayload[StateT]


StreamPart = TypeAliasType(
    "StreamPart",
    ValuesStreamPart[OutputT]
    | UpdatesStreamPart
    | CustomStreamPart
    | MessagesStreamPart
    | TasksStreamPart
    | CheckpointStreamPart[StateT]
    | DebugStreamPart[StateT],
    type_params=(StateT, OutputT),
)
"""One item of ``astream(..., version="v2")``: its mode, the namespace of the graph that gave it (``()`` for the
root), and its payload."""


class CacheKey(NamedTuple):
    """Where a task's result is cached."""

    ns: tuple[str, ...]
    key: str
    ttl: int | None


__all__: Final = [
    "MISSING",
    "All",
    "CacheKey",
    "CachePolicy",
    "CheckpointPayload",
    "CheckpointStreamPart",
    "CheckpointTask",
    "Checkpointer",
    "Command",
    "CustomStreamPart",
    "DebugPayload",
    "DebugStreamPart",
    "DeltaSnapshot",
    "Durability",
    "GraphOutput",
    "Interrupt",
    "MessagesStreamPart",
    "Missing",
    "MultitaskStrategy",
    "Overwrite",
    "PregelTask",
    "RetryPolicy",
    "Send",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamPart",
    "StreamWriter",
    "TaskPayload",
    "TaskResultPayload",
    "TasksStreamPart",
    "TimeoutPolicy",
    "TracePolicy",
    "UpdatesStreamPart",
    "ValuesStreamPart",
    "default_cache_key",
    "default_retry_on",
    "ensure_valid_checkpointer",
    "interrupt",
    "omit_payload",
]
