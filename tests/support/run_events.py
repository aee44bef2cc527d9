"""What must hold of the events that `killed_program` notes, over a row of runs the last of which came to the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

Events: TypeAlias = Sequence[Sequence[Any]]

STEPS = {
    "graph": [["begin"], ["worker 0", "worker 1", "worker 2"], ["gather"], ["beside"], ["ask"], ["end"]],
    "inside": [[name] for name in ("in1", "in2", "in3")],
    "workflow": [["begin"], ["worker 0", "worker 1", "worker 2"], ["outer 1"], ["outer 2"], ["asks"], ["end"]],
}
INSIDE = ("in1", "in2", "in3")
INSIDE_FROM = 3
"""The superstep whose checkpoint starts the graph inside."""


def told(events: Events, event: str) -> list[Any]:
    """Return what was noted of one kind of event."""
    return [what for kind, what in events if kind == event]


def check(runs: Sequence[Events], undisturbed: Any, asked: dict[str, Any]) -> None:
    """Check that the last run came to what an undisturbed one comes to, and that nothing finished was run again."""
    where = [told(events, "killed") for events in runs]
    (result,) = told(runs[-1], "result")
    assert result["values"] == undisturbed["values"], where
    histories = [undisturbed["history"]]
    if not asked["grouped"]:
        # The results of the last superstep are stored, its checkpoint may not be.
        histories.append(undisturbed["history"][1:])
    assert result["history"] in histories, where
    kept: set[str] = set()
    for number, events in enumerate(runs):
        ran = told(events, "ran")
        assert len(ran) == len(set(ran)), where
        assert kept.isdisjoint(ran), (where, kept.intersection(ran))
        kept |= kept_by(runs, number)
        if asked["durability"] != "exit":
            _check_order(asked, set(ran), kept)


def kept_by(runs: Sequence[Events], number: int) -> set[str]:
    """Return the bodies that must not run again after one of the runs: their results are stored."""
    kept: set[str] = set()
    finished: list[str] = []
    durable: list[str] = []
    rooted = [what for events in runs[:number] for what in told(events, "rooted")]
    for kind, what in runs[number]:
        if kind == "finished":
            finished.append(what)
        elif kind == "durable":
            durable.append(what)
        elif kind == "rooted":
            rooted.append(what)
        elif kind == "returned":
            kept.update(finished)
    # What a graph inside has stored counts as soon as the checkpoint counts from which its node was started.
    start = max(rooted, default=-3)
    return kept.union(name for name in durable if start >= (INSIDE_FROM if name in INSIDE else -1))


def _check_order(asked: dict[str, Any], ran: set[str], kept: set[str]) -> None:
    """What a run had not stored is the last of what it had done; with "sync", one superstep of it."""
    for part in ("graph", "inside") if asked["program"] == "graph" else ("workflow",):
        steps = {name: at for at, names in enumerate(STEPS[part]) for name in names}
        lost = {steps[name] for name in ran if name in steps and name not in kept}
        stored = {steps[name] for name in kept if name in steps}
        if asked["durability"] == "sync":
            assert len(lost) <= 1
        assert not lost or not stored or max(stored) <= min(lost)
