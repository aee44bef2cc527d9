"""Each code that an error message points to has its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from langgraph_async.errors import ErrorCode, create_error_message

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("code", list(ErrorCode), ids=lambda code: code.value)
def test_the_page_that_a_message_names_exists(code: ErrorCode) -> None:
    message = create_error_message(message="x", error_code=code)
    page = message.rpartition("(")[2].rstrip(")")

    assert (ROOT / page).read_text(encoding="utf-8").startswith(f"# {code.value}\n")
