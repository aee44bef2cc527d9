"""What the engine needs of callbacks, without langchain-core.

Only where langchain-core's runnables are loaded can there be handlers, or models that ask for the config of the node
that they are called in. Everywhere else a run has no tracing at all.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

_NEEDED = "langchain_core.runnables.config"
_THEIR_LIMIT = 25


class TracedTask(Protocol):
    """One attempt of a task, as callbacks see it.

    Attributes:
        returned: What its action has returned; None before.
    """

    returned: Any

    @property
    def task(self) -> Any:
        """The task: its name, step, input, node."""

    @property
    def caller(self) -> Any:
        """For a called function: the attempt that called it; else None."""

    @property
    def config(self) -> Any:
        """The config that its code sees."""

    @property
    def event_loop(self) -> Any:
        """The event loop of the run."""

    def is_watched(self) -> bool:
        """Tell whether an idle limit waits for signs of life."""
        ...


class Tracing(Protocol):
    """Tells callback handlers what happens in one run of one graph.

    Attributes:
        quiet: Nobody listens. Then only `enter` is to be called, for each attempt.
    """

    quiet: bool

    def enter(self, scope: Any) -> None:
        """Let Runnables that an attempt's code calls find the config of their node."""

    @property
    def inherited(self) -> Any:
        """The ``callbacks`` of configs inside the run."""

    async def begin(self, value: Any) -> None:
        """Tell that the run begins, on this input."""

    async def end(self, outcome: Any) -> None:
        """Tell that the run has ended, or paused, with this output."""

    async def fail(self, error: BaseException) -> None:
        """Tell that the run has failed or was cancelled; a cancellation meanwhile does not cut that short."""

    async def attempt(self, scope: Any, run: Callable[[Any], Awaitable[T]]) -> T:
        """Run one attempt of a task as a run of its own inside this one."""
        ...

    async def routing(self, scope: Any, name: str, value: Any, route: Callable[[], Awaitable[T]]) -> T:
        """Run a routing function as a run of its own inside the attempt."""
        ...

    async def resumed(self, checkpoint_id: str | None, levels: tuple[str, ...]) -> None:
        """Tell graph handlers that the graph goes on from a checkpoint."""

    async def paused(
        self, status: str, checkpoint_id: str | None, levels: tuple[str, ...], interrupts: tuple[Any, ...]
    ) -> None:
        """Tell graph handlers that the graph has paused."""


def tracing_of(config: Mapping[str, Any], name: str, *, messages: bool, tools: bool) -> Tracing | None:
    """Return what tells of a run, or None where nobody can listen.

    Args:
        config: The run's config.
        name: The graph's name.
        messages: Whether somebody listens for the tokens of models.
        tools: Whether somebody listens for events of tools.

    Raises:
        TypeError: ``config["callbacks"]`` is neither a handler, a list of them, nor a manager.
    """
    callbacks = config.get("callbacks")
    if callbacks and "langchain_core" not in sys.modules:
        raise TypeError(f"config['callbacks'] takes callback handlers of langchain-core, got {callbacks!r}.")
    if not callbacks and _NEEDED not in sys.modules:
        return None
    module = importlib.import_module("langgraph_async.callbacks.tracing")
    if not (callbacks or messages or tools or module.is_traced()):
        return module.QUIET  # type: ignore[no-any-return]
    found: Tracing = module.RunTracing(config, name, messages=messages, tools=tools)
    return found


def surrounding_config() -> Mapping[str, Any] | None:
    """Return the config of the Runnable in which this code runs, or None outside of any."""
    if _NEEDED not in sys.modules:
        return None
    found = sys.modules[_NEEDED].var_child_runnable_config.get()
    if found is None or found.get("recursion_limit") != _THEIR_LIMIT:
        return found  # type: ignore[no-any-return]
    # What every Runnable's config has unless somebody chose otherwise. It counts calls inside calls, not supersteps.
    return {key: value for key, value in found.items() if key != "recursion_limit"}
