"""Graphs behind FastAPI: runs as server-sent events, and a router with all that can be done with a thread.

Needs the extra ``fastapi``.
"""

try:
    import fastapi as _fastapi
except ImportError as exc:  # pragma: no cover - the tests have it
    raise ImportError(
        "langgraph_async.integrations.fastapi needs FastAPI: pip install 'langgraph-async[fastapi]'."
    ) from exc

from langgraph_async.integrations.fastapi.encoding import json_text, jsonable
from langgraph_async.integrations.fastapi.events import GraphEventResponse
from langgraph_async.integrations.fastapi.lifespan import drain_runs
from langgraph_async.integrations.fastapi.router import graph_router

__all__ = ["GraphEventResponse", "drain_runs", "graph_router", "json_text", "jsonable"]

del _fastapi
