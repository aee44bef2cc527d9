"""The examples in the package's docstrings run, and give what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import langgraph_async


def modules() -> list[str]:
    return sorted(m.name for m in pkgutil.walk_packages(langgraph_async.__path__, "langgraph_async."))


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)

    assert result.failed == 0
