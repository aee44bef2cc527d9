"""Savers around an `InMemorySaver` that are slow, fail at a given call, or speak only part of the contract."""

import asyncio
from typing import Any

from langgraph_async.checkpoint.base import BaseCheckpointSaver
from langgraph_async.checkpoint.memory import InMemorySaver


class SlowSaver(BaseCheckpointSaver):
    """Gives control to the event loop `turns` times before and after everything it does.

    Attributes:
        inner: What keeps the rows.
        in_flight: Calls of writing methods under way; `most` is the greatest number of them ever.
    """

    immediate = False
    can_commit = True

    def __init__(self, inner: InMemorySaver | None = None, *, turns: int = 1, grouped: bool = True) -> None:
        super().__init__()
        self.inner = inner or InMemorySaver()
        self.serde = self.inner.serde
        self.turns = turns
        self.can_commit = grouped
        self.in_flight = self.most = self.saves = 0

    async def _pause(self) -> None:
        for _ in range(self.turns):
            await asyncio.sleep(0)

    async def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        writing = name in ("aput", "aput_writes", "acommit")
        self.in_flight += writing
        self.saves += writing
        self.most = max(self.most, self.in_flight)
        try:
            await self._pause()
            found = await getattr(self.inner, name)(*args, **kwargs)
            await self._pause()
            return found
        finally:
            self.in_flight -= writing

    async def aget_tuple(self, config: Any) -> Any:
        return await self._call("aget_tuple", config)

    async def alist(self, config: Any, **options: Any) -> Any:
        await self._pause()
        async for item in self.inner.alist(config, **options):
            yield item

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return await self._call("aput", config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        await self._call("aput_writes", config, writes, task_id, task_path)

    async def acommit(self, config: Any, commit: Any) -> Any:
        return await self._call("acommit", config, commit)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._call("adelete_thread", thread_id)

    def get_next_version(self, current: Any, channel: None = None) -> Any:
        return self.inner.get_next_version(current, channel)

    def with_allowlist(self, types: Any) -> "SlowSaver":
        return self


class SaverFailed(Exception):
    """Raised by a `FaultySaver`."""


class FaultySaver(SlowSaver):
    """Fails, once, at the `at`-th call of a method, before or after it took effect.

    Attributes:
        calls: The methods called, in order.
    """

    def __init__(
        self,
        method: str | None = None,
        at: int = 0,
        *,
        turns: int = 0,
        grouped: bool = True,
        immediate: bool = False,
        after: bool = False,
        error: BaseException | None = None,
        inner: InMemorySaver | None = None,
    ) -> None:
        super().__init__(inner, turns=turns, grouped=grouped)
        self.immediate = immediate
        self._method, self._at, self._after = method, at, after
        self.error = error or SaverFailed(f"{method} {at}")
        self.calls: list[str] = []
        self.failed = False

    async def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        fails = name == self._method and self.calls.count(name) == self._at
        self.calls.append(name)
        if fails and not self._after:
            self.failed = True
            raise self.error
        found = await super()._call(name, *args, **kwargs)
        if fails:
            self.failed = True
            raise self.error
        return found


class PathlessSaver(SlowSaver):
    """Has an `aput_writes` of the old signature, without `task_path`, and no `acommit`."""

    def __init__(self) -> None:
        super().__init__(grouped=False)

    async def aput_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        await self._call("aput_writes", config, writes, task_id)
