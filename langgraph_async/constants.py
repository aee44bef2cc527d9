"""Names that are part of the wire format, and the one "no value" sentinel.

Everything here is spelled exactly as it appears in stored checkpoints, in streams and in configs, so that a
database can be shared with LangGraph. Change none of it.
"""

from __future__ import annotations

import enum
from typing import Final


class Missing(enum.Enum):
    """Type of `MISSING`: "there is no value", which is never the same as ``None``."""

    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing.MISSING

START: Final = "__start__"
"""Name of the virtual first node: edges from it are the entry points of a graph."""
END: Final = "__end__"
"""Name of the virtual last node: an edge to it ends that path."""
SELF: Final = "__self__"
ROOT: Final = "__root__"
"""Channel that holds the whole state when the state schema is not a set of keys."""

TAG_HIDDEN: Final = "langsmith:hidden"
TAG_NOSTREAM: Final = "nostream"

INPUT: Final = "__input__"
INTERRUPT: Final = "__interrupt__"
RESUME: Final = "__resume__"
ERROR: Final = "__error__"
ERROR_SOURCE_NODE: Final = "__error_source_node__"
SCHEDULED: Final = "__scheduled__"
NO_WRITES: Final = "__no_writes__"
TASKS: Final = "__pregel_tasks"
RETURN: Final = "__return__"
PREVIOUS: Final = "__previous__"
COPY: Final = "__copy__"
SNAPSHOT_BUMPS: Final = "__snapshot_bumps__"
OVERWRITE: Final = "__overwrite__"

PULL: Final = "__pregel_pull"
PUSH: Final = "__pregel_push"
PARENT: Final = "__parent__"
NULL_TASK_ID: Final = "00000000-0000-0000-0000-000000000000"
CACHE_NS_WRITES: Final = "__pregel_ns_writes"
REMOVE_ALL_MESSAGES: Final = "__remove_all__"
PLACEHOLDER_ID: Final = "placeholder-id"

NS_SEP: Final = "|"
"""Separates the levels of a checkpoint namespace."""
NS_END: Final = ":"
"""Separates a node's name from its task id inside one level of a namespace."""

BRANCH_PREFIX: Final = "branch:to:"
JOIN_PREFIX: Final = "join:"
ERROR_HANDLER_PREFIX: Final = "__error_handler__"
DEFAULT_ERROR_HANDLER: Final = "__default_error_handler__"

CONF: Final = "configurable"
CONFIG_KEY_CHECKPOINTER: Final = "__pregel_checkpointer"
"""A reserved key of `configurable`; this engine keeps nothing under it."""
THREAD_ID: Final = "thread_id"
CHECKPOINT_NS: Final = "checkpoint_ns"
CHECKPOINT_ID: Final = "checkpoint_id"
CHECKPOINT_MAP: Final = "checkpoint_map"

RESERVED: Final = frozenset(
    {
        TAG_HIDDEN,
        INPUT,
        INTERRUPT,
        RESUME,
        ERROR,
        ERROR_SOURCE_NODE,
        NO_WRITES,
        PUSH,
        PULL,
        NS_SEP,
        NS_END,
        CONF,
        SNAPSHOT_BUMPS,
        CHECKPOINT_MAP,
        CHECKPOINT_ID,
        CHECKPOINT_NS,
        "__pregel_send",
        "__pregel_read",
        CONFIG_KEY_CHECKPOINTER,
        "__pregel_stream",
        "__pregel_resuming",
        "__pregel_replay_state",
        "__pregel_task_id",
        "__pregel_timed_attempt_observer",
        "__pregel_resume_map",
        "__pregel_stream_messages_v2",
    }
)
"""Names that no channel, managed value or node may have."""

CONTROL_WRITES: Final = frozenset({ERROR, ERROR_SOURCE_NODE, INTERRUPT, RESUME})
"""Stored writes that say how a task stands; a task with any other write has finished."""


def branch_channel(node: str) -> str:
    """Return the name of the channel whose update triggers `node`."""
    return f"{BRANCH_PREFIX}{node}"


def join_channel(starts: tuple[str, ...], end: str) -> str:
    """Return the name of the barrier channel for an edge from all of `starts` to `end`."""
    return f"{JOIN_PREFIX}{'+'.join(starts)}:{end}"
