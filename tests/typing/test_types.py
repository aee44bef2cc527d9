"""Right uses of the public types pass a strict type check, wrong ones fail where they are wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MARKED = re.compile(r"# error: \[([\w-]+)\]$")
REPORTED = re.compile(r"^.*?:(\d+): error: .*\[([\w-]+)\]$", re.MULTILINE)


def check(name: str) -> set[tuple[int, str]]:
    """Return line and code of every error that mypy finds in a file beside this one."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--no-error-summary", str(HERE / name)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode in (0, 1), result.stderr
    here = "\n".join(line for line in result.stdout.splitlines() if Path(line.split(":")[0]).name == name)
    return {(int(line), code) for line, code in REPORTED.findall(here)}


def test_right_uses_pass() -> None:
    assert check("right_uses.py") == set()


def test_wrong_uses_fail_on_their_lines() -> None:
    lines = (HERE / "wrong_uses.py").read_text(encoding="utf-8").splitlines()
    marked = {(number, found[1]) for number, line in enumerate(lines, 1) if (found := MARKED.search(line))}

    assert check("wrong_uses.py") == marked
