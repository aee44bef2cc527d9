"""What a superstep keeps, raises and shows when some of its tasks fail, pause or are cancelled."""

import asyncio
import gc
import threading
import weakref
from operator import add
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from langgraph_async import START, Command, Send, StateGraph, interrupt
from langgraph_async.aio.clock import FakeClock
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.constants import NO_WRITES
from langgraph_async.errors import (
    GraphRecursionError,
    NodeCancelledError,
    NodeError,
    NodeTimeoutError,
    ParentCommand,
    siblings,
)
from langgraph_async.types import RetryPolicy


class State(TypedDict):
    log: Annotated[list[str], add]


ON: Any = {"configurable": {"thread_id": "1"}}
DURABILITIES: Any = ["sync", "async", "exit"]
EAGER = RetryPolicy(initial_interval=0, jitter=False, retry_on=Exception)


def parallel(saver: Any = None, handlers: Any = None, **nodes: Any) -> Any:
    builder = StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node, error_handler=(handlers or {}).get(name)).add_edge(START, name)
    return builder.compile(checkpointer=saver)


async def ok(state: State) -> State:
    return {"log": ["ok"]}


async def ask(state: State) -> State:
    return {"log": [interrupt("sure?")]}


async def bad(state: State) -> State:
    raise ValueError("boom")


# -- errors beside pauses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_of_an_error_and_a_pause_the_error_is_raised_and_the_question_stays(durability: Any) -> None:
    fails = [True]
    asked = asyncio.Event()

    async def asking(state: State) -> State:
        asked.set()
        return {"log": [interrupt("sure?")]}

    async def once_bad(state: State) -> State:
        await asked.wait()
        if fails.pop() if fails else False:
            raise ValueError("boom")
        return {"log": ["mended"]}

    graph = parallel(InMemorySaver(), asking=asking, bad=once_bad)
    with pytest.raises(ValueError, match="boom"):
        await graph.ainvoke({"log": []}, ON, durability=durability)

    shown = await graph.aget_state(ON)
    assert [(t.name, [q.value for q in t.interrupts], t.error is not None) for t in shown.tasks] == [
        ("asking", ["sure?"], False),
        ("bad", [], True),
    ]
    (question,) = shown.interrupts
    done = await graph.ainvoke(Command(resume={question.id: "yes"}), ON, durability=durability)
    assert done == {"log": ["yes", "mended"]}


async def test_a_pause_cancels_no_sibling_and_shows_what_finished() -> None:
    calls: list[str] = []

    async def slow(state: State) -> State:
        calls.append("slow")
        for _ in range(20):
            await asyncio.sleep(0)
        return {"log": ["slow"]}

    graph = parallel(InMemorySaver(), ask=ask, slow=slow)
    values = [part async for part in graph.astream({"log": []}, ON, stream_mode="values")]
    assert values[-1]["log"] == ["slow"]
    assert await graph.ainvoke(Command(resume="yes"), ON) == {"log": ["yes", "slow"]}
    assert calls == ["slow"]


async def test_a_failed_step_makes_no_checkpoint_and_stores_each_outcome_with_its_task() -> None:
    saver = InMemorySaver()
    seen = asyncio.Event()

    async def nothing(state: State) -> None:
        seen.set()

    async def late_bad(state: State) -> State:
        await seen.wait()
        await asyncio.sleep(0)
        raise ValueError("boom")

    async def waits(state: State) -> State:
        await asyncio.Event().wait()
        raise AssertionError

    graph = parallel(saver, nothing=nothing, bad=late_bad, waits=waits)
    with pytest.raises(ValueError, match="boom"):
        await graph.ainvoke({"log": []}, ON)

    stored = [t async for t in saver.alist(ON)]
    assert [t.metadata["source"] for t in stored] == ["loop", "input"]
    head = await saver.aget_tuple(ON)
    assert head is not None
    names = {task.id: task.name for task in (await graph.aget_state(ON)).tasks}
    found = {(names[task_id], channel) for task_id, channel, _ in head.pending_writes}
    assert {("bad", "__error__"), ("waits", "__error__")} <= found
    assert any(channel == NO_WRITES for _, channel, _ in head.pending_writes)
    assert (await graph.aget_state(ON)).next == ("bad", "waits")


