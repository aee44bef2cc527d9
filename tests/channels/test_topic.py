from __future__ import annotations

from collections.abc import Sequence

from langgraph_async.channels import Topic


def test_a_written_list_counts_as_its_items_one_level_deep() -> None:
    topic = Topic(str)
    topic.update(["a", ["b", ["c"]], ("d", "e")])

    assert topic.get() == ["a", "b", ["c"], ("d", "e")]


def test_values_last_for_one_step() -> None:
    topic = Topic(str)
    topic.update(["a"])

    assert topic.update(()) is True
    assert topic.update(()) is False
    assert not topic.is_available()


def test_accumulated_values_stay() -> None:
    topic = Topic(str, accumulate=True)
    topic.update(["a"])
    topic.update([["b", "a"]])

    assert topic.update(()) is False
    assert topic.get() == ["a", "b", "a"]


def test_writing_empty_lists_only_changes_nothing_unless_values_are_dropped() -> None:
    topic = Topic(str)

    assert topic.update([[]]) is False
    topic.update(["a"])
    assert topic.update([[]]) is True
    assert Topic(str, accumulate=True).update([[], []]) is False


def test_changing_what_get_returned_does_not_change_the_topic() -> None:
    topic = Topic(str)
    topic.update(["a"])
    topic.get().append("b")

    assert topic.get() == ["a"]


def test_an_empty_topic_is_stored_as_an_empty_list() -> None:
    assert Topic(str).checkpoint() == []


def test_the_old_stored_pair_is_understood() -> None:
    assert Topic(str).from_checkpoint((set(), ["a"])).get() == ["a"]


def test_the_list_stored_is_not_the_one_restored_into() -> None:
    stored = ["a"]
    topic = Topic(str, accumulate=True).from_checkpoint(stored)
    topic.update(["b"])

    assert stored == ["a"]


def test_types_for_schemas_and_equality_by_accumulation() -> None:
    topic = Topic(str)

    assert topic.ValueType == Sequence[str]
    assert topic.UpdateType == str | list[str]
    assert topic == Topic(int)
    assert topic != Topic(str, accumulate=True)
