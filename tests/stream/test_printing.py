from __future__ import annotations

import re

import pytest

from langgraph_async.stream.printing import printer


def test_wanted_items_are_printed_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    show = printer({"updates", "values"})

    show((), "updates", {"n": 1})
    show(("inner:1",), "values", {"x": "é"})
    show((), "custom", "not this")

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "\x1b[1m[updates]\x1b[0m {'n': 1}"
    assert re.sub(r"\x1b\[\d+m", "", lines[1]) == "[values] [graph=('inner:1',)] {'x': 'é'}"
    assert len(lines) == 2
