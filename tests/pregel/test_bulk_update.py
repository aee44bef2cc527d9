"""Several supersteps of updates at once, and the updates that stand for no node."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict
from uuid import UUID, uuid5

import pytest

from langgraph_async import END, START, Command, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import ConfigError, InvalidUpdateError, MissingNodeError
from langgraph_async.types import StateUpdate

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "1"}}


def add(left: list[str], right: list[str]) -> list[str]:
    return [*left, *right]


class State(TypedDict, total=False):
    log: Annotated[list[str], add]
    last: str


async def a(state: State) -> Any:
    return {"log": ["a"]}


async def b(state: State) -> Any:
    return {"log": ["b"]}


async def ask(state: State) -> Any:
    return {"log": [f"ask {interrupt('who?')}"]}


def chain(*nodes: Any, saver: Any = None) -> Any:
    builder = StateGraph(State)
    before = START
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(before, node.__name__)
        before = node.__name__
    return builder.compile(checkpointer=InMemorySaver() if saver is None else saver)


def fan_out(*nodes: Any, then: Any = None, saver: Any = None) -> Any:
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
    if then is not None:
        builder.add_node(then.__name__, then)
        builder.add_edge(nodes[0].__name__, then.__name__)
    return builder.compile(checkpointer=InMemorySaver() if saver is None else saver)


async def listed(graph: Any) -> list[Any]:
    return [state async for state in graph.aget_state_history(CONFIG)]


# -- supersteps -------------------------------------------------------------------------------------------------


async def test_each_superstep_becomes_a_checkpoint() -> None:
    graph = chain(a, b)

    config = await graph.abulk_update_state(
        CONFIG,
        [
            [StateUpdate({"log": ["in"]}, "__input__")],
            [StateUpdate({"log": ["in"]}, START)],
            [StateUpdate({"log": ["1"]}, "a")],
            [StateUpdate({"log": ["2"]}, "b")],
        ],
    )

    states = await listed(graph)
    assert states[0].config == config
    assert [(s.values, s.next, s.metadata["source"], s.metadata["step"]) for s in states] == [
        ({"log": ["in", "1", "2"]}, (), "update", 2),
        ({"log": ["in", "1"]}, ("b",), "update", 1),
        ({"log": ["in"]}, ("a",), "update", 0),
        ({"log": []}, ("__start__",), "input", -1),
    ]
    assert [s.parent_config for s in states[:-1]] == [s.config for s in states[1:]]
    assert [[(t.name, t.result) for t in s.tasks] for s in states] == [
        [],
        [("b", {"log": ["2"]})],
        [("a", {"log": ["1"]})],
        [("__start__", {"log": ["in"]})],
    ]


async def test_updates_of_one_superstep_are_applied_together_in_the_order_of_the_list() -> None:
    graph = fan_out(a, b)
    await graph.abulk_update_state(CONFIG, [[StateUpdate({"log": ["in"]}, START)]])

    await graph.abulk_update_state(CONFIG, [[StateUpdate({"log": ["2"]}, "b"), StateUpdate({"log": ["1"]}, "a")]])

    found = await graph.aget_state(CONFIG)
    assert found.values == {"log": ["in", "2", "1"]}
    assert found.next == ()
    assert found.metadata["step"] == 1


async def test_two_updates_of_a_key_that_holds_one_value_are_refused() -> None:
    graph = fan_out(a, b)
    await graph.aupdate_state(CONFIG, {"log": ["in"]})
    before = await graph.aget_state(CONFIG)

    with pytest.raises(InvalidUpdateError, match=r"'last'.*'a', 'b'"):
        await graph.abulk_update_state(CONFIG, [[StateUpdate({"last": "1"}, "a"), StateUpdate({"last": "2"}, "b")]])

    assert await graph.aget_state(CONFIG) == before


async def test_every_update_of_a_superstep_is_stored_under_a_task_of_its_own() -> None:
    saver = InMemorySaver()
    graph = chain(a, ask, saver=saver)
    await graph.ainvoke({"log": []}, CONFIG)
    at = (await graph.aget_state(CONFIG)).config

    await graph.abulk_update_state(CONFIG, [[StateUpdate({"log": ["1"]}, "a"), StateUpdate({"log": ["2"]}, "a")]])

    rows = (await saver.aget_tuple(at)).pending_writes or []
    own = UUID(at["configurable"]["checkpoint_id"])
    assert [(row[0], row[2]) for row in rows if row[1] == "log"] == [
        (str(uuid5(own, "__interrupt__")), ["1"]),
        (str(uuid5(own, "__interrupt__:1")), ["2"]),
    ]


async def test_several_updates_need_a_node_each() -> None:
    with pytest.raises(InvalidUpdateError, match="as_node is required"):
        await chain(a).abulk_update_state(CONFIG, [[StateUpdate({"log": []}, "a"), StateUpdate({"log": []})]])


@pytest.mark.parametrize(("supersteps", "message"), [([], "No supersteps provided"), ([[]], "No updates provided")])
async def test_an_empty_list_is_refused(supersteps: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await chain(a).abulk_update_state(CONFIG, supersteps)


async def test_a_superstep_that_fails_keeps_those_before_it() -> None:
    graph = chain(a, b)

    with pytest.raises(InvalidUpdateError, match="nope"):
        await graph.abulk_update_state(CONFIG, [[StateUpdate({"log": ["1"]}, "a")], [StateUpdate({}, "nope")]])

    assert (await graph.aget_state(CONFIG)).values == {"log": ["1"]}


# -- clearing ---------------------------------------------------------------------------------------------------


async def test_clearing_gives_up_what_is_paused_and_keeps_what_has_finished() -> None:
    graph = fan_out(a, ask)
    await graph.ainvoke({"log": ["in"]}, CONFIG)

    await graph.aupdate_state(CONFIG, None, END)

    found = await graph.aget_state(CONFIG)
    assert found.values == {"log": ["in", "a"]}
    assert found.next == ()
    assert found.interrupts == ()
    assert found.metadata == {"source": "update", "step": 1, "parents": {}}


async def test_clearing_goes_on_after_what_has_finished() -> None:
    graph = fan_out(a, ask, then=b)
    await graph.ainvoke({"log": ["in"]}, CONFIG)

    await graph.aupdate_state(CONFIG, None, END)

    assert (await graph.aget_state(CONFIG)).next == ("b",)
    assert await graph.ainvoke(None, CONFIG) == {"log": ["in", "a", "b"]}


async def test_a_thread_that_does_not_exist_can_be_cleared() -> None:
    graph = chain(a)

    await graph.aupdate_state(CONFIG, None, END)

    found = await graph.aget_state(CONFIG)
    assert found.next == ()
    assert found.metadata == {"source": "update", "step": 0, "parents": {}}


async def test_a_cleared_thread_takes_a_new_input() -> None:
    graph = chain(ask)
    await graph.ainvoke({"log": ["1"]}, CONFIG)
    await graph.aupdate_state(CONFIG, None, END)

    await graph.ainvoke({"log": ["2"]}, CONFIG)

    assert (await graph.aget_state(CONFIG)).values == {"log": ["1", "2"]}


async def test_clearing_stands_alone() -> None:
    with pytest.raises(InvalidUpdateError, match="Cannot apply multiple updates when clearing state"):
        await chain(a).abulk_update_state(CONFIG, [[StateUpdate(None, END), StateUpdate({}, "a")]])


# -- as the input -----------------------------------------------------------------------------------------------


async def test_an_update_as_the_input_waits_for_the_next_run() -> None:
    graph = chain(a)

    await graph.aupdate_state(CONFIG, {"log": ["in"]}, "__input__")

    found = await graph.aget_state(CONFIG)
    assert found.values == {"log": []}
    assert found.next == ("__start__",)
    assert found.metadata == {"source": "input", "step": -1, "parents": {}}
    assert await graph.ainvoke(None, CONFIG) == {"log": ["in", "a"]}


async def test_an_update_as_the_input_goes_beside_what_is_paused() -> None:
    graph = chain(a, ask)
    await graph.ainvoke({"log": []}, CONFIG)
    (question,) = (await graph.aget_state(CONFIG)).interrupts

    await graph.aupdate_state(CONFIG, {"log": ["more"]}, "__input__")

    found = await graph.aget_state(CONFIG)
    assert found.next == ("__start__", "ask")
    assert found.interrupts == (question,)
    assert found.metadata == {"source": "input", "step": 2, "parents": {}}


async def test_an_empty_input_is_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="Received no input writes for __start__"):
        await chain(a).aupdate_state(CONFIG, None, "__input__")


async def test_an_input_that_the_schema_rejects_is_refused() -> None:
    graph = chain(a)

    with pytest.raises(InvalidUpdateError, match="'lgo'"):
        await graph.aupdate_state(CONFIG, {"lgo": []}, "__input__")

    assert await listed(graph) == []


async def test_the_input_stands_alone() -> None:
    with pytest.raises(InvalidUpdateError, match="Cannot apply multiple updates when updating as input"):
        await chain(a).abulk_update_state(CONFIG, [[StateUpdate({}, "a"), StateUpdate({}, "__input__")]])


# -- copies -----------------------------------------------------------------------------------------------------


async def test_a_copy_stands_beside_the_checkpoint() -> None:
    graph = chain(a, ask)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    paused = await graph.aget_state(CONFIG)

    config = await graph.aupdate_state(paused.config, None, "__copy__")

    found = await graph.aget_state(CONFIG)
    assert found.config == config
    assert found.values == paused.values
    assert found.next == paused.next
    assert found.parent_config == paused.parent_config
    assert found.metadata == {"source": "fork", "step": 2, "parents": {}}


async def test_a_copy_asks_again() -> None:
    graph = chain(a, ask)
    await graph.ainvoke({"log": []}, CONFIG)
    paused = await graph.aget_state(CONFIG)
    await graph.ainvoke(Command(resume="first"), CONFIG)

    config = await graph.aupdate_state(paused.config, None, "__copy__")
    result = await graph.ainvoke(None, config)

    assert [question.value for question in result["__interrupt__"]] == ["who?"]
    assert await graph.ainvoke(Command(resume="second"), CONFIG) == {"log": ["a", "ask second"]}


async def test_updates_of_a_copy_are_stored_as_results_of_the_tasks_that_wait_there() -> None:
    graph = fan_out(a, b)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    before = (await listed(graph))[1]

    await graph.aupdate_state(before.config, [({"log": ["1"]}, "a"), ({"log": ["2"]}, "b")], "__copy__")

    changed, copied = (await listed(graph))[:2]
    assert changed.values == {"log": ["in", "1", "2"]}
    assert changed.metadata == {"source": "update", "step": 2, "parents": {}}
    assert changed.parent_config == copied.config
    assert copied.metadata == {"source": "fork", "step": 1, "parents": {}}
    assert [(t.name, t.result) for t in copied.tasks] == [("a", {"log": ["1"]}), ("b", {"log": ["2"]})]
    assert [(t.name, t.result) for t in (await graph.aget_state(before.config)).tasks] == [
        ("a", {"log": ["a"]}),
        ("b", {"log": ["b"]}),
    ]


@pytest.mark.parametrize("items", [[5], [({"log": []},)], ["ab c"]])
async def test_a_bad_item_for_a_copy_is_refused_and_nothing_is_copied(items: Any) -> None:
    graph = chain(a)
    await graph.ainvoke({"log": []}, CONFIG)
    count = len(await listed(graph))

    with pytest.raises(InvalidUpdateError, match="Invalid update item"):
        await graph.aupdate_state(CONFIG, items, "__copy__")

    assert len(await listed(graph)) == count


async def test_nothing_cannot_be_copied() -> None:
    with pytest.raises(InvalidUpdateError, match="Cannot copy a non-existent checkpoint"):
        await chain(a).aupdate_state(CONFIG, None, "__copy__")


async def test_a_copy_stands_alone() -> None:
    with pytest.raises(InvalidUpdateError, match="Cannot copy checkpoint with multiple updates"):
        await chain(a).abulk_update_state(CONFIG, [[StateUpdate(None, "__copy__"), StateUpdate({}, "a")]])


# -- renamed and removed nodes ----------------------------------------------------------------------------------


async def test_a_renamed_node_still_waits_after_an_edit() -> None:
    saver = InMemorySaver()
    await chain(a, ask, saver=saver).ainvoke({"log": []}, CONFIG)
    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("query", ask)
    builder.add_edge(START, "a")
    builder.add_edge("a", "query")
    graph = builder.compile(checkpointer=saver, renamed={"ask": "query"})
    (question,) = (await graph.aget_state(CONFIG)).interrupts

    await graph.aupdate_state(CONFIG, {"log": ["more"]}, "__input__")

    found = await graph.aget_state(CONFIG)
    assert found.next == ("__start__", "query")
    assert found.interrupts == (question,)


async def test_an_edit_frees_a_thread_that_waits_in_a_node_that_is_no_more() -> None:
    saver = InMemorySaver()
    await chain(a, ask, saver=saver).ainvoke({"log": []}, CONFIG)
    graph = chain(a, b, saver=saver)
    with pytest.raises(MissingNodeError, match="ask"):
        await graph.ainvoke(None, CONFIG)

    await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "a")

    assert await graph.ainvoke(None, CONFIG) == {"log": ["a", "mine", "b"]}


async def test_a_new_input_frees_a_thread_that_waits_in_a_node_that_is_no_more() -> None:
    saver = InMemorySaver()
    await chain(a, ask, saver=saver).ainvoke({"log": []}, CONFIG)

    async def again(state: State) -> Any:
        return {"log": [interrupt("again?")]}

    graph = chain(a, again, saver=saver)
    await graph.ainvoke({"log": ["new"]}, CONFIG)

    assert await graph.ainvoke(Command(resume="yes"), CONFIG) == {"log": ["a", "new", "a", "yes"]}


@pytest.mark.parametrize("as_node", ["__input__", "__copy__"])
async def test_an_edit_that_keeps_what_waits_refuses_a_node_that_is_no_more(as_node: str) -> None:
    saver = InMemorySaver()
    await chain(a, ask, saver=saver).ainvoke({"log": []}, CONFIG)
    graph = chain(a, b, saver=saver)

    with pytest.raises(MissingNodeError, match="ask"):
        await graph.aupdate_state(CONFIG, {"log": []} if as_node == "__input__" else None, as_node)
