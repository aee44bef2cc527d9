"""A task: one node with one input in one superstep, or a function that such a task called."""

from __future__ import annotations

from typing import Any

from langgraph_async.constants import PULL, PUSH
from langgraph_async.errors import NodeError
from langgraph_async.ids import path_text, task_id
from langgraph_async.pregel.namespace import node_namespace, task_namespace
from langgraph_async.pregel.node import PregelNode, Write
from langgraph_async.types import Interrupt, Send

_HANDLER = "node_error_handler"


class Hole:
    """Marks, in a task's answers, a question that has no answer yet while a later one has."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "HOLE"


HOLE = Hole()


class Task:
    """One node with one input in one superstep.

    Most of what describes a task (id, namespace, path) is only needed by some runs, and is made when it is first
    asked for.

    Attributes:
        name: The node's name.
        known_as: The name that its id is computed from; differs from `name` after a rename.
        known_triggers: The triggers that its id is computed from, where they differ from the node's.
        node: The node.
        index: Place among the superstep's sends, or -1 for a task that channels triggered.
        send: The packet that made it, or None.
        input: What the action is called with.
        writes: What it wrote; filled when it has finished.
        finished: Whether its result is known; then it does not run.
        cached: Whether its result was stored before this run and only has to be shown.
        routing_only: The node's writes are stored and only its routers have to run.
        answers: Answers to its questions, by the order in which it asks them.
        asked: Questions that it is known to have asked and that have no answer.
        carried: Questions of the same node on an older checkpoint, which keep their ids.
        handled: It failed, and its error handler took over; then it has finished, and wrote nothing.
        left_alone: It is paused and nobody answered: it does not run.
        error: What it failed with, as stored or raised.
        instance: Place among the sends to the same node.
        continued: A graph inside it went on from what was stored, so its result does not follow from its input alone.
    """

    __slots__ = (
        "_id",
        "_key",
        "_ns",
        "answers",
        "asked",
        "cached",
        "carried",
        "continued",
        "error",
        "finished",
        "handled",
        "index",
        "input",
        "instance",
        "known_as",
        "known_triggers",
        "left_alone",
        "name",
        "node",
        "routing_only",
        "send",
        "writes",
    )

    def __init__(
        self,
        name: str,
        node: PregelNode,
        input: Any,
        key: tuple[str, str, int, int],
        *,
        index: int = -1,
        send: Send | None = None,
        known_as: str | None = None,
        instance: int = 0,
    ) -> None:
        self.name = name
        self.known_as = known_as or name
        self.known_triggers: tuple[str, ...] | None = None
        self.node = node
        self.input = input
        self._key = key
        self.index = index
        self.send = send
        self.instance = instance
        self.writes: list[Write] = []
        self.finished = False
        self.cached = False
        self.routing_only = False
        self.left_alone = False
        self.handled = False
        self.continued = False
        self.answers: list[Any] = []
        self.asked: tuple[Interrupt, ...] = ()
        self.carried: tuple[Interrupt, ...] = ()
        self.error: Any = None
        self._id: str | None = None
        self._ns: str | None = None

    @property
    def id(self) -> str:
        """The same for the same checkpoint, superstep, node and trigger or place among the sends."""
        if self._id is None:
            checkpoint, ns, step, version = self._key
            name = self.known_as
            parts = (node_namespace(ns, name), str(step), name, *self._id_parts())
            self._id = task_id(checkpoint, *parts, version=version)
        return self._id

    def _id_parts(self) -> tuple[str, ...]:
        if self.index >= 0:
            return (PUSH, str(self.index))
        triggers = self.known_triggers or self.triggers
        return (PULL, *sorted(triggers)) if len(triggers) > 1 else (PULL, *triggers)

    @property
    def ns(self) -> str:
        """Namespace of what the task calls."""
        if self._ns is None:
            self._ns = task_namespace(self._key[1], self.known_as, self.id)
        return self._ns

    @property
    def checkpoint_id(self) -> str:
        """Checkpoint that the task starts from."""
        return self._key[0]

    @property
    def step(self) -> int:
        """Number of its superstep."""
        return self._key[2]

    @property
    def triggers(self) -> tuple[str, ...]:
        """What made it run."""
        return self.node.triggers if self.index < 0 else (PUSH,)

    @property
    def path(self) -> tuple[Any, ...]:
        """What it is within its superstep."""
        return (PULL, self.name) if self.index < 0 else (PUSH, self.index, False)

    @property
    def known_path(self) -> tuple[Any, ...]:
        """The path under the name that ids are computed from."""
        return (PULL, self.known_as) if self.index < 0 else self.path

    @property
    def path_text(self) -> str:
        """The path as it is stored."""
        # Most tasks are those of nodes that channels triggered: the short way to the same text.
        return f"~{PULL}, {self.name}" if type(self) is Task and self.index < 0 else path_text(self.path)

    @property
    def order(self) -> tuple[int, str, int]:
        """Sorts tasks as their writes are applied: nodes by name, then sends by place."""
        return (0, self.name, 0) if self.index < 0 else (1, "", self.index)


class CallTask(Task):
    """A function that a running task called: a task of the same superstep.

    Its id does not depend on the arguments, only on the caller, the function's name and the place of the call among
    the caller's calls.

    Attributes:
        caller: The task that called it.
        index: Place among the calls of the caller.
        input: Positional and keyword arguments.
    """

    __slots__ = ("caller",)

    def __init__(
        self, name: str, node: PregelNode, input: tuple[tuple[Any, ...], dict[str, Any]], caller: Task, index: int
    ) -> None:
        checkpoint, _, step, version = caller._key
        super().__init__(name, node, input, (checkpoint, caller.ns, step, version), index=index)
        self.caller = caller

    def _id_parts(self) -> tuple[str, ...]:
        return (PUSH, path_text(self.caller.known_path), str(self.index))

    @property
    def path(self) -> tuple[Any, ...]:
        """The caller's path, with the place of the call."""
        return (PUSH, self.caller.path, self.index, True)

    @property
    def known_path(self) -> tuple[Any, ...]:
        """The path under the names that ids are computed from."""
        return (PUSH, self.caller.known_path, self.index, True)

    @property
    def order(self) -> tuple[int, str, int]:
        """Sorts calls after all nodes and sends, by their whole path."""
        return (2, self.path_text, 0)


class RescueTask(Task):
    """An error handler that takes over from a task of its superstep.

    Attributes:
        failed: The task that failed.
        cause: What the handler is told.
    """

    __slots__ = ("cause", "failed")

    def __init__(self, name: str, node: PregelNode, input: Any, failed: Task, cause: NodeError, known_as: str) -> None:
        checkpoint, _, step, version = failed._key
        key = (checkpoint, failed.ns, step, version)
        super().__init__(name, node, input, key, known_as=known_as, instance=failed.instance)
        self.failed = failed
        self.cause = cause

    def _id_parts(self) -> tuple[str, ...]:
        return (PUSH, _HANDLER, self.failed.id)

    @property
    def triggers(self) -> tuple[str, ...]:
        """No channel made it run."""
        return (PUSH,)

    @property
    def path(self) -> tuple[Any, ...]:
        """The failed task's path, marked."""
        return (*self.failed.path[:3], _HANDLER, False)

    @property
    def known_path(self) -> tuple[Any, ...]:
        """The path under the names that ids are computed from."""
        return (*self.failed.known_path[:3], _HANDLER, False)

    @property
    def order(self) -> tuple[int, str, int]:
        """Applied where the failed task would have been."""
        return self.failed.order
