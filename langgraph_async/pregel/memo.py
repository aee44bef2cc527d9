"""Keeps results of tasks in the run's cache, and finds them there.

A cache only ever saves work: when it fails, or cannot tell two inputs apart, the node runs. The key of a task is
taken before it runs, as a node may change its input.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import xxhash

from langgraph_async.constants import CACHE_NS_WRITES, CONTROL_WRITES, RETURN
from langgraph_async.pregel.call import Action, unwrap
from langgraph_async.pregel.node import PregelNode, Write
from langgraph_async.pregel.task import CallTask, RescueTask, Task
from langgraph_async.types import CacheKey, CachePolicy

if TYPE_CHECKING:
    from langgraph_async.pregel.model import RunScope

logger: Final = logging.getLogger("langgraph_async")
_SIMPLE: Final = (str, bytes, int, float, complex, bool, type(None))
_digests: WeakKeyDictionary[PregelNode, str] = WeakKeyDictionary()


class Memo:
    """The results of one run's tasks, in its cache.

    Args:
        run: A run that has a cache.
    """

    __slots__ = ("_cache", "_fresh", "_keys", "_run")

    def __init__(self, run: RunScope) -> None:
        self._run = run
        self._cache = run.cache
        self._keys: dict[Task, CacheKey] = {}
        self._fresh: dict[CacheKey, list[Write]] = {}

    async def find(self, tasks: Sequence[Task]) -> dict[Task, list[Write]]:
        """Return what tasks would write, for those whose result is known; the others' keys are kept for `note`."""
        wanted = {task: key for task in tasks if (key := self._key(task)) is not None}
        if not wanted:
            return {}
        try:
            found = await self._cache.aget([(key.ns, key.key) for key in wanted.values()])
        except Exception as exc:  # noqa: BLE001
            self._warn("cannot be read, and the nodes run instead", exc)
            found = {}
        known: dict[Task, list[Write]] = {}
        for task, key in wanted.items():
            writes = self._writes(found.get((key.ns, key.key)))
            if writes is None:
                self._keys[task] = key
            else:
                known[task] = writes
        return known

    def note(self, task: Task, writes: Sequence[Write], *, answered: bool) -> None:
        """Note the result of a task, to be kept, unless it depends on an answer that somebody gave meanwhile."""
        key = self._keys.pop(task, None)
        if key is not None and not answered and not any(channel in CONTROL_WRITES for channel, _ in writes):
            self._fresh[key] = list(writes)

    async def keep(self) -> None:
        """Keep the results that were noted."""
        fresh, self._fresh = self._fresh, {}
        if not fresh:
            return
        try:
            await self._cache.aset(
                {(key.ns, key.key): ([list(write) for write in writes], key.ttl) for key, writes in fresh.items()}
            )
        except Exception as exc:  # noqa: BLE001
            self._warn("could not keep results", exc)

    def drop(self, task: Task) -> None:
        """Forget the key of a task that has no result."""
        self._keys.pop(task, None)

    def forget(self) -> None:
        """Forget what was noted and the keys of tasks that came to nothing."""
        self._keys.clear()
        self._fresh.clear()

    def _key(self, task: Task) -> CacheKey | None:
        policy = self._policy(task)
        if policy is None or task.routing_only or task.answers or task.asked or task.error is not None:
            return None
        try:
            if isinstance(task, CallTask):
                args, kwargs = task.input
                own = policy.key_func(*args, **kwargs)
            else:
                own = policy.key_func(task.input)
            content = own.encode() if isinstance(own, str) else bytes(own)
        except Exception as exc:  # noqa: BLE001
            self._warn(f"has no key for the input of {task.name!r}, which runs without it", exc)
            return None
        namespace = namespace_of(task.node) if isinstance(task, CallTask) else self._namespace(task)
        return CacheKey(namespace, xxhash.xxh3_128_hexdigest(digest(task.node).encode() + content), policy.ttl)

    def _policy(self, task: Task) -> CachePolicy | None:
        if isinstance(task, CallTask):
            return task.node.cache_policy or self._run.spec.cache_policy
        return self._run.spec.caching.get(task.name) if not isinstance(task, RescueTask) else None

    def _namespace(self, task: Task) -> tuple[str, ...]:
        return namespace_of(task.node, task.name, self._run.spec.name)

    def _writes(self, found: Any) -> list[Write] | None:
        """Return cached writes; None when there are none, or they are not such as the graph takes."""
        if not isinstance(found, (list, tuple)):
            return None
        if not all(isinstance(write, (list, tuple)) and len(write) == 2 for write in found):
            return None
        channels = self._run.spec.channels
        if not all(channel == RETURN or channel in channels for channel, _ in found):
            return None
        return [(channel, value) for channel, value in found]

    def _warn(self, what: str, exc: Exception) -> None:
        logger.warning("The cache of graph %r %s: %r", self._run.spec.name, what, exc)


