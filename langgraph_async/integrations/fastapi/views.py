"""What a graph has, as the routes give it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from langgraph_async.constants import CHECKPOINT_ID, CONF
from langgraph_async.integrations.fastapi import models
from langgraph_async.integrations.fastapi.encoding import jsonable
from langgraph_async.integrations.fastapi.failures import error_data
from langgraph_async.stream.log.base import RunRecord
from langgraph_async.types import GraphOutput, Interrupt, PregelTask, StateSnapshot


def new_run_id() -> str:
    """Return an id for a run."""
    return str(uuid.uuid4())


def run_result(run_id: str, thread_id: str, status: str, output: GraphOutput[Any]) -> dict[str, Any]:
    """Return a `models.RunResult` as JSON."""
    return {
        "run_id": run_id,
        "thread_id": thread_id,
        "status": status,
        "output": jsonable(output.value),
        "interrupts": _questions(output.interrupts),
    }


def run_info(run: RunRecord, thread_id: str) -> models.RunInfo:
    """Return what a client sees of a run."""
    return models.RunInfo(
        run_id=run.run_id, thread_id=thread_id, status=run.status, first_seq=run.first_seq, last_seq=run.last_seq
    )


def thread_state(snapshot: StateSnapshot) -> dict[str, Any]:
    """Return a `models.ThreadState` as JSON."""
    return {
        "values": jsonable(snapshot.values),
        "next": list(snapshot.next),
        "checkpoint_id": _checkpoint_id(snapshot.config),
        "parent_checkpoint_id": _checkpoint_id(snapshot.parent_config),
        "created_at": snapshot.created_at,
        "metadata": jsonable(snapshot.metadata),
        "tasks": [_task(task) for task in snapshot.tasks],
        "interrupts": _questions(snapshot.interrupts),
    }


def schema_text(make: Callable[[], Any]) -> str:
    """Return the text that shows the schema of a graph's input, or nothing if there is none."""
    try:
        schema = json.dumps(jsonable(make()), indent=2)
    except Exception:  # noqa: BLE001 - a type that has no JSON schema
        return ""
    return f"\n\nThe schema of `input`:\n\n```json\n{schema}\n```"


def _task(task: PregelTask) -> dict[str, Any]:
    error = task.error
    return {
        "id": task.id,
        "name": task.name,
        "error": error_data(error)["message"] if isinstance(error, BaseException) else error,
        "interrupts": _questions(task.interrupts),
    }


def _questions(interrupts: Iterable[Interrupt[Any]]) -> list[dict[str, Any]]:
    return [{"response_schema": None, **jsonable(interrupt)} for interrupt in interrupts]


def _checkpoint_id(config: Any) -> str | None:
    return None if config is None else (config.get(CONF) or {}).get(CHECKPOINT_ID)
