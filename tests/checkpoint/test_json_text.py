"""The encoder that is made once writes what that of the standard library writes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_async.checkpoint import json_text
from langgraph_async.checkpoint.json_text import json_encoder

TIGHT = json_encoder(ascii_only=True, allow_nan=False, separators=(",", ":"))
LOOSE = json_encoder(ascii_only=False, allow_nan=True, separators=(", ", ": "))
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.none() | st.booleans(), inner),
)


@given(DOCUMENTS)
def test_a_document_is_written_as_by_the_standard_library(document: Any) -> None:
    assert TIGHT(document) == json.dumps(document, allow_nan=False, separators=(",", ":"))
    assert LOOSE(document) == json.dumps(document, ensure_ascii=False)


def test_numbers_that_are_not_finite_are_refused_where_asked() -> None:
    assert LOOSE({"a": math.inf}) == '{"a": Infinity}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        TIGHT({"a": math.inf})


def test_what_json_lacks_is_a_type_error_and_the_next_document_is_written() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        TIGHT({"a": [object()]})

    assert TIGHT({"a": [1]}) == '{"a":[1]}'


def test_a_structure_that_contains_itself_is_an_error() -> None:
    ring: list[Any] = []
    ring.append(ring)

    with pytest.raises((RecursionError, ValueError)):
        TIGHT(ring)


def test_an_interpreter_without_the_fast_encoder_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text.json.encoder, "c_make_encoder", None)
    slow = json_encoder(ascii_only=False, allow_nan=True, separators=(", ", ": "))

    assert slow({"a": ["é", 1.5, None]}) == LOOSE({"a": ["é", 1.5, None]})
