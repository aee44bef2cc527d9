"""Threads as files: a line of JSON for each kind, with the rows of both layouts packed."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from handover.database import Rows
from handover.view import view

FOLDER = Path(__file__).parents[2] / "golden"
LEFT_OUT = frozenset(
    {
        "a_branch_taken",
        "a_failed_input_step",
        "a_list_that_becomes_deltas",
        "a_question_and_a_breakpoint",
        "a_question_dropped_for_new_input",
        "a_second_question_beside_an_open_one",
        "a_subgraph_with_memory_between_turns",
        "answered_with_an_update",
        "asked_again_by_a_loop",
        "dead_beside_a_node_that_said_nothing",
        "dead_then_given_new_input",
        "deltas_and_a_failure",
        "deltas_edited",
        "deltas_overwritten",
        "edited_as_input",
        "edited_as_two_nodes_at_once",
        "failed_several_times",
        "failed_then_given_new_input",
        "forked_by_an_edit_of_the_past",
        "forked_by_running_on_from_the_past",
        "forked_by_the_other_owner",
        "made_by_an_edit",
        "out_of_steps",
        "parallel_questions",
        "plain_values_at_top_level",
        "questions_in_a_fan_out",
        "stopped_after_a_node",
        "stopped_before_every_node",
        "stopped_then_given_new_input",
        "stored_async",
        "stored_sync",
        "subgraphs_that_are_sent_to",
        "tasks_called_in_tasks",
        "three_questions_in_a_node",
    }
)
"""Kinds whose rows look like those of others."""


def pack(layouts: dict[str, Rows]) -> str:
    """Return the rows of layouts as text."""
    text = json.dumps(_latin(layouts), separators=(",", ":"), ensure_ascii=False)
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str) -> dict[str, Rows]:
    """Return what was packed."""
    rows: dict[str, Rows] = _bytes(json.loads(zlib.decompress(base64.b85decode(text))))
    return rows


def _latin(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"b64"}:
            return {"latin": base64.b64decode(value["b64"]).decode("latin-1")}
        return {key: _latin(item) for key, item in value.items()}
    return [_latin(item) for item in value] if isinstance(value, list) else value


def _bytes(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"latin"}:
            return {"b64": base64.b64encode(value["latin"].encode("latin-1")).decode()}
        return {key: _bytes(item) for key, item in value.items()}
    return [_bytes(item) for item in value] if isinstance(value, list) else value


async def short_view(graph: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of what a graph shows of a thread: the newest state, and that of nested graphs."""
    return {"state": _short((await view(graph, config))["state"])}


def _short(state: dict[str, Any]) -> dict[str, Any]:
    tasks = [_short_task(task) for task in state["tasks"]]
    return {"values": state["values"], "next": state["next"], "metadata": state["metadata"], "tasks": tasks}


def _short_task(task: dict[str, Any]) -> dict[str, Any]:
    kept = {key: task[key] for key in ("id", "name", "error", "interrupts", "result") if task[key] not in (None, [])}
    if isinstance(task["state"], dict) and "values" in task["state"]:
        kept["state"] = _short(task["state"])
    return kept


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return what a file has, by kind."""
    return {item["kind"]: item for item in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def write(path: Path, items: list[dict[str, Any]]) -> None:
    """Write a file."""
    lines = (json.dumps(item, separators=(",", ":"), ensure_ascii=False) for item in items)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
