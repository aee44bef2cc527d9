from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from langgraph_async.errors import ConfigError
from langgraph_async.stream.parts import Collector, Mappers, Namespace, shape
from langgraph_async.types import GraphOutput, Interrupt

CHILD = ("inner:1",)
QUESTION = Interrupt("q?", "0" * 32)
OTHER = Interrupt("r?", "1" * 32)


@dataclass
class Out:
    x: int


@dataclass
class State:
    x: int
    y: int = 0


MAPPERS: dict[Namespace, Mappers] = {(): Mappers(output=lambda d: Out(**d), state=lambda d: State(**d))}


@pytest.mark.parametrize(
    ("is_list", "subgraphs", "expected"),
    [
        (False, False, {"n": 1}),
        (True, False, ("updates", {"n": 1})),
        (False, True, (CHILD, {"n": 1})),
        (True, True, (CHILD, "updates", {"n": 1})),
    ],
)
def test_v1_items_say_what_the_caller_could_not_know(is_list: bool, subgraphs: bool, expected: Any) -> None:
    assert shape("v1", is_list=is_list, subgraphs=subgraphs)(CHILD, "updates", {"n": 1}) == expected


@pytest.mark.parametrize("is_list", [True, False])
@pytest.mark.parametrize("subgraphs", [True, False])
def test_v2_items_always_look_the_same(is_list: bool, subgraphs: bool) -> None:
    part = shape("v2", is_list=is_list, subgraphs=subgraphs)(CHILD, "custom", 5)

    assert part == {"type": "custom", "ns": CHILD, "data": 5}


def test_v2_values_have_their_questions_beside_them() -> None:
    form = shape("v2", is_list=False, subgraphs=False)
    payload = {"x": 1, "__interrupt__": (QUESTION,)}

    assert form((), "values", payload) == {"type": "values", "ns": (), "data": {"x": 1}, "interrupts": (QUESTION,)}
    assert form((), "values", {"x": 1}) == {"type": "values", "ns": (), "data": {"x": 1}, "interrupts": ()}
    assert form((), "values", 7) == {"type": "values", "ns": (), "data": 7, "interrupts": ()}
    assert "__interrupt__" in payload


def test_a_list_under_the_interrupt_key_is_another_runs_result_and_stays_data() -> None:
    payload = {"__interrupt__": [QUESTION]}

    part = shape("v2", is_list=False, subgraphs=False)((), "values", payload)

    assert part["data"] == payload
    assert part["interrupts"] == ()


def test_v2_values_have_the_type_of_the_output_schema() -> None:
    form = shape("v2", is_list=False, subgraphs=False, mappers=MAPPERS)

    assert form((), "values", {"x": 1, "__interrupt__": (QUESTION,)})["data"] == Out(1)
    assert form((), "values", 3)["data"] == 3
    assert form((), "updates", {"x": 1})["data"] == {"x": 1}


def test_values_of_a_nested_graph_get_its_own_type_and_never_the_roots() -> None:
    mappers = dict(MAPPERS)
    form = shape("v2", is_list=False, subgraphs=True, mappers=mappers)
    assert form(CHILD, "values", {"x": 1})["data"] == {"x": 1}

    mappers[CHILD] = Mappers(output=lambda d: State(**d))

    assert form(CHILD, "values", {"x": 1})["data"] == State(1)


def test_an_incomplete_output_of_a_paused_run_stays_a_dict() -> None:
    form = shape("v2", is_list=False, subgraphs=False, mappers=MAPPERS)

    assert form((), "values", {"__interrupt__": (QUESTION,)}) == {
        "type": "values",
        "ns": (),
        "data": {},
        "interrupts": (QUESTION,),
    }
    with pytest.raises(TypeError):
        form((), "values", {})