async def test_the_raised_exception_is_the_object_that_the_node_raised() -> None:
    raised = KeyError("k")

    async def failing(state: State) -> State:
        raise raised

    with pytest.raises(KeyError) as caught:
        await parallel(a=failing, b=ok).ainvoke({"log": []})
    assert caught.value is raised


async def test_siblings_of_a_failure_that_are_waiting_are_cancelled_and_clean_up() -> None:
    ended: list[str] = []

    async def waits(state: State) -> State:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned")
        raise AssertionError

    with pytest.raises(ValueError, match="boom") as caught:
        await parallel(bad=bad, waits=waits).ainvoke({"log": []})
    assert ended == ["cleaned"]
    assert siblings(caught.value) == ()


async def test_cancelling_a_run_waits_for_a_thread_and_ignores_what_it_returns() -> None:
    saver, entered, leave = InMemorySaver(), threading.Event(), threading.Event()

    def blocks(state: State) -> State:
        entered.set()
        leave.wait(20)
        return {"log": ["late"]}

    graph = parallel(saver, blocks=blocks)
    run = asyncio.create_task(graph.ainvoke({"log": []}, ON))
    while not entered.is_set():
        await asyncio.sleep(0)
    run.cancel()
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    shown = await graph.aget_state(ON)
    assert (shown.values, shown.next) == ({"log": []}, ("blocks",))


# -- a node that raises CancelledError itself ------------------------------------------------------------------


async def test_a_cancellation_of_ones_own_is_no_passing_fault() -> None:
    tries: list[int] = []

    async def own(state: State) -> State:
        tries.append(1)
        raise asyncio.CancelledError

    graph = StateGraph(State).add_node("own", own, retry_policy=EAGER).add_edge(START, "own").compile()
    with pytest.raises(NodeCancelledError) as caught:
        await graph.ainvoke({"log": []})
    assert (caught.value.node, len(tries)) == ("own", 1)
    assert str(caught.value).startswith("Node 'own' raised asyncio.CancelledError")


async def test_a_handler_takes_over_from_a_node_that_cancelled_itself() -> None:
    async def own(state: State) -> State:
        raise asyncio.CancelledError

    async def handler(state: State, error: NodeError) -> State:
        return {"log": [type(error.error).__name__]}

    assert await parallel(handlers={"a": handler}, a=own).ainvoke({"log": []}) == {"log": ["NodeCancelledError"]}


async def test_awaiting_a_task_that_was_cancelled_is_a_failure_of_the_node() -> None:
    async def node(state: State) -> State:
        other = asyncio.create_task(asyncio.Event().wait())
        other.cancel()
        await other
        raise AssertionError

    with pytest.raises(NodeCancelledError, match="'a'"):
        await parallel(a=node, b=ok).ainvoke({"log": []})


# -- steps -----------------------------------------------------------------------------------------------------


async def test_the_path_of_a_run_that_took_too_many_steps_holds_the_last_ten() -> None:
    builder = StateGraph(State)
    builder.add_node("a", ok).add_node("b", ok).add_edge(START, "a").add_edge("a", "b").add_edge("b", "a")
    with pytest.raises(GraphRecursionError) as caught:
        await builder.compile().ainvoke({"log": []}, {"recursion_limit": 13})
    error = caught.value
    assert (error.limit, error.nodes) == (13, ("b",))
    assert error.path == (("b",), ("a",)) * 5


# -- handlers --------------------------------------------------------------------------------------------------


async def test_a_handler_inside_a_graph_runs_again_there_and_not_its_node() -> None:
    calls: list[str] = []

    async def failing(state: State) -> State:
        calls.append("node")
        raise ValueError("boom")

    async def asks(state: State, error: NodeError) -> State:
        calls.append("handler")
        return {"log": [f"{error.node} {interrupt('what now?')}"]}

    graph = parallel(InMemorySaver(), sub=parallel(handlers={"a": asks}, a=failing), z=ok)
    paused = await graph.ainvoke({"log": []}, ON)
    assert [q.value for q in paused["__interrupt__"]] == ["what now?"]
    assert await graph.ainvoke(Command(resume="go on"), ON) == {"log": ["a go on", "ok"]}
    assert calls == ["node", "handler", "handler"]


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_handler_inside_a_graph_that_failed_runs_again_and_not_its_node(durability: Any) -> None:
    calls: list[str] = []

    async def failing(state: State) -> State:
        calls.append("node")
        raise ValueError("boom")

    async def once_bad(state: State, error: NodeError) -> State:
        calls.append("handler")
        if len(calls) == 2:
            raise LookupError("handler")
        return {"log": [f"{error.node} handled"]}

    graph = parallel(InMemorySaver(), sub=parallel(handlers={"a": once_bad}, a=failing))
    with pytest.raises(LookupError, match="handler"):
        await graph.ainvoke({"log": []}, ON, durability=durability)
    assert await graph.ainvoke(None, ON, durability=durability) == {"log": ["a handled"]}
    assert calls == ["node", "handler", "handler"]


