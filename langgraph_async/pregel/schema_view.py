"""What a graph says about itself: the types of its input, output and context, as models and as JSON schemas."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from langgraph_async.pregel.jsonschema import (
    config_model,
    context_jsonschema,
    optional_model,
    root_model,
    schema_jsonschema,
    schema_model,
)
from langgraph_async.pregel.node import Schemas
from langgraph_async.warnings import LangGraphDeprecatedSinceV10

_Side: TypeAlias = Literal["Input", "Output"]
_CHANNEL_TYPE: Final = {"Input": "UpdateType", "Output": "ValueType"}


class SchemaView:
    """The types of a graph.

    They are those it was declared with. A graph of bare channels has no such types: one input or output channel
    gives its own, several give a dict of theirs in which every key may be left out.
    """

    name: str
    channels: dict[str, Any]
    input_channels: str | tuple[str, ...]
    output_channels: str | tuple[str, ...]
    context_schema: Any
    schemas: Schemas | None

    @property
    def InputType(self) -> Any:  # noqa: N802 - the name that runnables have it under
        """Type of the input; None for a dict of several channels."""
        return self._type("Input")

    @property
    def OutputType(self) -> Any:  # noqa: N802
        """Type of the output; None for a dict of several channels."""
        return self._type("Output")

    def get_input_schema(self, config: Any = None) -> type[Any]:  # noqa: ARG002
        """Return a pydantic model of the input. Needs pydantic."""
        return self._model("Input")

    def get_output_schema(self, config: Any = None) -> type[Any]:  # noqa: ARG002
        """Return a pydantic model of the output. Needs pydantic."""
        return self._model("Output")

    def get_input_jsonschema(self, config: Any = None) -> dict[str, Any]:  # noqa: ARG002
        """Return the JSON schema of the input. Needs pydantic."""
        return self._jsonschema("Input")

    def get_output_jsonschema(self, config: Any = None) -> dict[str, Any]:  # noqa: ARG002
        """Return the JSON schema of the output. Needs pydantic."""
        return self._jsonschema("Output")

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the JSON schema of the run's context, or None without one. Needs pydantic.

        Raises:
            SchemaError: The context is neither a pydantic model, a TypedDict nor a dataclass.
        """
        return context_jsonschema(self.context_schema)

    def config_schema(self, include: Sequence[str] | None = None) -> type[Any]:
        """Return a pydantic model of a run config. Deprecated: use `get_context_jsonschema`.

        Args:
            include: Fields of `RunnableConfig` besides `configurable`, which has the type of the context.
        """
        warnings.warn(
            "`config_schema` is deprecated. Use `get_context_jsonschema` for the relevant schema instead.",
            LangGraphDeprecatedSinceV10,
            stacklevel=2,
        )
        return config_model(self.context_schema, include or (), f"{self.name}Config")

    def get_config_jsonschema(self, include: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the JSON schema of what `config_schema` returns. Deprecated: use `get_context_jsonschema`."""
        warnings.warn(
            "`get_config_jsonschema` is deprecated. Use `get_context_jsonschema` instead.",
            LangGraphDeprecatedSinceV10,
            stacklevel=2,
        )
        return dict(config_model(self.context_schema, include or (), f"{self.name}Config").model_json_schema())

    def _declared(self, side: _Side) -> Any:
        if self.schemas is None:
            return None
        return self.schemas.input if side == "Input" else self.schemas.output

    def _channel_types(self, side: _Side) -> Any | Mapping[str, Any]:
        keys = self.input_channels if side == "Input" else self.output_channels
        kind = _CHANNEL_TYPE[side]
        if isinstance(keys, str):
            return getattr(self.channels[keys], kind)
        return {key: getattr(self.channels[key], kind) for key in keys}

    def _type(self, side: _Side) -> Any:
        declared = self._declared(side)
        if declared is not None:
            return declared
        types = self._channel_types(side)
        return None if isinstance(types, dict) else types

    def _model(self, side: _Side) -> type[Any]:
        declared, title = self._declared(side), f"{self.name}{side}"
        if declared is not None:
            return schema_model(declared, self.channels, title)
        types = self._channel_types(side)
        return optional_model(types, title) if isinstance(types, dict) else root_model(types, title)

    def _jsonschema(self, side: _Side) -> dict[str, Any]:
        declared = self._declared(side)
        if declared is not None:
            return schema_jsonschema(declared, self.channels, f"{self.name}{side}")
        return dict(self._model(side).model_json_schema())
