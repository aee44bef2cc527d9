"""The tag ``json``: how values were stored before MessagePack. Only read, never written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from langgraph_async.serde.ext import BUILTIN_ERRORS, MANY, METHOD, MODEL, NAMED, ONE, Refused, Row

_METHODS = frozenset({"fromisoformat"})


def loads_json(data: bytes, find_row: Callable[[str, str], Row]) -> Any:
    """Return the value in `data`, making what its envelopes (``{"lc": 2, "type": "constructor", ...}``) describe.

    Raises:
        Refused: The bytes are not JSON, or an envelope names what may not be called.
    """

    def hook(found: dict[str, Any]) -> Any:
        if found.get("lc") == 2 and found.get("type") == "constructor" and isinstance(found.get("id"), list):
            return _revive(found, find_row)
        return _revive_langchain(found) if found.get("lc") == 1 else found

    try:
        return json.loads(data, object_hook=hook)
    except (ValueError, RecursionError, MemoryError) as error:
        raise Refused(f"the stored JSON is malformed ({type(error).__name__}: {error})") from None


def _revive(found: dict[str, Any], find_row: Callable[[str, str], Row]) -> Any:
    module, name = ".".join(map(str, found["id"][:-1])), str(found["id"][-1])
    arguments, keywords = found.get("args") or [], found.get("kwargs") or {}
    if (module, name) in BUILTIN_ERRORS:
        return None  # as LangGraph does: only the fact that it failed was kept
    row = find_row(module, name)
    failure: Exception = Refused("it has neither arguments nor keywords")
    for code, payload, note in _calls(arguments, keywords, found.get("method")):
        try:
            return row.decode(code, payload, note)
        except Exception as error:  # noqa: BLE001  (the next form may be the one)
            failure = error
    raise Refused(f"cannot make a {module}.{name} from the stored JSON: {failure}")


def _calls(arguments: list[Any], keywords: dict[str, Any], method: Any) -> list[tuple[int, Any, Any]]:
    """Return the calls an envelope may mean: it does not say which form its type has."""
    if keywords:
        return [(NAMED, keywords, None), (MODEL, keywords, None)]
    single = [(ONE, arguments[0], None)] if len(arguments) == 1 else []
    dated = [(METHOD, arguments[0], method)] if method in _METHODS and len(arguments) == 1 else []
    return [*dated, *single, (MANY, arguments, None), *([(NAMED, {}, None)] if not arguments else [])]


def _revive_langchain(found: dict[str, Any]) -> Any:
    try:
        from langchain_core.load.load import Reviver
    except ImportError:
        raise Refused("the stored JSON holds a langchain object; pip install langchain-core") from None
    try:
        return Reviver(allowed_objects="core")(found)
    except Exception as error:
        raise Refused(f"langchain-core cannot read an object in the stored JSON: {error}") from error
