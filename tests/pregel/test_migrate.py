"""Checkpoints of older format versions go on as if they had been made today."""

from __future__ import annotations

import operator
from hashlib import sha1
from typing import Annotated, Any

from typing_extensions import TypedDict

from langgraph_async import END, START, Send, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.constants import TASKS

CONFIG: Any = {"configurable": {"thread_id": "old", "checkpoint_ns": ""}}
ROOT_ID = "1ef00000-0000-6000-8000-000000000000"
HEAD_ID = "1ef00000-0001-6000-8001-000000000000"


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def logs(name: str) -> Any:
    async def node(state: Any) -> dict[str, list[str]]:
        return {"log": [name if "item" not in state else f"{name}:{state['item']}"]}

    return node


def build(saver: InMemorySaver, **options: Any) -> Any:
    builder = StateGraph(State)
    for name in ("a", "b", "c", "worker"):
        builder.add_node(name, logs(name))
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_conditional_edges("b", lambda state: "c", ["c", "worker"])
    builder.add_edge("c", END)
    return builder.compile(checkpointer=saver, **options)


async def store(
    saver: InMemorySaver,
    version: int,
    values: dict[str, Any],
    *,
    seen: dict[str, dict[str, Any]] | None = None,
    versions: dict[str, Any] | None = None,
    checkpoint_id: str = HEAD_ID,
    parent: str | None = None,
    **more: Any,
) -> None:
    numbered = versions if versions is not None else {key: number for number, key in enumerate(values, 1)}
    checkpoint: Any = {
        "v": version,
        "id": checkpoint_id,
        "ts": "2024-05-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": numbered,
        "versions_seen": seen or {},
        **more,
    }
    config: Any = {"configurable": {**CONFIG["configurable"], **({"checkpoint_id": parent} if parent else {})}}
    await saver.aput(config, checkpoint, {"source": "loop", "step": 1, "parents": {}}, numbered)


async def test_sends_kept_in_the_checkpoint_are_run() -> None:
    saver = InMemorySaver()
    sends = [Send("worker", {"item": 1}), Send("worker", {"item": 2})]
    await store(saver, 3, {"log": ["x"]}, pending_sends=sends)

    assert await build(saver).ainvoke(None, CONFIG) == {"log": ["x", "worker:1", "worker:2"]}


async def test_sends_kept_on_the_parent_are_run_in_the_order_of_the_tasks() -> None:
    saver = InMemorySaver()
    await store(saver, 3, {"log": ["x"]}, checkpoint_id=ROOT_ID)
    at_root: Any = {"configurable": {**CONFIG["configurable"], "checkpoint_id": ROOT_ID}}
    await saver.aput_writes(at_root, [(TASKS, Send("worker", {"item": 2}))], "t2", "~__pregel_pull, b")
    await saver.aput_writes(at_root, [("log", ["y"]), (TASKS, Send("worker", {"item": 1}))], "t9", "~__pregel_pull, a")
    await store(saver, 3, {"log": ["x"]}, parent=ROOT_ID)

    assert await build(saver).ainvoke(None, CONFIG) == {"log": ["x", "worker:1", "worker:2"]}


async def test_sends_of_a_checkpoint_of_today_are_not_looked_for_on_the_parent() -> None:
    saver = InMemorySaver()
    await store(saver, 4, {"log": ["x"]}, checkpoint_id=ROOT_ID)
    at_root: Any = {"configurable": {**CONFIG["configurable"], "checkpoint_id": ROOT_ID}}
    await saver.aput_writes(at_root, [(TASKS, Send("worker", {"item": 2}))], "t2", "~__pregel_pull, b")
    await store(saver, 4, {"log": ["x"]}, parent=ROOT_ID)

    assert await build(saver).ainvoke(None, CONFIG) == {"log": ["x"]}


async def test_the_channel_of_an_edge_from_the_start_becomes_that_of_its_node() -> None:
    saver = InMemorySaver()
    await store(saver, 2, {"log": ["x"], "start:a": "__start__"}, seen={"__start__": {"__start__": 1}})

    assert await build(saver).ainvoke(None, CONFIG) == {"log": ["x", "a", "b", "c"]}


async def test_the_channel_of_a_branch_becomes_that_of_its_node() -> None:
    saver = InMemorySaver()
    await store(saver, 2, {"log": ["x"], "branch:b:route:c": "b"})

    assert await build(saver).ainvoke(None, CONFIG) == {"log": ["x", "c"]}


async def test_the_channel_of_a_node_becomes_those_of_the_nodes_it_leads_to() -> None:
    saver = InMemorySaver()
    await store(saver, 2, {"log": ["x"], "a": "a"}, seen={"a": {"start:a": 1}})

    assert await build(saver).ainvoke(None, CONFIG) == {"log": ["x", "b", "c"]}


async def test_a_node_that_has_run_on_the_old_channel_does_not_run_again() -> None:
    saver = InMemorySaver()
    await store(
        saver,
        2,
        {"log": ["x"], "a": "a", "branch:b:route:c": "b"},
        versions={"log": 1, "a": 2, "branch:b:route:c": 3},
        seen={"b": {"a": 2}},
    )

    assert await build(saver).ainvoke(None, CONFIG) == {"log": ["x", "c"]}


async def test_the_greatest_version_counts_where_old_channels_meet() -> None:
    saver = InMemorySaver()
    await store(
        saver,
        2,
        {"log": ["x"], "branch:b:route:c": "b"},
        versions={"log": 1, "branch:b:route:c": 5, "branch:a:route:c": 3},
        seen={"c": {"branch:a:route:c": 3}},
    )

    assert await build(saver).ainvoke(None, CONFIG) == {"log": ["x", "c"]}


async def test_an_old_channel_of_a_renamed_node_follows_the_rename() -> None:
    saver = InMemorySaver()
    await store(saver, 2, {"log": ["x"], "start:first": "__start__"})

    assert await build(saver, renamed={"first": "a"}).ainvoke(None, CONFIG) == {"log": ["x", "a", "b", "c"]}


async def test_channels_of_version_three_keep_their_names() -> None:
    saver = InMemorySaver()
    await store(saver, 3, {"log": ["x"], "start:a": "__start__"})

    assert await build(saver).ainvoke(None, CONFIG) == {"log": ["x"]}


async def test_results_stored_under_task_ids_of_version_one_are_found() -> None:
    saver = InMemorySaver()
    await store(saver, 1, {"log": ["x"], "branch:to:c": None})
    text = "".join(["c", "2", "c", "__pregel_pull", "branch:to:c"])
    digest = sha1(bytes.fromhex(HEAD_ID.replace("-", "")) + text.encode(), usedforsecurity=False).hexdigest()
    task_id = f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
    at_head: Any = {"configurable": {**CONFIG["configurable"], "checkpoint_id": HEAD_ID}}
    await saver.aput_writes(at_head, [("log", ["stored"])], task_id, "~__pregel_pull, c")

    assert await build(saver).ainvoke(None, CONFIG) == {"log": ["x", "stored"]}


async def test_what_is_stored_from_an_old_checkpoint_on_has_the_version_of_today() -> None:
    saver = InMemorySaver()
    await store(saver, 2, {"log": ["x"], "start:a": "__start__"})

    await build(saver).ainvoke(None, CONFIG)

    head = await saver.aget_tuple(CONFIG)
    assert head is not None
    assert head.checkpoint["v"] == 4
    assert "start:a" not in head.checkpoint["channel_versions"]
