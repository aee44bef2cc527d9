"""Stateful, long-running agents and workflows as graphs, native to asyncio.

This is the door: what most programs need. Channels, savers, errors and the engine itself are in the modules of
those names.
"""

from langgraph_async.constants import END, START
from langgraph_async.errors import (
    EmptyInputError,
    GraphInterrupt,
    GraphRecursionError,
    InvalidUpdateError,
    LangGraphError,
    ThreadConflictError,
    UnknownInterruptError,
    UnreachedJoinError,
)
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import MessagesState, StateGraph, add_messages
from langgraph_async.graph.message import push_message
from langgraph_async.runtime import Runtime, get_runtime, get_store, get_stream_writer
from langgraph_async.stream.tokens import stream_tokens
from langgraph_async.stream.tools import tool_call
from langgraph_async.types import Command, Interrupt, Overwrite, Send, StateSnapshot, interrupt

__version__ = "0.1.0"

__all__ = [
    "END",
    "START",
    "Command",
    "EmptyInputError",
    "GraphInterrupt",
    "GraphRecursionError",
    "Interrupt",
    "InvalidUpdateError",
    "LangGraphError",
    "MessagesState",
    "Overwrite",
    "Runtime",
    "Send",
    "StateGraph",
    "StateSnapshot",
    "ThreadConflictError",
    "UnknownInterruptError",
    "UnreachedJoinError",
    "add_messages",
    "entrypoint",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "interrupt",
    "push_message",
    "stream_tokens",
    "task",
    "tool_call",
]
