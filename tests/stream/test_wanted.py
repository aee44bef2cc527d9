from __future__ import annotations

from typing import Any

import pytest

from langgraph_async.errors import ConfigError
from langgraph_async.stream.wanted import MODES, Wanted, parse_modes


def test_one_mode_is_not_a_list() -> None:
    assert parse_modes("custom", "updates") == (frozenset({"custom"}), False)


def test_none_means_the_default() -> None:
    assert parse_modes(None, "updates") == (frozenset({"updates"}), False)
    assert parse_modes(None, ()) == (frozenset(), True)


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_any_collection_counts_as_a_list(kind: Any) -> None:
    assert parse_modes(kind(["values", "updates"]), "updates") == (frozenset({"values", "updates"}), True)


def test_an_empty_list_wants_nothing() -> None:
    modes, is_list = parse_modes([], "updates")

    assert modes == frozenset()
    assert is_list
    assert not Wanted.of(modes)


@pytest.mark.parametrize(("given", "meant"), [("update", "updates"), ("Values", "values"), ("message", "messages")])
def test_an_unknown_mode_is_refused_with_the_likely_one(given: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"stream mode '{given}' in stream_mode. Did you mean '{meant}'"):
        parse_modes(["values", given], "updates")


@pytest.mark.parametrize("given", ["zzz", [3], [["values"]], 3, b"values"])
def test_anything_else_that_is_no_mode_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="print_mode"):
        parse_modes(given, "updates", option="print_mode")


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_has_its_flag(mode: str) -> None:
    wanted = Wanted.of([mode])

    assert wanted
    assert [other for other in MODES if getattr(wanted, other)] == [mode]


def test_debug_needs_the_payloads_of_tasks_and_checkpoints_but_does_not_emit_them() -> None:
    wanted = Wanted.of(["debug"])

    assert wanted.any_tasks
    assert wanted.any_checkpoints
    assert not wanted.tasks
    assert not wanted.checkpoints


def test_two_wishes_add_up() -> None:
    assert Wanted.of(["values"]) | Wanted.of(["debug"]) == Wanted.of(["values", "debug"])
