"""What a run was given, to what it means: new input, a command, or going on.

In: the input of a run. Out: writes, and the answers it holds. Nothing here awaits, stores or changes the state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph_async.constants import END, MISSING, ROOT, START, TASKS, branch_channel
from langgraph_async.errors import EmptyInputError, InvalidUpdateError, ResumeError, UnknownInterruptError
from langgraph_async.hints import fields_of_instance
from langgraph_async.ids import is_interrupt_id
from langgraph_async.pregel.model import GraphSpec
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.suggest import did_you_mean
from langgraph_async.pregel.view import unshared
from langgraph_async.types import Command, Interrupt, Send

logger = logging.getLogger("langgraph_async")


def input_writes(spec: GraphSpec, value: Any) -> list[Write]:
    """Return the writes of a new input; empty when there is nothing usable in it.

    Raises:
        InvalidUpdateError: The state cannot take the input. Checked here, before anything is stored.
        TypeError: A graph with several input channels was not given a dict.
    """
    keys = spec.input_keys
    if isinstance(keys, str):
        if value is None:
            return []
        start = spec.nodes.get(START)
        if start is not None and keys == START and spec.schemas is not None:
            start.write(value)
        return [(keys, unshared(value))]
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise TypeError(f"Expected chunk to be a dict, got {type(value).__name__}. Input channels: {', '.join(keys)}.")
    writes: list[Write] = []
    for key, item in value.items():
        if key in keys:
            writes.append((key, item))
        else:
            logger.warning("Input channel %s not found in graph %s", key, spec.name)
    return writes


def unknown_keys(spec: GraphSpec, value: Any) -> list[str]:
    """Return the keys of an input that no schema of the graph declares; they are not written."""
    schemas = spec.schemas
    if schemas is None or ROOT in schemas.state_keys or not isinstance(value, Mapping):
        return []
    return [key for key in value if key not in schemas.state_keys and key not in spec.managed]


def warn_of_unknown_keys(spec: GraphSpec, value: Any, outer: GraphSpec | None) -> None:
    """Log the keys of an input that are not written, since they may be misspelt.

    Args:
        spec: The graph.
        value: Its input.
        outer: The graph around it, whose keys a node may hand on with its whole state.
    """
    for key in unknown_keys(spec, value):
        if outer is None or key not in outer.channels:
            hint = did_you_mean(str(key), spec.schemas.state_keys) if spec.schemas is not None else ""
            logger.warning("Input key %r is not in the state of graph %r and is ignored.%s", key, spec.name, hint)


def empty_input(spec: GraphSpec) -> EmptyInputError:
    """Return the error for a run that was given nothing and has nothing to go on with."""
    names = spec.input_keys if isinstance(spec.input_keys, str) else ", ".join(spec.input_keys)
    return EmptyInputError(
        f"Received no input for {names}. Graph {spec.name!r} was called with None, which means 'go on', on a thread "
        "that has nothing to go on with. Pass an input, or the thread_id of a thread that was started."
    )


def command_writes(spec: GraphSpec, command: Command[Any]) -> list[Write]:
    """Return the writes of a command that is given as the input of a run: its updates, then where to go.

    Raises:
        InvalidUpdateError: It is for a parent graph, or names an unknown key or node.
        TypeError: `goto` holds something that is neither a name nor a `Send`.
    """
    if command.graph == Command.PARENT:
        raise InvalidUpdateError("There is no parent graph: the command is the input of a root graph.")
    goto = command.goto if isinstance(command.goto, (list, tuple)) else (command.goto,)
    for target in goto:
        if not isinstance(target, (str, Send)):
            raise TypeError(f"In Command.goto, expected Send/str, got {type(target).__name__}")
    if spec.schemas is not None and spec.schemas.command is not None:
        writes = spec.schemas.command(Command(update=command.update, goto=command.goto))
        return [(key, START if key.startswith("branch:to:") else value) for key, value in writes]
    return [*_update_by_channel(spec, command.update), *(_goto(spec, target) for target in goto if target != END)]


def is_empty(command: Command[Any]) -> bool:
    """Tell whether a command that is the input of a run asks for nothing."""
    return not (command.update or command.goto or has_answer(command))


def _update_by_channel(spec: GraphSpec, update: Any) -> list[Write]:
    if not update:
        return []
    writes: list[Write]
    if isinstance(update, Mapping):
        writes = list(update.items())
    elif isinstance(update, (list, tuple)) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in update):
        writes = list(update)
    else:
        fields = fields_of_instance(update)
        writes = fields if fields is not None else [(ROOT, update)]
    for key, _ in writes:
        if key not in spec.channels:
            raise InvalidUpdateError(f"Graph {spec.name!r} has no channel {key!r}.{did_you_mean(key, spec.channels)}")
    return writes


def _goto(spec: GraphSpec, target: Any) -> Write:
    name = target.node if isinstance(target, Send) else target
    if name not in spec.nodes:
        raise InvalidUpdateError(
            f"Command(goto={target!r}) names a node that graph {spec.name!r} does not have."
            f"{did_you_mean(name, spec.nodes)}"
        )
    return (TASKS, target) if isinstance(target, Send) else (branch_channel(name), START)


def looks_like_map(payload: Any) -> bool:
    """Tell whether a resume payload has the form of a map from interrupt ids to answers."""
    return isinstance(payload, dict) and bool(payload) and all(is_interrupt_id(key) for key in payload)


def answers_of(
    payload: Any, pending: Sequence[Interrupt], *, known: Iterable[str], thread_id: str | None
) -> dict[str, Any]:
    """Return the answers that a resume payload holds, by the ids of the questions.

    Args:
        payload: What was given as ``Command(resume=...)``.
        pending: The questions of the thread that have no answer.
        known: Ids of questions that the thread asked at any time.
        thread_id: For messages.

    Raises:
        UnknownInterruptError: The payload names a question that is not pending, or it names none and there is
            more than one.
    """
    ids = sorted(question.id for question in pending)
    if looks_like_map(payload) and not (payload.keys().isdisjoint(ids) and payload.keys().isdisjoint(known)):
        unknown = sorted(key for key in payload if key not in ids)
        if unknown:
            raise UnknownInterruptError(
                f"Interrupt {unknown[0]!r} is not pending on thread {thread_id!r}: it was answered already, or the "
                f"thread has moved on. Pending: {', '.join(ids) or 'none'}. Nothing was stored.",
                reason="not_pending",
                interrupt_ids=unknown,
                pending_ids=ids,
            )
        return dict(payload)
    if len(pending) > 1:
        raise UnknownInterruptError(
            "When there are multiple pending interrupts, you must specify the interrupt id when resuming. "
            f"Pending on thread {thread_id!r}: {', '.join(ids)}. Pass Command(resume={{id: answer, ...}}). "
            "Nothing was stored.",
            reason="ambiguous",
            pending_ids=ids,
        )
    return {pending[0].id: payload} if pending else {}


def no_saver_to_resume(spec: GraphSpec) -> ResumeError:
    """Return the error for a resume without a saver."""
    return ResumeError(
        f"Cannot use Command(resume=...) without checkpointer: graph {spec.name!r} was compiled without one, so "
        "nothing remembers where it paused. Pass compile(checkpointer=InMemorySaver()) or a database saver."
    )


def has_answer(command: Any) -> bool:
    """Tell whether an input is a command with an answer."""
    return isinstance(command, Command) and command.resume is not MISSING
