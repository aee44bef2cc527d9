"""Run configs: what users pass, how several are merged, and what the engine reads from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import TypedDict

from langgraph_async import ambient
from langgraph_async.constants import CHECKPOINT_ID, CHECKPOINT_MAP, CHECKPOINT_NS, CONF, THREAD_ID
from langgraph_async.errors import ConfigError
from langgraph_async.types import StreamWriter

DEFAULT_RECURSION_LIMIT: Final = int(os.environ.get("LANGGRAPH_DEFAULT_RECURSION_LIMIT", "10007"))

_KEYS: Final = frozenset(
    {
        "tags",
        "metadata",
        "callbacks",
        "run_name",
        "run_id",
        "max_concurrency",
        "recursion_limit",
        "configurable",
        "multitask_strategy",
    }
)
_COORDINATES: Final = (THREAD_ID, CHECKPOINT_NS, CHECKPOINT_ID, CHECKPOINT_MAP)
_MISPLACED: Final = ("max_concurrency", "recursion_limit", "multitask_strategy")
_TO_METADATA: Final = ("thread_id", "checkpoint_id", "checkpoint_ns", "task_id", "run_id", "assistant_id", "graph_id")


class RunnableConfig(TypedDict, total=False):
    """What callers pass to a run.

    `configurable` holds the coordinates of the thread (`thread_id`, `checkpoint_ns`, `checkpoint_id`) and whatever
    the user wants nodes to see. `recursion_limit` counts supersteps; `max_concurrency` bounds the tasks that run at
    once in the whole run, nested graphs included; `multitask_strategy` says what happens when the thread is busy:
    ``"reject"`` (default), ``"enqueue"``, ``"interrupt"`` or ``"rollback"``.
    """

    tags: list[str]
    metadata: dict[str, Any]
    callbacks: Any
    run_name: str
    run_id: Any
    max_concurrency: int | None
    recursion_limit: int
    configurable: dict[str, Any]
    multitask_strategy: str


def merge_configs(*configs: Mapping[str, Any] | None) -> RunnableConfig:
    """Return the configs merged, later ones over earlier ones.

    Tags are added up, metadata and configurable merged by key, callback lists joined; empty values are skipped.
    Unknown top-level keys are moved into `configurable`.

    Raises:
        ConfigError: A config, or one of these parts of it, has the wrong type.
    """
    merged: dict[str, Any] = {CONF: {}}
    for config in configs:
        if config:
            _merge_into(merged, config)
    return merged  # type: ignore[return-value]


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, (list, tuple, dict)) and not value)


def _check_shape(config: Any) -> None:
    if not isinstance(config, Mapping):
        raise ConfigError(
            f"config must be a dict, got {type(config).__name__}: {config!r}. A thread is named by "
            "config={'configurable': {'thread_id': '...'}}."
        )
    for key in (CONF, "metadata"):
        value = config.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise ConfigError(f"config[{key!r}] must be a dict, got {type(value).__name__}: {value!r}.")
    tags = config.get("tags")
    if tags is not None and (isinstance(tags, str) or not isinstance(tags, Iterable)):
        raise ConfigError(f"config['tags'] must be a list of texts, got {type(tags).__name__}: {tags!r}.")


def _merge_into(merged: dict[str, Any], config: Mapping[str, Any]) -> None:
    _check_shape(config)
    for key, value in config.items():
        if _is_empty(value):
            continue
        if key == CONF:
            merged[CONF] = {**merged[CONF], **value}
        elif key == "metadata":
            merged[key] = {**merged.get(key, {}), **value}
        elif key == "tags":
            merged[key] = [*merged.get(key, []), *value]
        elif key == "callbacks":
            merged[key] = _joined_callbacks(merged.get(key), value)
        elif key in _KEYS:
            merged[key] = value
        else:
            merged[CONF] = {**merged[CONF], key: value}


def _joined_callbacks(below: Any, above: Any) -> Any:
    """Return two values of ``callbacks`` as one: lists joined, handlers added to a manager. Two managers are of
    one run, and the one above is the one further inside."""
    if below is None or (hasattr(above, "add_handler") and hasattr(below, "add_handler")):
        return above
    if hasattr(above, "add_handler"):
        return _with_handlers(above, below)
    if hasattr(below, "add_handler"):
        return _with_handlers(below, above)
    return [*_listed(below), *_listed(above)]


def _with_handlers(manager: Any, handlers: Any) -> Any:
    made = manager.copy()
    for handler in _listed(handlers):
        if handler not in made.handlers:
            made.add_handler(handler)
    return made


def _listed(handlers: Any) -> list[Any]:
    return list(handlers) if isinstance(handlers, (list, tuple)) else [handlers]


@dataclass(frozen=True, slots=True, eq=False)
class RunConfig:
    """A run's config, parsed once.

    Attributes:
        given: The merged config, as a dict.
        configurable: Its configurable part without the coordinates of checkpoints.
        thread_id: The thread as text, or None.
        checkpoint_ns: Namespace that was asked for, ``""`` for the root.
        checkpoint_id: Checkpoint that was asked for, or None.
        checkpoint_map: Namespace to checkpoint id, when a nested checkpoint was asked for.
        recursion_limit: Supersteps this run may take.
        max_concurrency: Tasks that may run at once, or None.
        multitask_strategy: What to do when the thread is busy.
    """

    given: RunnableConfig
    configurable: dict[str, Any]
    thread_id: str | None
    checkpoint_ns: str
    checkpoint_id: str | None
    checkpoint_map: dict[str, str]
    recursion_limit: int
    max_concurrency: int | None
    multitask_strategy: str


def parse_config(config: RunnableConfig) -> RunConfig:
    """Check a merged config and return what the engine needs of it.

    Raises:
        ConfigError: A limit is not positive, an option stands inside `configurable`, a strategy is unknown.
    """
    configurable = config.get(CONF) or {}
    for name in _MISPLACED:
        if name in configurable:
            raise ConfigError(
                f"{name!r} stands inside config['configurable'], where it has no effect. Pass it at the top level: "
                f"config={{{name!r}: {configurable[name]!r}, ...}}."
            )
    limit = config.get("recursion_limit", DEFAULT_RECURSION_LIMIT)
    if not _is_count(limit):
        raise ConfigError(f"recursion_limit must be at least 1, got {limit!r}.")
    concurrency = config.get("max_concurrency")
    if concurrency is not None and not _is_count(concurrency):
        raise ConfigError(f"max_concurrency must be at least 1 or None, got {concurrency!r}.")
    strategy = config.get("multitask_strategy", "reject")
    if strategy not in ("reject", "enqueue", "interrupt", "rollback"):
        raise ConfigError(
            f"multitask_strategy must be 'reject', 'enqueue', 'interrupt' or 'rollback', got {strategy!r}."
        )
    thread_id = configurable.get(THREAD_ID)
    return RunConfig(
        given=config,
        configurable=configurable,
        thread_id=None if thread_id is None else str(thread_id),
        checkpoint_ns=configurable.get(CHECKPOINT_NS) or "",
        checkpoint_id=configurable.get(CHECKPOINT_ID) or None,
        checkpoint_map=configurable.get(CHECKPOINT_MAP) or {},
        recursion_limit=limit,
        max_concurrency=concurrency,
        multitask_strategy=strategy,
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def ensure_config(*configs: Mapping[str, Any] | None, inherited: Mapping[str, Any] | None = None) -> RunnableConfig:
    """Return a complete config for a run: inherited values below, explicit ones over them.

    Args:
        configs: The graph's bound config and the call's, in this order.
        inherited: Config of the task that the run is called in. Its configurable is left out when an explicit
            config names a thread or checkpoint of its own.
    """
    explicit: dict[str, Any] = {**merge_configs(*configs)}
    base: dict[str, Any] = {}
    if inherited:
        base = dict(inherited)
        if any(explicit[CONF].get(key) for key in _COORDINATES):
            base.pop(CONF, None)
        tags = base.get("tags")
        if tags and explicit.get("tags"):
            explicit["tags"] = [t for t in explicit["tags"] if t not in tags]
    merged = merge_configs(base, explicit)
    metadata = dict(merged.get("metadata") or {})
    configurable = merged.get(CONF) or {}
    for key in _TO_METADATA:
        value = configurable.get(key)
        if value and key not in metadata:
            metadata[key] = value
    merged["metadata"] = metadata
    merged.setdefault("tags", [])
    merged.setdefault("callbacks", None)
    merged.setdefault("recursion_limit", DEFAULT_RECURSION_LIMIT)
    return merged


def get_config() -> RunnableConfig:
    """Return the config of the node that is running here.

    Raises:
        RuntimeError: Called outside of a node.
    """
    found: RunnableConfig = ambient.running_task("get_config").config
    return found


def get_store() -> Any:
    """Return the store of the graph that is running here, or None when it has none.

    Raises:
        RuntimeError: Called outside of a node.
    """
    return ambient.running_task("get_store").runtime.store


def get_stream_writer() -> StreamWriter:
    """Return the writer for ``stream_mode="custom"`` of the node that is running here.

    Raises:
        RuntimeError: Called outside of a node.
    """
    found: StreamWriter = ambient.running_task("get_stream_writer").runtime.stream_writer
    return found
