"""What a run tells: run streams (``version="v3"``) and the transformers that make their projections.

There is no synchronous run stream: a script without asyncio has `Pregel.stream`.
"""

from langgraph_async.stream.run.builtin import (
    LifecyclePayload,
    LifecycleTransformer,
    SubgraphTransformer,
    ValuesTransformer,
)
from langgraph_async.stream.run.channel import Cursor, StreamChannel
from langgraph_async.stream.run.data import (
    CheckpointsTransformer,
    CustomTransformer,
    DebugTransformer,
    TasksTransformer,
    UpdatesTransformer,
)
from langgraph_async.stream.run.messages import ChatModelStream, MessagesTransformer
from langgraph_async.stream.run.nested import SubgraphStatus
from langgraph_async.stream.run.runs import AsyncGraphRunStream, AsyncSubgraphRunStream
from langgraph_async.stream.run.tools import ToolCallStream, ToolCallTransformer
from langgraph_async.stream.run.transformer import ProtocolEvent, StreamTransformer

__all__ = [
    "AsyncGraphRunStream",
    "AsyncSubgraphRunStream",
    "ChatModelStream",
    "CheckpointsTransformer",
    "Cursor",
    "CustomTransformer",
    "DebugTransformer",
    "LifecyclePayload",
    "LifecycleTransformer",
    "MessagesTransformer",
    "ProtocolEvent",
    "StreamChannel",
    "StreamTransformer",
    "SubgraphStatus",
    "SubgraphTransformer",
    "TasksTransformer",
    "ToolCallStream",
    "ToolCallTransformer",
    "UpdatesTransformer",
    "ValuesTransformer",
]
