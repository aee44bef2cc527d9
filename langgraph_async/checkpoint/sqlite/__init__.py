"""Keeps checkpoints in a SQLite database that LangGraph can use, too."""

from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver

__all__ = ["AsyncSqliteSaver"]
