"""Where and how the runs of these tests go: every place with every saver and every durability, and the like.

Of a test that has three such axes, a third runs without ``-m slow``, in which each two values still meet: every place
with every saver, every place with every durability, every saver with every durability.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from places import PLACES, invoked, streamed
from slow_savers import SAVERS

HERE = Path(__file__).parent
AXES = ("place", "asking", "shape", "saver", "durability")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        indices = getattr(getattr(item, "callspec", None), "indices", {})
        at = [indices[axis] for axis in AXES if axis in indices]
        if item.path.parent == HERE and len(at) == 3 and sum(at) % 3:
            item.add_marker(pytest.mark.slow)


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
