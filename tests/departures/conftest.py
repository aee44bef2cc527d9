from __future__ import annotations

import pytest
from places import PLACES, invoked, streamed
from slow_savers import SAVERS


@pytest.fixture(params=list(SAVERS))
def saver(request):
    """A new saver: one that never suspends, one that does, one that has only the primitive methods."""
    return SAVERS[request.param]()


@pytest.fixture(params=["async", "sync", "exit"])
def durability(request):
    return request.param


@pytest.fixture(params=list(PLACES))
def place(request):
    """Where the node stands: `place(node, saver)` returns the graph."""
    return PLACES[request.param]


@pytest.fixture(params=[invoked, streamed])
def run(request):
    return request.param
