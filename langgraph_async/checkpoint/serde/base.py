"""The serializer port, where LangGraph has it."""

from langgraph_async.serde.base import CipherProtocol, SerializerProtocol

__all__ = ["CipherProtocol", "SerializerProtocol"]
