"""Importing the package is cheap: whatever is optional stays out until somebody uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPTIONAL = [
    "aiosqlite",
    "asyncpg",
    "attr",
    "fastapi",
    "langchain_core",
    "langsmith",
    "msgspec",
    "numpy",
    "pandas",
    "psycopg",
    "pydantic",
    "pydantic_core",
    "redis",
    "sqlite3",
    "starlette",
]


def test_importing_the_package_loads_nothing_optional() -> None:
    code = f"import sys, langgraph_async; print(*(name for name in {OPTIONAL!r} if name in sys.modules))"

    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert loaded.split() == []
