"""Logs of what runs stream, from which a client that lost its connection goes on without gaps or repeats."""

from langgraph_async.stream.log.base import Event, EventLog, Page, RunRecord, RunStatus
from langgraph_async.stream.log.memory import InMemoryEventLog

__all__ = ["Event", "EventLog", "InMemoryEventLog", "Page", "RunRecord", "RunStatus"]
