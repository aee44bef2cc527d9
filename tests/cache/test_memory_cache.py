"""The cache in memory: lifetimes go by its clock, and threads may share it."""

from __future__ import annotations

import threading
from typing import Any

from langgraph_async.aio.clock import FakeClock
from langgraph_async.cache.memory import InMemoryCache

NS = ("results", "node")


async def test_an_entry_expires_by_the_clock() -> None:
    clock = FakeClock()
    cache: InMemoryCache[Any] = InMemoryCache(clock=clock)
    await cache.aset({(NS, "short"): (1, 10), (NS, "long"): (2, 20), (NS, "for ever"): (3, None)})

    await clock.advance(10)

    assert await cache.aget([(NS, "short"), (NS, "long"), (NS, "for ever")]) == {(NS, "long"): 2, (NS, "for ever"): 3}


async def test_storing_again_renews_the_lifetime() -> None:
    clock = FakeClock()
    cache: InMemoryCache[Any] = InMemoryCache(clock=clock)
    await cache.aset({(NS, "k"): (1, 10)})
    await clock.advance(9)
    await cache.aset({(NS, "k"): (2, 10)})

    await clock.advance(9)

    assert await cache.aget([(NS, "k")]) == {(NS, "k"): 2}


def test_threads_may_share_it() -> None:
    cache: InMemoryCache[int] = InMemoryCache()

    def work(number: int) -> None:
        for i in range(50):
            cache.set({((str(number),), str(i)): (i, None)})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    keys = [((str(number),), str(i)) for number in range(4) for i in range(50)]
    assert cache.get(keys) == {key: int(key[1]) for key in keys}