@pytest.mark.parametrize("mode", ["checkpoints", "debug"])
def test_v2_checkpoints_have_values_of_the_state_schema_once_there_is_a_state(mode: str) -> None:
    form = shape("v2", is_list=False, subgraphs=False, mappers=MAPPERS)

    def values(checkpoint: dict[str, Any]) -> Any:
        payload = checkpoint if mode == "checkpoints" else {"type": "checkpoint", "step": 0, "payload": checkpoint}
        data = form((), mode, payload)["data"]
        return (data if mode == "checkpoints" else data["payload"])["values"]

    given = {"values": {"x": 1}, "next": ["n"]}
    assert values(given) == State(1)
    assert given["values"] == {"x": 1}
    assert values({"values": {}, "next": ["__start__"]}) == {}
    assert values({"values": 5, "next": []}) == 5


def test_v2_debug_items_of_tasks_are_left_alone() -> None:
    payload = {"type": "task", "step": 0, "payload": {"input": {"x": 1}}}

    assert shape("v2", is_list=False, subgraphs=False, mappers=MAPPERS)((), "debug", payload)["data"] is payload


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ConfigError, match="'v3'"):
        shape("v3", is_list=False, subgraphs=False)


# -- the result of ainvoke ----------------------------------------------------------------------------------

VALUES = frozenset({"values"})


def collected(collector: Collector, *items: tuple[Any, str, Any]) -> Any:
    for item in items:
        collector(*item)
    return collector.result()


def test_the_result_is_the_last_output() -> None:
    collector = Collector("v1", VALUES, is_list=False)

    assert collected(collector, ((), "values", {"x": 0}), ((), "values", {"x": 1})) == {"x": 1}
    assert collector.last_only


def test_without_any_output_the_result_is_none() -> None:
    assert Collector("v1", VALUES, is_list=False).result() is None
    assert Collector("v2", VALUES, is_list=False).result() == GraphOutput(None)


def test_values_of_nested_graphs_are_not_the_result() -> None:
    collector = Collector("v1", VALUES, is_list=False, subgraphs=True)
    nested = Collector("v1", VALUES, is_list=False, subgraphs=True, ns=CHILD)
    items = [((), "values", {"x": 0}), (CHILD, "values", {"x": 9})]

    assert collected(collector, *items) == {"x": 0}
    assert collected(nested, *items) == {"x": 9}


@pytest.mark.parametrize(
    ("values", "expected"),
    [({"x": 0}, {"x": 0, "__interrupt__": [QUESTION, OTHER]}), (5, {"__interrupt__": [QUESTION, OTHER]})],
)
def test_v1_shows_each_question_once_however_it_came(values: Any, expected: Any) -> None:
    paused = values if isinstance(values, dict) else {}
    result = collected(
        Collector("v1", VALUES, is_list=False),
        ((), "values", values),
        ((), "updates", {"__interrupt__": (QUESTION,)}),
        ((), "values", {**paused, "__interrupt__": (QUESTION,)}),
        ((), "values", {**paused, "__interrupt__": (QUESTION, OTHER)}),
    )

    assert result == expected


def test_a_breakpoint_adds_nothing() -> None:
    collector = Collector("v1", VALUES, is_list=False)

    assert collected(collector, ((), "values", {"x": 0}), ((), "updates", {"__interrupt__": ()})) == {"x": 0}


def test_v2_gives_the_output_in_its_type_with_the_questions() -> None:
    collector = Collector("v2", VALUES, is_list=False, mappers=MAPPERS)

    result = collected(collector, ((), "values", {"x": 0, "__interrupt__": (QUESTION,)}))

    assert result == GraphOutput(Out(0), (QUESTION,))


def test_other_modes_give_all_items_in_their_shape() -> None:
    items = [((), "updates", {"n": None}), ((), "updates", {"m": None})]

    assert collected(Collector("v1", frozenset({"updates"}), is_list=False), *items) == [{"n": None}, {"m": None}]
    listed = Collector("v1", VALUES, is_list=True)
    assert collected(listed, ((), "values", {"x": 0})) == [("values", {"x": 0})]
    assert not listed.last_only
    parts = collected(Collector("v2", frozenset({"updates"}), is_list=False), items[0])
    assert parts == [{"type": "updates", "ns": (), "data": {"n": None}}]
    assert Collector("v1", frozenset(), is_list=True).result() == []
