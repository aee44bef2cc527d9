"""Components as messages (specification 10.2)."""

import copy
from typing import Annotated

import pytest
from langchain_core.messages import AIMessage
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph
from langgraph_async.graph.ui import delete_ui_message, push_ui_message, ui_message_reducer


class State(TypedDict, total=False):
    ui: Annotated[list, ui_message_reducer]
    x: int


def component(id, props=None, *, merge=False):
    return {"type": "ui", "id": id, "name": "card", "props": props or {}, "metadata": {"merge": merge}}


def gone(id):
    return {"type": "remove-ui", "id": id}


def graph(node):
    builder = StateGraph(State)
    builder.add_node(node)
    builder.add_edge(START, node.__name__)
    return builder.compile()


@pytest.mark.parametrize("message", [{"role": "assistant", "content": "", "id": "m"}, AIMessage("", id="m")])
async def test_a_component_is_sent_at_once_and_written(message):
    made: list = []

    async def n(state):
        made.append(push_ui_message("card", {"a": 1}, message=message, metadata={"z": 1}))

    modes = ["custom", "updates", "values"]
    got = [item async for item in graph(n).astream({"x": 1}, {"tags": ["t"]}, stream_mode=modes)]

    (component,) = made
    assert component == {
        "type": "ui",
        "id": component["id"],
        "name": "card",
        "props": {"a": 1},
        "metadata": {"merge": False, "run_id": None, "tags": ["t"], "name": None, "z": 1, "message_id": "m"},
    }
    assert got[1:] == [
        ("custom", component),
        ("updates", {"n": {"ui": component}}),
        ("values", {"x": 1, "ui": [component]}),
    ]


async def test_a_component_can_be_changed_and_taken_away():
    async def n(state):
        card = push_ui_message("card", {"a": 1}, id="c")
        push_ui_message("card", {"b": 2}, id=card["id"], merge=True)
        push_ui_message("other", {}, id="o")
        assert delete_ui_message("o") == gone("o")

    got = [item async for item in graph(n).astream({"x": 1}, stream_mode=["custom", "values"])]

    assert [item["type"] for mode, item in got if mode == "custom"] == ["ui", "ui", "ui", "remove-ui"]
    assert [(c["id"], c["props"]) for c in got[-1][1]["ui"]] == [("c", {"a": 1, "b": 2})]


async def test_without_a_state_key_it_is_only_sent():
    async def n(state):
        push_ui_message("card", {}, state_key=None)
        delete_ui_message("c", state_key=None)

    assert (await graph(n).ainvoke({"x": 1})).get("ui") in (None, [])


@pytest.mark.parametrize(
    ("left", "right", "merged"),
    [
        ([], component("1"), [component("1")]),
        (component("1"), component("2"), [component("1"), component("2")]),
        ([component("1", {"a": 1})], [component("1", {"b": 1})], [component("1", {"b": 1})]),
        (
            [component("1", {"a": 1, "c": 1})],
            [component("1", {"b": 1, "c": 2}, merge=True)],
            [component("1", {"a": 1, "b": 1, "c": 2}, merge=True)],
        ),
        ([component("1"), component("2")], [gone("1")], [component("2")]),
        (
            [component("1", {"a": 1})],
            [gone("1"), component("1", {"b": 1}, merge=True)],
            [component("1", {"a": 1, "b": 1}, merge=True)],
        ),
        ([component("1")], [component("2"), gone("2")], [component("1")]),
    ],
)
def test_components_are_merged_by_id(left, right, merged):
    before = copy.deepcopy((left, right))

    assert ui_message_reducer(left, right) == merged
    assert (left, right) == before


def test_taking_away_an_unknown_component_is_refused():
    with pytest.raises(ValueError, match=r"delete an UI message with an ID that doesn't exist \('9'\)"):
        ui_message_reducer([component("1")], gone("9"))


def test_it_works_only_inside_a_node():
    with pytest.raises(RuntimeError, match="outside of a runnable context"):
        push_ui_message("card", {})
