"""The examples in the package's docstrings run, and give what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules() -> list[str]:
    """Return the names of all modules without importing one, so that a broken module fails its own test only."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in (ROOT / "langgraph_async").rglob("*.py"))
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_hold(name: str) -> None:
    if name.startswith("langgraph_async.integrations."):
        extra = name.split(".")[2]
        pytest.importorskip(extra, reason=f"{extra} is not installed (pip install 'langgraph-async[{extra}]')")
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)

    assert result.failed == 0
