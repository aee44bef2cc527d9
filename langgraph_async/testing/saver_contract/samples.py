"""What the contract tests put into savers, and the few questions that they ask."""

from __future__ import annotations

import unittest
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from typing_extensions import TypeVar

from langgraph_async import ids
from langgraph_async.checkpoint.base import (
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
)
from langgraph_async.checkpoint.foreign.saver import ForeignSaver
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import MISSING

Saver = BaseCheckpointSaver[Any]
E = TypeVar("E", bound=BaseException)


class Unstorable:
    """A value that no serializer can store."""

    def __reduce__(self) -> str:
        raise TypeError("an Unstorable cannot be stored")


def new_thread(label: str = "thread") -> str:
    """Return a thread id that nobody used before, so that the contract can be run on a shared database."""
    return f"{label}-{uuid4()}"


def at(thread_id: str, ns: str | None = "", checkpoint_id: str | None = None) -> RunnableConfig:
    """Return a config; None for the namespace leaves it out."""
    configurable: dict[str, Any] = {"thread_id": thread_id}
    if ns is not None:
        configurable["checkpoint_ns"] = ns
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}


def id_of(config: RunnableConfig | None) -> str:
    """Return the checkpoint id that a config must name."""
    assert config is not None, "there is no config where one is due"
    found: str = config.get("configurable", {})["checkpoint_id"]
    return found


class Branch:
    """One line of history that grows checkpoint by checkpoint, as a run makes it.

    Attributes:
        thread_id: Its thread.
        ns: Its namespace.
        head: Config of its newest checkpoint, or of the empty namespace.
        values: The channels' values as of `head`.
        versions: Their versions.
    """

    def __init__(self, saver: Saver, thread_id: str | None = None, ns: str = "") -> None:
        self.saver = saver
        self.thread_id = thread_id or new_thread()
        self.ns = ns
        self.head: RunnableConfig = at(self.thread_id, ns)
        self.values: dict[str, Any] = {}
        self.versions: dict[str, Any] = {}
        self._step = -1

    def fork(self) -> Branch:
        """Return a second line that goes on from here."""
        twin = Branch(self.saver, self.thread_id, self.ns)
        twin.head, twin.values, twin.versions = self.head, dict(self.values), dict(self.versions)
        twin._step = self._step
        return twin

    def next_checkpoint(self, **changed: Any) -> tuple[Checkpoint, CheckpointMetadata, dict[str, Any]]:
        """Return checkpoint, metadata and new versions of the next step; a channel set to `MISSING` gets empty."""
        version = self.saver.get_next_version(max(self.versions.values(), default=None), None)
        new_versions = dict.fromkeys(changed, version)
        self.versions = {**self.versions, **new_versions}
        merged = {**self.values, **changed}
        self.values = {name: value for name, value in merged.items() if value is not MISSING}
        checkpoint = Checkpoint(
            v=4,
            id=ids.checkpoint_id(self._step),
            ts=datetime.now(UTC).isoformat(),
            channel_values=dict(self.values),
            channel_versions=dict(self.versions),
            versions_seen={"__input__": {}, "node": dict(self.versions)},
            updated_channels=sorted(changed),
        )
        metadata: CheckpointMetadata = {
            "source": "input" if self._step < 0 else "loop",
            "step": self._step,
            "parents": {},
        }
        self._step += 1
        return checkpoint, metadata, new_versions

    async def put(self, extra: dict[str, Any] | None = None, /, **changed: Any) -> RunnableConfig:
        """Store the next checkpoint, with `extra` in its metadata, and return its config."""
        checkpoint, metadata, new_versions = self.next_checkpoint(**changed)
        merged: Any = {**metadata, **(extra or {})}
        self.head = await self.saver.aput(self.head, checkpoint, merged, new_versions)
        return self.head

    async def write(self, *writes: tuple[str, Any], task: str = "task", path: str = "") -> None:
        """Store a task's writes on the newest checkpoint."""
        await self.saver.aput_writes(self.head, writes, task, path)

    async def pending(self) -> list[PendingWrite]:
        """Return the writes stored on the newest checkpoint."""
        return await pending(self.saver, self.head)


async def load(saver: Saver, config: RunnableConfig) -> CheckpointTuple:
    """Return the checkpoint that must be there."""
    found = await saver.aget_tuple(config)
    assert found is not None, f"the saver has no checkpoint at {config}"
    return found


async def values(saver: Saver, config: RunnableConfig) -> dict[str, Any]:
    """Return the values of the checkpoint that must be there."""
    return (await load(saver, config)).checkpoint["channel_values"]


async def pending(saver: Saver, config: RunnableConfig) -> list[PendingWrite]:
    """Return the pending writes of the checkpoint that must be there."""
    return [(task, channel, value) for task, channel, value in (await load(saver, config)).pending_writes or ()]


async def listed(saver: Saver, config: RunnableConfig | None, **options: Any) -> list[str]:
    """Return the ids that `alist` yields."""
    return [id_of(item.config) async for item in saver.alist(config, **options)]


async def refused(call: Awaitable[Any], *errors: type[E]) -> E:
    """Return the error, one of `errors`, that the call must raise."""
    try:
        await call
    except errors as exc:
        return exc
    raise AssertionError(f"nothing was raised, expected one of {[e.__name__ for e in errors]}")


def needs(saver: Saver, *methods: str) -> None:
    """Skip the test when the saver does not offer one of these methods.

    Raises:
        SkipTest: One is missing; pytest reports it as skipped, too.
    """
    for method in methods:
        said = {"acommit": saver.can_commit, "aclaim": saver.can_claim}
        offered = said[method] if method in said else _offers(saver, method)
        if not offered:
            raise unittest.SkipTest(f"{type(saver).__name__} does not offer {method}()")


def _offers(saver: Saver, method: str) -> bool:
    if isinstance(saver, ForeignSaver):
        return saver.offers(method)
    return getattr(type(saver), method) is not getattr(BaseCheckpointSaver, method)


def same(found: Any, given: Any) -> bool:
    """Tell whether two values are equal and of the same type; distinguishes ``-0.0``, ``True`` and ``1``."""
    return type(found) is type(given) and repr(found) == repr(given)


def pairs(counters: dict[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return counters with their pairs as tuples: JSON columns give lists."""
    return {name: tuple(pair) for name, pair in counters.items()}
