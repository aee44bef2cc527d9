"""Makes the `RunScope` of a run: who calls, on which thread, with which saver, for whose ears."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langgraph_async import ambient
from langgraph_async.aio.limiter import Limiter
from langgraph_async.callbacks.port import surrounding_config, tracing_of
from langgraph_async.config import RunConfig, RunnableConfig, ensure_config, merge_configs, parse_config
from langgraph_async.constants import CHECKPOINT_ID, CHECKPOINT_MAP, CHECKPOINT_NS, CONF, THREAD_ID
from langgraph_async.errors import ConfigError, MissingCoordinateError
from langgraph_async.pregel.model import GraphSpec, RunScope
from langgraph_async.pregel.namespace import levels, nth_call
from langgraph_async.pregel.replay import Answers, Replay
from langgraph_async.pregel.scope import TaskScope
from langgraph_async.pregel.sinks import Sink, Sinks
from langgraph_async.pregel.suggest import did_you_mean
from langgraph_async.runtime import RunControl, Runtime, ServerInfo
from langgraph_async.types import Durability

if TYPE_CHECKING:
    from langgraph_async.pregel.graph import Pregel
    from langgraph_async.pregel.lease import Lease

_COORDINATES = (THREAD_ID, CHECKPOINT_NS, CHECKPOINT_ID, CHECKPOINT_MAP)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunOptions:
    """The arguments of a run besides its input, as users give them."""

    config: RunnableConfig | None = None
    context: Any = None
    output_keys: str | Iterable[str] | None = None
    interrupt_before: Iterable[str] | str | None = None
    interrupt_after: Iterable[str] | str | None = None
    durability: Durability | None = None
    control: RunControl | None = None


def calling_task(graph: Pregel, config: Mapping[str, Any] | None) -> TaskScope | None:
    """Return the task that the graph is called in, or None for a run of its own.

    A call with a config that names another thread, or a checkpoint, is a run of its own even inside a node.

    Raises:
        RuntimeError: The code that calls has outlived its node.
    """
    task = ambient.current.get()
    if not isinstance(task, TaskScope):
        return None
    explicit = merge_configs(graph.config, config).get(CONF) or {}
    if any(explicit.get(key) for key in _COORDINATES):
        thread = explicit.get(THREAD_ID)
        same_thread = (None if thread is None else str(thread)) == task.run.config.thread_id
        if not (same_thread and explicit.get(CHECKPOINT_NS) == task.task.ns):
            return None
    if task.closed:
        raise RuntimeError(
            f"Graph {graph.name!r} was called by code that outlived node {task.task.name!r}, which started it. Await "
            "everything the node starts before it returns."
        )
    return task


def names_task(config: Mapping[str, Any] | None, task: TaskScope | None) -> bool:
    """Tell whether a config is the one that the calling task was given."""
    return task is not None and ((config or {}).get(CONF) or {}).get(CHECKPOINT_NS) == task.task.ns


def make_run(
    graph: Pregel,
    spec: GraphSpec,
    options: RunOptions,
    *,
    parent: TaskScope | None,
    sinks: tuple[Sink, ...],
    default_keys: str | tuple[str, ...],
    call: int,
) -> RunScope:
    """Check the arguments of a run and return its scope.

    Raises:
        ConfigError: An argument cannot be used; the message says which and why.
        RuntimeError: A graph that keeps memory of its own is run as a root.
    """
    # Names that stand for a run inside another are the parent's: a child has its own coordinates.
    inherited = parent.config if parent is not None else _ambient_config()
    given = ensure_config(graph.config, options.config, inherited=inherited)
    config = parse_config(given)
    saver = _saver(graph, parent)
    if saver is not None and parent is None:
        _check_thread(graph, config)
    if options.durability is not None:
        _check_durability(options.durability, saver)
    ns = "" if parent is None else _namespace(graph, parent, call)
    replay = parent.run.replay if parent is not None else _replay(config)
    keys = _keys(spec, options.output_keys, default_keys)
    if options.control is not None and not isinstance(options.control, RunControl):
        raise ConfigError(f"control must be a RunControl, got {options.control!r}.")
    control = options.control or (parent.run.control if parent is not None else RunControl())
    listeners = Sinks(
        (*sinks, *(parent.run.sinks.for_nested() if parent is not None else ())),
        keys,
        _keys(spec, options.output_keys, graph.output_channels),
    )
    return RunScope(
        spec=spec,
        config=config,
        ns=ns,
        ns_levels=levels(ns),
        parent=parent,
        saver=saver,
        durability=options.durability or (parent.run.durability if parent is not None else "async"),
        sinks=listeners,
        answers=parent.run.answers if parent is not None else Answers(),
        replay=replay,
        runtime=_runtime(graph, options, config, parent, control),
        control=control,
        limiter=_limiter(config, parent),
        checkpoint_map=_checkpoint_map(parent),
        interrupt_before=_breakpoints(spec, options.interrupt_before or graph.interrupt_before_nodes, "before"),
        interrupt_after=_breakpoints(spec, options.interrupt_after or graph.interrupt_after_nodes, "after"),
        next_version=_next_version(saver),
        store=graph.store,
        cache=parent.run.cache if parent is not None and parent.run.cache is not None else graph.cache,
        thread_ident=threading.get_ident(),
        event_loop=asyncio.get_running_loop(),
        leases=held_around(),
        clock=parent.run.clock if parent is not None else graph.clock,
        step_timeout=graph.step_timeout,
        tracing=tracing_of(given, graph.name, messages=listeners.messages, tools=listeners.tools),
    )


def held_around() -> tuple[Lease, ...]:
    """Return the holds on threads that the runs have in which this code runs."""
    task = ambient.current.get()
    return task.run.leases if isinstance(task, TaskScope) else ()


def _ambient_config() -> Mapping[str, Any] | None:
    task = ambient.current.get()
    return task.config if isinstance(task, TaskScope) else surrounding_config()


def _saver(graph: Pregel, parent: TaskScope | None) -> Any:
    own = graph.checkpointer
    if own is False:
        return None
    if parent is not None:
        return parent.run.saver
    if own is True:
        raise RuntimeError("checkpointer=True cannot be used for root graphs.")
    return own


def _check_thread(graph: Pregel, config: RunConfig) -> None:
    if config.thread_id is None:
        raise MissingCoordinateError(
            f"Graph {graph.name!r} has a checkpointer, so its runs need the configurable keys thread_id, and "
            "optionally checkpoint_ns, checkpoint_id. Pass config={'configurable': {'thread_id': '...'}}.",
            name=THREAD_ID,
        )


def _check_durability(durability: str, saver: Any) -> None:
    if durability not in ("sync", "async", "exit"):
        raise ConfigError(f"durability must be 'sync', 'async' or 'exit', got {durability!r}.")
    if saver is None:
        warnings.warn("`durability` has no effect when no checkpointer is present.", UserWarning, stacklevel=6)


def _namespace(graph: Pregel, parent: TaskScope, call: int) -> str:
    return nth_call(parent.memory_path if graph.checkpointer is True else parent.task.ns, call)


def _replay(config: RunConfig) -> Replay | None:
    ns, wanted = config.checkpoint_ns, config.checkpoint_id
    if ns and config.checkpoint_map:
        named = {**config.checkpoint_map, **({ns: wanted} if wanted else {})}
        root = named.pop("", None)
        return Replay(root, named) if root is not None else None
    return Replay(wanted, {}) if wanted is not None and not ns else None


def _keys(spec: GraphSpec, given: str | Iterable[str] | None, default: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if given is None:
        return default
    keys = given if isinstance(given, str) else tuple(given)
    for key in (keys,) if isinstance(keys, str) else keys:
        if key not in spec.channels:
            raise ConfigError(f"Key {key} not in channels of graph {spec.name!r}.{did_you_mean(key, spec.channels)}")
    return keys


def _breakpoints(spec: GraphSpec, names: Iterable[str] | str, which: str) -> frozenset[str] | str:
    if names == "*":
        return "*"
    given: Any = (names,) if isinstance(names, str) else names
    if not isinstance(given, Iterable):
        raise ConfigError(f"interrupt_{which} must be '*', a node or a list of nodes, got {names!r}.")
    found = frozenset(given)
    for name in found:
        if name not in spec.nodes:
            raise ConfigError(
                f"interrupt_{which} names node {name!r}, which graph {spec.name!r} does not have."
                f"{did_you_mean(name, spec.nodes)}"
            )
    return found


def _runtime(
    graph: Pregel, options: RunOptions, config: RunConfig, parent: TaskScope | None, control: RunControl
) -> Runtime[Any]:
    context = _context(graph.context_schema, options.context)
    above = parent.run.runtime if parent is not None else Runtime()
    return above.override(
        context=context if context is not None else above.context,
        previous=None,
        store=above.store if above.store is not None else graph.store,
        server_info=_server_info(config) or above.server_info,
        control=control,
    )


class _ContextError(ConfigError, TypeError):
    """The context of a run does not fit the graph's context schema."""


