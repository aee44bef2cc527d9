"""The benchmarks run, and report what they measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALL = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
ALL -= {"__init__", "__main__", "measure", "report", "databases"}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("names", [["chain"], pytest.param([], marks=pytest.mark.slow, id="all")])
def test_a_benchmark_runs_on_this_library_alone(tmp_path: Path, names: list[str]) -> None:
    target = tmp_path / "figures.json"

    result = run(*names, "--quick", "--budget", "0.001", "--only", "ours", "--json", target)

    assert result.returncode == 0, result.stderr
    figures = json.loads(target.read_text(encoding="utf-8"))
    assert {row["benchmark"] for row in figures["results"]} == (set(names) or ALL)
    assert all(row["figures"]["langgraph_async"]["wall_us"] > 0 for row in figures["results"])
    assert {"machine", "versions"} <= figures.keys()


def test_an_unknown_name_is_a_usage_error() -> None:
    result = run("nonsense")

    assert result.returncode == 2
    assert "no such benchmark: nonsense" in result.stderr
