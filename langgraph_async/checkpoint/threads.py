"""What a saver can tell of whole threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

from langgraph_async.constants import ERROR, ERROR_SOURCE_NODE, INTERRUPT, RESUME
from langgraph_async.ids import stamp_of

ThreadStatus: TypeAlias = Literal["idle", "interrupted", "error"]

_NOT_RESULTS = frozenset({ERROR, ERROR_SOURCE_NODE, INTERRUPT, RESUME})
_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """Where a thread stands.

    Attributes:
        thread_id: The thread.
        checkpoint_id: Its newest checkpoint, of the root graph.
        updated_at: When that was made; None if its id does not tell.
        status: ``"interrupted"`` while a node waits for an answer, ``"error"`` if a node failed last, else
            ``"idle"``. Whether a run is at work on it is not stored.
        metadata: That of the checkpoint.
    """

    thread_id: str
    checkpoint_id: str
    updated_at: datetime | None
    status: ThreadStatus
    metadata: Mapping[str, Any]


def status_of(rows: Iterable[tuple[str, str, bool]]) -> ThreadStatus:
    """Return the status that the writes on the newest checkpoint say.

    Args:
        rows: Task id, channel, and whether the value is None.
    """
    tasks: dict[str, set[str]] = {}
    for task_id, channel, empty in rows:
        if not (channel == ERROR and empty):  # an error that was forgotten
            tasks.setdefault(task_id, set()).add(channel)
    unfinished = [channels for channels in tasks.values() if channels <= _NOT_RESULTS]
    if any(INTERRUPT in channels for channels in unfinished):
        return "interrupted"
    if any(ERROR in channels and ERROR_SOURCE_NODE not in channels for channels in unfinished):
        return "error"
    return "idle"


def time_of(checkpoint_id: str) -> datetime | None:
    """Return when a checkpoint was made, from its id; None if that is no UUID of version 6."""
    count = stamp_of(checkpoint_id)
    return None if count is None else _EPOCH + timedelta(microseconds=count // 10)


def first_id_at(moment: datetime) -> str:
    """Return the text that sorts before every checkpoint id made at `moment` or later, and behind all earlier ones."""
    digits = f"{(moment - _EPOCH) // timedelta(microseconds=1) * 10:015x}"
    return f"{digits[:8]}-{digits[8:12]}-6{digits[12:]}"


__all__ = ["ThreadInfo", "ThreadStatus", "first_id_at", "status_of", "time_of"]
