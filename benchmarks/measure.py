"""Measure one piece of work on every library that is installed, in the same process and in interleaved rounds.

A sample is CPU time and wall time of one run (of several in a row, where one is too short to time), divided by the
units of work in it. Rounds go on until the case's time budget is used up: large sizes get few rounds, and the result
says how many. Where even the first run is longer than the budget, it is the only sample, and the result is marked as
cold. CPU time is that of all threads of this process; a database server's own shows in the wall time alone.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.metadata
import importlib.util
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar

MIN_SAMPLE_S = 0.02
MAX_ROUNDS = 25


@dataclass(frozen=True, slots=True)
class Library:
    """Where the names that a benchmark needs come from; they are imported when first asked for."""

    name: str
    distribution: str
    graph: str
    types: str
    memory: str
    sqlite: str
    postgres: str
    serde: str

    @property
    def version(self) -> str:
        """Version of the installed distribution."""
        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return "source"

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        return importlib.util.find_spec(self.name) is not None

    def __getattr__(self, name: str) -> Any:
        """Return a public name: `StateGraph`, `START`, `add_messages`, `Send`, a saver, the serializer.

        Raises:
            UnavailableError: The module that has it is not installed.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        elsewhere = {
            "Send": self.types,
            "RetryPolicy": self.types,
            "Limiter": self.types,
            "InMemorySaver": self.memory,
            "AsyncSqliteSaver": self.sqlite,
            "AsyncPostgresSaver": self.postgres,
            "JsonPlusSerializer": self.serde,
        }
        try:
            module = importlib.import_module(elsewhere.get(name, self.graph))
        except ImportError as exc:
            raise UnavailableError(f"{self.name}: {name} needs {exc.name}") from exc
        return getattr(module, name)


class UnavailableError(Exception):
    """A case cannot be measured here: something that it needs is not installed."""


