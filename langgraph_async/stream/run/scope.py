"""One graph of a run stream: its transformers, their projections, and the events that it tells."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from langgraph_async.stream.run.channel import StreamChannel
from langgraph_async.stream.run.pump import Event, Pump, Scope, now_ms
from langgraph_async.stream.run.transformer import (
    StreamTransformer,
    TransformerFactory,
    cancel_scheduled,
    join_scheduled,
)

_log = logging.getLogger(__name__)


class StreamScope:
    """The transformers of one graph, and what they have made.

    Args:
        pump: What advances the run.
        ns: Namespace of the graph.
        builtins: The built-in transformers.
        factories: Users' ones; made afresh for each scope.

    Attributes:
        extensions: All projections by name.
        log: The protocol events.
        ended: No more events come.

    Raises:
        TypeError: A factory makes no transformer, or `init` returns no dict.
        ValueError: Two transformers want the same name.
        NotImplementedError: A transformer takes no events.
    """

    __slots__ = ("_finalized", "_seq", "_transformers", "ended", "extensions", "factories", "log", "ns", "pump")

    def __init__(
        self,
        pump: Pump,
        ns: Scope,
        builtins: Sequence[Callable[[StreamScope], StreamTransformer]],
        factories: Sequence[TransformerFactory] = (),
    ) -> None:
        self.pump = pump
        self.ns = ns
        self.factories = tuple(factories)
        self.extensions: dict[str, Any] = {}
        self.log: StreamChannel[Event] = StreamChannel()
        self.log.bind(pump, None)
        self.ended = False
        self._finalized = 0
        self._seq = 0
        users = [_made(factory, ns) for factory in self.factories]
        transformers = [t for t in users if t.before_builtins]
        transformers += [make(self) for make in builtins]
        transformers += [t for t in users if not t.before_builtins]
        self._transformers: list[tuple[StreamTransformer, bool, list[StreamChannel[Any]]]] = []
        owners: dict[str, str] = {}
        for transformer in transformers:
            self._register(transformer, owners)

    @property
    def modes(self) -> frozenset[str]:
        """Stream modes that the transformers need."""
        return frozenset(mode for transformer, _, _ in self._transformers for mode in transformer.required_stream_modes)

    async def dispatch(self, event: Event) -> None:
        """Give an event to the transformers, in order, and tell it unless one of them keeps it back."""
        kept = True
        for transformer, is_async, _ in self._transformers:
            result = await transformer.aprocess(event) if is_async else transformer.process(event)  # type: ignore[arg-type]
            if result is False:
                kept = False
        if kept:
            self._tell(event)

    async def finalize(self) -> None:
        """End all projections, transformer by transformer.

        Raises:
            BaseException: What a transformer fails with; then `fail` is to be called.
        """
        end_scheduled = cancel_scheduled if self.pump.aborted else join_scheduled
        while self._finalized < len(self._transformers):
            transformer, _, channels = self._transformers[self._finalized]
            await end_scheduled(transformer)
            await transformer.afinalize()
            self._finalized += 1
            for channel in channels:
                channel.close()
        self.ended = True
        self.log.close()

    async def fail(self, error: BaseException) -> None:
        """End all projections that are still open with `error`. What transformers fail with meanwhile is logged."""
        if self.ended:
            return
        self.ended = True
        for transformer, _, channels in self._transformers[self._finalized :]:
            await cancel_scheduled(transformer)
            try:
                await transformer.afail(error)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001
                _log.exception("%s failed while it was told that the run failed.", type(transformer).__name__)
            for channel in channels:
                channel.fail(error)
        self.log.fail(error)

    def _register(self, transformer: StreamTransformer, owners: dict[str, str]) -> None:
        owner = type(transformer).__name__
        kind = type(transformer)
        is_async = kind.aprocess is not StreamTransformer.aprocess
        if not is_async and kind.process is StreamTransformer.process:
            raise NotImplementedError(f"{owner} must override process() or aprocess().")
        if is_async and not transformer._native:
            self.pump.delivers_in_task = True
        made: Any = transformer.init()
        if not isinstance(made, dict):
            raise TypeError(f"{owner}.init() must return a dict of projections, got {type(made).__name__}.")
        channels: list[StreamChannel[Any]] = []
        for key, projection in made.items():
            if key in owners:
                raise ValueError(
                    f"{owner} returned projection keys that conflict with those of other transformers: {key!r} "
                    f"belongs to {owners[key]}."
                )
            owners[key] = owner
            self.extensions[key] = projection
            if isinstance(projection, StreamChannel):
                name = projection.name
                method = name if name is None or transformer._native else f"custom:{name}"
                projection.bind(self.pump, None if method is None else partial(self._forward, method))
                channels.append(projection)
        self._transformers.append((transformer, is_async, channels))

    def _forward(self, method: str, item: Any) -> None:
        params = {"namespace": [], "timestamp": now_ms(), "data": item}
        self._tell({"type": "event", "method": method, "params": params})

    def _tell(self, event: Event) -> None:
        self._seq += 1
        event["seq"] = self._seq
        if not self.log.closed:
            self.log.push(event)


def _made(factory: TransformerFactory, ns: Scope) -> StreamTransformer:
    made: Any = factory(ns)
    if not isinstance(made, StreamTransformer):
        raise TypeError(f"A transformer factory must return a StreamTransformer, got {made!r} from {factory!r}.")
    return made