def _context(schema: Any, given: Any) -> Any:
    if given is None or not (hasattr(schema, "model_fields") or hasattr(schema, "__dataclass_fields__")):
        return given
    if isinstance(given, dict):
        try:
            return schema(**given)
        except (TypeError, ValueError) as exc:
            raise _ContextError(f"The context {given!r} does not fit {schema.__name__}: {exc}") from exc
    if type(given).__module__ == "builtins":
        raise _ContextError(
            f"context must be a {schema.__name__}, or a dict of its fields; got {type(given).__name__}: {given!r}."
        )
    return given


def _server_info(config: RunConfig) -> ServerInfo | None:
    configurable = config.configurable
    assistant, graph, user = (configurable.get(k) for k in ("assistant_id", "graph_id", "langgraph_auth_user"))
    if assistant is None and graph is None and user is None:
        return None
    return ServerInfo(assistant_id=str(assistant or ""), graph_id=str(graph or ""), user=user)


def _limiter(config: RunConfig, parent: TaskScope | None) -> Limiter | None:
    if parent is not None:
        return parent.run.limiter
    return Limiter(config.max_concurrency) if config.max_concurrency is not None else None


def _checkpoint_map(parent: TaskScope | None) -> dict[str, str]:
    if parent is None:
        return {}
    return parent.checkpoint_map


def _count(current: Any) -> int:
    return 1 if current is None else current + 1


def _next_version(saver: Any) -> Callable[[Any], Any]:
    if saver is None:
        return _count

    def following(current: Any) -> Any:
        return saver.get_next_version(current, None)

    return following
