"""Messages that a node sends before it returns."""

from __future__ import annotations

from langgraph_async import ambient
from langgraph_async.graph.messages import Message, one_message
from langgraph_async.stream.outlet import current_outlet


def push_message(message: Message, *, state_key: str | None = "messages") -> Message:
    """Send a message now to whoever streams ``messages``, and write it to the state with what the node returns.

    Args:
        message: With an id. Strings and (role, content) tuples count as messages, but have none.
        state_key: Where it is written; None writes it nowhere. In a workflow, which has no state, it is only sent.

    Returns:
        The message, as it is sent.

    Raises:
        ValueError: The message has no id.
        InvalidUpdateError: The state has no such key.
        RuntimeError: Called outside of a node.
    """
    task = ambient.running_task("push_message")
    sent = one_message(message)
    id = sent.get("id") if isinstance(sent, dict) else getattr(sent, "id", None)
    if not id:
        raise ValueError(
            "Message ID is required: a pushed message is known by its id when the node returns it again. Give it one, "
            "for example str(uuid4())."
        )
    if state_key:
        task.push_write(state_key, sent)
    outlet = current_outlet("messages")
    if outlet is not None:
        metadata = outlet.metadata
        metadata.pop("checkpoint_ns", None)
        outlet.emit(dict(sent) if isinstance(sent, dict) else sent, metadata)
    return sent
