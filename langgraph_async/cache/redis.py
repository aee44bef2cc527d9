"""A cache in Redis, in LangGraph's layout, for any number of machines. Needs the extra ``redis``."""

from __future__ import annotations

import importlib
import inspect
import logging
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from langgraph_async.aio.threads import run_in_thread
from langgraph_async.cache.base import BaseCache, FullKey, Namespace, ValueT
from langgraph_async.serde.base import SerializerProtocol

logger: Final = logging.getLogger("langgraph_async")
_BATCH: Final = 500
"""Keys that are looked for, or deleted, at once."""


class RedisCache(BaseCache[ValueT]):
    """Keeps values in a Redis server.

    While the server cannot be reached, nothing is found and nothing is kept; that is logged. To clear a namespace
    clears those below it, too, as the layout does not tell where a namespace ends.

    Args:
        redis: A client: `redis.asyncio.Redis`, or `redis.Redis`, which is called in threads. It must not decode
            responses. It stays open when the cache is closed.
        serde: The serializer for values.
        prefix: What all keys begin with.
    """

    def __init__(
        self, redis: Any, *, serde: SerializerProtocol | None = None, prefix: str = "langgraph:cache:"
    ) -> None:
        super().__init__(serde=serde)
        self.redis = redis
        self.prefix = prefix
        self._owns = False
        self._is_async = inspect.iscoroutinefunction(redis.execute_command)

    @classmethod
    def from_url(
        cls, url: str, *, serde: SerializerProtocol | None = None, prefix: str = "langgraph:cache:", **options: Any
    ) -> Self:
        """Return a cache with a client of its own, to be used in ``async with``, or closed with `aclose`.

        Args:
            url: Where the server is, such as ``redis://localhost:6379/0``.
            serde: The serializer for values.
            prefix: What all keys begin with.
            options: Further arguments for `redis.asyncio.Redis.from_url`.

        Raises:
            ImportError: The extra is missing.
        """
        try:
            client = importlib.import_module("redis.asyncio").Redis
        except ImportError as exc:
            raise ImportError("RedisCache.from_url needs redis: pip install 'langgraph-async[redis]'.") from exc
        cache = cls(client.from_url(url, **options), serde=serde, prefix=prefix)
        cache._owns = True
        return cache

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the client, if it was made by `from_url`."""
        if self._owns:
            await self.redis.aclose()

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return the values of those keys that are there and have not expired."""
        if not self._is_async:
            return await run_in_thread(self.get, keys)
        if not keys:
            return {}
        try:
            return self._found(keys, await self.redis.mget([self._name(key) for key in keys]))
        except _unreachable() as exc:
            _warn(exc)
            return {}

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """Store values, each with the seconds that it lives."""
        if not self._is_async:
            await run_in_thread(self.set, pairs)
            return
        if not pairs:
            return
        pipeline = self._filled(pairs)
        try:
            await pipeline.execute()
        except _unreachable() as exc:
            _warn(exc)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget what is in these namespaces and below them, or everything with the prefix."""
        if not self._is_async:
            await run_in_thread(self.clear, namespaces)
            return
        try:
            for pattern in self._patterns(namespaces):
                found = [name async for name in self.redis.scan_iter(match=pattern, count=_BATCH)]
                for start in range(0, len(found), _BATCH):
                    await self.redis.delete(*found[start : start + _BATCH])
        except _unreachable() as exc:
            _warn(exc)

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return what `aget` returns; for a blocking client."""
        self._check_blocking("get")
        if not keys:
            return {}
        try:
            return self._found(keys, self.redis.mget([self._name(key) for key in keys]))
        except _unreachable() as exc:
            _warn(exc)
            return {}

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """Do what `aset` does; for a blocking client."""
        self._check_blocking("set")
        if not pairs:
            return
        pipeline = self._filled(pairs)
        try:
            pipeline.execute()
        except _unreachable() as exc:
            _warn(exc)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Do what `aclear` does; for a blocking client."""
        self._check_blocking("clear")
        try:
            for pattern in self._patterns(namespaces):
                found = list(self.redis.scan_iter(match=pattern, count=_BATCH))
                for start in range(0, len(found), _BATCH):
                    self.redis.delete(*found[start : start + _BATCH])
        except _unreachable() as exc:
            _warn(exc)

    def _check_blocking(self, method: str) -> None:
        if self._is_async:
            raise self._async_only(method)

    def _name(self, key: FullKey) -> str:
        return f"{self.prefix}{':'.join(key[0])}:{key[1]}"

    def _patterns(self, namespaces: Sequence[Namespace] | None) -> list[str]:
        if namespaces is None:
            return [f"{_escaped(self.prefix)}*"]
        return [f"{_escaped(self.prefix + ':'.join(ns))}:*" for ns in namespaces]

    def _filled(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> Any:
        """Return a pipeline that stores values; Redis counts lifetimes in whole milliseconds."""
        pipeline = self.redis.pipeline(transaction=False)
        for key, ttl, tag, stored in self._dumped(pairs):
            lifetime = None if ttl is None else max(1, math.ceil(ttl * 1000))
            pipeline.set(self._name(key), tag.encode() + b":" + stored, px=lifetime)
        return pipeline

    def _found(self, keys: Iterable[FullKey], answers: Iterable[Any]) -> dict[FullKey, ValueT]:
        rows = []
        for key, answer in zip(keys, answers, strict=True):
            tag, colon, stored = answer.partition(b":") if isinstance(answer, bytes) else (b"", b"", b"")
            if colon:
                rows.append((key, tag.decode(errors="replace"), stored))
        return self._loaded(rows)


def _unreachable() -> tuple[type[BaseException], ...]:
    """Return what clients raise when the server cannot be reached."""
    errors = sys.modules.get("redis.exceptions")
    return (errors.ConnectionError, errors.TimeoutError, OSError) if errors is not None else (OSError,)


def _warn(exc: BaseException) -> None:
    logger.warning("The Redis cache cannot be reached, and results are neither found nor kept: %r", exc)


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]^\\" else char for char in text)


__all__ = ["RedisCache"]
