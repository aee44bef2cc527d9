"""The encrypting serializer, where LangGraph has it."""

from langgraph_async.serde.encrypted import AesCipher, EncryptedSerializer

__all__ = ["AesCipher", "EncryptedSerializer"]
