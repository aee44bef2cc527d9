"""The Python blocks of the README and the documents run, and print what they say (lines that begin with ``#> ``).

A block after the line ``<!-- no-run -->`` is not run. One that reads ``DATABASE_URL`` is given a PostgreSQL database.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import asyncpg
import pytest
from postgres import database

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(?P<skip><!-- no-run -->\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: Path
    heading: str
    code: str
    line: int

    @property
    def expected(self) -> list[str]:
        return [line[3:] for line in self.code.splitlines() if line.startswith("#> ")]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        if match["skip"] is None:
            heading = re.findall(r"^#+ (.+)$", text[: match.start()], re.MULTILINE)[-1]
            found.append(Block(page, heading, match["code"], text.count("\n", 0, match.start("code"))))
    return found


def run(block: Block, name: str) -> None:
    """Execute the block as a module of its own; `await` may stand at top level."""
    code = compile("\n" * block.line + block.code, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    module = ModuleType(name)
    sys.modules[name] = module
    try:
        result = eval(code, module.__dict__)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    finally:
        del sys.modules[name]


async def new_database(dsn: str) -> str:
    name = f"docs_{uuid.uuid4().hex}"
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    finally:
        await conn.close()
    return database(dsn, name)


def test_the_readme_has_blocks_to_run() -> None:
    assert len(blocks(ROOT / "README.md")) >= 8


@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in blocks(page)],
    ids=lambda block: f"{block.page.stem}-{block.heading}".lower().replace(" ", "-"),
)
def test_a_block_prints_what_it_says(
    block: Block,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    for extra in ("fastapi", "httpx"):
        if "fastapi" in block.code:
            pytest.importorskip(extra, reason=f"{extra} is not installed (pip install {extra})")
    if "DATABASE_URL" in block.code:
        monkeypatch.setenv("DATABASE_URL", asyncio.run(new_database(request.getfixturevalue("postgres_dsn"))))

    run(block, "readme_block")

    assert capsys.readouterr().out.splitlines() == block.expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings], (
                target
            )


def test_the_readme_is_not_long() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 450
