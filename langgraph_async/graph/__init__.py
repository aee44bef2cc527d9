"""Draw a graph over a shared state, and compile it."""

from langgraph_async.constants import END, START
from langgraph_async.graph.messages import MessageGraph, MessagesState, add_messages
from langgraph_async.graph.state import CompiledStateGraph, StateGraph

__all__ = ["END", "START", "CompiledStateGraph", "MessageGraph", "MessagesState", "StateGraph", "add_messages"]
