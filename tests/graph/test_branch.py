"""Results of conditional edges as writes."""

from typing import Literal

import pytest

from langgraph_async.errors import InvalidUpdateError, RouteError, UnmappedRouteError
from langgraph_async.graph import END, START
from langgraph_async.graph.branch import branch_of, resolver
from langgraph_async.graph.writes import Places
from langgraph_async.types import Send

PLACES = Places(graph="g", keys=frozenset({"x"}), nodes=frozenset({"a", "b"}))


def route(state):
    return "a"


def resolve(result, path_map=None):
    return list(resolver(branch_of("src", route, path_map), PLACES)(result))


@pytest.mark.parametrize(
    ("path_map", "result", "writes"),
    [
        (None, "a", [("branch:to:a", None)]),
        (None, END, []),
        (None, [], []),
        (None, ["a", END, Send("b", 1)], [("branch:to:a", None), ("__pregel_tasks", Send("b", 1))]),
        (None, ("a", "b"), [("branch:to:a", None), ("branch:to:b", None)]),
        ({True: "a", False: END}, True, [("branch:to:a", None)]),
        ({True: "a", False: END}, False, []),
        ({"yes": "a"}, ["yes", Send("b", 1)], [("branch:to:a", None), ("__pregel_tasks", Send("b", 1))]),
        (["a", "b"], "b", [("branch:to:b", None)]),
    ],
)
def test_results_become_writes(path_map, result, writes):
    assert resolve(result, path_map) == writes


@pytest.mark.parametrize(
    ("path_map", "result", "error", "message"),
    [
        (None, None, RouteError, "Branch did not return a valid destination"),
        (None, START, RouteError, "Branch did not return a valid destination"),
        (None, 3, RouteError, "gave 3, a int"),
        (None, "A", InvalidUpdateError, "Branch 'route' of node 'src' in graph 'g' goes to unknown node 'A'.*'a'"),
        (None, Send("c", 1), InvalidUpdateError, "Branch 'route' of node 'src' of graph 'g' sends to unknown node 'c'"),
        (None, Send(END, 1), InvalidUpdateError, "Cannot send a packet to the END node"),
        ({"yes": "a"}, "yess", UnmappedRouteError, "returned 'yess', which its path_map does not have.*'yes'"),
        ({"yes": "a"}, {}, UnmappedRouteError, "returned {}"),
    ],
)
def test_results_that_lead_nowhere_name_router_source_and_target(path_map, result, error, message):
    with pytest.raises(error, match=message):
        resolve(result, path_map)


def test_an_unmapped_result_is_a_key_error_and_a_value_error():
    with pytest.raises(KeyError):
        resolve("no", {"yes": "a"})
    with pytest.raises(ValueError, match="path_map"):
        resolve("no", {"yes": "a"})


@pytest.mark.parametrize(
    ("hint", "ends"),
    [
        (Literal["a", "b"], {"a": "a", "b": "b"}),
        (Literal["a"] | Send, {"a": "a"}),
        (Literal["a"] | list[Send], {"a": "a"}),
        (Literal["a"] | str, None),
        (str, None),
    ],
)
def test_a_literal_return_hint_is_a_path_map(hint, ends):
    def hinted(state):
        return None

    hinted.__annotations__["return"] = hint

    assert branch_of("src", hinted, None).ends == ends


def test_a_path_map_wins_over_the_return_hint():
    def hinted(state) -> Literal["a"]:
        return "a"

    assert branch_of("src", hinted, {"b": "a"}).ends == {"b": "a"}


def test_sync_routers_run_inline():
    assert branch_of("src", route, None).path.kind == "inline"
