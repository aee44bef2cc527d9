from __future__ import annotations

import operator
from collections.abc import Mapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, NotRequired, Required

import pytest

from langgraph_async.channels import BinaryOperatorAggregate
from langgraph_async.constants import MISSING
from langgraph_async.errors import InvalidUpdateError, ReducerError
from langgraph_async.types import Overwrite


def total(**options: Any) -> BinaryOperatorAggregate[int]:
    return BinaryOperatorAggregate(int, operator.add, key="n", **options)


def extend(left: list[Any], right: list[Any]) -> list[Any]:
    left.extend(right)
    return left


@pytest.mark.parametrize(
    ("typ", "first"),
    [
        (int, 0),
        (list[int], []),
        (Sequence[int], []),
        (MutableSequence, []),
        (AbstractSet[int], set()),
        (Mapping[str, int], {}),
        (Annotated[list[int], "note"], []),
        (Required[dict[str, int]], {}),
        (NotRequired[Annotated[Sequence[str], 1]], []),
        (int | None, MISSING),
    ],
)
def test_it_starts_from_an_empty_value_of_its_type(typ: Any, first: Any) -> None:
    channel = BinaryOperatorAggregate(typ, operator.add)

    assert channel.value == first
    assert channel.is_available() is (first is not MISSING)
    assert channel.from_checkpoint(MISSING).value == first


def test_writes_are_folded_in_order() -> None:
    channel = BinaryOperatorAggregate(str, operator.add)
    channel.update(["a", "b"])
    channel.update(["c"])

    assert channel.get() == "abc"


def test_a_write_that_changes_nothing_counts_as_a_change() -> None:
    assert total().update([0]) is True


def test_without_a_first_value_the_first_write_is_the_value() -> None:
    channel = BinaryOperatorAggregate(int | None, operator.add)
    channel.update([1, 2])

    assert channel.get() == 3


def test_a_first_write_that_overwrites_is_unwrapped() -> None:
    channel = BinaryOperatorAggregate(int | None, operator.add)
    channel.update([Overwrite(1)])

    assert channel.get() == 1


@pytest.mark.parametrize("replaces", [Overwrite([9]), {"__overwrite__": [9]}, {"type": "__overwrite__", "value": [9]}])
def test_an_overwrite_replaces_the_value_and_all_other_writes_of_its_step(replaces: Any) -> None:
    channel = BinaryOperatorAggregate(list, operator.add)
    channel.update([[1]])
    channel.update([[2], replaces, [3]])

    assert channel.get() == [9]


def test_two_overwrites_in_a_step_are_refused() -> None:
    channel = total()
    channel.update([1])

    with pytest.raises(InvalidUpdateError, match=r"'n': Can receive only one Overwrite value per super-step\."):
        channel.update([Overwrite(1), {"__overwrite__": 2}])
    assert channel.get() == 1


@pytest.mark.parametrize(
    "data", [{"__overwrite__": 1, "x": 2}, {"type": "__overwrite__"}, {"type": [1], "value": 2}, {}]
)
def test_a_dict_that_only_looks_like_an_overwrite_is_data(data: dict[str, Any]) -> None:
    channel = BinaryOperatorAggregate(dict, operator.or_)
    channel.update([data])

    assert channel.get() == data


def test_a_default_is_the_first_value_of_each_thread() -> None:
    channel = total(default=10)
    channel.update([5])

    assert channel.get() == 15
    assert channel.from_checkpoint(MISSING).get() == 10
    assert channel.copy().from_checkpoint(MISSING).get() == 10


@pytest.mark.parametrize("default", [{"default": ["d"]}, {"default_factory": lambda: ["d"]}])
def test_threads_do_not_share_a_default(default: dict[str, Any]) -> None:
    channel = BinaryOperatorAggregate(list, extend, **default)
    one, two = channel.from_checkpoint(MISSING), channel.from_checkpoint(MISSING)
    one.get().append("changed in place")

    assert two.get() == ["d"]
    assert channel.from_checkpoint(MISSING).get() == ["d"]


def test_the_default_factory_is_called_once_for_a_thread_and_never_for_a_copy() -> None:
    calls: list[int] = []
    channel = total(default_factory=lambda: len(calls) or calls.append(1) or 7)
    calls.clear()
    channel.from_checkpoint(1)
    channel.copy()
    assert calls == []

    channel.from_checkpoint(MISSING)
    assert calls == [1]


def test_a_default_of_none_counts_as_none() -> None:
    assert BinaryOperatorAggregate(list, operator.add, default=None).get() == []


def test_an_operator_that_raises_leaves_the_value_as_it_was_and_the_error_names_the_key() -> None:
    fault = RuntimeError("no")

    def fail_on_two(left: list[int], right: list[int]) -> list[int]:
        if right == [2]:
            raise fault
        return extend(left, right)

    channel = BinaryOperatorAggregate(list, fail_on_two, key="items")
    channel.update([[0]])

    with pytest.raises(ReducerError, match=r"At key 'items': reducer .*fail_on_two raised RuntimeError: no") as caught:
        channel.update([[1], [2]])
    assert caught.value.key == "items"
    assert caught.value.__cause__ is fault
    assert channel.get() == [0]


@pytest.mark.parametrize(
    "reducer", [extend, operator.iadd, lambda left, right: right if not left else extend(left, right)]
)
def test_an_operator_that_changes_its_left_operand_touches_nobody_elses_list(reducer: Any) -> None:
    channel = BinaryOperatorAggregate(list, reducer)
    written = [[1], [2], [3]]
    channel.update(written[:2])
    seen, stored, copy = channel.get(), channel.checkpoint(), channel.copy()
    channel.update(written[2:])

    assert channel.get() == [1, 2, 3]
    assert seen == stored == copy.get() == [1, 2]
    assert written == [[1], [2], [3]]


def test_a_wide_fan_out_of_lists_gives_what_folding_gives() -> None:
    channel = BinaryOperatorAggregate(list, operator.add)
    channel.update([[i] for i in range(100)])

    assert channel.get() == list(range(100))


def test_adding_a_tuple_to_a_list_is_refused_whatever_else_is_written() -> None:
    channel = BinaryOperatorAggregate(list, operator.add, key="k")

    with pytest.raises(ReducerError):
        channel.update([[1], (2,)])
    assert channel.get() == []


def test_a_value_is_rebuilt_from_its_stored_writes() -> None:
    channel = BinaryOperatorAggregate(list, operator.add).from_checkpoint(MISSING)
    channel.replay_writes([("t", "k", [1]), ("t", "k", Overwrite([5])), ("u", "k", [6]), ("v", "k", [7])])

    assert channel.get() == [5, 6, 7]


def test_replaying_nothing_changes_nothing() -> None:
    channel = total().from_checkpoint(3)
    channel.replay_writes([])

    assert channel.get() == 3


def test_equality_goes_by_operator_and_lambdas_are_equal_to_anything() -> None:
    assert total() == BinaryOperatorAggregate(float, operator.add)
    assert total() != BinaryOperatorAggregate(int, operator.mul)
    assert total() == BinaryOperatorAggregate(int, lambda a, b: a)


def test_an_unhashable_operator_works() -> None:
    class Adder:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, left: int, right: int) -> int:
            return left + right

    channel = BinaryOperatorAggregate(int, Adder())
    channel.update([1, 2])

    assert channel.get() == 3
