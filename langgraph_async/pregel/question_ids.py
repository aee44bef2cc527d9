"""Gives the questions of a task their ids, which answers are delivered by.

A question keeps its id when a node asks it again after an edit or in a fork, so that an answer to the old one still
finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph_async.ids import interrupt_id
from langgraph_async.pregel.answer import same_value
from langgraph_async.pregel.task import HOLE

if TYPE_CHECKING:
    from langgraph_async.pregel.scope import TaskScope


def question_id(scope: TaskScope, slot: int, value: Any) -> str:
    """Return the id of the question that a task asks as its `slot`-th, from 0."""
    own = interrupt_id(scope.task.ns, slot)
    if any(known.id == own for known in scope.task.asked):
        return own
    return _carried_id(scope, slot, value) or own


def _carried_id(scope: TaskScope, slot: int, value: Any) -> str | None:
    """Return the id under which an older checkpoint of this node already asked the question."""
    taken = scope.run.answers.taken
    carried = [question for question in scope.task.carried if question.id not in taken]
    answers = scope.task.answers
    place = sum(1 for i in range(slot) if i >= len(answers) or answers[i] is HOLE)
    if place < len(carried):
        return carried[place].id
    return _carried_by_parent(scope, value) if not place else None


def _carried_by_parent(scope: TaskScope, value: Any) -> str | None:
    # A graph inside begins anew after an edit around it, so its first question need not be the one that is open.
    outer = scope.around
    while outer is not None:
        for question in outer.task.carried:
            if question.id not in scope.run.answers.taken and same_value(question.value, value):
                return question.id
        outer = outer.around
    return None
