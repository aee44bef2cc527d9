"""The README's Python blocks run, and print what they say they print (lines that begin with ``#> ``)."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^(?P<skip><!-- no-run -->\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    heading: str
    code: str
    line: int

    @property
    def expected(self) -> list[str]:
        return [line[3:] for line in self.code.splitlines() if line.startswith("#> ")]


def blocks() -> list[Block]:
    text = README.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        if match["skip"] is None:
            heading = re.findall(r"^#+ (.+)$", text[: match.start()], re.MULTILINE)[-1]
            found.append(Block(heading, match["code"], text.count("\n", 0, match.start("code"))))
    return found


def run(block: Block, name: str) -> None:
    """Execute the block as a module of its own; `await` may stand at top level."""
    code = compile("\n" * block.line + block.code, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    module = ModuleType(name)
    sys.modules[name] = module
    try:
        result = eval(code, module.__dict__)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    finally:
        del sys.modules[name]


def test_the_readme_has_blocks_to_run() -> None:
    assert len(blocks()) >= 8


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.heading.lower().replace(" ", "-"))
def test_a_block_prints_what_it_says(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    run(block, "readme_block")

    assert capsys.readouterr().out.splitlines() == block.expected
