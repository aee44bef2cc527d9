"""Measure one piece of work on every library that is installed, in the same process and in interleaved rounds.

A sample is CPU time and wall time of one run (of several in a row, where one is too short to time), divided by the
units of work in it. Rounds go on until the case's time budget is used up: large sizes get few rounds, and the result
says how many. Where even the first run is longer than the budget, it is the only sample, and the result is marked as
cold.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.metadata
import importlib.util
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
        """Return a public name: `StateGraph`, `START`, `END`, `Send`, `InMemorySaver`."""
        if name.startswith("_"):
            raise AttributeError(name)
        module = {"Send": self.types, "InMemorySaver": self.memory}.get(name, self.graph)
        return getattr(importlib.import_module(module), name)


OURS = Library(
    "langgraph_async", "langgraph-async", "langgraph_async", "langgraph_async", "langgraph_async.checkpoint.memory"
)
PEER = Library("langgraph", "langgraph", "langgraph.graph", "langgraph.types", "langgraph.checkpoint.memory")


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds per unit of work."""

    cpu_s: float
    wall_s: float


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
        if OURS.name not in self.figures or PEER.name not in self.figures:
            return None
        return self.figures[PEER.name].cpu_s / self.figures[OURS.name].cpu_s


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
        taken = _runner().run(sample())
        times = max(times, int(MIN_SAMPLE_S / (taken.wall_s * units)))
        return taken

    return sampler


_shared: list[asyncio.Runner] = []


def _runner() -> asyncio.Runner:
    """Return the one event loop that all libraries run in."""
    if not _shared:
        _shared.append(asyncio.Runner())
    return _shared[0]


def _figures(samples: Sequence[Sample], cold: bool) -> Figures:
    cpu = [sample.cpu_s for sample in samples]
    quarters = statistics.quantiles(cpu, n=4, method="inclusive") if len(cpu) > 1 else [cpu[0]] * 3
    wall = statistics.median(sample.wall_s for sample in samples)
    return Figures(statistics.median(cpu), wall, (quarters[0], quarters[2]), len(samples), cold)


def measure(case: Case, libraries: Sequence[Library], budget_s: float) -> Result:
    """Warm up, then sample each library in turn until `budget_s` seconds per library are used up."""
    samplers = {library.name: case.prepare(library) for library in libraries}
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
    return Result(case, {name: _figures(taken, name in cold) for name, taken in samples.items()})
