"""The serializer port: values to typed bytes and back."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class SerializerProtocol(Protocol):
    """Turns values into a pair of type tag and bytes, and back."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the tag and the bytes of `obj`.

        Raises:
            SerializationError: `obj` cannot be stored without losing something.
        """
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value that was stored.

        Raises:
            SerializationError: The bytes are malformed, or hold a type that is not allowed.
        """
