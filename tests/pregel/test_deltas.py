"""How delta channels are stored: when as writes, when whole, and where."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID, uuid5

import pytest
from typing_extensions import TypedDict

from langgraph_async import END, START, Command, StateGraph
from langgraph_async.channels import BinaryOperatorAggregate, DeltaChannel, LastValue
from langgraph_async.checkpoint.base import CheckpointTuple, DeltaChannelHistory
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.constants import SNAPSHOT_BUMPS
from langgraph_async.errors import ConfigError
from langgraph_async.graph.messages import messages_delta_reducer
from langgraph_async.pregel.builder import NodeBuilder
from langgraph_async.pregel.deltas import really_seen
from langgraph_async.pregel.graph import Pregel
from langgraph_async.types import DeltaSnapshot, Overwrite

CONFIG: Any = {"configurable": {"thread_id": "1"}}
COUNTERS = "counters_since_delta_snapshot"


def extend(state: list[Any], batch: Sequence[list[Any]]) -> list[Any]:
    return [*state, *(item for write in batch for item in write)]


class Log(TypedDict):
    log: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=3)]
    other: int


class Two(TypedDict):
    log: Annotated[list[Any], DeltaChannel(extend)]
    rest: Annotated[list[Any], DeltaChannel(extend)]


class Plain(TypedDict):
    log: Annotated[list[Any], operator.add]
    other: int


class Chat(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(messages_delta_reducer)]


class CountingSaver(InMemorySaver):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []

    async def aget_delta_channel_history(
        self, *, config: Any, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        self.asked.append(sorted(channels))
        return await super().aget_delta_channel_history(config=config, channels=channels)


class Failing:
    """A node that fails until it is told not to."""

    def __init__(self) -> None:
        self.armed = True

    async def __call__(self, state: Any) -> dict[str, Any]:
        if self.armed:
            raise RuntimeError("not yet")
        return {}


async def idle(state: Any) -> dict[str, Any]:
    return {}


async def write_log(state: Any) -> dict[str, Any]:
    return {"log": ["n"]}


def graph_of(schema: Any, saver: InMemorySaver, *nodes: Any) -> Any:
    builder = StateGraph(schema)
    previous = START
    for number, node in enumerate(nodes):
        builder.add_node(f"n{number}", node)
        builder.add_edge(previous, f"n{number}")
        previous = f"n{number}"
    builder.add_edge(previous, END)
    return builder.compile(checkpointer=saver)


def beside(schema: Any, saver: InMemorySaver, *nodes: Any) -> Any:
    builder = StateGraph(schema)
    for number, node in enumerate(nodes):
        builder.add_node(f"n{number}", node)
        builder.add_edge(START, f"n{number}")
    return builder.compile(checkpointer=saver)


def raw(saver: InMemorySaver, ran: list[Any] | None = None) -> Pregel:
    """Two nodes: one reads the delta channel `log`, one reads `go`."""

    async def on_log(value: Any) -> Any:
        if ran is not None:
            ran.append(value)
        return "done"

    async def on_go(value: Any) -> Any:
        return value

    return Pregel(
        nodes={
            "on_log": NodeBuilder().subscribe_only("log").do(on_log).write_to("out"),
            "on_go": NodeBuilder().subscribe_only("go").do(on_go).write_to("gone"),
        },
        channels={
            "log": DeltaChannel(extend, list),
            "go": LastValue(str),
            "gone": LastValue(str),
            "out": LastValue(str),
        },
        input_channels=["log", "go"],
        output_channels=["log", "out"],
        checkpointer=saver,
    )


async def checkpoints(saver: InMemorySaver) -> list[CheckpointTuple]:
    """Return the checkpoints of the thread, oldest first."""
    return [item async for item in saver.alist(CONFIG)][::-1]


async def head_of(saver: InMemorySaver) -> CheckpointTuple:
    return (await checkpoints(saver))[-1]


def stored(item: CheckpointTuple, key: str = "log") -> Any:
    return item.checkpoint["channel_values"].get(key)


# -- whole or as writes -----------------------------------------------------------------------------------------


async def test_the_whole_value_is_stored_when_enough_updates_have_come() -> None:
    saver = InMemorySaver()
    await graph_of(Log, saver, write_log, write_log).ainvoke({"log": ["in"]}, CONFIG)

    items = await checkpoints(saver)

    assert [stored(item) for item in items] == [None, None, None, DeltaSnapshot(["in", "n", "n"])]


async def test_metadata_counts_updates_and_supersteps_since_the_whole_value() -> None:
    saver = InMemorySaver()
    await graph_of(Log, saver, write_log, idle, write_log).ainvoke({"log": ["in"]}, CONFIG)

    items = await checkpoints(saver)

    counts = [(item.metadata.get(COUNTERS) or {}).get("log") for item in items]
    assert counts == [[0, 1], [1, 2], [2, 3], [2, 4], None]


async def test_the_whole_value_is_stored_when_the_bound_of_supersteps_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANGGRAPH_DELTA_MAX_SUPERSTEPS_SINCE_SNAPSHOT", "4")
    saver = InMemorySaver()
    await graph_of(Log, saver, idle, idle, idle).ainvoke({"log": ["in"]}, CONFIG)

    items = await checkpoints(saver)

    assert [stored(item) for item in items] == [None, None, None, DeltaSnapshot(["in"]), DeltaSnapshot(["in"])]


@pytest.mark.parametrize("text", ["0", "-1", "many", ""])
async def test_a_bound_that_is_no_positive_number_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("LANGGRAPH_DELTA_MAX_SUPERSTEPS_SINCE_SNAPSHOT", text)

    with pytest.raises(ConfigError, match="LANGGRAPH_DELTA_MAX_SUPERSTEPS_SINCE_SNAPSHOT"):
        await graph_of(Log, InMemorySaver(), idle).ainvoke({"log": []}, CONFIG)


async def test_the_whole_value_is_stored_after_an_overwrite() -> None:
    async def replace(state: Any) -> dict[str, Any]:
        return {"log": Overwrite(["new"])}

    saver = InMemorySaver()
    await graph_of(Log, saver, replace).ainvoke({"log": ["in"]}, CONFIG)

    assert stored(await head_of(saver)) == DeltaSnapshot(["new"])


async def test_a_channel_that_was_never_written_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_DELTA_MAX_SUPERSTEPS_SINCE_SNAPSHOT", "1")
    saver = InMemorySaver()
    await graph_of(Two, saver, idle).ainvoke({"log": ["in"]}, CONFIG)

    assert stored(await head_of(saver), "rest") is None


# -- reading ----------------------------------------------------------------------------------------------------


async def test_all_missing_values_are_asked_for_at_once() -> None:
    saver = CountingSaver()
    graph = graph_of(Two, saver, write_log)
    await graph.ainvoke({"log": ["in"], "rest": ["r"]}, CONFIG)

    result = await graph.ainvoke({"log": ["again"]}, CONFIG)

    assert result == {"log": ["in", "n", "again", "n"], "rest": ["r"]}
    assert saver.asked == [["log", "rest"]]


async def test_a_graph_without_delta_channels_asks_for_no_history() -> None:
    saver = CountingSaver()
    graph = graph_of(Plain, saver, write_log)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    await graph.ainvoke({"log": ["again"]}, CONFIG)

    assert saver.asked == []


async def test_a_thread_from_before_the_key_was_a_delta_channel_goes_on() -> None:
    saver = InMemorySaver()
    await graph_of(Plain, saver, write_log).ainvoke({"log": ["in"]}, CONFIG)

    graph = graph_of(Log, saver, write_log)
    await graph.ainvoke({"log": ["again"]}, CONFIG)
    result = await graph.ainvoke({}, CONFIG)

    assert result == {"log": ["in", "n", "again", "n", "n"]}


@pytest.mark.parametrize("runs", [1, 2])
async def test_a_thread_goes_on_when_the_key_is_no_delta_channel_any_more(runs: int) -> None:
    saver = InMemorySaver()
    for _ in range(runs):
        await graph_of(Log, saver, write_log).ainvoke({"log": ["in"]}, CONFIG)

    result = await graph_of(Plain, saver, write_log).ainvoke({"log": ["again"]}, CONFIG)

    assert result == {"log": [*["in", "n"] * runs, "again", "n"]}


async def test_pruning_keeps_the_value() -> None:
    saver = InMemorySaver()
    graph = graph_of(Log, saver, write_log)
    await graph.ainvoke({"log": ["in"]}, CONFIG)

    await saver.aprune(["1"])

    assert await graph.ainvoke({}, CONFIG) == {"log": ["in", "n", "n"]}


# -- inputs -----------------------------------------------------------------------------------------------------


async def test_the_input_of_a_new_thread_is_stored_whole() -> None:
    saver = InMemorySaver()
    await raw(saver).ainvoke({"log": [1]}, CONFIG)

    assert stored((await checkpoints(saver))[0]) == DeltaSnapshot([1])


async def test_an_input_is_stored_as_writes_on_the_checkpoint_before() -> None:
    saver = InMemorySaver()
    graph = raw(saver)
    await graph.ainvoke({"log": [1]}, CONFIG)
    before = await head_of(saver)
    await graph.ainvoke({"log": [2]}, CONFIG)

    written = await saver.aget_tuple(before.config)

    assert written is not None
    task_id = str(uuid5(UUID(before.checkpoint["id"]), "__input__"))
    assert written.pending_writes == [(task_id, "log", [2])]
    assert stored(await head_of(saver)) is None


async def test_an_input_on_a_named_checkpoint_leaves_that_as_it_is() -> None:
    saver = InMemorySaver()
    graph = raw(saver)
    await graph.ainvoke({"log": [1]}, CONFIG)
    old = await head_of(saver)
    await graph.ainvoke({"log": [2]}, CONFIG)
    result = await graph.ainvoke({"log": [3]}, old.config)

    written = await saver.aget_tuple(old.config)

    assert result == {"log": [1, 3], "out": "done"}
    assert written is not None
    assert [value for _, _, value in written.pending_writes or ()] == [[2]]


# -- dropped writes ---------------------------------------------------------------------------------------------


async def test_writes_that_a_new_input_drops_do_not_come_back() -> None:
    saver = InMemorySaver()
    failing = Failing()
    graph = beside(Two, saver, write_log, failing)
    with pytest.raises(RuntimeError):
        await graph.ainvoke({"log": ["in"]}, CONFIG)
    failing.armed = False

    await graph.ainvoke({"log": ["again"]}, CONFIG)

    assert await graph.ainvoke({}, CONFIG) == {"log": ["in", "again", "n", "n"], "rest": []}


async def test_dropped_writes_of_a_channel_without_a_version_do_not_come_back() -> None:
    saver = InMemorySaver()
    failing = Failing()
    graph = beside(Log, saver, write_log, failing)
    with pytest.raises(RuntimeError):
        await graph.ainvoke({"other": 1}, CONFIG)
    failing.armed = False

    await graph.ainvoke({"other": 2}, CONFIG)

    assert await graph.ainvoke({"other": 3}, CONFIG) == {"log": ["n", "n"], "other": 3}


async def test_storing_a_value_whole_does_not_trigger_its_readers() -> None:
    saver = InMemorySaver()
    ran: list[Any] = []
    graph = raw(saver, ran)
    await graph.ainvoke({"log": [1]}, CONFIG)
    head = await head_of(saver)
    # A write that nobody will apply, as a crash between two saves leaves it.
    await saver.aput_writes(head.config, [("log", [9])], "lost", "")

    await graph.ainvoke({"go": "x"}, CONFIG)
    await graph.ainvoke(None, CONFIG)

    after = (await head_of(saver)).checkpoint
    assert ran == [[1]]
    assert after["channel_versions"]["log"] != head.checkpoint["channel_versions"]["log"]
    assert after["versions_seen"]["on_log"]["log"] == after["channel_versions"]["log"]


async def test_the_version_that_a_node_really_saw_is_remembered() -> None:
    saver = InMemorySaver()
    graph = raw(saver)
    await graph.ainvoke({"log": [1]}, CONFIG)
    seen_before = (await head_of(saver)).checkpoint["versions_seen"]["on_log"]["log"]
    for word in ("x", "y"):
        await saver.aput_writes((await head_of(saver)).config, [("log", [9])], "lost", "")
        await graph.ainvoke({"go": word}, CONFIG)

    seen = (await head_of(saver)).checkpoint["versions_seen"]

    assert set(seen[SNAPSHOT_BUMPS]) == {"on_log|log", "on_log:log"}
    assert really_seen(seen)["on_log"] == {"log": seen_before}
    assert SNAPSHOT_BUMPS not in really_seen(seen)


async def test_an_update_of_an_old_end_leaves_that_as_it_is() -> None:
    saver = InMemorySaver()
    graph = graph_of(Two, saver, write_log)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    old = await head_of(saver)
    await graph.ainvoke({"log": ["later"]}, CONFIG)
    newest = await head_of(saver)

    result = await graph.ainvoke(Command(update={"log": ["fork"]}, goto="n0"), old.config)

    assert result == {"log": ["in", "n", "fork", "n"], "rest": []}
    assert await graph.ainvoke({}, newest.config) == {"log": ["in", "n", "later", "n", "n"], "rest": []}


@pytest.mark.parametrize("schema", [Plain, Log])
async def test_an_update_that_is_given_twice_to_a_failing_superstep_counts_twice(schema: Any) -> None:
    saver = InMemorySaver()
    failing = Failing()
    graph = graph_of(schema, saver, failing)
    with pytest.raises(RuntimeError):
        await graph.ainvoke({"log": ["in"]}, CONFIG)
    for word in ("one", "two"):
        with pytest.raises(RuntimeError):
            await graph.ainvoke(Command(update={"log": [word]}), CONFIG)
    failing.armed = False

    assert await graph.ainvoke(None, CONFIG) == {"log": ["in", "one", "two"]}
    assert await graph.ainvoke({"log": []}, CONFIG) == {"log": ["in", "one", "two"]}


# -- durability "exit" ------------------------------------------------------------------------------------------


async def test_the_first_run_is_stored_as_writes_on_an_empty_checkpoint() -> None:
    saver = InMemorySaver()
    await graph_of(Two, saver, write_log).ainvoke({"log": ["in"]}, CONFIG, durability="exit")

    stub, head = await checkpoints(saver)

    assert stub.metadata["step"] == -2
    assert (stub.parent_config, stub.checkpoint["channel_values"]) == (None, {})
    assert head.parent_config == stub.config
    assert [value for _, _, value in stub.pending_writes or ()] == [["in"], ["n"]]


async def test_ids_of_writes_stored_at_the_exit_are_uuids_in_the_order_of_the_steps() -> None:
    saver = InMemorySaver()
    await graph_of(Two, saver, write_log, write_log).ainvoke({"log": ["in"]}, CONFIG, durability="exit")

    (stub, _) = await checkpoints(saver)

    ids = [task_id for task_id, _, _ in stub.pending_writes or ()]
    assert ids == sorted(ids)
    assert [str(UUID(task_id)) for task_id in ids] == ids
    assert [task_id[:18] for task_id in ids[1:]] == ["ffffffff-0000-0001", "ffffffff-0000-0002"]
    assert ids[0].startswith("00000000-")


async def test_a_later_run_is_stored_as_writes_on_the_checkpoint_before_it() -> None:
    saver = InMemorySaver()
    graph = graph_of(Two, saver, write_log)
    for word in ("one", "two"):
        await graph.ainvoke({"log": [word]}, CONFIG, durability="exit")

    _, first, second = await checkpoints(saver)

    assert [value for _, _, value in first.pending_writes or ()] == [["two"], ["n"]]
    assert second.parent_config == first.config
    assert await graph.ainvoke({}, CONFIG) == {"log": ["one", "n", "two", "n", "n"], "rest": []}


async def test_a_value_that_is_stored_whole_at_the_exit_needs_no_empty_checkpoint() -> None:
    saver = InMemorySaver()
    await graph_of(Log, saver, write_log, write_log).ainvoke({"log": ["in"]}, CONFIG, durability="exit")

    (head,) = await checkpoints(saver)

    assert stored(head) == DeltaSnapshot(["in", "n", "n"])


async def test_writes_of_several_channels_by_one_task_are_all_stored_at_the_exit() -> None:
    async def both(state: Any) -> dict[str, Any]:
        return {"log": [1], "rest": [2]}

    saver = InMemorySaver()
    graph = graph_of(Two, saver, both)
    await graph.ainvoke({"log": [0]}, CONFIG, durability="exit")

    assert await graph.ainvoke({}, CONFIG) == {"log": [0, 1, 1], "rest": [2, 2]}


# -- message ids ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: [m], lambda m: Overwrite([m])], ids=["one", "list", "over"])
async def test_a_message_keeps_the_id_that_it_got_when_it_was_stored(wrap: Any) -> None:
    message = {"role": "user", "content": "hi"}

    async def say(state: Any) -> dict[str, Any]:
        return {"messages": wrap(message)} if not state["messages"] else {}

    saver = InMemorySaver()
    graph = graph_of(Chat, saver, say)
    first = await graph.ainvoke({"messages": []}, CONFIG)
    again = await graph.ainvoke({"messages": []}, CONFIG)

    assert UUID(first["messages"][0]["id"])
    assert again == first
    assert message == {"role": "user", "content": "hi"}


async def test_a_router_sees_the_ids() -> None:
    seen: list[Any] = []

    async def say(state: Any) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": "hi"}]}

    def route(state: Any) -> str:
        seen.extend(state["messages"])
        return END

    builder = StateGraph(Chat)
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    builder.add_conditional_edges("say", route)
    result = await builder.compile().ainvoke({"messages": []})

    assert seen == result["messages"]


async def test_messages_in_the_input_and_in_commands_get_ids_too() -> None:
    saver = InMemorySaver()
    failing = Failing()
    graph = graph_of(Chat, saver, failing)
    with pytest.raises(RuntimeError):
        await graph.ainvoke({"messages": [{"role": "user", "content": "a"}]}, CONFIG)
    failing.armed = False
    first = await graph.ainvoke(Command(update={"messages": [{"role": "user", "content": "b"}]}), CONFIG)

    assert all(UUID(message["id"]) for message in first["messages"])
    assert await graph.ainvoke({"messages": []}, CONFIG) == first


async def test_langchain_messages_get_ids_without_being_changed() -> None:
    langchain = pytest.importorskip("langchain_core.messages")
    message = langchain.HumanMessage("hi")

    async def say(state: Any) -> dict[str, Any]:
        return {"messages": message} if not state["messages"] else {}

    saver = InMemorySaver()
    graph = graph_of(Chat, saver, say)
    first = await graph.ainvoke({"messages": []}, CONFIG)

    assert UUID(first["messages"][0].id)
    assert await graph.ainvoke({"messages": []}, CONFIG) == first
    assert message.id is None


async def test_dicts_that_are_no_messages_are_left_alone() -> None:
    items: list[Any] = [{"content": 1}, {"role": "user"}, {"role": 3, "content": ""}, {"type": "text", "content": ""}]
    saver = InMemorySaver()

    assert await graph_of(Two, saver, idle).ainvoke({"log": items}, CONFIG) == {"log": items, "rest": []}


def test_the_annotation_decides_which_channel_is_a_delta_channel() -> None:
    graph = graph_of(Two, InMemorySaver(), idle)

    assert graph.spec.deltas == ("log", "rest")
    assert isinstance(graph_of(Plain, InMemorySaver(), idle).channels["log"], BinaryOperatorAggregate)


# -- edits ------------------------------------------------------------------------------------------------------


async def test_an_edit_is_stored_as_writes() -> None:
    saver = InMemorySaver()
    graph = graph_of(Two, saver, write_log)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    before = await head_of(saver)
    await graph.aupdate_state(CONFIG, {"log": ["edit"]})

    written = await saver.aget_tuple(before.config)

    assert written is not None
    assert [value for _, key, value in written.pending_writes or () if key == "log"] == [["edit"]]
    assert stored(await head_of(saver)) is None
    assert (await graph.aget_state(CONFIG)).values["log"] == ["in", "n", "edit"]


async def test_an_edit_of_an_old_checkpoint_leaves_that_as_it_is() -> None:
    saver = InMemorySaver()
    graph = graph_of(Two, saver, write_log)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    old = await head_of(saver)
    await graph.ainvoke({"log": ["later"]}, CONFIG)
    newest = await head_of(saver)

    await graph.aupdate_state(old.config, {"log": ["edit"]}, as_node="n0")

    assert (await graph.aget_state(CONFIG)).values["log"] == ["in", "n", "edit"]
    assert (await graph.aget_state(newest.config)).values["log"] == ["in", "n", "later", "n"]


async def test_an_edit_takes_the_node_that_really_ran_last() -> None:
    saver = InMemorySaver()
    graph = raw(saver)
    await graph.ainvoke({"log": [1]}, CONFIG)
    await saver.aput_writes((await head_of(saver)).config, [("log", [9])], "lost", "")
    await graph.ainvoke({"go": "x"}, CONFIG)

    await graph.aupdate_state(CONFIG, "edited")

    assert (await graph.aget_state(CONFIG)).values["gone"] == "edited"
