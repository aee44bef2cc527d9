"""The command line that all benchmarks share, the table, and the JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import OURS, PEER, Case, Figures, Library, Result, measure

LIBRARIES = {"ours": OURS, "peer": PEER}


def duration(seconds: float) -> str:
    """Return `seconds` in the unit that reads best."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 10 or (unit == "s" and seconds >= 1):
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:,.{0 if seconds >= 1e-4 else 1}f} us"


def row(result: Result, libraries: Sequence[Library]) -> list[str]:
    """Return the cells of one row."""
    cells = [result.case.benchmark, result.case.name, result.case.unit]
    for library in libraries:
        figures = result.figures.get(library.name)
        if figures is None:
            cells += ["-"] * 5
            continue
        rounds = f"{figures.rounds}{' cold' if figures.cold else ''}"
        stored = f"{figures.stored_bytes:,.0f} B" if figures.stored_bytes is not None else "-"
        cells += [duration(figures.cpu_s), f"{figures.spread:.0%}", duration(figures.wall_s), stored, rounds]
    return [*cells, *(f"{times:.1f}x" if times is not None else "-" for times in (result.ratio, result.wall_ratio))]


def header(libraries: Sequence[Library]) -> list[str]:
    """Return the cells of the first row."""
    cells = ["benchmark", "case", "per"]
    for library in libraries:
        cells += [f"{library.name} cpu", "spread", "wall", "stored", "rounds"]
    return [*cells, "peer/ours", "wall"]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return `rows`, the first of them the header, as a Markdown table."""
    widths = [max(len(line[column]) for line in rows) for column in range(len(rows[0]))]
    aligned = [
        "| "
        + " | ".join(c.ljust(w) if at < 3 else c.rjust(w) for at, (c, w) in enumerate(zip(line, widths, strict=True)))
        + " |"
        for line in rows
    ]
    rule = "|" + "|".join("-" * (w + 2) if at < 3 else "-" * (w + 1) + ":" for at, w in enumerate(widths)) + "|"
    return "\n".join([aligned[0], rule, *aligned[1:]])


def machine() -> dict[str, Any]:
    """Return what the figures depend on besides the code."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
    }


def as_json(results: Sequence[Result], libraries: Sequence[Library], budget_s: float) -> dict[str, Any]:
    """Return everything measured; times are in microseconds, and like the bytes per unit."""

    def figures(f: Figures) -> dict[str, Any]:
        return {
            "cpu_us": f.cpu_s * 1e6,
            "cpu_quartiles_us": [q * 1e6 for q in f.cpu_quartiles_s],
            "wall_us": f.wall_s * 1e6,
            "stored_bytes": f.stored_bytes,
            "rounds": f.rounds,
            "cold": f.cold,
        }

    return {
        "machine": machine(),
        "versions": {library.name: library.version for library in libraries},
        "budget_s": budget_s,
        "results": [
            {
                "benchmark": r.case.benchmark,
                "case": r.case.name,
                "unit": r.case.unit,
                "figures": {name: figures(f) for name, f in r.figures.items()},
                "peer_to_ours": r.ratio,
                "peer_to_ours_wall": r.wall_ratio,
            }
            for r in results
        ],
    }


def parser() -> argparse.ArgumentParser:
    """Return the options that every benchmark takes."""
    options = argparse.ArgumentParser()
    options.add_argument(
        "--json", metavar="FILE", help="also write everything measured, with machine and versions; - for stdout"
    )
    options.add_argument(
        "--quick", action="store_true", help="small sizes and a short budget: a look, not a measurement"
    )
    options.add_argument(
        "--budget", type=float, metavar="SECONDS", help="per case and library (default: 3, quick: 0.5)"
    )
    options.add_argument("--only", choices=sorted(LIBRARIES), help="measure one library alone")
    return options


def run(cases: Sequence[Case], options: argparse.Namespace) -> list[Result]:
    """Measure `cases`, print the table row by row as it fills, and write the JSON that was asked for."""
    wanted = [LIBRARIES[options.only]] if options.only else [OURS, PEER]
    libraries = [library for library in wanted if library.installed]
    if not libraries:
        raise SystemExit(f"not installed: {', '.join(library.name for library in wanted)}")
    budget_s = options.budget if options.budget is not None else (0.5 if options.quick else 3.0)
    results = []
    for case in cases:
        if not (options.quick and case.large):
            results.append(measure(case, libraries, budget_s))
            print(" ".join(row(results[-1], libraries)), file=sys.stderr, flush=True)
    versions = ", ".join(f"{library.name} {library.version}" for library in libraries)
    facts = machine()
    print(f"{versions}; Python {facts['python']}, {facts['processor']}, {facts['cores']} cores")
    print("Medians of the rounds; the spread is the distance between the quartiles of CPU time.")
    print(table([header(libraries), *(row(result, libraries) for result in results)]))
    if options.json:
        text = json.dumps(as_json(results, libraries, budget_s), indent=2)
        if options.json == "-":
            print(text)
        else:
            Path(options.json).write_text(text + "\n", encoding="utf-8")
    return results


def main(cases: Sequence[Case]) -> None:
    """Run one benchmark from the command line."""
    run(cases, parser().parse_args())