def namespace_of(node: PregelNode, name: str | None = None, graph: str | None = None) -> tuple[str, ...]:
    """Return where results are cached: by function, and for nodes by node and graph."""
    function = "" if node.action is None else _path(node.action.original)
    return (CACHE_NS_WRITES, function, *(part for part in (name, graph) if part is not None))


def namespaces(nodes: Iterable[tuple[str, PregelNode]], graph: str) -> list[tuple[str, ...]]:
    """Return where the results of some nodes of a graph are cached."""
    return [namespace_of(node, name, graph) for name, node in nodes]


def digest(node: PregelNode) -> str:
    """Return what tells a node from others of the same name: what its functions do, and what follows from them.

    The same in every process with the same code and Python version.
    """
    known = _digests.get(node)
    if known is None:
        known = _digests[node] = hashlib.sha256(repr(_node_parts(node, frozenset())).encode()).hexdigest()
    return known


def _node_parts(node: PregelNode, around: frozenset[int]) -> tuple[Any, ...]:
    routers = tuple((r.name, r.channels, _action_parts(r.action, around)) for r in node.routers)
    return (_action_parts(node.action, around), node.channels, tuple(channel for channel, _ in node.edges), routers)


def _action_parts(action: Action | None, around: frozenset[int]) -> Any:
    if action is None:
        return None
    if action.kind == "sequence":
        return tuple(_action_parts(step, around) for step in action.steps)
    return _parts(action.original, around)


def _parts(target: Any, around: frozenset[int]) -> Any:
    """Return what tells a value that a function uses from others, as nested tuples of plain values."""
    if isinstance(target, _SIMPLE):
        return (type(target).__name__, target)
    if isinstance(target, tuple):
        return tuple(_parts(item, around) for item in target)
    if isinstance(target, frozenset):
        return tuple(sorted(repr(_parts(item, around)) for item in target))
    if id(target) in around:
        return _path(target)
    around |= {id(target)}
    if getattr(target, "is_pregel", False):
        return (target.name, tuple((name, _node_parts(node, around)) for name, node in sorted(target.nodes.items())))
    if isinstance(target, functools.partial):
        given = (*target.args, *sorted(target.keywords.items()))
        return (_parts(target.func, around), _parts(given, around))
    function = getattr(target, "__func__", target)
    owner = _attributes(getattr(target, "__self__", target))
    code = getattr(function, "__code__", None)
    if code is None:
        return (_path(target), owner)
    return (_path(target), owner, _code_parts(code, around), _captured(function, code, around))


def _attributes(owner: Any) -> tuple[Any, ...]:
    """Return the plain attributes of an object, which tell it from others of its class."""
    found = getattr(owner, "__dict__", None)
    if not isinstance(found, dict) or isinstance(owner, type) or hasattr(owner, "__code__"):
        return ()
    return tuple(sorted((name, repr(value)) for name, value in found.items() if isinstance(value, _SIMPLE)))


def _captured(function: Any, code: Any, around: frozenset[int]) -> tuple[Any, ...]:
    """Return what a function took along when it was made, without the variables that it changes itself."""
    changed = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF"}
    cells = zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False)
    kept = tuple((name, _cell(cell, around)) for name, cell in cells if name not in changed)
    return (kept, _parts(getattr(function, "__defaults__", None), around))


def _cell(cell: Any, around: frozenset[int]) -> Any:
    try:
        return _parts(cell.cell_contents, around)
    except ValueError:  # not filled yet
        return None


def _code_parts(code: Any, around: frozenset[int]) -> tuple[Any, ...]:
    inner = tuple(_code_parts(c, around) if hasattr(c, "co_code") else _parts(c, around) for c in code.co_consts)
    return (code.co_code.hex(), code.co_names, inner)


def _path(target: Any) -> str:
    """Return module and qualified name of a function, or of the class of something else."""
    base = unwrap(target)
    named = base if hasattr(base, "__qualname__") else type(base)
    return f"{named.__module__}.{named.__qualname__}"
