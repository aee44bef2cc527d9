"""Finding the graphs that a node calls."""

from functools import partial, wraps
from types import SimpleNamespace

import pytest

from langgraph_async.pregel.subgraphs import find_subgraphs


class FakeGraph:
    is_pregel = True

    async def ainvoke(self, value, config=None): ...


GRAPH, OTHER = FakeGraph(), FakeGraph()
HOLDER = SimpleNamespace(inner=SimpleNamespace(graph=GRAPH))
LIST = [GRAPH]


async def by_global(state):
    return await GRAPH.ainvoke(state)


async def by_attributes(state):
    return await HOLDER.inner.graph.ainvoke(state)


def by_nested(state):
    async def run():
        return await GRAPH.ainvoke(state)

    return run()


async def by_list(state):
    return await LIST[0].ainvoke(state)


async def by_argument(state, graph):
    return await graph.ainvoke(state)


class Owner:
    def __init__(self):
        self.graph = GRAPH

    async def method(self, state):
        return await self.graph.ainvoke(state)

    async def __call__(self, state):
        return await self.graph.ainvoke(state)

    @property
    def trap(self):
        raise AssertionError("properties are not run")


def closure():
    graph = GRAPH

    async def call(state):
        return await graph.ainvoke(state)

    return call


def decorated():
    def log(function):
        @wraps(function)
        async def wrapper(state):
            return await function(state)

        return wrapper

    return log(by_global)


def opaque():
    function = by_global
    return lambda state: function(state)


@pytest.mark.parametrize(
    "target",
    [
        GRAPH,
        GRAPH.ainvoke,
        by_global,
        by_attributes,
        by_nested,
        lambda state: GRAPH.ainvoke(state),
        Owner().method,
        Owner(),
        partial(by_argument, graph=GRAPH),
        closure(),
        decorated(),
        opaque(),
        SimpleNamespace(ainvoke=None, steps=[by_list, GRAPH]),
    ],
)
def test_a_graph_is_found(target):
    assert find_subgraphs(target) == (GRAPH,)


@pytest.mark.parametrize("target", [by_list, len, print, by_argument, 3, None])
def test_what_is_not_known_beforehand_is_not_found(target):
    assert find_subgraphs(target) == ()


def test_each_graph_is_found_once_in_the_order_of_the_code():
    async def both(state):
        return await OTHER.ainvoke(await GRAPH.ainvoke(await OTHER.ainvoke(state)))

    assert find_subgraphs(both) == (OTHER, GRAPH)
