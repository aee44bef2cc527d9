"""Models and JSON schemas of what goes into a graph and comes out.

They are made by pydantic, which is loaded when one is asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_type_hints

from langgraph_async.channels import BaseChannel
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import ROOT
from langgraph_async.errors import SchemaError
from langgraph_async.hints import Field, schema_fields, schema_kind

_HOW_TO_INSTALL = "Models and JSON schemas need pydantic, which is not installed. Install it with: pip install pydantic"


def _pydantic() -> Any:
    try:
        import pydantic
    except ImportError as exc:
        raise ImportError(_HOW_TO_INSTALL) from exc
    return pydantic


def schema_model(schema: Any, channels: Mapping[str, Any], title: str) -> type[Any]:
    """Return a declared schema as a pydantic model: itself, if it is one.

    Args:
        schema: The schema.
        channels: Channels and managed values of its graph, by key.
        title: Name of the model.
    """
    pydantic = _pydantic()
    kind = schema_kind(schema)
    if kind == "pydantic":
        found: type[Any] = schema
        return found
    if kind == "root":
        return root_model(channels[ROOT].UpdateType if ROOT in channels else schema, title)
    fields: dict[str, tuple[Any, dict[str, Any]]] = {}
    for key, declared in schema_fields(schema).items():
        channel = channels.get(key)
        if isinstance(channel, BaseChannel):
            fields[key] = (channel.UpdateType, _default(declared))
    return _model(pydantic, title, fields)


def root_model(typ: Any, title: str) -> type[Any]:
    """Return a pydantic model of one value."""
    pydantic = _pydantic()
    made: type[Any] = pydantic.create_model(title, __base__=pydantic.RootModel[typ])
    return made


def optional_model(types: Mapping[str, Any], title: str) -> type[Any]:
    """Return a pydantic model of a dict, every key of which may be left out."""
    return _model(_pydantic(), title, {key: (typ, {"default": None}) for key, typ in types.items()})


def schema_jsonschema(schema: Any, channels: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Return a declared schema as a JSON schema; the arguments are those of `schema_model`.

    A TypedDict and a pydantic model keep their own name as the title.
    """
    pydantic = _pydantic()
    if schema_kind(schema) == "typeddict":
        plain = _plain(pydantic, schema)
        if plain is not None:
            return plain
    return dict(schema_model(schema, channels, title).model_json_schema())


def _plain(pydantic: Any, schema: Any) -> dict[str, Any] | None:
    """Return pydantic's own schema of a TypedDict; None if it refuses it: those of `typing` before Python 3.12."""
    try:
        return {**pydantic.TypeAdapter(schema).json_schema(), "title": schema.__name__}
    except (pydantic.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError, TypeError):
        return None


def _model(pydantic: Any, title: str, fields: Mapping[str, tuple[Any, dict[str, Any]]]) -> type[Any]:
    made: dict[str, Any] = {}
    for key, (typ, options) in fields.items():
        name, more = key, options
        if key.startswith("_") or hasattr(pydantic.BaseModel, key):
            name = f"private_{key}"
            more = {**options, "alias": key, "title": key.replace("_", " ").strip().title()}
        made[name] = (typ, pydantic.Field(**more))
    config = pydantic.ConfigDict(arbitrary_types_allowed=True, populate_by_name=True, protected_namespaces=())
    model: type[Any] = pydantic.create_model(title, __config__=config, **made)
    return model


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


def config_model(context: Any, include: Iterable[str], title: str) -> type[Any]:
    """Return a model of a run config: the context type as its `configurable`, and the fields in `include`."""
    hints = get_type_hints(RunnableConfig)
    types = {} if context is None else {"configurable": context}
    for name in include:
        if name in hints:
            types.setdefault(name, hints[name])
    return optional_model(types, title)
