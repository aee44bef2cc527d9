"""Workflows as plain functions: an `entrypoint` is the graph, the `task` functions it calls are its steps."""

from langgraph_async.func.entrypoint import entrypoint
from langgraph_async.func.task import TaskFunction, task

__all__ = ["TaskFunction", "entrypoint", "task"]
