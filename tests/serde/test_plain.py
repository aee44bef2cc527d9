"""Plain values are packed in one go, to the bytes that the careful way writes, whichever packer is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_async.serde import plain
from langgraph_async.serde.identity import identical
from langgraph_async.serde.jsonplus import JsonPlusSerializer
from langgraph_async.serde.plain import new_packer, pack_plain

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats()
leaves = st.none() | st.booleans() | numbers | st.text() | st.binary()
plain_values = st.recursive(
    leaves | st.lists(numbers, min_size=16, max_size=24),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)
PACKERS = ["msgpack", *(["ormsgpack"] if importlib.util.find_spec("ormsgpack") else [])]


@pytest.fixture(params=PACKERS, autouse=True, scope="module")
def packer(request: pytest.FixtureRequest) -> Iterator[str]:
    """With and without the accelerator, where that is installed."""
    caches = (plain._accelerator, plain.hidden_types, plain.shared_packer)
    patch = pytest.MonkeyPatch()
    if request.param == "msgpack":
        patch.setattr(plain, "_EXACT_TYPES", ("NO_SUCH_OPTION",))
    for cache in caches:
        cache.cache_clear()
    yield request.param
    patch.undo()
    for cache in caches:
        cache.cache_clear()


@settings(max_examples=50)
@given(plain_values)
def test_a_plain_value_is_packed_to_the_same_bytes_as_by_msgpack(value: Any) -> None:
    packed = pack_plain(new_packer(), value)

    assert packed == msgpack.packb(value, use_bin_type=True)


@settings(max_examples=50)
@given(plain_values)
def test_a_plain_value_comes_back_as_it_was(value: Any) -> None:
    serde = JsonPlusSerializer()

    assert identical(serde.loads_typed(serde.dumps_typed(value)), value)


@pytest.mark.parametrize(
    "odd",
    [bytearray(b"seven b"), memoryview(b"x"), msgpack.ExtType(1, b"x"), (1,), 2**70, "\ud800", {(1,): 2}, {1, 2}, 1j],
    ids=lambda odd: "memoryview" if isinstance(odd, memoryview) else repr(odd),
)
@pytest.mark.parametrize("beside", [[], [0.5] * 20, [1] * 20, ["x"] * 20], ids=["nothing", "floats", "ints", "texts"])
def test_what_is_not_plain_is_noticed_beside_what_is(odd: Any, beside: list[Any]) -> None:
    assert pack_plain(new_packer(), odd) is None
    assert pack_plain(new_packer(), [*beside, odd]) is None
    assert pack_plain(new_packer(), {"nested": [*beside, odd, *beside]}) is None


def test_long_lists_of_numbers_are_not_looked_through_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    floats = [number / 7 for number in range(1000)]
    looked_at: list[type] = []
    monkeypatch.setattr(plain, "type", lambda value: looked_at.append(value) or type(value), raising=False)

    assert pack_plain(new_packer(), floats) is not None
    assert pack_plain(new_packer(), {"vector": floats, "counts": [10**18 + n for n in range(1000)]}) is not None
    assert len(looked_at) < 20
