"""What is given for a cache policy, wherever one is given, and is none."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_async import MessagesState, StateGraph, entrypoint, task
from langgraph_async.errors import GraphBuildError
from langgraph_async.pregel import NodeBuilder


async def action(value: Any) -> Any:
    return value


def add_node(policy: Any) -> Any:
    return StateGraph(MessagesState).add_node("a", action, cache_policy=policy)


PLACES = {
    "node": add_node,
    "defaults": lambda policy: StateGraph(MessagesState).set_node_defaults(cache_policy=policy),
    "task": lambda policy: task(cache_policy=policy)(action),
    "entrypoint": lambda policy: entrypoint(cache_policy=policy)(action),
    "builder": lambda policy: NodeBuilder().add_cache_policy(policy),
}


@pytest.mark.parametrize("wrong", [0, 60, "x", [], True], ids=repr)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_cache_policy_is_refused(place: str, wrong: Any) -> None:
    with pytest.raises(GraphBuildError, match="cache_policy of .* cannot be used: expected a CachePolicy, got"):
        PLACES[place](wrong)
