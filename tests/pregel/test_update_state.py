"""Changing the state of a thread from outside, one update at a time."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypedDict
from uuid import UUID, uuid5

import pytest

from langgraph_async import END, START, Command, Send, StateGraph, interrupt
from langgraph_async.checkpoint.base import BaseCheckpointSaver, StepCommit
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import ConfigError, InvalidUpdateError, ReducerError, ThreadConflictError

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "1"}}


def add(left: list[str], right: list[str]) -> list[str]:
    if "bad" in right:
        raise ValueError("bad")
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


def fan_out(*nodes: Any) -> Any:
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
    return builder.compile(checkpointer=InMemorySaver())


async def sources(graph: Any) -> list[str]:
    return [state.metadata["source"] async for state in graph.aget_state_history(CONFIG)]


async def test_an_update_writes_as_the_node_and_goes_on_after_it() -> None:
    graph = chain(a, ask, b)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    paused = await graph.aget_state(CONFIG)

    config = await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "ask")

    found = await graph.aget_state(CONFIG)
    assert found.config == config
    assert found.values == {"log": ["in", "a", "mine"]}
    assert found.next == ("b",)
    assert found.interrupts == ()
    assert found.metadata == {"source": "update", "step": 2, "parents": {}}
    assert found.parent_config == paused.config
    assert await graph.ainvoke(None, CONFIG) == {"log": ["in", "a", "mine", "b"]}


async def test_without_a_name_the_update_is_made_as_the_node_that_ran_last() -> None:
    graph = chain(a, b, ask)
    await graph.ainvoke({"log": []}, CONFIG)

    await graph.aupdate_state(CONFIG, {"log": ["mine"]})

    found = await graph.aget_state(CONFIG)
    assert found.values == {"log": ["a", "b", "mine"]}
    assert found.next == ("ask",)


async def test_on_a_new_thread_the_update_is_made_as_the_start() -> None:
    graph = chain(a, b)

    await graph.aupdate_state(CONFIG, {"log": ["mine"]})

    found = await graph.aget_state(CONFIG)
    assert found.values == {"log": ["mine"]}
    assert found.next == ("a",)
    assert found.metadata == {"source": "update", "step": 0, "parents": {}}
    assert found.parent_config is None
    assert await graph.ainvoke(None, CONFIG) == {"log": ["mine", "a", "b"]}


async def test_an_update_that_several_nodes_could_have_made_is_refused() -> None:
    graph = fan_out(a, b)
    await graph.ainvoke({"log": []}, CONFIG)
    before = await sources(graph)

    with pytest.raises(InvalidUpdateError, match=r"Ambiguous update, specify as_node.*a, b"):
        await graph.aupdate_state(CONFIG, {"log": ["mine"]})

    assert await sources(graph) == before


async def test_a_second_update_without_a_name_is_made_as_the_node_of_the_first_run() -> None:
    graph = chain(a, ask)
    await graph.ainvoke({"log": []}, CONFIG)

    await graph.aupdate_state(CONFIG, {"log": ["1"]})
    await graph.aupdate_state(CONFIG, {"log": ["2"]})

    found = await graph.aget_state(CONFIG)
    assert found.values == {"log": ["a", "1", "2"]}
    assert found.next == ("ask",)


async def test_none_writes_nothing_but_goes_on_after_the_node() -> None:
    graph = chain(a, ask, b)
    await graph.ainvoke({"log": []}, CONFIG)

    await graph.aupdate_state(CONFIG, None, "ask")

    found = await graph.aget_state(CONFIG)
    assert found.values == {"log": ["a"]}
    assert found.next == ("b",)


async def test_none_on_a_new_thread_starts_the_graph_without_an_input() -> None:
    graph = chain(a)

    await graph.aupdate_state(CONFIG, None)

    assert (await graph.aget_state(CONFIG)).next == ("a",)


async def test_routers_of_the_node_decide_on_the_state_with_the_update() -> None:
    seen: list[Any] = []

    async def route(state: State) -> str:
        seen.append(state)
        return "b" if "go" in state["log"] else END

    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("b", b)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", route, ["b", END])
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": ["in"]}, CONFIG)

    await graph.aupdate_state(CONFIG, {"log": ["go"]}, "a")

    assert (await graph.aget_state(CONFIG)).next == ("b",)
    assert seen[-1] == {"log": ["in", "a", "go"]}


async def test_a_router_that_raises_leaves_the_thread_as_it_was() -> None:
    def route(state: State) -> str:
        if "lost" in state["log"]:
            raise ValueError("lost")
        return END

    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", route, [END])
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    before = await graph.aget_state(CONFIG)

    with pytest.raises(ValueError, match="lost"):
        await graph.aupdate_state(CONFIG, {"log": ["lost"]}, "a")

    assert await graph.aget_state(CONFIG) == before


async def test_a_router_that_asks_cannot_be_answered_in_an_update() -> None:
    def route(state: State) -> str:
        return interrupt("where?") if "ask" in state["log"] else END

    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", route, [END])
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)

    with pytest.raises(InvalidUpdateError, match=r"interrupt\(\)"):
        await graph.aupdate_state(CONFIG, {"log": ["ask"]}, "a")


async def test_a_command_updates_and_goes() -> None:
    graph = chain(a, ask, b)
    await graph.ainvoke({"log": []}, CONFIG)

    await graph.aupdate_state(CONFIG, Command(update={"log": ["mine"]}, goto=[Send("b", {}), "a"]), "b")

    found = await graph.aget_state(CONFIG)
    assert found.values == {"log": ["a", "mine"]}
    assert found.next == ("b", "a")


async def test_a_command_for_a_graph_around_it_is_refused() -> None:
    graph = chain(a)

    with pytest.raises(InvalidUpdateError, match="around it"):
        await graph.aupdate_state(CONFIG, Command(graph=Command.PARENT, update={"log": []}), "a")


async def test_an_unknown_node_is_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="Node nope does not exist"):
        await chain(a).aupdate_state(CONFIG, {"log": []}, "nope")


async def test_an_undeclared_key_is_refused_and_nothing_is_stored() -> None:
    graph = chain(a, ask)
    await graph.ainvoke({"log": []}, CONFIG)
    before = await graph.aget_state(CONFIG)

    with pytest.raises(InvalidUpdateError, match=r"'a'.*'lgo'"):
        await graph.aupdate_state(CONFIG, {"lgo": ["mine"]}, "a")

    assert await graph.aget_state(CONFIG) == before


async def test_an_update_that_a_reducer_rejects_is_refused_and_nothing_is_stored() -> None:
    graph = chain(a, ask)
    await graph.ainvoke({"log": []}, CONFIG)
    before = await graph.aget_state(CONFIG)

    with pytest.raises(ReducerError, match=r"'log'.*'a'") as raised:
        await graph.aupdate_state(CONFIG, {"log": ["bad"]}, "a")

    assert (raised.value.key, raised.value.nodes) == ("log", ("a",))
    assert await graph.aget_state(CONFIG) == before


async def test_updating_needs_a_saver() -> None:
    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_edge(START, "a")

    with pytest.raises(ConfigError, match="No checkpointer set"):
        await builder.compile().aupdate_state(CONFIG, {})


async def test_a_checkpoint_that_does_not_exist_cannot_be_updated() -> None:
    config = {"configurable": {"thread_id": "1", "checkpoint_id": "1f1ecff1-8a24-6fff-8000-2d67576003ab"}}

    with pytest.raises(ConfigError, match="has no checkpoint"):
        await chain(a).aupdate_state(config, {"log": []})


# -- what is stored ---------------------------------------------------------------------------------------------


async def test_the_step_before_shows_the_update_as_the_result_of_the_node() -> None:
    graph = chain(a, ask)
    await graph.ainvoke({"log": []}, CONFIG)
    paused = await graph.aget_state(CONFIG)

    await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "ask")

    (task,) = (await graph.aget_state(paused.config)).tasks
    assert (task.id, task.result) == (paused.tasks[0].id, {"log": ["mine"]})


async def test_an_update_as_a_node_that_was_not_to_run_has_a_task_id_of_its_own() -> None:
    saver = InMemorySaver()
    graph = chain(a, ask, saver=saver)
    await graph.ainvoke({"log": []}, CONFIG)
    paused = await graph.aget_state(CONFIG)

    await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "a")

    rows = (await saver.aget_tuple(paused.config)).pending_writes or []
    own = str(uuid5(UUID(paused.config["configurable"]["checkpoint_id"]), "__interrupt__"))
    assert [row for row in rows if row[0] == own] == [(own, "log", ["mine"]), (own, "branch:to:ask", None)]


async def test_a_given_task_id_is_used() -> None:
    saver = InMemorySaver()
    graph = chain(a, ask, saver=saver)
    await graph.ainvoke({"log": []}, CONFIG)
    paused = await graph.aget_state(CONFIG)

    await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "a", task_id="mine")

    rows = (await saver.aget_tuple(paused.config)).pending_writes or []
    assert ("mine", "log", ["mine"]) in rows


async def test_history_keeps_the_result_of_a_task_that_ran() -> None:
    graph = chain(a, b)
    await graph.ainvoke({"log": ["in"]}, CONFIG)
    states = [state async for state in graph.aget_state_history(CONFIG)]
    before_b = states[1]

    config = await graph.aupdate_state(before_b.config, {"log": ["mine"]}, "b")

    assert (await graph.aget_state(before_b.config)).tasks[0].result == {"log": ["b"]}
    assert (await graph.aget_state(config)).values == {"log": ["in", "a", "mine"]}


async def test_the_metadata_of_the_config_is_stored() -> None:
    graph = chain(a)

    await graph.aupdate_state({**CONFIG, "metadata": {"who": "me"}}, {"log": []})

    assert (await graph.aget_state(CONFIG)).metadata == {"source": "update", "step": 0, "parents": {}, "who": "me"}


async def test_stored_writes_of_the_run_are_not_applied_to_a_fork() -> None:
    graph = fan_out(a, ask)
    await graph.ainvoke({"log": ["in"]}, CONFIG)

    await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "ask")

    found = await graph.aget_state(CONFIG)
    assert found.values == {"log": ["in", "mine"]}


# -- questions --------------------------------------------------------------------------------------------------


async def test_a_question_stays_listed_with_its_id_over_an_update() -> None:
    graph = chain(a, ask)
    await graph.ainvoke({"log": []}, CONFIG)
    (question,) = (await graph.aget_state(CONFIG)).interrupts

    await graph.aupdate_state(CONFIG, {"log": ["mine"]})

    found = await graph.aget_state(CONFIG)
    assert found.interrupts == (question,)
    assert found.tasks[0].interrupts == (question,)


async def test_a_question_can_be_answered_by_its_old_id_after_several_updates() -> None:
    graph = chain(a, ask)
    await graph.ainvoke({"log": []}, CONFIG)
    (question,) = (await graph.aget_state(CONFIG)).interrupts
    await graph.aupdate_state(CONFIG, {"log": ["1"]})
    await graph.aupdate_state(CONFIG, {"log": ["2"]})

    result = await graph.ainvoke(Command(resume={question.id: "me"}), CONFIG)

    assert result == {"log": ["a", "1", "2", "ask me"]}


async def test_answers_given_before_an_update_are_kept_with_the_open_question() -> None:
    async def two(state: State) -> Any:
        return {"log": [interrupt("one") + interrupt("two")]}

    graph = chain(a, two)
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke(Command(resume="1"), CONFIG)
    (question,) = (await graph.aget_state(CONFIG)).interrupts
    await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "a")
    assert (await graph.aget_state(CONFIG)).interrupts == (question,)

    result = await graph.ainvoke(Command(resume={question.id: "2"}), CONFIG)

    assert result == {"log": ["a", "mine", "12"]}


async def test_questions_of_sends_that_are_sent_again_stay_listed_in_order() -> None:
    async def worker(state: Any) -> Any:
        return {"log": [interrupt(state["n"])]}

    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("worker", worker)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", lambda _: [Send("worker", {"n": n}) for n in "xyz"], ["worker"])
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    asked = (await graph.aget_state(CONFIG)).interrupts

    await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "a")

    assert (await graph.aget_state(CONFIG)).interrupts == asked
    result = await graph.ainvoke(Command(resume={q.id: q.value.upper() for q in asked}), CONFIG)
    assert result == {"log": ["a", "mine", "X", "Y", "Z"]}


async def test_the_question_of_the_node_that_was_updated_is_gone_though_it_runs_again() -> None:
    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "ask")
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)

    await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "ask")

    found = await graph.aget_state(CONFIG)
    assert found.next == ("ask",)
    assert found.interrupts == ()


# -- one writer per thread --------------------------------------------------------------------------------------


async def test_a_thread_that_is_running_cannot_be_updated() -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def wait(state: State) -> Any:
        started.set()
        await go.wait()
        return {"log": ["waited"]}

    graph = chain(wait)
    running = asyncio.ensure_future(graph.ainvoke({"log": []}, CONFIG))
    await started.wait()

    with pytest.raises(ThreadConflictError, match="'1'"):
        await graph.aupdate_state(CONFIG, {"log": ["mine"]})

    go.set()
    assert await running == {"log": ["waited"]}


async def test_a_node_cannot_update_the_thread_that_it_runs_on() -> None:
    async def meddle(state: State) -> None:
        await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "meddle")

    graph = chain(meddle)

    with pytest.raises(ThreadConflictError, match="'1'"):
        await graph.ainvoke({"log": []}, CONFIG)


async def test_a_node_can_update_another_thread() -> None:
    other = {"configurable": {"thread_id": "2"}}

    async def meddle(state: State) -> None:
        await graph.aupdate_state(other, {"log": ["mine"]}, "meddle")

    graph = chain(meddle)
    await graph.ainvoke({"log": []}, CONFIG)

    assert (await graph.aget_state(other)).values == {"log": ["mine"]}


async def test_an_update_can_wait_for_the_run() -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def wait(state: State) -> Any:
        started.set()
        await go.wait()
        return {"log": ["waited"]}

    graph = chain(wait)
    running = asyncio.ensure_future(graph.ainvoke({"log": []}, CONFIG))
    await started.wait()
    updating = asyncio.ensure_future(
        graph.aupdate_state({**CONFIG, "multitask_strategy": "enqueue"}, {"log": ["mine"]}, "wait")
    )
    go.set()
    await asyncio.gather(running, updating)

    assert (await graph.aget_state(CONFIG)).values == {"log": ["waited", "mine"]}


async def test_an_update_can_take_the_place_of_a_run() -> None:
    started = asyncio.Event()

    async def wait(state: State) -> Any:
        started.set()
        await asyncio.Event().wait()

    graph = chain(wait)
    await graph.aupdate_state(CONFIG, {"log": ["first"]}, "wait")
    running = asyncio.ensure_future(graph.ainvoke({"log": ["in"]}, CONFIG))
    await started.wait()

    await graph.aupdate_state({**CONFIG, "multitask_strategy": "rollback"}, {"log": ["mine"]}, "wait")

    with pytest.raises(ThreadConflictError):
        await running
    assert (await graph.aget_state(CONFIG)).values == {"log": ["first", "mine"]}


async def test_the_thread_is_free_after_an_update_that_failed() -> None:
    graph = chain(a)

    with pytest.raises(InvalidUpdateError):
        await graph.aupdate_state(CONFIG, {"nope": 1})

    assert await graph.ainvoke({"log": []}, CONFIG) == {"log": ["a"]}


class Overtaken(InMemorySaver):
    """Stores a checkpoint of somebody else just before the update's own."""

    def __init__(self) -> None:
        super().__init__()
        self.overtake = False

    async def acommit(self, config: Any, commit: StepCommit) -> Any:
        if self.overtake:
            self.overtake = False
            found = await self.aget_tuple(CONFIG)
            assert found is not None
            newer = {**found.checkpoint, "id": "ffffffff-0000-6000-8000-000000000000"}
            await super().aput(found.config, newer, {"source": "loop", "step": 9, "parents": {}}, {})  # type: ignore[arg-type]
        return await super().acommit(config, commit)


