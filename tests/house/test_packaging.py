"""What pyproject.toml promises holds together."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def group(pyproject: dict[str, Any], name: str) -> set[str]:
    """Return a dependency group's requirements, included groups resolved (PEP 735)."""
    found: set[str] = set()
    for item in pyproject["dependency-groups"][name]:
        found |= {item} if isinstance(item, str) else group(pyproject, item["include-group"])
    return found


def test_the_dev_extra_is_what_the_checks_need(pyproject: dict[str, Any]) -> None:
    checks = {item for name in ("test", "lint", "types", "floors") for item in group(pyproject, name)}

    assert set(pyproject["project"]["optional-dependencies"]["dev"]) == checks


def test_the_tests_have_every_extra(pyproject: dict[str, Any]) -> None:
    extras = pyproject["project"]["optional-dependencies"]
    optional = {item for name, items in extras.items() if name != "dev" for item in items}

    assert optional <= group(pyproject, "test")


def test_no_dependency_has_an_upper_bound(pyproject: dict[str, Any]) -> None:
    everything = set(pyproject["project"]["dependencies"]) | group(pyproject, "dev")

    assert [item for item in everything if "<" in item or "==" in item or "~=" in item] == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no executable bit")
def test_ci_can_be_started() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
