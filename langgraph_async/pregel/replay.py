"""What a resumed or replayed run carries with it, shared by the root and the graphs nested in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph_async.constants import MISSING, NS_SEP
from langgraph_async.pregel.namespace import without_ids


class Answers:
    """Answers to questions, by the questions' ids; each is delivered once.

    Attributes:
        given: Answers that nobody took yet.
        taken: Ids of the questions whose answers were delivered.
        resuming: Whether the run was started to deliver answers.
    """

    __slots__ = ("given", "resuming", "taken")

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.taken: set[str] = set()
        self.resuming = False

    def give(self, answers: Mapping[str, Any]) -> None:
        """Put answers up for delivery."""
        self.given.update(answers)
        self.resuming = True

    def take(self, interrupt_id: str) -> Any:
        """Return the answer to a question and note that it was delivered; `MISSING` without one."""
        if interrupt_id not in self.given:
            return MISSING
        self.taken.add(interrupt_id)
        return self.given.pop(interrupt_id)


class Replay:
    """Which checkpoints nested graphs start from when a run goes on from an old checkpoint of its root.

    Each namespace is looked up once: on a later visit in the same run its newest checkpoint counts again.

    Attributes:
        before: Nested checkpoints must be older than this id; None when the run goes on at the head.
        addressed: Path of node names to the namespace and id of a checkpoint that was named.
    """

    __slots__ = ("_visited", "addressed", "before")

    def __init__(self, before: str | None, checkpoint_map: Mapping[str, str]) -> None:
        self.before = before
        self.addressed = {without_ids(ns): (ns, id_) for ns, id_ in checkpoint_map.items() if ns}
        self._visited: set[str] = set()

    def leads_into(self, ns: str) -> bool:
        """Tell whether the checkpoint of a graph in `ns`, or inside that, was named."""
        if not self.addressed:
            return False
        path = without_ids(ns)
        return any(named == path or named.startswith(f"{path}{NS_SEP}") for named in self.addressed)

    def first_visit(self, ns: str) -> bool:
        """Tell whether the graph in `ns` is entered for the first time in this run."""
        path = without_ids(ns)
        if path in self._visited:
            return False
        self._visited.add(path)
        return True
