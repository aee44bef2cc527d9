"""A cache for as long as the process lives."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from langgraph_async.aio.clock import SYSTEM_CLOCK, Clock
from langgraph_async.cache.base import BaseCache, FullKey, Namespace, ValueT
from langgraph_async.serde.base import SerializerProtocol


class InMemoryCache(BaseCache[ValueT]):
    """Keeps values in memory, as bytes, so that nobody can change them afterwards.

    It may be used from several threads and event loops. Expired entries go when they are next asked for, or cleared.

    Args:
        serde: The serializer for values.
        clock: What lifetimes go by.
    """

    def __init__(self, *, serde: SerializerProtocol | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(serde=serde)
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[Namespace, dict[str, tuple[str, bytes, float | None]]] = {}

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return the values of those keys that are there and have not expired."""
        now = self._clock.monotonic()
        rows: list[tuple[FullKey, str, bytes]] = []
        with self._lock:
            for ns, key in keys:
                entries = self._entries.get(ns, {})
                entry = entries.get(key)
                if entry is None:
                    continue
                tag, stored, expiry = entry
                if expiry is not None and expiry <= now:
                    del entries[key]
                else:
                    rows.append(((ns, key), tag, stored))
        return self._loaded(rows)

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """Store values, each with the seconds that it lives."""
        now = self._clock.monotonic()
        dumped = self._dumped(pairs)
        with self._lock:
            for (ns, key), ttl, tag, stored in dumped:
                self._entries.setdefault(ns, {})[key] = (tag, stored, None if ttl is None else now + ttl)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget what is in these namespaces, or everything."""
        with self._lock:
            if namespaces is None:
                self._entries.clear()
            else:
                for ns in namespaces:
                    self._entries.pop(ns, None)

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return what `get` returns; never waits."""
        return self.get(keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """Do what `set` does; never waits."""
        self.set(pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Do what `clear` does; never waits."""
        self.clear(namespaces)


__all__ = ["InMemoryCache"]
