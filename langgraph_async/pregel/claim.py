"""A run's claim on its thread, which runs on other savers and in other processes respect.

A lease keeps the runs of one saver apart. Between savers, of two runs that store something first only one goes on; a
run that begins with a node would find out after it, so it claims the thread before it looks where it starts.
"""

from __future__ import annotations

from typing import Any, Final

from langgraph_async.checkpoint.base import Claim
from langgraph_async.errors import ThreadConflictError
from langgraph_async.pregel.model import RunScope
from langgraph_async.types import Command

FIRST_WAIT_S: Final = 0.01
LAST_WAIT_S: Final = 0.25
"""Seconds between two looks at a thread that a run waits for: twice as many each time."""


class RunClaim:
    """The claim of one run, taken when it needs one.

    Args:
        run: The run; it has a saver and a thread.
    """

    def __init__(self, run: RunScope) -> None:
        self._run = run
        self._claim: Claim | None = None
        self._offered = getattr(run.saver, "can_claim", False) is True

    @property
    def wanted(self) -> bool:
        """Whether there is none yet, and there could be one."""
        return self._offered and self._claim is None

    async def take(self) -> None:
        """Claim the thread; wait for it with the strategy ``"enqueue"``.

        Raises:
            ThreadConflictError: Somebody else has claimed it.
        """
        run = self._run
        saver, thread_id = run.saver, run.config.thread_id
        assert saver is not None
        assert thread_id is not None
        wait_s = FIRST_WAIT_S
        while self.wanted:
            self._claim = await saver.aclaim(thread_id)
            if self._claim is None:
                if run.config.multitask_strategy != "enqueue" or self._waits_for_itself(thread_id):
                    raise _claimed(thread_id, run.config.multitask_strategy)
                await run.clock.sleep(wait_s)
                wait_s = min(2 * wait_s, LAST_WAIT_S)

    def _waits_for_itself(self, thread_id: str) -> bool:
        """Tell whether a run that this one is called in has a thread of that name, perhaps by another saver."""
        return any(lease.thread_id == thread_id for lease in self._run.leases[:-1])

    async def give_back(self) -> None:
        """Give the thread back, if it was claimed."""
        claim, self._claim = self._claim, None
        if claim is not None:
            await claim.arelease()


def begins_with_a_node(run: RunScope, value: Any) -> bool:
    """Tell whether it is clear from a run's input that nothing is stored before the first node runs."""
    return value is None or isinstance(value, Command) or run.durability == "exit"


def _claimed(thread_id: str, strategy: str) -> ThreadConflictError:
    advice = "Wait for that run to end, or pass config={'multitask_strategy': 'enqueue'}."
    if strategy in ("interrupt", "rollback"):
        advice = (
            f"multitask_strategy={strategy!r} cannot stop it from here. Wait for it to end, with 'enqueue', or cancel "
            "it where it runs."
        )
    elif strategy == "enqueue":
        advice = "It may be the very run that asks for it, so that waiting would have no end. Use another thread_id."
    return ThreadConflictError(
        f"Thread {thread_id!r} is held by a run of another process, or on another saver. {advice} No node was run, and "
        "nothing was stored.",
        thread_id=thread_id,
    )
