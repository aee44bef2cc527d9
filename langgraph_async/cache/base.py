"""The cache port: results by namespace and key, each for as long as it may live.

A cache may forget anything at any time. It must not make anything up: an entry that cannot be read any more is an
entry that is not there.
"""

from __future__ import annotations

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

from langgraph_async.constants import MISSING
from langgraph_async.serde.base import SerializerProtocol
from langgraph_async.serde.msgpack import JsonPlusSerializer

Namespace: TypeAlias = tuple[str, ...]
"""What entries belong together, and are cleared together."""
FullKey: TypeAlias = tuple[Namespace, str]
"""Namespace and key of an entry."""
ValueT = TypeVar("ValueT")

logger: Final = logging.getLogger("langgraph_async")


class BaseCache(ABC, Generic[ValueT]):
    """Keeps values by namespace and key.

    The engine uses the async methods. The blocking twins are for scripts; a cache that has none says so.

    Args:
        serde: The serializer for values; by default that of the savers, without pickle.

    Attributes:
        serde: That serializer.
    """

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        self.serde: SerializerProtocol = serde if serde is not None else JsonPlusSerializer()

    @abstractmethod
    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return the values of those keys that are there and have not expired."""

    @abstractmethod
    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """Store values, each with the seconds that it lives (None: until it is cleared), over what was there.

        Raises:
            SerializationError: A value cannot be stored; then none of them is.
        """

    @abstractmethod
    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget what is in these namespaces, or everything."""

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:  # noqa: ARG002
        """Return what `aget` returns."""
        raise self._async_only("get")

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:  # noqa: ARG002
        """Do what `aset` does."""
        raise self._async_only("set")

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:  # noqa: ARG002
        """Do what `aclear` does."""
        raise self._async_only("clear")

    def with_allowlist(self, types: Iterable[Any]) -> Self:
        """Return this cache with more types that may be read back: the same entries, another serializer."""
        extend = getattr(self.serde, "with_allowlist", None)
        serde = extend(types) if extend is not None else self.serde
        if serde is self.serde:
            return self
        other = copy.copy(self)
        other.serde = serde
        return other

    def _async_only(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} is for asyncio only: use 'await cache.a{method}(...)'.")

    def _dumped(
        self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]
    ) -> list[tuple[FullKey, float | None, str, bytes]]:
        """Return key, seconds to live, tag and bytes of each entry."""
        return [(key, ttl, *self.serde.dumps_typed(value)) for key, (value, ttl) in pairs.items()]

    def _loaded(self, rows: Iterable[tuple[FullKey, str, bytes]]) -> dict[FullKey, ValueT]:
        """Return the values of stored entries, without those that cannot be read."""
        found = {key: self._value(key, tag, stored) for key, tag, stored in rows}
        return {key: value for key, value in found.items() if value is not MISSING}

    def _value(self, key: FullKey, tag: str, stored: bytes) -> Any:
        try:
            return self.serde.loads_typed((tag, stored))
        except Exception as exc:  # noqa: BLE001
            # Whatever is wrong with it, the result can be made again.
            logger.warning(
                "An entry of the cache in namespace %s cannot be read, and counts as missing: %r", key[0], exc
            )
            return MISSING


__all__ = ["BaseCache", "FullKey", "Namespace", "ValueT"]
