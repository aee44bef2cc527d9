"""The form in which callers get what is streamed: shapes of items, and the result of a run that is not streamed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from langgraph_async.constants import INTERRUPT, START
from langgraph_async.errors import ConfigError
from langgraph_async.types import GraphOutput, Interrupt

Namespace: TypeAlias = tuple[str, ...]
Shape: TypeAlias = Callable[[Namespace, str, Any], Any]
"""From namespace, mode and payload to what the caller gets."""
Mapper: TypeAlias = Callable[[dict[str, Any]], Any]
"""From a dict to an instance of a schema."""


@dataclass(frozen=True, slots=True, eq=False)
class Mappers:
    """How one graph's values become instances of its schemas; None leaves them dicts.

    Attributes:
        output: For ``values``; None too when the caller chose other output keys than the schema's.
        state: For the values of a checkpoint.
    """

    output: Mapper | None = None
    state: Mapper | None = None


NO_MAPPERS: Final[Mapping[Namespace, Mappers]] = MappingProxyType({})


def shape(version: str, *, is_list: bool, subgraphs: bool, mappers: Mapping[Namespace, Mappers] = NO_MAPPERS) -> Shape:
    """Return the function that gives items their form.

    Args:
        version: ``"v1"``: bare payloads, or tuples of namespace (with `subgraphs`), mode (with `is_list`) and
            payload. ``"v2"``: always a `StreamPart`.
        is_list: Whether the caller gave a list of modes.
        subgraphs: Whether the caller wants the items of nested graphs.
        mappers: By namespace, for ``"v2"`` only. It is read when an item comes, so nested graphs may be added while
            the stream runs; values of a graph that is not in it stay dicts.

    Raises:
        ConfigError: `version` is unknown.
    """
    check_version(version)
    if version == "v2":
        return lambda ns, mode, payload: _part(ns, mode, payload, mappers.get(ns))
    if subgraphs:
        return _with_namespace_and_mode if is_list else _with_namespace
    return _with_mode if is_list else _bare


def check_version(version: str) -> Literal["v1", "v2"]:
    """Return `version` if it is one of the two.

    Raises:
        ConfigError: It is not.
    """
    if version == "v1":
        return "v1"
    if version == "v2":
        return "v2"
    raise ConfigError(f"version must be 'v1' or 'v2', got {version!r}.")


def _bare(ns: Namespace, mode: str, payload: Any) -> Any:  # noqa: ARG001
    return payload


def _with_mode(ns: Namespace, mode: str, payload: Any) -> Any:  # noqa: ARG001
    return mode, payload


def _with_namespace(ns: Namespace, mode: str, payload: Any) -> Any:  # noqa: ARG001
    return ns, payload


def _with_namespace_and_mode(ns: Namespace, mode: str, payload: Any) -> Any:
    return ns, mode, payload


def _part(ns: Namespace, mode: str, payload: Any, mappers: Mappers | None) -> dict[str, Any]:
    if mode == "values":
        values, interrupts = split_interrupts(payload)
        if mappers is not None:
            values = _output(values, interrupts, mappers.output)
        return {"type": mode, "ns": ns, "data": values, "interrupts": interrupts}
    if mappers is not None and mappers.state is not None:
        if mode == "checkpoints":
            payload = _checkpoint(payload, mappers.state)
        elif mode == "debug" and payload["type"] == "checkpoint":
            payload = {**payload, "payload": _checkpoint(payload["payload"], mappers.state)}
    return {"type": mode, "ns": ns, "data": payload}


def split_interrupts(payload: Any) -> tuple[Any, tuple[Interrupt, ...]]:
    """Return a payload of ``values`` without its questions, and the questions. The payload is not changed.

    Only a tuple is taken for them, as `values_payload` makes it: an output that contains the result of another
    run has a list there, which is data.
    """
    if isinstance(payload, dict) and isinstance(payload.get(INTERRUPT), tuple):
        return {key: value for key, value in payload.items() if key != INTERRUPT}, payload[INTERRUPT]
    return payload, ()


def _output(values: Any, interrupts: tuple[Interrupt, ...], mapper: Mapper | None) -> Any:
    if mapper is None or not isinstance(values, dict):
        return values
    try:
        return mapper(values)
    except Exception:
        # A paused run may not have written all that its output requires. Its questions must reach the caller all
        # the same, so what there is stays a dict; a finished run has no such excuse.
        if interrupts:
            return values
        raise


def _checkpoint(payload: dict[str, Any], mapper: Mapper) -> dict[str, Any]:
    values = payload["values"]
    # Before the input is applied the state is not a whole one.
    if not isinstance(values, dict) or START in payload["next"]:
        return payload
    return {**payload, "values": mapper(values)}


class Collector:
    """Gathers what a run gives into the result of ``ainvoke``.

    With the one mode ``values`` the result is the last output, and the questions if the run is paused: in v1 under
    the key ``__interrupt__`` (a list), in v2 in `GraphOutput.interrupts`. With any other mode, or a list of modes,
    it is the list of all items in their shape.

    Args:
        version: ``"v1"`` or ``"v2"``.
        modes: The modes asked for.
        is_list: Whether they were given as a list.
        subgraphs: Whether items of nested graphs come too.
        mappers: See `shape`.
        ns: Namespace of the graph whose result it is.

    Raises:
        ConfigError: `version` is unknown.
    """

    __slots__ = ("_interrupts", "_items", "_latest", "_mappers", "_ns", "_shape", "_version", "last_only")

    def __init__(
        self,
        version: str,
        modes: frozenset[str],
        *,
        is_list: bool,
        subgraphs: bool = False,
        mappers: Mapping[Namespace, Mappers] = NO_MAPPERS,
        ns: Namespace = (),
    ) -> None:
        self._version = check_version(version)
        self._shape = shape(version, is_list=is_list, subgraphs=subgraphs, mappers=mappers)
        self._mappers = mappers
        self._ns = ns
        self._items: list[Any] = []
        self._latest: Any = None
        self._interrupts: dict[str, Interrupt] = {}
        self.last_only = not is_list and modes == {"values"}
        """Whether only the last ``values`` item counts, so that the engine need not make the others."""

    def __call__(self, ns: Namespace, mode: str, payload: Any) -> None:
        """Take one item. Payloads of ``values`` bring the questions along (see `values_payload`)."""
        if not self.last_only:
            self._items.append(self._shape(ns, mode, payload))
        elif ns == self._ns and mode == "values":
            self._latest, interrupts = split_interrupts(payload)
            self._ask(interrupts)
        elif ns == self._ns and mode == "updates":
            self._ask(payload.get(INTERRUPT) or ())

    def _ask(self, interrupts: tuple[Interrupt, ...]) -> None:
        for interrupt in interrupts:
            self._interrupts[interrupt.id] = interrupt

    def result(self) -> Any:
        """Return the result, when the run is over."""
        if not self.last_only:
            return self._items
        interrupts = tuple(self._interrupts.values())
        if self._version == "v2":
            own = self._mappers.get(self._ns)
            value = _output(self._latest, interrupts, own.output) if own is not None else self._latest
            return GraphOutput(value, interrupts)
        if not interrupts:
            return self._latest
        shown = self._latest if isinstance(self._latest, dict) else {}
        return {**shown, INTERRUPT: list(interrupts)}
