"""Rows with the old tag ``json``."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import Any

import pytest
import serde_types as user
from langchain_core.messages import HumanMessage

from langgraph_async.errors import SerializationError
from langgraph_async.serde.jsonplus import JsonPlusSerializer


def read(value: Any, **options: Any) -> Any:
    return JsonPlusSerializer(**options).loads_typed(("json", json.dumps(value).encode()))


def envelope(*names: str, **parts: Any) -> dict[str, Any]:
    return {"lc": 2, "type": "constructor", "id": list(names), **parts}


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ({"a": [1, None]}, {"a": [1, None]}),
        (envelope("uuid", "UUID", args=["0" * 31 + "1"]), uuid.UUID(int=1)),
        (envelope("builtins", "set", args=[[1, 2]]), {1, 2}),
        (envelope("datetime", "timedelta", args=[1, 2, 3]), dt.timedelta(1, 2, 3)),
        (envelope("datetime", "datetime", method="fromisoformat", args=["2024-01-01"]), dt.datetime(2024, 1, 1)),
        (envelope("langchain_core", "messages", "human", "HumanMessage", kwargs={"content": "x"}), HumanMessage("x")),
        (envelope("builtins", "ValueError", args=["x"]), None),
    ],
)
def test_an_envelope_is_read(stored: Any, value: Any) -> None:
    assert read([stored]) == [value]


def test_a_class_must_be_listed() -> None:
    stored = envelope("serde_types", "Plain", kwargs={"a": 1})

    assert read(stored, allowed_json_modules=[("serde_types", "Plain")]) == user.Plain(1)
    assert read(stored, allowed_msgpack_modules=[user.Plain]) == user.Plain(1)
    with pytest.raises(SerializationError, match="allowed_json_modules"):
        read(stored)


def test_a_langchain_envelope_is_read_by_langchain() -> None:
    stored = {
        "lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"],
        "kwargs": {"content": "x", "type": "human"},
    }  # fmt: skip

    assert read([stored]) == [HumanMessage("x")]


@pytest.mark.parametrize("data", [b"{", b"\xff", b"[" * 100_000])
def test_malformed_json_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        JsonPlusSerializer().loads_typed(("json", data))
