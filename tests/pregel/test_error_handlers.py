"""Error handlers: nodes that take over when another one fails."""

import asyncio
from operator import add
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async.aio.clock import FakeClock
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import NodeError
from langgraph_async.graph import START, StateGraph
from langgraph_async.pregel.task import RescueTask, Task
from langgraph_async.types import Command, RetryPolicy, Send, interrupt


class State(TypedDict):
    log: Annotated[list[str], add]


CONFIG: Any = {"configurable": {"thread_id": "1"}}
HANDLER = "__error_handler__a"


async def bad(state: State) -> State:
    raise ValueError("boom")


async def good(state: State) -> State:
    return {"log": ["good"]}


async def handler(state: State, error: NodeError) -> State:
    return {"log": [f"{error.node}: {error.error!r}"]}


def graph_of(node: Any = bad, takes_over: Any = handler, *, saver: Any = None, **options: Any) -> Any:
    builder = StateGraph(State).add_node("a", node, error_handler=takes_over, **options).add_node("b", good)
    return builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)


async def test_a_handler_is_told_which_node_failed_and_with_what() -> None:
    assert await graph_of().ainvoke({"log": []}) == {"log": ["a: ValueError('boom')"]}


async def test_a_handler_gets_the_error_object_itself() -> None:
    raised = ValueError("boom")
    seen: list[BaseException] = []

    async def failing(state: State) -> State:
        raise raised

    async def keep(state: State, error: NodeError) -> None:
        seen.append(error.error)

    await graph_of(failing, keep).ainvoke({"log": []})
    assert seen == [raised]


async def test_a_handler_gets_the_input_of_the_failed_node_as_it_was() -> None:
    async def dirty(state: State) -> State:
        state["log"].append("dirt")
        raise ValueError

    async def show(state: State, error: NodeError) -> State:
        return {"log": [f"saw {state['log']}"]}

    assert await graph_of(dirty, show).ainvoke({"log": ["x"]}) == {"log": ["x", "saw ['x']"]}


async def test_a_handler_of_a_send_gets_what_was_sent() -> None:
    async def show(state: State, error: NodeError) -> State:
        return {"log": [f"saw {state['log']}"]}

    builder = StateGraph(State).add_node("a", bad, error_handler=show)
    builder.add_conditional_edges(START, lambda s: [Send("a", {"log": [str(n)]}) for n in range(3)], ["a"])
    assert await builder.compile().ainvoke({"log": []}) == {"log": ["saw ['0']", "saw ['1']", "saw ['2']"]}


async def test_the_edges_of_a_failed_node_do_not_fire_and_a_handler_may_go_somewhere() -> None:
    async def onwards(state: State, error: NodeError) -> Command[Any]:
        return Command(update={"log": ["handled"]}, goto="b")

    assert await graph_of(bad, onwards).ainvoke({"log": []}) == {"log": ["handled", "good"]}


async def test_a_handler_that_is_a_plain_function_runs_too() -> None:
    def plain(state: State, error: NodeError) -> State:
        return {"log": [error.node]}

    assert await graph_of(bad, plain).ainvoke({"log": []}) == {"log": ["a"]}


async def test_a_handler_takes_over_after_the_last_attempt() -> None:
    tries: list[int] = []

    async def failing(state: State) -> State:
        tries.append(1)
        raise ValueError("boom")

    policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
    await graph_of(failing, retry_policy=policy).ainvoke({"log": []})
    assert len(tries) == 3


async def test_the_default_handler_counts_for_nodes_without_their_own() -> None:
    builder = StateGraph(State).set_node_defaults(error_handler=handler).add_node("x", bad).add_edge(START, "x")
    assert await builder.compile().ainvoke({"log": []}) == {"log": ["x: ValueError('boom')"]}


async def test_a_failing_handler_fails_the_run() -> None:
    async def worse(state: State, error: NodeError) -> State:
        raise LookupError("worse")

    with pytest.raises(LookupError, match="worse"):
        await graph_of(bad, worse).ainvoke({"log": []})


async def test_siblings_keep_running_and_all_is_applied_in_one_superstep() -> None:
    handled = asyncio.Event()

    async def sibling(state: State) -> State:
        await handled.wait()
        return {"log": ["sibling"]}

    async def tell(state: State, error: NodeError) -> State:
        handled.set()
        return {"log": ["handled"]}

    builder = StateGraph(State).add_node("a", bad, error_handler=tell).add_node("c", sibling)
    graph = builder.add_edge(START, "a").add_edge(START, "c").compile()
    steps = [s async for s in graph.astream({"log": []}, stream_mode="values")]
    assert steps == [{"log": []}, {"log": ["handled", "sibling"]}]


