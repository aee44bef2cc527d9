"""A node's output, or a graph's input, as writes to channels.

Comes in: whatever a node returned. Goes out: (channel, value) pairs, state first, then control. Everything
here is a pure function of the output; what cannot be written raises, naming the node and the key or target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph_async.channels.delta import DeltaChannel
from langgraph_async.channels.reducer import BinaryOperatorAggregate
from langgraph_async.constants import END, MISSING, ROOT, TASKS, branch_channel
from langgraph_async.errors import ErrorCode, InvalidUpdateError, ParentCommand, create_error_message
from langgraph_async.hints import fields_of_instance, may_be_left_out
from langgraph_async.pregel.node import Write
from langgraph_async.pregel.suggest import did_you_mean
from langgraph_async.types import Command, Overwrite, Send


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """Where the nodes of one graph may write and go; shared by all of its writers.

    Attributes:
        graph: The graph's name, for messages.
        keys: State keys of every schema of the graph.
        managed: Managed values: the engine provides them; a node that returns its whole state returns them too,
            and they are passed over.
        nodes: Nodes that a `Command` or `Send` may name.
        validators: For keys that the schema validates: checks a written value and returns it converted.
        defaulted: Channels, by key, that have a reducer and start from a default of the schema.
    """

    graph: str
    keys: frozenset[str]
    managed: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    validators: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    defaulted: Mapping[str, BinaryOperatorAggregate | DeltaChannel] = field(default_factory=dict)

    @property
    def root(self) -> bool:
        """Whether the state is one value instead of a set of keys."""
        return ROOT in self.keys


@dataclass(frozen=True, slots=True, eq=False)
class NodeWriter:
    """Turns the output of one node into writes.

    Attributes:
        places: Where it may write and go.
        node: The node.
        passed: Keys of graphs that the node calls, which need not be the state's: they are passed over, so that a
            node may return what such a graph returned.
    """

    places: Places
    node: str
    passed: frozenset[str] = frozenset()

    def __call__(self, output: Any) -> Sequence[Write]:
        """Return the writes of `output`.

        Raises:
            InvalidUpdateError: The output, a key in it, or a target that it names cannot be used.
            ParentCommand: The output is a command for an enclosing graph, or holds one.
        """
        if output is None:
            return ()
        if type(output) is dict and not self.places.root:
            return self._keyed(output.items())
        parts = _parts(output)
        writes = [write for part in parts for write in self._state(part)]
        for part in parts:
            writes.extend(self._control(part))
        return writes

    # -- state --

    def _state(self, part: Any) -> Sequence[Write]:
        if isinstance(part, Command):
            return () if part.graph == Command.PARENT else self._update(part.update)
        if part is None or isinstance(part, Send):
            return ()
        if self.places.root:
            return [(ROOT, self._valid(ROOT, part))]
        return self._keyed(self._items(part))

    def _update(self, update: Any) -> Sequence[Write]:
        if update is None:
            return ()
        pairs = update.items() if isinstance(update, Mapping) else update if _is_pairs(update) else None
        if self.places.root:
            if pairs is not None and all(key in self.places.keys for key, _ in pairs):
                return self._keyed(pairs)
            return [(ROOT, self._valid(ROOT, update))]
        return self._keyed(self._items(update) if pairs is None else pairs)

    def _items(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return value.items()
        fields = _given_fields(value, self.places)
        if fields is None:
            raise InvalidUpdateError(
                create_error_message(
                    message=f"Expected dict, got {value!r} from node {self.node!r} of graph {self.places.graph!r}. "
                    "Return a dict of state keys, an instance of a state schema, a Command, or None.",
                    error_code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
                )
            )
        return fields

    def _keyed(self, items: Any) -> Sequence[Write]:
        places = self.places
        keys, validators = places.keys, places.validators
        writes: list[Write] = []
        for key, value in items:
            if key in keys:
                writes.append((key, self._valid(key, value) if key in validators else value))
            elif key not in places.managed and key not in self.passed:
                raise InvalidUpdateError(
                    f"Node {self.node!r} of graph {places.graph!r} wrote to {key!r}, which no schema of the graph "
                    f"declares.{did_you_mean(key, keys)}"
                )
        return writes

    def _valid(self, key: str, value: Any) -> Any:
        check = self.places.validators.get(key)
        if check is None or isinstance(value, Overwrite):
            return value
        try:
            return check(value)
        except Exception as exc:
            raise InvalidUpdateError(
                f"Node {self.node!r} of graph {self.places.graph!r} wrote a value to {key!r} that the schema does "
                f"not accept: {exc}"
            ) from exc

    # -- control --

    def _control(self, part: Any) -> Iterator[Write]:
        if isinstance(part, Send):
            yield self._send(part)
        elif isinstance(part, Command):
            if part.graph == Command.PARENT:
                raise ParentCommand(part)
            yield from self._goto(part.goto)

    def _goto(self, goto: Any) -> Iterator[Write]:
        for target in goto if isinstance(goto, (list, tuple)) else (goto,):
            if isinstance(target, Send):
                yield self._send(target)
            elif not isinstance(target, str):
                raise InvalidUpdateError(
                    f"In Command.goto, expected Send/str, got {type(target).__name__} from node {self.node!r} of "
                    f"graph {self.places.graph!r}."
                )
            elif target in self.places.nodes:
                yield branch_channel(target), None
            elif target != END:
                raise InvalidUpdateError(
                    f"Node {self.node!r} of graph {self.places.graph!r} goes to unknown node {target!r}."
                    f"{did_you_mean(target, {*self.places.nodes, END})}"
                )

    def _send(self, send: Send) -> Write:
        check_send(send, self.places, f"Node {self.node!r}")
        return TASKS, send


def check_send(send: Send, places: Places, sender: str) -> None:
    """Raise unless `send` names a node.

    Raises:
        InvalidUpdateError: It names END, or no node of the graph.
    """
    if send.node == END:
        raise InvalidUpdateError(
            f"Cannot send a packet to the END node. {sender} of graph {places.graph!r} tried; return END instead."
        )
    if send.node not in places.nodes:
        raise InvalidUpdateError(
            f"{sender} of graph {places.graph!r} sends to unknown node {send.node!r}."
            f"{did_you_mean(send.node, places.nodes)}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class InputWriter:
    """Turns the input of a graph into writes: only the keys of the input schema are written.

    Other keys are passed over, so that a state can be given as an input; see `unknown_keys` for those that nobody
    knows.
    """

    places: Places
    keys: frozenset[str]

    def __call__(self, value: Any) -> Sequence[Write]:
        """Return the writes of the input `value`.

        Raises:
            InvalidUpdateError: The input is not a dict or schema object, or a value does not fit the schema.
        """
        if ROOT in self.keys:
            return () if value is None else [(ROOT, self._valid(ROOT, value))]
        writes: list[Write] = []
        for key, item in self._items(value):
            if key in self.keys:
                writes.append((key, self._valid(key, item)))
        return writes

    def _items(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return value.items()
        fields = None if value is None else _given_fields(value, self.places)
        if fields is None:
            raise InvalidUpdateError(
                f"Expected dict, got {value!r} as the input of graph {self.places.graph!r}. Pass a dict of the input "
                "schema's keys, or an instance of the schema."
            )
        return fields

    def _valid(self, key: str, value: Any) -> Any:
        check = self.places.validators.get(key)
        if check is None or isinstance(value, Overwrite):
            return value
        try:
            return check(value)
        except Exception as exc:
            raise InvalidUpdateError(
                f"The input of graph {self.places.graph!r} has a value for {key!r} that the schema does not "
                f"accept: {exc}"
            ) from exc


def _given_fields(value: Any, places: Places) -> list[Write] | None:
    """Return the fields of a schema object as writes; None if it is none.

    A field that was left to its default is no write if the reducer would add the default to the one that the key
    starts from.
    """
    fields = fields_of_instance(value)
    if fields is None or not places.defaulted:
        return fields
    optional = may_be_left_out(value).intersection(places.defaulted)
    return [(key, item) for key, item in fields if key not in optional or not _doubles(places.defaulted[key], item)]


def _doubles(channel: BinaryOperatorAggregate | DeltaChannel, value: Any) -> bool:
    """Tell whether `value` is the channel's default, and the channel would not be the same with it written."""
    fresh = channel.from_checkpoint(MISSING)
    try:
        default = fresh.get()
        if type(value) is not type(default) or value != default:
            return False
        fresh.update([value])
        return bool(fresh.get() != value)
    except Exception:  # noqa: BLE001 - arrays do not tell; what a reducer refuses, the step reports
        return False


def _parts(output: Any) -> Sequence[Any]:
    if isinstance(output, (list, tuple)) and any(isinstance(item, Command) for item in output):
        return output
    return (output,)


def _is_pairs(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in value)
    )
