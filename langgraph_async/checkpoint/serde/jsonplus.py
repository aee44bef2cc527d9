"""The serializer, where LangGraph has it."""

from langgraph_async.serde.msgpack import Codec, JsonPlusSerializer

__all__ = ["Codec", "JsonPlusSerializer"]
