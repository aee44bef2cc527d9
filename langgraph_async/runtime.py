"""What a node may ask of the run it is part of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, Self, runtime_checkable

from langgraph_async import ambient
from langgraph_async.config import get_config, get_store, get_stream_writer
from langgraph_async.typing import ContextT


class _NoWriter:
    """A stream writer for when nobody listens."""

    __slots__ = ()

    def __call__(self, chunk: Any, /) -> None:
        """Drop `chunk`."""

    async def drain(self) -> None:
        """Return at once."""

    def drain_blocking(self) -> None:
        """Return at once."""


def _no_heartbeat() -> None:
    """Do nothing: the attempt has no idle timeout."""


NO_WRITER = _NoWriter()


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """Where and in which attempt a node runs.

    Attributes:
        checkpoint_id: Checkpoint that the superstep started from.
        checkpoint_ns: Namespace of the task.
        task_id: The task.
        thread_id: The thread, or None without one.
        run_id: The run's id as text, or None.
        node_attempt: 1 for the first attempt.
        node_first_attempt_time: Unix time in seconds at which the first attempt began, or None.
    """

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None

    def patch(self, **changes: Any) -> Self:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)


@runtime_checkable
class BaseUser(Protocol):
    """Who is behind a request, as a server's authentication found out. Also readable like a mapping."""

    @property
    def is_authenticated(self) -> bool:
        """Whether they have proved who they are."""
        ...

    @property
    def display_name(self) -> str:
        """What to call them."""
        ...

    @property
    def identity(self) -> str:
        """What tells them from everybody else."""
        ...

    @property
    def permissions(self) -> Sequence[str]:
        """What they may do."""
        ...

    def __getitem__(self, key: str) -> Any: ...

    def __contains__(self, key: str) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Who runs the graph, when a server does."""

    assistant_id: str
    graph_id: str
    user: BaseUser | None = None


class RunControl:
    """Asks a run to stop between two supersteps. One per run; it cannot be reset."""

    __slots__ = ("_reason",)

    def __init__(self) -> None:
        self._reason: str | None = None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Ask the run to stop before its next superstep. Safe to call from any thread."""
        if self._reason is None:
            self._reason = reason

    @property
    def drain_requested(self) -> bool:
        """Whether somebody asked."""
        return self._reason is not None

    @property
    def drain_reason(self) -> str | None:
        """What was given as the reason, or None."""
        return self._reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """What a node may ask: declare a parameter ``runtime: Runtime[Context]``, or call `get_runtime()`.

    Attributes:
        context: The run's context, in the type of the graph's `context_schema`.
        store: The graph's store, or None.
        stream_writer: Call it with anything to send a chunk to ``stream_mode="custom"``.
        heartbeat: Tells the idle timeout that the node is alive.
        previous: What the last run of an entrypoint saved on this thread, or None.
        execution_info: Where the node runs.
        server_info: Who runs the graph, or None.
        control: The run's `RunControl`.
    """

    context: ContextT = field(default=None)  # type: ignore[assignment]
    store: Any = None
    stream_writer: Callable[[Any], None] = NO_WRITER
    heartbeat: Callable[[], None] = _no_heartbeat
    previous: Any = None
    execution_info: ExecutionInfo | None = None
    server_info: ServerInfo | None = None
    control: RunControl | None = None

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """Why the run was asked to stop, or None."""
        return self.control.drain_reason if self.control is not None else None

    def merge(self, other: Runtime[Any]) -> Runtime[Any]:
        """Return this runtime with what `other` sets laid over it."""
        return replace(
            self,
            context=other.context if other.context is not None else self.context,
            store=other.store if other.store is not None else self.store,
            stream_writer=other.stream_writer if other.stream_writer is not NO_WRITER else self.stream_writer,
            heartbeat=other.heartbeat if other.heartbeat is not _no_heartbeat else self.heartbeat,
            previous=other.previous if other.previous is not None else self.previous,
            execution_info=other.execution_info or self.execution_info,
            server_info=other.server_info or self.server_info,
            control=other.control or self.control,
        )

    def override(self, **changes: Any) -> Runtime[Any]:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)

    def patch_execution_info(self, **changes: Any) -> Runtime[Any]:
        """Return a copy whose execution info has some fields replaced.

        Raises:
            RuntimeError: There is no execution info to patch.
        """
        if self.execution_info is None:
            raise RuntimeError("This runtime has no execution info: it does not belong to a running node.")
        return replace(self, execution_info=self.execution_info.patch(**changes))


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:  # noqa: ARG001
    """Return the `Runtime` of the node that is running here.

    Args:
        context_schema: Only tells type checkers what the context is.

    Raises:
        RuntimeError: Called outside of a node.
    """
    found: Runtime[ContextT] = ambient.running_task("get_runtime").runtime
    return found


__all__ = [
    "BaseUser",
    "ContextT",
    "ExecutionInfo",
    "RunControl",
    "Runtime",
    "ServerInfo",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
]
