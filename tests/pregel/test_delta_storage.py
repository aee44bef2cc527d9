"""Long lists are stored as what was appended to them: how much that takes, and when they are stored whole."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import AsyncIterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from typing_extensions import TypedDict

from langgraph_async import END, START, StateGraph
from langgraph_async.channels import appending
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.checkpoint.postgres import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite import AsyncSqliteSaver
from langgraph_async.errors import StorageError
from langgraph_async.graph.messages import MessagesState
from langgraph_async.types import Overwrite

CONFIG: Any = {"configurable": {"thread_id": "1"}}
COUNTERS = "counters_since_delta_snapshot"
TEXT = "x" * 200


class Log(TypedDict):
    log: Annotated[list[Any], operator.add]
    rare: Annotated[list[Any], operator.add]


async def echo(state: Any) -> dict[str, Any]:
    return {}


async def answer(state: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": TEXT}]}


async def append(state: Any) -> dict[str, Any]:
    return {"log": [TEXT]}


def graph_of(saver: Any, schema: Any = Log, node: Any = echo, **options: Any) -> Any:
    builder = StateGraph(schema)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile(checkpointer=saver, **options)


async def chat(graph: Any, turns: int) -> None:
    for _ in range(turns):
        await graph.ainvoke({"messages": [{"role": "user", "content": TEXT}]}, CONFIG)


async def talk(graph: Any, turns: int) -> None:
    for _ in range(turns):
        await graph.ainvoke({"log": [TEXT]}, CONFIG)


def stored_bytes(path: Path) -> int:
    with sqlite3.connect(path) as conn:
        (checkpoints,) = conn.execute("SELECT sum(length(checkpoint) + length(metadata)) FROM checkpoints").fetchone()
        (writes,) = conn.execute("SELECT sum(length(value)) FROM writes").fetchone()
    conn.close()
    return int(checkpoints + writes)


async def bytes_after(path: Path, *turns: int, **options: Any) -> list[int]:
    """Return what one conversation has taken after each of so many turns."""
    sizes, said = [], 0
    async with AsyncSqliteSaver.from_conn_string(str(path), synchronous="NORMAL") as saver:
        for until in turns:
            await chat(graph_of(saver, MessagesState, answer, **options), until - said)
            said = until
            sizes.append(stored_bytes(path))
    return sizes


async def lengths(graph: Any) -> dict[str, tuple[int, int]]:
    """Return how long the two lists are at each checkpoint."""
    return {
        item.config["configurable"]["checkpoint_id"]: (len(item.values["log"]), len(item.values["rare"]))
        async for item in graph.aget_state_history(CONFIG)
    }


async def whole(saver: Any) -> bool:
    """Tell whether the newest checkpoint holds the whole list."""
    found = await saver.aget_tuple(CONFIG)
    return "log" in found.checkpoint["channel_values"] and COUNTERS not in found.metadata


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def opened(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        return nullcontext(InMemorySaver())
    if request.param == "sqlite":
        return AsyncSqliteSaver.from_conn_string(":memory:")
    return AsyncPostgresSaver.from_conn_string(request.getfixturevalue("postgres_database"), max_size=1)


@pytest.fixture
async def saver(opened: Any) -> AsyncIterator[Any]:
    async with opened as made:
        yield made


# -- how much ---------------------------------------------------------------------------------------------------


async def test_stored_bytes_grow_with_the_conversation_and_are_a_small_multiple_of_it(tmp_path: Path) -> None:
    turns = (75, 150, 300)
    sizes = await bytes_after(tmp_path / "a.db", *turns)

    assert sizes[1] < 2.3 * sizes[0]
    assert sizes[2] < 2.3 * sizes[1]
    for number, size in zip(turns, sizes, strict=True):
        rows = 3 * 600 * number  # what the checkpoints of a turn take without the list
        state = 2 * number * (len(TEXT) + 80)
        assert size - rows < 5 * state


async def test_stored_whole_the_same_conversation_takes_twenty_times_as_much(tmp_path: Path) -> None:
    (deltas,) = await bytes_after(tmp_path / "a.db", 150)
    (whole,) = await bytes_after(tmp_path / "b.db", 150, delta_storage=False)

    assert whole > 20 * deltas


async def test_a_read_takes_a_bounded_part_of_the_list_as_rows() -> None:
    saver = InMemorySaver()
    graph = graph_of(saver, node=append)
    most = 0.0
    for _ in range(200):
        await graph.ainvoke({"log": [TEXT]}, CONFIG)
        found = await saver.aget_tuple(CONFIG)
        assert found is not None
        if "log" in found.checkpoint["channel_values"]:
            continue
        history = await saver.aget_delta_channel_history(config=found.config, channels=["log"])
        items = len(history["log"].get("seed", [])) + len(history["log"]["writes"])
        most = max(most, len(history["log"]["writes"]) / max(items, 96))

    assert 0 < most <= 0.4


async def test_the_distance_between_two_whole_lists_grows() -> None:
    saver = InMemorySaver()
    await talk(graph_of(saver), 300)
    items = [item async for item in saver.alist(CONFIG)][::-1]

    at = [
        len(value)
        for before, item in pairwise(items)
        if COUNTERS in before.metadata and COUNTERS not in item.metadata
        for value in [item.checkpoint["channel_values"]["log"]]
    ]

    gaps = [later - earlier for earlier, later in pairwise(at)]
    assert len(gaps) >= 3
    assert gaps == sorted(gaps)
    assert gaps[-1] > 1.5 * gaps[0]


class Counting(InMemorySaver):
    """Counts the walks towards the root, and the checkpoints that are listed."""

    reads = 0
    listed = 0

    async def aget_delta_channel_history(self, **given: Any) -> Any:
        self.reads += 1
        return await super().aget_delta_channel_history(**given)

    async def alist(self, *given: Any, **named: Any) -> Any:
        async for item in super().alist(*given, **named):
            self.listed += 1
            yield item


async def test_a_history_reads_the_saver_once_for_a_page() -> None:
    saver = Counting()
    graph = graph_of(saver)
    await talk(graph, 60)
    saver.reads = 0
    found = [len(item.values["log"]) async for item in graph.aget_state_history(CONFIG, limit=10)]

    assert found == sorted(found, reverse=True)
    assert saver.reads <= 1


@pytest.mark.parametrize(("turns", "rest"), [(60, 0), (100, 0), (40, 7), (9, 30)])
async def test_a_filtered_history_does_not_read_the_saver_for_each_checkpoint(turns: int, rest: int) -> None:
    saver = Counting()
    graph = graph_of(saver)
    await graph.ainvoke({"log": list(range(10))}, CONFIG)
    for number in range(turns):
        config = {**CONFIG, "metadata": {"kind": "wanted"}}
        await graph.ainvoke({"log": [number]}, config)
        for _ in range(rest):
            await graph.aupdate_state(CONFIG, {"log": ["between"]})
    whole = {item.config["configurable"]["checkpoint_id"]: item async for item in graph.aget_state_history(CONFIG)}
    saver.reads = saver.listed = 0
    found = [item async for item in graph.aget_state_history(CONFIG, filter={"kind": "wanted", "source": "input"})]

    assert len(found) == turns
    assert found == [whole[item.config["configurable"]["checkpoint_id"]] for item in found]
    assert saver.reads <= (turns if rest > 10 else 2)
    assert saver.listed <= 17 * turns


async def test_a_filtered_history_follows_the_branches(saver: Any) -> None:
    graph = graph_of(saver)
    await graph.ainvoke({"log": list(range(10))}, CONFIG)
    heads = [CONFIG, CONFIG]
    for number in range(24):
        ends = [item.config async for item in graph.aget_state_history(CONFIG) if not item.next]
        heads = [ends[0], ends[min(5, len(ends) - 1)]]
        await graph.ainvoke({"log": [number]}, heads[number % 2], durability=("sync", "exit")[number % 3 == 0])
    whole = {item.config["configurable"]["checkpoint_id"]: item async for item in graph.aget_state_history(CONFIG)}
    found = [item async for item in graph.aget_state_history(CONFIG, filter={"source": "input"})]

    assert len(found) > 10
    assert found == [whole[item.config["configurable"]["checkpoint_id"]] for item in found]


# -- what is read ------------------------------------------------------------------------------------------------


async def test_ids_and_shorthands_are_the_same_at_every_read(saver: Any) -> None:
    graph = graph_of(saver, MessagesState, answer)
    for number in range(12):
        await graph.ainvoke({"messages": [("user", f"tuple {number}"), "text"]}, CONFIG)
    once = (await graph.aget_state(CONFIG)).values["messages"]
    again = (await graph.aget_state(CONFIG)).values["messages"]

    assert COUNTERS in (await saver.aget_tuple(CONFIG)).metadata
    assert len(once) == 36
    assert once == again
    assert len({message["id"] if isinstance(message, dict) else message.id for message in once}) == 36


async def test_a_message_is_replaced_and_removed_in_a_long_list(saver: Any) -> None:
    graph = graph_of(saver, MessagesState, echo)
    said = [{"role": "user", "content": "a", "id": str(number)} for number in range(20)]
    await graph.ainvoke({"messages": said}, CONFIG)
    await graph.ainvoke({"messages": [{"role": "user", "content": "b", "id": "3"}]}, CONFIG)
    await graph.ainvoke({"messages": [{"role": "remove", "content": "", "id": "5"}]}, CONFIG)

    found = (await graph.aget_state(CONFIG)).values["messages"]

    assert COUNTERS in (await saver.aget_tuple(CONFIG)).metadata
    assert [message["id"] for message in found] == [str(number) for number in range(20) if number != 5]
    assert found[3]["content"] == "b"


async def test_what_is_left_after_pruning_reads_as_before(saver: Any) -> None:
    graph = graph_of(saver)
    await graph.ainvoke({"log": list(range(10)), "rare": list(range(10))}, CONFIG)
    for number in range(30):
        await graph.ainvoke({"log": ["x"]} if number < 15 else {"rare": ["y"]}, CONFIG)
    before = await lengths(graph)
    await saver.aprune(["1"])
    after = await lengths(graph)

    assert (await graph.aget_state(CONFIG)).values["log"] == [*range(10), *["x"] * 15]
    assert 0 < len(after) < len(before)
    assert after == {key: before[key] for key in after}


async def test_a_list_whose_beginning_was_deleted_is_not_read_shorter(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await graph_of(saver).ainvoke({"log": list(range(10))}, CONFIG)
        await talk(graph_of(saver), 5)
    with sqlite3.connect(path) as conn:
        conn.execute("DELETE FROM checkpoints WHERE checkpoint_id IN (SELECT checkpoint_id FROM checkpoints LIMIT 9)")
    conn.close()

    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        with pytest.raises(StorageError, match=r"'log'.*older checkpoints") as caught:
            await graph_of(saver).aget_state(CONFIG)
    assert caught.value.reason == "incomplete"


# -- whole --------------------------------------------------------------------------------------------------------


async def test_a_short_list_is_stored_whole() -> None:
    saver = InMemorySaver()
    await talk(graph_of(saver), appending.SHORTEST - 1)

    assert await whole(saver)


async def test_a_long_list_is_not() -> None:
    saver = InMemorySaver()
    await talk(graph_of(saver), appending.SHORTEST + 3)

    assert not await whole(saver)


async def test_a_replaced_list_is_stored_whole() -> None:
    saver = InMemorySaver()
    graph = graph_of(saver)
    await talk(graph, 12)
    await graph.aupdate_state(CONFIG, {"log": Overwrite(list(range(20)))}, as_node="node")

    assert await whole(saver)


async def test_it_can_be_switched_off_and_on_in_the_middle_of_a_thread(saver: Any) -> None:
    for on in (True, False, True, False):
        await talk(graph_of(saver, delta_storage=on), 12)
        assert await whole(saver) is not on

    assert len((await graph_of(saver).aget_state(CONFIG)).values["log"]) == 48


class NewestOnly(InMemorySaver):
    """A saver that does not say that it keeps ancestors, and does not."""

    keeps_ancestors: ClassVar[bool] = False

    async def acommit(self, config: Any, commit: Any) -> Any:
        stored = await super().acommit(config, commit)
        if commit.checkpoint is not None:
            await self.aprune(["1"])
        return stored


async def test_a_saver_that_keeps_only_the_newest_checkpoint_loses_nothing() -> None:
    saver = NewestOnly()
    graph = graph_of(saver, node=append)
    await talk(graph, 20)

    assert len((await graph.aget_state(CONFIG)).values["log"]) == 40
    assert len([item async for item in graph.aget_state_history(CONFIG)]) == 1
