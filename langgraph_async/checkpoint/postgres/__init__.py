"""Keeps checkpoints in a PostgreSQL database that LangGraph can use, too."""

from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver

__all__ = ["AsyncPostgresSaver"]