OURS = Library(
    "langgraph_async",
    "langgraph-async",
    graph="langgraph_async",
    types="langgraph_async.types",
    memory="langgraph_async.checkpoint.memory",
    sqlite="langgraph_async.checkpoint.sqlite.aio",
    postgres="langgraph_async.checkpoint.postgres.aio",
    serde="langgraph_async.serde.jsonplus",
)
PEER = Library(
    "langgraph",
    "langgraph",
    graph="langgraph.graph",
    types="langgraph.types",
    memory="langgraph.checkpoint.memory",
    sqlite="langgraph.checkpoint.sqlite.aio",
    postgres="langgraph.checkpoint.postgres.aio",
    serde="langgraph.checkpoint.serde.jsonplus",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds, and where it was asked for bytes in the database, per unit of work."""

    cpu_s: float
    wall_s: float
    stored_bytes: float | None = None


T = TypeVar("T")
Sampler = Callable[[], Sample]
"""Does the work once, or a few times, and says what a unit of it took."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    Attributes:
        benchmark: The module it belongs to.
        name: What is varied, such as ``"100 nodes"``.
        unit: What the figures are per, such as ``"step"``.
        prepare: Builds everything for one library, untimed, and returns the sampler.
        large: Left out by ``--quick``.
    """

    benchmark: str
    name: str
    unit: str
    prepare: Callable[[Library], Sampler]
    large: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """Median and quartiles over the rounds, in seconds per unit."""

    cpu_s: float
    wall_s: float
    cpu_quartiles_s: tuple[float, float]
    rounds: int
    cold: bool
    stored_bytes: float | None = None

    @property
    def spread(self) -> float:
        """Distance between the quartiles of CPU time, as a share of the median."""
        low, high = self.cpu_quartiles_s
        return (high - low) / self.cpu_s if self.cpu_s else 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """A case with its figures by library name."""

    case: Case
    figures: dict[str, Figures]

    @property
    def ratio(self) -> float | None:
        """How many times the CPU time of ours the peer takes, or None when only one was measured."""
        return self._times(lambda figures: figures.cpu_s)

    @property
    def wall_ratio(self) -> float | None:
        """The same for wall time."""
        return self._times(lambda figures: figures.wall_s)

    def _times(self, of: Callable[[Figures], float]) -> float | None:
        if OURS.name not in self.figures or PEER.name not in self.figures:
            return None
        return of(self.figures[PEER.name]) / of(self.figures[OURS.name])


class Stopwatch:
    """Times a block: `with Stopwatch() as watch: ...` and then `watch.per(units)`."""

    def __enter__(self) -> Stopwatch:
        """Collect garbage first, so that nobody pays for what came before."""
        gc.collect()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Stop."""
        self._cpu, self._wall = time.process_time() - self._cpu, time.perf_counter() - self._wall

    def per(self, units: int) -> Sample:
        """Return the time per unit."""
        return Sample(self._cpu / units, self._wall / units)


def repeated(run: Callable[[], Awaitable[Any]], units: int) -> Sampler:
    """Return a sampler that awaits `run`, which does `units` units of work: once, then often enough to time."""
    times = 1

    async def sample() -> Sample:
        with Stopwatch() as watch:
            for _ in range(times):
                await run()
        return watch.per(units * times)

    def sampler() -> Sample:
        nonlocal times
        taken = wait_for(sample())
        times = max(times, int(MIN_SAMPLE_S / (taken.wall_s * units)))
        return taken

    return sampler


def weighed(sampler: Sampler, stored_bytes: Callable[[], float]) -> Sampler:
    """Return a sampler that also says how many bytes per unit the work that was timed has stored."""

    def with_bytes() -> Sample:
        return replace(sampler(), stored_bytes=stored_bytes())

    return with_bytes


_shared: list[asyncio.Runner] = []


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in the one event loop that all libraries run in."""
    if not _shared:
        _shared.append(asyncio.Runner())
    return _shared[0].run(work)


_resources = ExitStack()


def at_end(close: Callable[[], object]) -> None:
    """Call `close` when the case has been measured; for what `prepare` opens."""
    _resources.callback(close)


def _figures(samples: Sequence[Sample], cold: bool) -> Figures:
    cpu = [sample.cpu_s for sample in samples]
    quarters = statistics.quantiles(cpu, n=4, method="inclusive") if len(cpu) > 1 else [cpu[0]] * 3
    wall = statistics.median(sample.wall_s for sample in samples)
    stored = [sample.stored_bytes for sample in samples if sample.stored_bytes is not None]
    weight = statistics.median(stored) if stored else None
    return Figures(statistics.median(cpu), wall, (quarters[0], quarters[2]), len(samples), cold, weight)


def measure(case: Case, libraries: Sequence[Library], budget_s: float) -> Result:
    """Warm up, then sample each library in turn until `budget_s` seconds per library are used up.

    A library that lacks what the case needs is left out.
    """
    with _resources:
        samplers: dict[str, Sampler] = {}
        for library in libraries:
            try:
                samplers[library.name] = case.prepare(library)
            except UnavailableError as reason:
                print(f"{case.benchmark} {case.name}: {reason}", file=sys.stderr, flush=True)
        return Result(case, _sampled(samplers, budget_s))


def _sampled(samplers: dict[str, Sampler], budget_s: float) -> dict[str, Figures]:
    samples: dict[str, list[Sample]] = {name: [] for name in samplers}
    used = dict.fromkeys(samplers, 0.0)
    cold: set[str] = set()

    def take(name: str) -> Sample:
        started = time.perf_counter()
        sample = samplers[name]()
        used[name] += time.perf_counter() - started
        return sample

    for name in samplers:
        first = take(name)
        if used[name] > budget_s:
            cold.add(name)
            samples[name].append(first)
        else:
            take(name)
    for number in range(MAX_ROUNDS):
        for name in samplers if number % 2 == 0 else reversed(samplers):
            if name not in cold and (used[name] <= budget_s or not samples[name]):
                samples[name].append(take(name))
    return {name: _figures(taken, name in cold) for name, taken in samples.items()}
