"""What a caller wants to hear: stream modes, checked, and as flags that the engine asks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Self, get_args

from langgraph_async.errors import ConfigError
from langgraph_async.types import StreamMode

MODES: Final[tuple[str, ...]] = get_args(StreamMode)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Flags for what somebody listens to. What nobody wants is not built.

    Attributes:
        values: The state after each step.
        updates: What each task wrote.
        custom: Chunks that nodes write.
        messages: Tokens and messages of chat models.
        checkpoints: Checkpoints, as they are.
        tasks: Starts and results of tasks, as they are.
        debug: Both of these, wrapped with step and time.
        tools: Events of tool calls.
    """

    values: bool = False
    updates: bool = False
    custom: bool = False
    messages: bool = False
    checkpoints: bool = False
    tasks: bool = False
    debug: bool = False
    tools: bool = False
    any_checkpoints: bool = field(init=False, default=False)
    """Whether a checkpoint's payload is to be built: for ``checkpoints``, ``debug`` or both. Worked out."""
    any_tasks: bool = field(init=False, default=False)
    """Whether a task's payloads are to be built: for ``tasks``, ``debug`` or both. Worked out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "any_checkpoints", self.checkpoints or self.debug)
        object.__setattr__(self, "any_tasks", self.tasks or self.debug)

    @classmethod
    def of(cls, modes: Iterable[str]) -> Self:
        """Return the flags for `modes`, which are checked already (see `parse_modes`)."""
        return cls(**dict.fromkeys(modes, True))

    def __or__(self, other: Wanted) -> Wanted:
        """Return what at least one of the two wants."""
        return Wanted(**{mode: getattr(self, mode) or getattr(other, mode) for mode in MODES})

    def __bool__(self) -> bool:
        """Tell whether anything is wanted."""
        return any(getattr(self, mode) for mode in MODES)


def parse_modes(
    stream_mode: str | Collection[str] | None, default: str | Collection[str], *, option: str = "stream_mode"
) -> tuple[frozenset[str], bool]:
    """Check stream modes.

    Args:
        stream_mode: One mode or several; None means `default`. No modes at all stream nothing.
        default: Used for None.
        option: Name of the option, for messages.

    Returns:
        The modes, and whether several could have been given: then every item says its mode. Any collection counts
        as several.

    Raises:
        ConfigError: A mode is unknown, or what was given is neither text nor a collection of it.
    """
    given: Any = default if stream_mode is None else stream_mode
    if isinstance(given, str):
        return frozenset((_checked(given, option),)), False
    if not isinstance(given, Collection):
        raise ConfigError(f"{option} must be a stream mode or a list of them, got {given!r}.")
    return frozenset([_checked(mode, option) for mode in given]), True


def _checked(mode: Any, option: str) -> str:
    if isinstance(mode, str):
        if mode in MODES:
            return str(mode)
        close = get_close_matches(mode.lower(), MODES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
    else:
        hint = ""
    raise ConfigError(f"Unknown stream mode {mode!r} in {option}.{hint} The modes are: {', '.join(MODES)}.")
