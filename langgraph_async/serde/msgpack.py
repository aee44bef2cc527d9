"""Placeholder until the serializer lands."""

from __future__ import annotations

from typing import Any


class JsonPlusSerializer:
    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        raise NotImplementedError

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        raise NotImplementedError
