"""Listing checkpoints and threads of a SQLite saver, and sweeping old threads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typing_extensions import TypedDict

from langgraph_async import ids
from langgraph_async.checkpoint.sqlite import queries
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.checkpoint.threads import first_id_at, time_of
from langgraph_async.constants import MISSING
from langgraph_async.errors import SerializationError
from langgraph_async.graph.state import StateGraph
from langgraph_async.testing.saver_contract.samples import Branch, at, id_of, listed, load
from langgraph_async.types import Command, interrupt


@pytest.fixture
async def saver() -> AsyncIterator[AsyncSqliteSaver]:
    async with AsyncSqliteSaver.from_conn_string(":memory:", ttl_s=60) as saver:
        yield saver


class State(TypedDict):
    n: int


def _graph(saver: AsyncSqliteSaver) -> Any:
    async def ask(state: State) -> State:
        if state["n"] == 13:
            raise ValueError("unlucky")
        return {"n": interrupt("how many?")}

    return StateGraph(State).add_node("ask", ask).add_edge("__start__", "ask").compile(checkpointer=saver)


async def test_a_list_longer_than_a_page_is_whole(saver: AsyncSqliteSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_PAGE_ROWS", 3)
    branches = [Branch(saver, f"t{i % 2}", ns) for i, ns in enumerate(["", "a", "b", ""])]
    put = [id_of(await branch.put(a=i)) for i in range(4) for branch in branches]

    assert await listed(saver, None) == put[::-1]
    assert await listed(saver, at("t0", None)) == [i for i in put[::-1] if i in put[0::2]]
    assert await listed(saver, None, limit=7) == put[:-8:-1]


async def test_threads_that_share_checkpoint_ids_are_all_listed(
    saver: AsyncSqliteSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "_PAGE_ROWS", 2)
    branch = Branch(saver, "a")
    for i in range(3):
        await branch.put(a=i)
    for name in "bcd":
        await saver.acopy_thread("a", name)

    assert len({str(item.config) for item in [item async for item in saver.alist(None)]}) == 12


async def test_a_page_of_large_checkpoints_ends_early(saver: AsyncSqliteSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "PAGE_BYTES", 1_000)
    branch = Branch(saver)
    put = [id_of(await branch.put(a="x" * 900)) for _ in range(9)]

    assert await listed(saver, at(branch.thread_id)) == put[::-1]


@pytest.mark.parametrize(
    "entry",
    [
        {"k": float("nan")},
        {"a.b": 1},
        {'a"b': "x"},
        {"": "x"},
        {"$": "x"},
        {"k": "it's"},
        {"k": 'a "quote" \\ and \n'},
        {"\u00e9": "\u00e9\U0001f600"},
        {"k": [1, {"x": None}]},
        {"k": {"b": 1, "a": 2}},
        {"k": 0.1 + 0.2},
        {"k": 2**70},
        {"k": 1e308},
        {"k": True},
        {"k": None},
        {"k": "lone \ud800"},
    ],
)
async def test_any_metadata_can_be_filtered_by(saver: AsyncSqliteSaver, entry: dict[str, Any]) -> None:
    branch = Branch(saver)
    await branch.put({"k": "other"}, a=0)
    config = await branch.put(entry, a=1)
    ((key, value),) = entry.items()
    found = await listed(saver, at(branch.thread_id), filter=entry)

    assert found == ([id_of(config)] if value == value else [])
    assert repr((await load(saver, config)).metadata[key]) == repr(value)  # type: ignore[literal-required]


async def test_a_filter_finds_rows_beside_one_that_is_no_json(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver)
    await branch.put({"score": float("nan"), "user": "u"}, a=0)
    config = await branch.put({"user": "v"}, a=1)

    assert await listed(saver, None, filter={"user": "v"}) == [id_of(config)]
    assert len(await listed(saver, None, filter={"user": "u"})) == 1


async def test_metadata_that_is_no_json_is_named(saver: AsyncSqliteSaver) -> None:
    with pytest.raises(SerializationError, match="metadata entry 'when'") as caught:
        await Branch(saver).put({"when": datetime.now(UTC)}, a=1)

    assert caught.value.path == ("metadata", "when")


async def test_threads_are_listed_with_their_status(saver: AsyncSqliteSaver) -> None:
    graph = _graph(saver)
    for name, n in (("done", 1), ("asked", 1), ("failed", 13)):
        config: Any = {"configurable": {"thread_id": name, "tenant": "x"}}
        try:
            await graph.ainvoke({"n": n}, config)
        except ValueError:
            continue
        if name == "done":
            await graph.ainvoke(Command(resume=5), config)
    found = [info async for info in saver.alist_threads()]

    assert [(info.thread_id, info.status) for info in found] == [
        ("failed", "error"),
        ("asked", "interrupted"),
        ("done", "idle"),
    ]
    assert {info.metadata["tenant"] for info in found} == {"x"}
    assert all(i.updated_at and abs(i.updated_at - datetime.now(UTC)) < timedelta(minutes=1) for i in found)
    assert [i.thread_id async for i in saver.alist_threads(status="interrupted")] == ["asked"]
    assert [i.thread_id async for i in saver.alist_threads(limit=2)] == ["failed", "asked"]
    assert [i.thread_id async for i in saver.alist_threads(filter={"tenant": "y"})] == []


async def test_threads_of_many_pages_are_all_listed(saver: AsyncSqliteSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_THREADS_PAGE", 4)
    for i in range(10):
        await Branch(saver, f"t{i}").put(a=1)
        await Branch(saver, f"t{i}", "sub").put(a=1)

    assert [i.thread_id async for i in saver.alist_threads()] == [f"t{i}" for i in range(9, -1, -1)]


async def _aged(saver: AsyncSqliteSaver, thread: str, seconds: float, ns: str = "") -> None:
    branch = Branch(saver, thread, ns)
    checkpoint, metadata, versions = branch.next_checkpoint(a=1)
    start = first_id_at(datetime.now(UTC) - timedelta(seconds=seconds))
    checkpoint["id"] = start + checkpoint["id"][len(start) :]
    await saver.aput(branch.head, checkpoint, metadata, versions)


async def test_sweeping_deletes_threads_that_nobody_touched(saver: AsyncSqliteSaver) -> None:
    for i in range(120):
        await _aged(saver, f"old{i}", 3_600)
    await _aged(saver, "fresh", 30)
    await _aged(saver, "used", 3_600)
    await _aged(saver, "used", 30, ns="sub")
    branch = Branch(saver, "timeless")
    checkpoint, metadata, versions = branch.next_checkpoint(a=1)
    checkpoint["id"] = "0001"
    await saver.aput(branch.head, checkpoint, metadata, versions)

    assert await saver.asweep() == 120
    assert await saver.asweep() == 0
    assert {i.thread_id async for i in saver.alist_threads()} == {"fresh", "used", "timeless"}


async def test_without_a_time_to_live_nothing_is_swept() -> None:
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        await _aged(saver, "old", 10**9)

        assert await saver.asweep() == 0
        assert await listed(saver, None) != []


def test_the_time_of_an_id_is_that_of_its_making() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    made = ids.checkpoint_id(3)
    found = time_of(made)
    version_4 = f"{made[:14]}4{made[15:]}"

    assert found is not None
    assert before <= found <= datetime.now(UTC)
    assert first_id_at(found) <= made < first_id_at(found + timedelta(microseconds=1))
    assert [time_of(text) for text in ("", "0001", version_4, "z" + made[1:])] == [None] * 4


async def test_pruning_keeps_writes_whose_checkpoint_is_still_to_come(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver, "thread")
    await branch.put(a=0)
    await branch.put(a=1)
    checkpoint, metadata, versions = branch.next_checkpoint(a=2)
    await saver.aput_writes(at("thread", "", checkpoint["id"]), [("a", 2)], "t")
    await saver.aprune(["thread"])
    config = await saver.aput(branch.head, checkpoint, metadata, versions)

    assert (await load(saver, config)).pending_writes == [("t", "a", 2)]


async def test_a_loop_of_parents_ends(saver: AsyncSqliteSaver) -> None:
    branch = Branch(saver)
    checkpoint, metadata, versions = branch.next_checkpoint(a=1)
    own = at(branch.thread_id, "", checkpoint["id"])
    await saver.aput(own, checkpoint, metadata, versions)

    assert await saver.aget_delta_channel_history(config=own, channels=["log"]) == {"log": {"writes": []}}


async def test_ancestors_are_found_past_other_branches_and_against_the_order_of_ids(saver: AsyncSqliteSaver) -> None:
    main = Branch(saver)
    await main.put(log=["seed"])
    await main.write(("log", 0), task="t")
    fork = main.fork()
    for n in range(30):
        await fork.put(log=MISSING, other=n)
        await fork.write(("log", "other"), task="t")
    for n in range(1, 4):
        await main.put(log=MISSING, n=n)
        await main.write(("log", n), task="t")
    await main.put(log=MISSING)
    late = id_of(main.head)
    checkpoint, metadata, versions = main.next_checkpoint(log=MISSING)
    early = "0" + checkpoint["id"][1:]
    await saver.aput(main.head, {**checkpoint, "id": early}, metadata, versions)
    history = await saver.aget_delta_channel_history(config=at(main.thread_id, "", early), channels=["log"])

    assert early < late
    assert history == {"log": {"seed": ["seed"], "writes": [("t", "log", n) for n in range(4)]}}
