"""The contract of savers as tests, for savers of your own.

With pytest (and pytest-asyncio), give the suite a fixture::

    class TestMySaver(SaverContract):
        @pytest.fixture
        async def saver(self):
            async with MySaver.open(...) as saver:
                yield saver

and, to see the values that an assertion compared, put
``pytest.register_assert_rewrite("langgraph_async.testing.saver_contract")`` into your ``conftest.py``.

Without pytest, call ``await check_saver(MySaver)``. Every thread has an id of its own, so that the suite can run on a
database with other data in it, though not while others write to it: some tests list everything.
"""

from __future__ import annotations

import inspect
import unittest
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass

from langgraph_async.testing.saver_contract.claims import ClaimContract
from langgraph_async.testing.saver_contract.commits import CommitContract
from langgraph_async.testing.saver_contract.deltas import DeltaContract
from langgraph_async.testing.saver_contract.puts import PutContract
from langgraph_async.testing.saver_contract.reads import ListContract, ReadContract
from langgraph_async.testing.saver_contract.samples import Saver
from langgraph_async.testing.saver_contract.threads import CopyContract, DeleteContract, PruneContract
from langgraph_async.testing.saver_contract.writes import WritesContract


class SaverContract(
    PutContract,
    WritesContract,
    ReadContract,
    ListContract,
    CommitContract,
    ClaimContract,
    DeleteContract,
    CopyContract,
    PruneContract,
    DeltaContract,
):
    """All that the engine and users rely on, one sentence a test.

    Tests of methods that a saver need not have (`acommit`, `aclaim`, `adelete_for_runs`, `acopy_thread`, `aprune`)
    are skipped where it does not have them.
    """


@dataclass(frozen=True, slots=True)
class ContractReport:
    """Names of the tests that passed, and of those that were skipped with the reason."""

    passed: tuple[str, ...]
    skipped: dict[str, str]


async def check_saver(factory: Callable[[], Saver | AbstractAsyncContextManager[Saver]]) -> ContractReport:
    """Run the contract, each test on a saver of its own.

    Args:
        factory: Returns a saver, or an async context manager that gives one.

    Raises:
        ExceptionGroup: The saver breaks the contract; each exception has the name of its test as a note.
    """
    suite = SaverContract()
    passed: list[str] = []
    skipped: dict[str, str] = {}
    failures: list[Exception] = []
    for name in contract_points():
        try:
            async with AsyncExitStack() as stack:
                made = factory()
                saver = await stack.enter_async_context(made) if isinstance(made, AbstractAsyncContextManager) else made
                await getattr(suite, name)(saver)
        except unittest.SkipTest as exc:
            skipped[name] = str(exc)
        except Exception as exc:  # noqa: BLE001 - whatever a saver raises is a finding
            exc.add_note(f"saver contract: {name}")
            failures.append(exc)
        else:
            passed.append(name)
    if failures:
        raise ExceptionGroup(f"the saver breaks {len(failures)} points of the contract", failures)
    return ContractReport(tuple(passed), skipped)


def contract_points() -> tuple[str, ...]:
    """Return the names of the contract's tests."""
    return tuple(name for name, _ in inspect.getmembers(SaverContract, inspect.isfunction) if name.startswith("test_"))


__all__ = ["ContractReport", "SaverContract", "check_saver", "contract_points"]
