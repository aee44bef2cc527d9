"""Our savers pass the public conformance suite for LangGraph's savers.

Runs only where ``langgraph-checkpoint-conformance`` is installed. Each line is one capability of one saver.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph.checkpoint.conformance")

from langgraph.checkpoint import conformance
from langgraph.checkpoint.conformance.capabilities import Capability

from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver

pytestmark = pytest.mark.filterwarnings("ignore")


async def _checked(capability: str, make: Callable[[], AsyncIterator[Any]]) -> Any:
    registered = conformance.checkpointer_test(name="ours")(make)
    report = await conformance.validate(registered, capabilities={capability})
    return report.results[capability]


def _assert_passed(result: Any) -> None:
    assert result.detected
    assert result.failures == []
    assert result.tests_passed > 0


@pytest.mark.parametrize("capability", [each.value for each in Capability])
class TestConformance:
    async def test_memory(self, capability: str) -> None:
        async def make() -> AsyncIterator[Any]:
            yield InMemorySaver()

        _assert_passed(await _checked(capability, make))

    async def test_sqlite(self, capability: str, tmp_path: Path) -> None:
        async def make() -> AsyncIterator[Any]:
            async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
                yield saver

        _assert_passed(await _checked(capability, make))

    async def test_postgres(self, capability: str, postgres_database: str) -> None:
        async def make() -> AsyncIterator[Any]:
            async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
                yield saver

        _assert_passed(await _checked(capability, make))
