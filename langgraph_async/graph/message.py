"""The `messages` key, under the name users import it from."""

from langgraph_async.graph.messages import (
    REMOVE_ALL_MESSAGES,
    MessageGraph,
    Messages,
    MessagesState,
    RemoveMessage,
    add_messages,
    openai_messages,
)
from langgraph_async.graph.push import push_message

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "MessageGraph",
    "Messages",
    "MessagesState",
    "RemoveMessage",
    "add_messages",
    "openai_messages",
    "push_message",
]
