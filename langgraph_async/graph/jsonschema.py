"""JSON schemas of a graph's input, output and context, made by pydantic, which is loaded when one is asked for."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

from langgraph_async.constants import ROOT
from langgraph_async.errors import SchemaError
from langgraph_async.graph.blueprint import Blueprint
from langgraph_async.hints import Field, schema_fields, schema_kind

_HOW_TO_INSTALL = "JSON schemas need pydantic, which is not installed. Install it with: pip install pydantic"


def _pydantic() -> Any:
    try:
        import pydantic
    except ImportError as exc:
        raise ImportError(_HOW_TO_INSTALL) from exc
    return pydantic


def schema_jsonschema(board: Blueprint, schema: Any, title: str) -> dict[str, Any]:
    """Return the JSON schema of one of the graph's schemas.

    Args:
        board: The graph.
        schema: One of its registered schemas.
        title: Title of the JSON schema where the schema has none of its own.
    """
    pydantic = _pydantic()
    kind = schema_kind(schema)
    if kind == "pydantic":
        found: dict[str, Any] = schema.model_json_schema()
        return found
    if board.is_root(schema):
        model = pydantic.create_model(title, __base__=pydantic.RootModel[board.channels[ROOT].UpdateType])
        return dict(model.model_json_schema())
    if kind == "typeddict" and _is_plain(pydantic, schema):
        return {**pydantic.TypeAdapter(schema).json_schema(), "title": schema.__name__}
    return dict(_model(pydantic, board, schema, title).model_json_schema())


def _is_plain(pydantic: Any, schema: Any) -> bool:
    """Tell whether pydantic takes the TypedDict as it is; before Python 3.12 it refuses those of `typing`."""
    try:
        pydantic.TypeAdapter(schema).json_schema()
    except (pydantic.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError, TypeError):
        return False
    return True


def _model(pydantic: Any, board: Blueprint, schema: Any, title: str) -> Any:
    fields: dict[str, Any] = {}
    declared = schema_fields(schema)
    for key in board.keys_of(schema):
        if key in board.managed:
            continue
        options = _default(declared[key])
        name = key
        if key.startswith("_") or hasattr(pydantic.BaseModel, key):
            name = f"private_{key}"
            options["alias"] = key
        fields[name] = (board.channels[key].UpdateType, pydantic.Field(**options))
    config = pydantic.ConfigDict(arbitrary_types_allowed=True, populate_by_name=True)
    return pydantic.create_model(title, __config__=config, **fields)


def _default(declared: Field) -> dict[str, Any]:
    if declared.default_factory is not None:
        return {"default": declared.default_factory()}
    if declared.default is not dataclasses.MISSING:
        return {"default": declared.default}
    if not declared.required or type(None) in get_args(declared.hint):
        return {"default": None}
    return {"default": ...}


def context_jsonschema(schema: Any) -> dict[str, Any] | None:
    """Return the JSON schema of a context type, or None for None.

    Raises:
        SchemaError: It is neither a pydantic model, a TypedDict nor a dataclass.
    """
    if schema is None:
        return None
    pydantic = _pydantic()
    kind = schema_kind(schema)
    if kind == "pydantic":
        return dict(schema.model_json_schema())
    if kind == "typeddict" or dataclasses.is_dataclass(schema):
        return dict(pydantic.TypeAdapter(schema).json_schema())
    raise SchemaError(
        f"Invalid context schema type: {schema!r}. Expected a pydantic model, a TypedDict or a dataclass."
    )