async def test_a_handler_may_send_and_go_to_the_graph_around() -> None:
    async def sends(state: State, error: NodeError) -> Command[Any]:
        return Command(goto=[Send("b", {"log": []}), Send("b", {"log": []})])

    builder = StateGraph(State).add_node("a", bad, error_handler=sends).add_node("b", ok).add_edge(START, "a")
    assert await builder.compile().ainvoke({"log": []}) == {"log": ["ok", "ok"]}

    async def leaves(state: State, error: NodeError) -> Command[Any]:
        return Command(graph=Command.PARENT, update={"log": ["left"]}, goto="after")

    inner = StateGraph(State).add_node("a", bad, error_handler=leaves).add_edge(START, "a").compile()
    outer = StateGraph(State).add_node("inner", inner).add_node("after", ok).add_edge(START, "inner").compile()
    assert await outer.ainvoke({"log": []}) == {"log": ["left", "ok"]}


async def test_a_command_for_a_parent_that_is_not_there_reaches_the_caller() -> None:
    async def leaves(state: State) -> Command[Any]:
        return Command(graph=Command.PARENT, goto="nowhere")

    with pytest.raises(ParentCommand) as caught:
        await parallel(a=leaves).ainvoke({"log": []})
    assert caught.value.args[0].goto == "nowhere"


async def test_the_handler_of_a_failed_handler_does_not_exist() -> None:
    """The default handler is for nodes; what it raises itself ends the run."""
    calls: list[str] = []

    async def default(state: State, error: NodeError) -> State:
        calls.append(error.node)
        raise LookupError("handler")

    builder = StateGraph(State).set_node_defaults(error_handler=default).add_node("a", bad).add_edge(START, "a")
    with pytest.raises(LookupError, match="handler"):
        await builder.compile().ainvoke({"log": []})
    assert calls == ["a"]


async def test_a_timeout_in_a_graph_inside_is_handled_around_it() -> None:
    clock = FakeClock()

    async def slow(state: State) -> State:
        await asyncio.Event().wait()
        raise AssertionError

    async def handler(state: State, error: NodeError) -> State:
        assert isinstance(error.error, NodeTimeoutError)
        return {"log": [f"{error.node} < {error.error.node} {error.error.kind} {error.error.timeout}"]}

    inner = StateGraph(State).add_node("slow", slow, timeout=2).add_edge(START, "slow").compile()
    graph = parallel(handlers={"sub": handler}, sub=inner)
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    await clock.sleepers()
    await clock.advance(2)
    assert await run == {"log": ["sub < slow run 2.0"]}


# -- nothing is left -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["success", "failure", "cancelled", "stream left"])
async def test_what_a_run_held_is_freed_without_the_garbage_collector(how: str) -> None:
    class Big:
        """Something that a run holds."""

    waiting = asyncio.Event()
    held: list[weakref.ref[Big]] = []

    async def node(state: State) -> State:
        big = Big()
        held.append(weakref.ref(big))
        if how == "failure":
            raise ValueError("boom")
        if how == "cancelled":
            waiting.set()
            await asyncio.Event().wait()
        return {"log": ["done"]}

    graph = parallel(InMemorySaver(), a=node, b=ok)
    gc.collect()
    gc.disable()
    try:
        if how == "stream left":
            stream = graph.astream({"log": []}, ON)
            await anext(stream)
            await stream.aclose()
            del stream
        else:
            run = asyncio.create_task(graph.ainvoke({"log": []}, ON))
            if how == "cancelled":
                await waiting.wait()
                run.cancel()
            await asyncio.wait([run])
            if not run.cancelled():
                run.exception()
            del run
        await asyncio.sleep(0)
        assert held
        assert [ref() for ref in held if ref() is not None] == []
    finally:
        gc.enable()
