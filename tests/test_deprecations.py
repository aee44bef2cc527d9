"""Old spellings work, and say what took their place and since when."""

from __future__ import annotations

import pytest
from typing_extensions import TypedDict

from langgraph_async.errors import NodeInterrupt
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import MessageGraph, StateGraph
from langgraph_async.types import GraphOutput, Interrupt, RetryPolicy
from langgraph_async.warnings import (
    LangGraphDeprecatedSinceV05,
    LangGraphDeprecatedSinceV10,
    LangGraphDeprecatedSinceV11,
    LangGraphDeprecationWarning,
)


class State(TypedDict):
    x: int


def test_the_text_names_the_versions() -> None:
    warning = LangGraphDeprecationWarning("`a` is deprecated.", since=(1, 2), expected_removal=(5, 1))

    assert str(warning) == "`a` is deprecated. Deprecated in LangGraph V1.2 to be removed in V5.1."
    assert warning.message == "`a` is deprecated"


def test_what_is_deprecated_goes_with_the_next_major_version() -> None:
    assert LangGraphDeprecationWarning("x", since=(1, 2)).expected_removal == (2, 0)


@pytest.mark.parametrize(
    ("category", "since", "removal"),
    [
        (LangGraphDeprecatedSinceV05, (0, 5), (2, 0)),
        (LangGraphDeprecatedSinceV10, (1, 0), (2, 0)),
        (LangGraphDeprecatedSinceV11, (1, 1), (3, 0)),
    ],
)
def test_a_category_knows_its_versions(category, since, removal) -> None:
    warning = category("x")

    assert isinstance(warning, DeprecationWarning)
    assert (warning.since, warning.expected_removal) == (since, removal)


@pytest.mark.parametrize(
    ("category", "use"),
    [
        (LangGraphDeprecatedSinceV05, lambda: StateGraph(State, input=State)),
        (LangGraphDeprecatedSinceV10, lambda: StateGraph(State, config_schema=State)),
        (LangGraphDeprecatedSinceV05, lambda: task(retry=RetryPolicy())),
        (LangGraphDeprecatedSinceV05, lambda: entrypoint(retry=RetryPolicy())),
        (LangGraphDeprecatedSinceV10, lambda: entrypoint(config_schema=State)),
        (LangGraphDeprecatedSinceV10, MessageGraph),
        (LangGraphDeprecatedSinceV10, lambda: NodeInterrupt("x")),
        (LangGraphDeprecatedSinceV10, lambda: Interrupt("x", "a").interrupt_id),
        (LangGraphDeprecatedSinceV11, lambda: GraphOutput({"x": 1})["x"]),
        (LangGraphDeprecatedSinceV11, lambda: "x" in GraphOutput({"x": 1})),
    ],
)
def test_old_spellings_warn_where_they_are_used(category, use) -> None:
    with pytest.warns(category) as caught:
        use()

    assert caught[0].filename == __file__


def test_a_graph_output_can_still_be_read_like_a_dict() -> None:
    question = Interrupt("x", "a")
    result = GraphOutput({"x": 1}, (question,))

    with pytest.warns(LangGraphDeprecatedSinceV11):
        assert (result["x"], result["__interrupt__"], "y" in result) == (1, (question,), False)
