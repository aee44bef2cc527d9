"""Keeps results of tasks in the run's cache, and finds them there.

A cache only ever saves work: when it fails, or cannot tell two inputs apart, the node runs. The key of a task is
taken before it runs, as a node may change its input.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import xxhash

from langgraph_async.constants import CACHE_NS_WRITES, CONTROL_WRITES, RETURN, TASKS
from langgraph_async.pregel.digest import digest, path_of
from langgraph_async.pregel.node import PregelNode, Write
from langgraph_async.pregel.task import CallTask, RescueTask, Task
from langgraph_async.types import CacheKey, CachePolicy, Send

if TYPE_CHECKING:
    from langgraph_async.pregel.model import RunScope

logger: Final = logging.getLogger("langgraph_async")


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
            writes = self._writes(task, found.get((key.ns, key.key)))
            if writes is None:
                self._keys[task] = key
            else:
                known[task] = writes
        return known

    def note(self, task: Task, writes: Sequence[Write], *, answered: bool) -> None:
        """Note the result of a task, to be kept, unless it depends on an answer or an edit that was given meanwhile."""
        key = self._keys.pop(task, None)
        if (
            key is not None
            and not answered
            and not task.continued
            and not any(channel in CONTROL_WRITES for channel, _ in writes)
        ):
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
        if self._run.replay is not None and self._run.replay.leads_into(task.ns):
            return None
        try:
            if isinstance(task, CallTask):
                args, kwargs = task.input
                own = policy.key_func(*args, **kwargs)
            else:
                own = policy.key_func(task.input)
            content = own.encode() if isinstance(own, str) else bytes(own)
            content = digest(task.node).encode() + content
        except Exception as exc:  # noqa: BLE001
            self._warn(f"has no key for the input of {task.name!r}, which runs without it", exc)
            return None
        namespace = namespace_of(task.node) if isinstance(task, CallTask) else self._namespace(task)
        return CacheKey(namespace, xxhash.xxh3_128_hexdigest(content), policy.ttl)

    def _policy(self, task: Task) -> CachePolicy | None:
        if isinstance(task, CallTask):
            return task.node.cache_policy or self._run.spec.cache_policy
        return self._run.spec.caching.get(task.name) if not isinstance(task, RescueTask) else None

    def _namespace(self, task: Task) -> tuple[str, ...]:
        return namespace_of(task.node, task.name, self._run.spec.name)

    def _writes(self, task: Task, found: Any) -> list[Write] | None:
        """Return cached writes; None when there are none, or they are not such as the task makes."""
        if not isinstance(found, (list, tuple)):
            return None
        if not all(isinstance(write, (list, tuple)) and len(write) == 2 for write in found):
            return None
        writes = [(channel, value) for channel, value in found]
        if isinstance(task, CallTask):
            return writes if [channel for channel, _ in writes] == [RETURN] else None
        return writes if all(self._is_write(channel, value) for channel, value in writes) else None

    def _is_write(self, channel: Any, value: Any) -> bool:
        if not isinstance(channel, str) or channel not in self._run.spec.channels:
            return False
        return channel != TASKS or isinstance(value, Send)

    def _warn(self, what: str, exc: Exception) -> None:
        logger.warning("The cache of graph %r %s: %r", self._run.spec.name, what, exc)


def namespace_of(node: PregelNode, name: str | None = None, graph: str | None = None) -> tuple[str, ...]:
    """Return where results are cached: by function, and for nodes by node and graph."""
    function = "" if node.action is None else path_of(node.action.original)
    return (CACHE_NS_WRITES, function, *(part for part in (name, graph) if part is not None))


def namespaces(nodes: Iterable[tuple[str, PregelNode]], graph: str) -> list[tuple[str, ...]]:
    """Return where the results of some nodes of a graph are cached."""
    return [namespace_of(node, name, graph) for name, node in nodes]