async def test_an_update_that_was_overtaken_stores_nothing() -> None:
    saver = Overtaken()
    graph = chain(a, ask, saver=saver)
    await graph.ainvoke({"log": []}, CONFIG)
    paused = await graph.aget_state(CONFIG)
    saver.overtake = True

    with pytest.raises(ThreadConflictError):
        await graph.aupdate_state(CONFIG, {"log": ["mine"]}, "a")

    steps = [state.metadata["step"] async for state in graph.aget_state_history(CONFIG)]
    assert steps == [9, 1, 0, -1]
    assert await graph.aget_state(paused.config) == paused


class Plain(BaseCheckpointSaver[str]):
    """Offers only the primitive methods, and suspends in each."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemorySaver()

    def get_next_version(self, current: Any, channel: None = None) -> Any:
        return self.inner.get_next_version(current, channel)

    async def aget_tuple(self, config: Any) -> Any:
        await asyncio.sleep(0)
        return await self.inner.aget_tuple(config)

    async def alist(self, config: Any, **options: Any) -> Any:  # type: ignore[override]
        async for item in self.inner.alist(config, **options):
            await asyncio.sleep(0)
            yield item

    async def aput(self, *args: Any) -> Any:
        await asyncio.sleep(0)
        return await self.inner.aput(*args)

    async def aput_writes(self, *args: Any) -> None:
        await asyncio.sleep(0)
        await self.inner.aput_writes(*args)


async def test_a_saver_with_only_the_primitive_methods_can_be_updated() -> None:
    graph = chain(a, ask, saver=Plain())
    await graph.ainvoke({"log": []}, CONFIG)
    (question,) = (await graph.aget_state(CONFIG)).interrupts

    await graph.aupdate_state(CONFIG, {"log": ["mine"]})

    found = await graph.aget_state(CONFIG)
    assert found.values == {"log": ["a", "mine"]}
    assert found.interrupts == (question,)


async def test_twenty_updates_at_once_are_all_kept_or_refused() -> None:
    graph = chain(a)
    await graph.ainvoke({"log": []}, CONFIG)

    results = await asyncio.gather(
        *(graph.aupdate_state(CONFIG, {"log": [str(n)]}, "a") for n in range(20)), return_exceptions=True
    )

    kept = [str(n) for n, result in enumerate(results) if isinstance(result, dict)]
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(exc, ThreadConflictError) for exc in refused)
    assert (await graph.aget_state(CONFIG)).values["log"][1:] == kept
