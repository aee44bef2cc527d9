"""Checks an answer against the type that `interrupt(..., response_schema=...)` asked for, and tells questions apart."""

from __future__ import annotations

import pickle
from typing import Any


def schema_of(response_schema: Any) -> tuple[dict[str, Any] | None, Any]:
    """Return the JSON schema to show and the pydantic adapter to check with; None where there is none.

    A dict is a JSON schema: it is shown, never enforced. Anything else is taken for a type.

    Raises:
        ImportError: A type was given, and pydantic is not installed.
    """
    if response_schema is None:
        return None, None
    if isinstance(response_schema, dict):
        return response_schema, None
    try:
        from pydantic import TypeAdapter
    except ImportError as exc:
        raise ImportError(
            "interrupt(..., response_schema=<type>) checks answers with pydantic: "
            "pip install 'langgraph-async[pydantic]'. A JSON schema (a dict) needs nothing."
        ) from exc
    adapter: Any = TypeAdapter(response_schema)
    return adapter.json_schema(), adapter


def check_answer(adapter: Any, answer: Any) -> Any:
    """Return the answer, converted to the type that was asked for.

    Raises:
        ValueError: It does not fit; `is_invalid_resume` recognises the error.
    """
    if adapter is None:
        return answer
    try:
        return adapter.validate_python(answer)
    except ValueError as exc:
        exc.__langgraph_invalid_resume__ = True  # type: ignore[attr-defined]
        raise


def same_value(one: Any, other: Any) -> bool:
    """Tell whether two values are equal, by what they pickle to where they cannot be compared."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - arrays, for one, have no truth value
        return _pickled(one) == _pickled(other) is not None


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001 - then it counts as different
        return None
