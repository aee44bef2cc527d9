"""Takes what happens in langchain-core's tools to those who stream ``tools``. Needs the extra ``langchain``."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from langgraph_async import ambient
from langgraph_async.constants import TAG_HIDDEN, TAG_NOSTREAM


class ToolHandler(BaseCallbackHandler):
    """Tells that a tool was started, has finished or failed; one that pauses or is drained tells nothing."""

    run_inline = True
    raise_error = True

    def __init__(self) -> None:
        self._calls: dict[UUID, tuple[Any, str]] = {}

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,  # noqa: ARG002
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,  # noqa: ARG002
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Tell that a tool was started."""
        scope: Any = ambient.current.get()
        if scope is None or not {TAG_NOSTREAM, TAG_HIDDEN}.isdisjoint(tags or ()):
            return
        call_id = kwargs.get("tool_call_id") or str(run_id)
        self._calls[run_id] = (scope, call_id)
        name = kwargs.get("name") or (serialized or {}).get("name") or ""
        given = inputs if inputs is not None else input_str
        scope.emit_tool_event({"event": "tool-started", "tool_call_id": call_id, "tool_name": name, "input": given})

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Tell that it has finished."""
        scope, call_id = self._calls.pop(run_id, (None, ""))
        if scope is not None:
            scope.emit_tool_event({"event": "tool-finished", "tool_call_id": call_id, "output": output})

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Tell that it has failed."""
        scope, call_id = self._calls.pop(run_id, (None, ""))
        if scope is not None and isinstance(error, Exception):
            scope.emit_tool_event({"event": "tool-error", "tool_call_id": call_id, "message": str(error)})