@pytest.mark.parametrize("limit", [1, 2])
async def test_handlers_keep_to_the_bound_of_running_tasks(limit: int) -> None:
    running, most = [0], [0]

    async def busy(state: State, error: NodeError) -> State:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0)
        running[0] -= 1
        return {"log": ["x"]}

    builder = StateGraph(State).add_node("a", bad, error_handler=busy)
    builder.add_conditional_edges(START, lambda s: [Send("a", s) for _ in range(5)], ["a"])
    assert await builder.compile().ainvoke({"log": []}, {"max_concurrency": limit}) == {"log": ["x"] * 5}
    assert most[0] <= limit


async def test_a_failing_sibling_without_handler_fails_the_run() -> None:
    async def fatal(state: State) -> State:
        raise LookupError("fatal")

    builder = StateGraph(State).add_node("a", bad, error_handler=handler).add_node("c", fatal)
    with pytest.raises(LookupError, match="fatal"):
        await builder.add_edge(START, "a").add_edge(START, "c").compile().ainvoke({"log": []})


async def test_a_question_is_not_handled() -> None:
    async def ask(state: State) -> State:
        return {"log": [interrupt("?")]}

    graph = graph_of(ask, saver=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    assert await graph.ainvoke(Command(resume="yes"), CONFIG) == {"log": ["yes", "good"]}


async def test_a_command_for_the_graph_around_is_not_handled() -> None:
    async def leave(state: State) -> Command[Any]:
        return Command(graph=Command.PARENT, update={"log": ["left"]})

    builder = StateGraph(State).add_node("inner", graph_of(leave)).add_edge(START, "inner")
    assert await builder.compile().ainvoke({"log": []}) == {"log": ["left"]}


async def test_the_failure_of_a_graph_inside_is_handled_under_the_name_of_its_node() -> None:
    inner = StateGraph(State).add_node("deep", bad).add_edge(START, "deep").compile()
    assert await graph_of(inner).ainvoke({"log": []}) == {"log": ["a: ValueError('boom')"]}


async def test_a_cancelled_run_starts_no_handler() -> None:
    started = asyncio.Event()
    handled: list[str] = []

    async def slow(state: State) -> State:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("in the clean-up")

    async def note(state: State, error: NodeError) -> None:
        handled.append(error.node)

    run = asyncio.create_task(graph_of(slow, note).ainvoke({"log": []}))
    await started.wait()
    run.cancel()
    with pytest.raises((asyncio.CancelledError, ValueError)):
        await run
    assert handled == []


# -- threads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_run_that_goes_on_runs_the_handler_again_and_not_the_node(durability: Any) -> None:
    ran: list[str] = []

    async def failing(state: State) -> State:
        ran.append("node")
        raise ValueError("boom")

    async def shaky(state: State, error: NodeError) -> State:
        ran.append("handler")
        if ran.count("handler") == 1:
            raise LookupError("shaky")
        return {"log": [f"{error.node} {'boom' in str(error.error)}"]}

    graph = graph_of(failing, shaky, saver=InMemorySaver())
    with pytest.raises(LookupError):
        await graph.ainvoke({"log": []}, CONFIG, durability=durability)
    assert await graph.ainvoke(None, CONFIG, durability=durability) == {"log": ["a True"]}
    assert ran == ["node", "handler", "handler"]


async def test_what_failed_is_stored_before_its_handler_starts() -> None:
    saver = InMemorySaver()
    stored: list[str] = []

    async def look(state: State, error: NodeError) -> None:
        found = await saver.aget_tuple(CONFIG)
        assert found is not None
        stored.extend(channel for _, channel, _ in found.pending_writes or ())

    await graph_of(bad, look, saver=saver).ainvoke({"log": []}, CONFIG, durability="sync")
    assert stored == ["__error__", "__error_source_node__"]


async def test_a_handler_may_ask_and_be_answered() -> None:
    ran: list[str] = []

    async def failing(state: State) -> State:
        ran.append("node")
        raise ValueError("boom")

    async def ask(state: State, error: NodeError) -> State:
        return {"log": [interrupt("what now?")]}

    graph = graph_of(failing, ask, saver=InMemorySaver())
    paused = await graph.ainvoke({"log": []}, CONFIG)
    assert [q.value for q in paused["__interrupt__"]] == ["what now?"]
    state = await graph.aget_state(CONFIG)
    assert state.next == (HANDLER,)
    assert [q.value for q in state.interrupts] == ["what now?"]
    assert await graph.ainvoke(Command(resume="go"), CONFIG) == {"log": ["go"]}
    assert ran == ["node"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_neither_node_nor_handler_runs_again_when_a_sibling_is_answered(durability: Any) -> None:
    ran: list[str] = []

    async def failing(state: State) -> State:
        ran.append("node")
        raise ValueError("boom")

    async def handles(state: State, error: NodeError) -> State:
        ran.append("handler")
        return {"log": ["handled"]}

    async def ask(state: State) -> State:
        return {"log": [interrupt("?")]}

    builder = StateGraph(State).add_node("a", failing, error_handler=handles).add_node("c", ask)
    graph = builder.add_edge(START, "a").add_edge(START, "c").compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG, durability=durability)
    assert (await graph.aget_state(CONFIG)).next == ("c",)
    assert await graph.ainvoke(Command(resume="yes"), CONFIG, durability=durability) == {"log": ["handled", "yes"]}
    assert ran == ["node", "handler"]


async def test_the_history_shows_what_the_failed_node_raised() -> None:
    graph = graph_of(saver=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    states = [s async for s in graph.aget_state_history(CONFIG)]
    failed = next(t for s in states for t in s.tasks if t.name == "a")
    assert "boom" in str(failed.error)
    assert failed.result == {}
    assert states[0].next == ()


async def test_a_handlers_path_follows_from_the_failed_task() -> None:
    graph = graph_of(saver=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    states = [s async for s in graph.aget_state_history(CONFIG)]
    found = next(t for s in states for t in s.tasks if t.name == HANDLER)
    assert found.path == ("__pregel_pull", "a", "node_error_handler", False)
    assert found.result == {"log": ["a: ValueError('boom')"]}


def test_a_handlers_id_is_the_one_that_langgraph_gives_it() -> None:
    # Measured with LangGraph 1.2.24.
    node = graph_of().nodes
    failed = Task("a", node["a"], {}, ("1f1ed0b4-2257-631f-8000-0e0d4c738b67", "", 1, 4))
    found = RescueTask(HANDLER, node[HANDLER], {}, failed, NodeError("a", ValueError()), HANDLER)
    assert failed.id == "366f15e8-124f-4230-5372-c8ef1e759696"
    assert found.id == "13f23634-34bc-42fb-6f99-aedee30cce15"


async def test_a_graph_inside_a_handler_pauses_and_goes_on() -> None:
    async def ask(state: State) -> State:
        return {"log": [interrupt("?")]}

    inner = StateGraph(State).add_node("first", good).add_node("ask", ask)
    compiled = inner.add_edge(START, "first").add_edge("first", "ask").compile()

    async def delegate(state: State, error: NodeError) -> Any:
        return await compiled.ainvoke(state)

    graph = graph_of(bad, delegate, saver=InMemorySaver())
    await graph.ainvoke({"log": []}, CONFIG)
    assert await graph.ainvoke(Command(resume="yes"), CONFIG) == {"log": ["good", "yes"]}


# -- streams ------------------------------------------------------------------------------------------------


async def test_updates_show_the_handler_under_its_own_name() -> None:
    items = [u async for u in graph_of().astream({"log": []}, stream_mode="updates")]
    assert items == [{HANDLER: {"log": ["a: ValueError('boom')"]}}]


async def test_tasks_show_the_failure_and_the_handlers_result_without_a_start() -> None:
    items = [t async for t in graph_of().astream({"log": []}, stream_mode="tasks")]
    assert [(t["name"], "result" in t, t.get("error") is not None) for t in items] == [
        ("a", False, False),
        ("a", True, True),
        (HANDLER, True, False),
    ]


@pytest.mark.parametrize("saved", [False, True])
async def test_a_handler_is_tried_again_and_timed_by_the_defaults(saved: bool) -> None:
    clock, attempts = FakeClock(), list[int]()

    async def failing(state: State) -> State:
        raise ValueError("not retried")

    async def handler(state: State, error: NodeError) -> State:
        attempts.append(1)
        if len(attempts) < 3:
            await asyncio.Event().wait()
        return {"log": ["handled"]}

    builder = StateGraph(State).add_node("a", failing, error_handler=handler).add_edge(START, "a")
    builder.set_node_defaults(timeout=2, retry_policy=RetryPolicy(jitter=False))
    graph = builder.compile(checkpointer=InMemorySaver() if saved else None)
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}, {"configurable": {"thread_id": "timed"}}))
    while not run.done():
        await clock.advance(1)
    assert await run == {"log": ["handled"]}
    assert len(attempts) == 3
