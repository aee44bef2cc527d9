"""Savers that suspend, as database savers do, over the storage of an `InMemorySaver`."""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph_async.checkpoint.memory import InMemorySaver


class SlowSaver(InMemorySaver):
    """Gives the event loop control before and after every operation; can store a superstep at once."""

    immediate = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.fails: dict[str, BaseException] = {}

    def close_gate(self, operation: str) -> asyncio.Event:
        """Let calls of `operation` wait until the returned event is set."""
        self.gates[operation] = asyncio.Event()
        return self.gates[operation]

    async def _arrive(self, operation: str) -> None:
        self.calls.append(operation)
        await asyncio.sleep(0)
        gate = self.gates.get(operation)
        if gate is not None:
            await gate.wait()
        await asyncio.sleep(0)
        if operation in self.fails:
            raise self.fails[operation]

    async def aget_tuple(self, config):
        await self._arrive("aget_tuple")
        return await super().aget_tuple(config)

    async def alist(self, config, *, filter=None, before=None, limit=None):
        await self._arrive("alist")
        async for item in super().alist(config, filter=filter, before=before, limit=limit):
            await asyncio.sleep(0)
            yield item

    async def aput(self, config, checkpoint, metadata, new_versions):
        await self._arrive("aput")
        return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config, writes, task_id, task_path=""):
        await self._arrive("aput_writes")
        await super().aput_writes(config, writes, task_id, task_path)

    async def acommit(self, config, commit):
        await self._arrive("acommit")
        return await super().acommit(config, commit)

    async def adelete_thread(self, thread_id):
        await self._arrive("adelete_thread")
        await super().adelete_thread(thread_id)


class PrimitiveSaver(SlowSaver):
    """Suspends, and offers only the primitive methods."""

    can_commit = False

    async def acommit(self, config, commit):
        raise NotImplementedError("PrimitiveSaver does not offer acommit().")


SAVERS: dict[str, type[InMemorySaver]] = {"memory": InMemorySaver, "slow": SlowSaver, "primitive": PrimitiveSaver}


def second_saver(first: InMemorySaver, kind: type[InMemorySaver] | None = None) -> InMemorySaver:
    """Return another saver object over the storage of the first, as a second process would have."""
    other = (kind or type(first))(serde=first.serde)
    for name in ("storage", "writes", "blobs", "_write_keys", "_blob_keys"):
        setattr(other, name, getattr(first, name))
    return other


async def stored_rows(saver: InMemorySaver, thread_id: str) -> Any:
    """Return all that is stored of a thread, to see whether something changed."""
    checkpoints = {ns: dict(records) for ns, records in saver.storage.get(thread_id, {}).items()}
    writes = {key: dict(rows) for key, rows in saver.writes.items() if key[0] == thread_id}
    blobs = {key: value for key, value in saver.blobs.items() if key[0] == thread_id}
    return checkpoints, writes, blobs
