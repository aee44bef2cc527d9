"""A cache in a PostgreSQL table, for any number of machines."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import asyncpg

from langgraph_async.aio.once import Once
from langgraph_async.cache.base import BaseCache, FullKey, Namespace, ValueT
from langgraph_async.errors import StorageError
from langgraph_async.serde.base import SerializerProtocol

_OPENING: Final = "langgraph_async_cache_connect"
_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS langgraph_cache (
        ns TEXT[] NOT NULL, key TEXT NOT NULL, expiry TIMESTAMPTZ, encoding TEXT NOT NULL, val BYTEA NOT NULL,
        PRIMARY KEY (ns, key)
    )"""
_INDEX: Final = "CREATE INDEX IF NOT EXISTS langgraph_cache_expiry ON langgraph_cache (expiry) WHERE expiry IS NOT NULL"
_SELECT: Final = """
    SELECT place, encoding, val FROM langgraph_cache
    JOIN unnest($1::text[], $2::text[]) WITH ORDINALITY AS wanted (ns, key, place)
        ON langgraph_cache.ns = wanted.ns::text[] AND langgraph_cache.key = wanted.key
    WHERE expiry IS NULL OR expiry > clock_timestamp()"""
_UPSERT: Final = """
    INSERT INTO langgraph_cache (ns, key, expiry, encoding, val)
    SELECT ns::text[], key, clock_timestamp() + make_interval(secs => ttl), encoding, val
    FROM unnest($1::text[], $2::text[], $3::float8[], $4::text[], $5::bytea[]) AS given (ns, key, ttl, encoding, val)
    ORDER BY 1, 2
    ON CONFLICT (ns, key) DO UPDATE SET expiry = EXCLUDED.expiry, encoding = EXCLUDED.encoding, val = EXCLUDED.val"""
_DELETE: Final = "DELETE FROM langgraph_cache WHERE ns IN (SELECT unnest($1::text[])::text[])"
_SWEEP: Final = "DELETE FROM langgraph_cache WHERE expiry <= clock_timestamp()"


class PostgresCache(BaseCache[ValueT]):
    """Keeps values in the table ``langgraph_cache``; call `setup` once to create it.

    Lifetimes go by the server's clock. A cache belongs to the event loop in which it is first used. Expired entries
    take room until `asweep`::

        async with PostgresCache.from_conn_string("postgresql://...") as cache:
            await cache.setup()
            graph = builder.compile(cache=cache)

    Args:
        pool: A pool of asyncpg of yours, which stays open when the cache is closed.
        serde: The serializer for values.

    Raises:
        StorageError: By all methods: the database cannot be used.
    """

    def __init__(self, pool: Any, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._source = _Source(pool)

    @classmethod
    def from_conn_string(
        cls, conn_string: str, *, serde: SerializerProtocol | None = None, max_size: int = 4, **connect: Any
    ) -> Self:
        """Return a cache with a pool of its own, to be used in ``async with``, or closed with `aclose`.

        Args:
            conn_string: Where the server is.
            serde: The serializer for values.
            max_size: Connections at most.
            connect: Further arguments for `asyncpg.create_pool`.
        """
        cache = cls(None, serde=serde)
        cache._source = _Source(None, {"dsn": conn_string, "min_size": 0, "max_size": max_size, **connect})
        return cache

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that the cache has made."""
        await self._source.close()

    async def setup(self) -> None:
        """Create the table, unless it is there."""
        await self._source.call("execute", f"{_TABLE}; {_INDEX}")

    async def asweep(self) -> None:
        """Delete what has expired."""
        await self._source.call("execute", _SWEEP)

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return the values of those keys that are there and have not expired."""
        if not keys:
            return {}
        rows = await self._source.call("fetch", _SELECT, [_array(ns) for ns, _ in keys], [key for _, key in keys])
        return self._loaded([(keys[place - 1], tag, stored) for place, tag, stored in rows])

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """Store values, each with the seconds that it lives."""
        if not pairs:
            return
        rows = [(_array(ns), key, ttl, tag, stored) for (ns, key), ttl, tag, stored in self._dumped(pairs)]
        await self._source.call("execute", _UPSERT, *map(list, zip(*rows, strict=True)))

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget what is in these namespaces, or everything."""
        if namespaces is None:
            await self._source.call("execute", "DELETE FROM langgraph_cache")
        elif namespaces:
            await self._source.call("execute", _DELETE, [_array(ns) for ns in namespaces])


class _Source:
    """The pool, made when it is first used; shared by caches that differ in their serializers."""

    def __init__(self, pool: Any, options: Mapping[str, Any] | None = None) -> None:
        self._pool = pool
        self._options = options
        self._opening = Once(_OPENING)

    def __del__(self) -> None:
        if getattr(self, "_options", None) is not None and self._pool is not None:
            warnings.warn(
                "A PostgreSQL cache was dropped open. Close it: 'async with cache:', or 'await cache.aclose()'.",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    async def call(self, method: str, statement: str, *arguments: Any) -> Any:
        """Call a method of the pool, which is one transaction."""
        try:
            if self._pool is None:
                await self._opening.do(self._open)
            return await getattr(self._pool, method)(statement, *arguments)
        except asyncpg.UndefinedTableError as exc:
            raise StorageError("The PostgreSQL cache has no table yet: 'await cache.setup()' creates it.") from exc
        except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as exc:
            raise StorageError(f"The PostgreSQL cache cannot be used: {exc}.") from exc

    async def close(self) -> None:
        """Close the pool, if it was made here."""
        if self._options is not None and self._pool is not None:
            pool, self._pool = self._pool, None
            self._opening = Once(_OPENING)
            await pool.close()

    async def _open(self) -> None:
        self._pool = await asyncpg.create_pool(**(self._options or {}))


def _array(ns: Namespace) -> str:
    """Return a namespace as the text of an array: an array of arrays of several lengths cannot be sent."""
    quoted = (part.replace("\\", "\\\\").replace('"', '\\"') for part in ns)
    return "{" + ",".join(f'"{part}"' for part in quoted) + "}"


__all__ = ["PostgresCache"]
