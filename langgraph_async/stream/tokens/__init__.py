"""Streams the tokens of a model, whichever SDK it speaks through, to ``stream_mode="messages"``."""

from langgraph_async.stream.tokens.chunks import MessageChunk, TokenDelta, ToolCallDelta, Usage
from langgraph_async.stream.tokens.reading import TokenStream, stream_tokens

__all__ = ["MessageChunk", "TokenDelta", "TokenStream", "ToolCallDelta", "Usage", "stream_tokens"]
