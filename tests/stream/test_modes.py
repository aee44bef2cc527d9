from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from langgraph_async.stream import modes
from langgraph_async.types import Interrupt, PregelTask

KEYS = frozenset({"x", "log"})
QUESTION = Interrupt("q?", "0" * 32)
QUESTION_DICT = {"value": "q?", "id": "0" * 32, "response_schema": None}


@pytest.mark.parametrize(
    ("writes", "keys", "expected"),
    [
        ([("x", 1), ("hidden", 2), ("log", ["a"])], KEYS, {"x": 1, "log": ["a"]}),
        ([("x", 1)], ["x"], {"x": 1}),
        ([("log", ["a"]), ("log", ["b"]), ("x", 1)], KEYS, [{"log": ["a"]}, {"log": ["b"]}, {"x": 1}]),
        ([("hidden", 1)], KEYS, None),
        ([], KEYS, None),
        ([("x", 1), ("log", ["a"])], "x", 1),
        ([("x", 0), ("x", 1)], "x", [0, 1]),
        ([("x", None)], "x", None),
        ([("log", 1)], "x", None),
        ([("__return__", 0)], KEYS, 0),
        ([("__return__", None)], "x", None),
    ],
)
def test_updates_show_what_a_task_wrote_to_the_output(writes: Any, keys: Any, expected: Any) -> None:
    assert modes.updates_payload("n", writes, keys) == {"n": expected}


def test_cached_updates_are_marked_after_the_node() -> None:
    payload = modes.updates_payload("n", [("x", 1)], KEYS, cached=True)

    assert list(payload.items()) == [("n", {"x": 1}), ("__metadata__", {"cached": True})]


def test_a_pause_is_an_update_with_its_questions() -> None:
    assert modes.interrupt_payload([QUESTION]) == {"__interrupt__": (QUESTION,)}
    assert modes.interrupt_payload(()) == {"__interrupt__": ()}


@pytest.mark.parametrize(
    ("values", "expected"), [({"x": 1}, {"x": 1, "__interrupt__": (QUESTION,)}), (5, {"__interrupt__": (QUESTION,)})]
)
def test_values_of_a_paused_run_carry_its_questions(values: Any, expected: Any) -> None:
    assert modes.values_payload(values, [QUESTION]) == expected
    assert modes.values_payload(values) is values


@pytest.mark.parametrize(
    ("writes", "keys", "expected"),
    [
        ([("x", 1), ("hidden", 1)], KEYS, {"x": 1}),
        ([("log", 1), ("x", 0), ("log", 2)], KEYS, {"log": {"$writes": [1, 2]}, "x": 0}),
        ([("__root__", [1])], "__root__", {"__root__": [1]}),
        ([], KEYS, {}),
        ([("__return__", None)], KEYS, {"__return__": None}),
    ],
)
def test_a_result_shows_the_visible_writes(writes: Any, keys: Any, expected: Any) -> None:
    assert modes.result_value(writes, keys) == expected


@pytest.mark.parametrize(
    ("writes", "keys", "expected"),
    [
        ([("x", 1)], KEYS, {"x": 1}),
        ([], KEYS, {}),
        ([("__return__", 7)], "__end__", 7),
        ([("__root__", 1), ("__root__", 2)], "__root__", {"$writes": [1, 2]}),
        ([], "__root__", None),
    ],
)
def test_a_snapshots_result_is_bare_where_there_is_one_channel(writes: Any, keys: Any, expected: Any) -> None:
    assert modes.snapshot_result(writes, keys) == expected


def test_the_visible_metadata_is_the_users_own() -> None:
    given = {"user": 1, "thread_id": "t", "checkpoint_ns": "", "langgraph_step": 3}

    shown = modes.visible_metadata(given, ["seq:step:1", "mine"])

    assert shown == {"user": 1, "tags": ["mine"]}
    assert modes.visible_metadata({"thread_id": "t"}, ["seq:step:1"]) == {}
    assert given["user"] == 1
    assert "tags" not in given


def test_a_task_start_shows_metadata_only_if_there_is_some() -> None:
    assert modes.task_start_payload("id", "n", {"x": 1}, ("t",), {}) == {
        "id": "id",
        "name": "n",
        "input": {"x": 1},
        "triggers": ("t",),
    }
    assert modes.task_start_payload("id", "n", 1, (), {"u": 1})["metadata"] == {"u": 1}


def test_a_task_result_carries_the_live_error_and_the_questions_as_dicts() -> None:
    error = ValueError("boom")

    payload = modes.task_result_payload("id", "n", error, [("x", 1)], KEYS, [QUESTION])

    assert payload == {"id": "id", "name": "n", "error": error, "result": {"x": 1}, "interrupts": [QUESTION_DICT]}


def test_a_checkpoint_shows_how_each_of_its_tasks_stands() -> None:
    tasks = [
        PregelTask("1", "failed", (), error="ValueError('boom')"),
        PregelTask("2", "finished", (), result={}),
        PregelTask("3", "asking", (), interrupts=(QUESTION,), state={"configurable": {}}),
    ]

    payload = modes.checkpoint_payload({"c": 1}, None, {"x": 1}, {"step": 0}, ("failed", "asking"), tasks)

    assert payload == {
        "config": {"c": 1},
        "parent_config": None,
        "values": {"x": 1},
        "metadata": {"step": 0},
        "next": ["failed", "asking"],
        "tasks": [
            {"id": "1", "name": "failed", "error": "ValueError('boom')", "state": None},
            {"id": "2", "name": "finished", "result": {}, "interrupts": (), "state": None},
            {"id": "3", "name": "asking", "interrupts": (QUESTION_DICT,), "state": {"configurable": {}}},
        ],
    }


def test_debug_wraps_a_payload_with_step_and_time() -> None:
    now = datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=UTC)

    assert modes.debug_payload(-1, "checkpoint", {"a": 1}, now=now) == {
        "step": -1,
        "timestamp": "2024-05-06T07:08:09.000010+00:00",
        "type": "checkpoint",
        "payload": {"a": 1},
    }
