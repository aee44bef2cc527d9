"""The in-memory saver keeps the contract, and what it promises besides."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import AsyncIterator
from typing import Any

import pytest

from langgraph_async.checkpoint.base import BaseCheckpointSaver, StepCommit, TaskWrites
from langgraph_async.checkpoint.memory import InMemorySaver, MemorySaver
from langgraph_async.constants import MISSING
from langgraph_async.errors import ConfigError, MissingCoordinateError, SerializationError
from langgraph_async.testing.saver_contract.samples import Branch, Unstorable, at, id_of, load
from langgraph_async.testing.savers import SaverContract, check_saver, contract_points


class PickleSerde:
    """A serializer for tests that counts what it reads."""

    def __init__(self) -> None:
        self.loads = 0

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "pickle", pickle.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        self.loads += 1
        return pickle.loads(data[1])


@pytest.fixture
def saver() -> InMemorySaver:
    return InMemorySaver(serde=PickleSerde())


class TestInMemorySaver(SaverContract):
    @pytest.fixture
    def saver(self) -> InMemorySaver:
        return InMemorySaver(serde=PickleSerde())


class PrimitiveSaver(BaseCheckpointSaver[Any]):
    """A saver that has only what every saver must have."""

    def __init__(self) -> None:
        super().__init__(serde=PickleSerde())
        self._inner = InMemorySaver(serde=self.serde)

    async def aget_tuple(self, config: Any) -> Any:
        return await self._inner.aget_tuple(config)

    def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
        return self._inner.alist(config, **options)

    async def aput(self, *args: Any) -> Any:
        return await self._inner.aput(*args)

    async def aput_writes(self, *args: Any) -> None:
        await self._inner.aput_writes(*args)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._inner.adelete_thread(thread_id)

    def get_next_version(self, current: Any, channel: None = None) -> Any:
        return self._inner.get_next_version(current)


class ForgetfulSaver(InMemorySaver):
    """A saver with two faults."""

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        await super().aput_writes(config, writes, task_id)

    async def adelete_thread(self, thread_id: str) -> None:
        for thread in [name for name in self.storage if name.startswith(thread_id)]:
            await super().adelete_thread(thread)


async def test_the_contract_runs_without_pytest() -> None:
    report = await check_saver(lambda: InMemorySaver(serde=PickleSerde()))

    # A process's runs are kept apart by their leases; nobody else sees this storage.
    assert {reason.rpartition(" ")[2] for reason in report.skipped.values()} == {"aclaim()"}
    assert sorted((*report.passed, *report.skipped)) == list(contract_points())


async def test_the_contract_takes_a_context_manager() -> None:
    closed = []

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[InMemorySaver]:
        yield InMemorySaver(serde=PickleSerde())
        closed.append(True)

    report = await check_saver(opened)

    assert len(closed) == len(report.passed)


async def test_a_saver_with_only_the_primitive_methods_passes_what_applies_to_it() -> None:
    report = await check_saver(PrimitiveSaver)

    assert {reason.rpartition(" ")[2] for reason in report.skipped.values()} == {
        "acommit()",
        "aclaim()",
        "adelete_for_runs()",
        "acopy_thread()",
        "aprune()",
    }
    assert len(report.passed) > 80


async def test_a_faulty_saver_is_told_which_points_it_breaks() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await check_saver(lambda: ForgetfulSaver(serde=PickleSerde()))

    broken = {note.rpartition(" ")[2] for exc in caught.value.exceptions for note in exc.__notes__}
    assert "test_tasks_sort_by_path_then_id_whatever_came_first" in broken
    assert "test_threads_whose_ids_look_alike_survive" in broken
    assert "test_a_checkpoint_comes_back_equal" not in broken


async def test_the_attributes_hold_serialized_rows(saver: InMemorySaver) -> None:
    branch = Branch(saver, "thread")
    await branch.put(a=1)
    config = await branch.put(a=2)
    await branch.write(("x", 3), task="t", path="~p")
    branch_id = id_of(config)
    typed, metadata, parent = saver.storage["thread"][""][branch_id]

    assert "channel_values" not in pickle.loads(typed[1])
    assert pickle.loads(metadata[1])["step"] == 0
    assert parent == next(iter(saver.storage["thread"][""]))
    assert saver.writes["thread", "", branch_id] == {("t", 0): ("t", "x", ("pickle", pickle.dumps(3)), "~p")}
    assert saver.blobs["thread", "", "a", branch.versions["a"]] == ("pickle", pickle.dumps(2))


async def test_only_changed_channels_are_stored(saver: InMemorySaver) -> None:
    branch = Branch(saver)
    await branch.put(big="x" * 1000, n=0)
    for i in range(1, 10):
        await branch.put(n=i)

    assert [key[2] for key in saver.blobs].count("big") == 1
    assert [key[2] for key in saver.blobs].count("n") == 10


async def test_no_method_ever_suspends(saver: InMemorySaver) -> None:
    branch = Branch(saver)
    checkpoint, metadata, versions = branch.next_checkpoint(a=1)
    coro = saver.aput(branch.head, checkpoint, metadata, versions)

    with pytest.raises(StopIteration):
        coro.send(None)
    commit = StepCommit([TaskWrites("t", "", [("a", 1)])], *branch.next_checkpoint(a=2))
    with pytest.raises(StopIteration):
        saver.acommit(at(branch.thread_id, "", checkpoint["id"]), commit).send(None)


async def test_listing_one_of_a_thousand_decodes_one(saver: InMemorySaver) -> None:
    serde = PickleSerde()
    saver.serde = serde
    branch = Branch(saver)
    for i in range(1_000):
        await branch.put(a=i)
    serde.loads = 0
    found = [item async for item in saver.alist(at(branch.thread_id), limit=1)]

    assert [item.config for item in found] == [branch.head]
    assert serde.loads <= 3


async def test_reading_the_newest_of_a_thousand_decodes_one(saver: InMemorySaver) -> None:
    serde = PickleSerde()
    saver.serde = serde
    branch = Branch(saver)
    for i in range(1_000):
        await branch.put(a=i)
    serde.loads = 0
    await load(saver, at(branch.thread_id))

    assert serde.loads <= 3


async def test_a_delta_history_reads_no_other_values(saver: InMemorySaver) -> None:
    serde = PickleSerde()
    saver.serde = serde
    branch = Branch(saver)
    await branch.put(log=[0])
    for i in range(50):
        await branch.write(("log", i), *((f"k{j}", j) for j in range(10)), task="t")
        await branch.put(log=MISSING, **{f"k{j}": j for j in range(10)})
    serde.loads = 0
    history = await saver.aget_delta_channel_history(config=branch.head, channels=["log"])

    assert [value for _, _, value in history["log"]["writes"]] == list(range(50))
    assert serde.loads == 50 + 50 + 1  # checkpoints, writes, seed


async def test_deleting_and_pruning_leave_no_rows_behind(saver: InMemorySaver) -> None:
    branch = Branch(saver, "thread")
    for i in range(3):
        await branch.put(a=[i], b=i)
        await branch.write(("a", i))
    await saver.aprune(["thread"])

    assert len(saver.blobs) == 2
    assert len(saver.writes) == 1
    await saver.adelete_thread("thread")
    assert (saver.storage, saver.blobs, saver.writes) == ({}, {}, {})


async def test_pruning_keeps_writes_whose_checkpoint_is_still_to_come(saver: InMemorySaver) -> None:
    branch = Branch(saver, "thread")
    await branch.put(a=1)
    await saver.aput_writes(at("thread", "", "later"), [("a", 2)], "t")
    await saver.aprune(["thread"])

    assert ("thread", "", "later") in saver.writes


async def test_a_loop_of_parents_ends(saver: InMemorySaver) -> None:
    branch = Branch(saver)
    checkpoint, metadata, versions = branch.next_checkpoint(a=1)
    own = at(branch.thread_id, "", checkpoint["id"])
    await saver.aput(own, checkpoint, metadata, versions)

    assert await saver.aget_delta_channel_history(config=own, channels=["log"]) == {"log": {"writes": []}}


async def test_thread_ids_that_are_numbers_are_read_as_text(saver: InMemorySaver) -> None:
    branch = Branch(saver)
    checkpoint, metadata, versions = branch.next_checkpoint(a=1)
    number: Any = {"configurable": {"thread_id": 1}}
    await saver.aput(number, checkpoint, metadata, versions)

    assert (await load(saver, at("1"))).checkpoint == checkpoint
    assert (await load(saver, number)).checkpoint == checkpoint


async def test_a_missing_thread_id_says_what_to_pass(saver: InMemorySaver) -> None:
    with pytest.raises(MissingCoordinateError) as caught:
        await saver.aget_tuple({"configurable": {}})

    assert isinstance(caught.value, ConfigError)
    assert isinstance(caught.value, KeyError)
    assert caught.value.name == "thread_id"
    assert str(caught.value).startswith("The config names no thread: 'thread_id' is missing.")


async def test_an_unstorable_write_names_channel_thread_and_task(saver: InMemorySaver) -> None:
    branch = Branch(saver, "thread")
    await branch.put(a=1)
    with pytest.raises(SerializationError) as caught:
        await branch.write(("photo", Unstorable()), task="t", path="~__pregel_pull, camera")

    assert caught.value.path == ("photo",)
    assert str(caught.value) == (
        "Cannot store what task t (~__pregel_pull, camera) wrote to 'photo' on thread 'thread', "
        "so nothing of this step was stored: an Unstorable cannot be stored"
    )


async def test_values_that_cannot_be_read_name_their_channel(saver: InMemorySaver) -> None:
    class Broken(PickleSerde):
        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            if data[1] == pickle.dumps("bad"):
                raise SerializationError("unknown type", path=("x",))
            return super().loads_typed(data)

    saver.serde = Broken()
    branch = Branch(saver, "thread")
    await branch.put(photo="bad")
    with pytest.raises(SerializationError, match="Cannot read 'photo' on thread 'thread': unknown type") as caught:
        await load(saver, branch.head)

    assert caught.value.path == ("photo", "x")


def test_versions_are_text_that_sorts_like_numbers(saver: InMemorySaver) -> None:
    first = saver.get_next_version(None)
    number: Any = 41

    assert first.startswith("0" * 31 + "1.")
    assert saver.get_next_version(first).startswith("0" * 31 + "2.")
    assert saver.get_next_version(number).startswith("0" * 30 + "42.")


async def test_it_is_a_context_manager_of_both_kinds() -> None:
    with InMemorySaver(serde=PickleSerde()) as sync:
        assert isinstance(sync, MemorySaver)
    async with sync as same:
        assert same is sync


def test_an_allowlist_makes_a_copy_that_shares_the_data(saver: InMemorySaver) -> None:
    class Listing(PickleSerde):
        def with_allowlist(self, types: Any) -> Listing:
            return Listing() if types else self

    saver.serde = Listing()
    wider = saver.with_allowlist([int])

    assert wider is not saver
    assert wider.serde is not saver.serde
    assert wider.storage is saver.storage
    assert saver.with_allowlist([]) is saver


async def test_methods_that_a_saver_lacks_are_named() -> None:
    with pytest.raises(NotImplementedError, match=r"PrimitiveSaver does not offer aprune\(\)"):
        await PrimitiveSaver().aprune([])
