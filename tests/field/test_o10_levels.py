"""O10 Three levels: a graph that is awaited by a node of a graph that is awaited by a node."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest
from places import S, cfg
from slow_savers import SAVERS

from langgraph_async import START, Command, Send, StateGraph, interrupt
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver

DURABILITIES = ["sync", "async", "exit"]


@pytest.fixture(params=[*SAVERS, "sqlite", "postgres"])
def made(request, tmp_path) -> Any:
    if request.param == "sqlite":
        return AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", synchronous="NORMAL")
    if request.param == "postgres":
        return AsyncPostgresSaver.from_conn_string(request.getfixturevalue("postgres_database"), max_size=2)
    return SAVERS[request.param]()


class Levels:
    """Three graphs, one inside the other, and how often each body was entered."""

    def __init__(self, saver: Any, *questions: str, called: bool = True, fan_out: int = 0) -> None:
        self.ran: Counter[str] = Counter()
        inner = StateGraph(S)
        for name in ("a", "q", "b"):
            inner.add_node(name, self.node(name, questions if name == "q" else ()))
        inner.add_edge(START, "a").add_edge("a", "q").add_edge("q", "b")
        middle = self.around(inner.compile(), "middle", called)
        outer = StateGraph(S).add_node("outer", self.calling(middle, "outer") if called else middle)
        if fan_out:
            outer.add_conditional_edges(START, lambda s: [Send("outer", {"x": n}) for n in range(fan_out)], ["outer"])
        else:
            outer.add_edge(START, "outer")
        self.graph = outer.compile(checkpointer=saver)

    def node(self, name: str, questions: tuple[str, ...]) -> Any:
        async def run(state):
            mark = f"{name}{state.get('x') or ''}"
            self.ran[mark] += 1
            answers = [interrupt(question) for question in questions]
            return {"log": answers or [name]}

        return run

    def calling(self, graph: Any, name: str) -> Any:
        async def call(state):
            self.ran[f"{name}{state.get('x') or ''}"] += 1
            return {"log": (await graph.ainvoke({"x": state.get("x")}))["log"]}

        return call

    def around(self, graph: Any, name: str, called: bool) -> Any:
        node = self.calling(graph, name) if called else graph
        return StateGraph(S).add_node(name, node).add_edge(START, name).compile()


async def opened(stack: AsyncExitStack, saver: Any) -> Any:
    return await stack.enter_async_context(saver) if hasattr(saver, "__aenter__") else saver


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("called", [True, False], ids=["called", "as nodes"])
async def test_o10_only_what_waits_runs_again(made, durability, called):
    async with AsyncExitStack() as stack:
        world = Levels(await opened(stack, made), "who?", called=called)
        first = await world.graph.ainvoke({}, cfg(), durability=durability)
        done = await world.graph.ainvoke(Command(resume="answer"), cfg(), durability=durability)

    assert [q.value for q in first["__interrupt__"]] == ["who?"]
    assert done["log"] == ["a", "answer", "b"]
    around = {"outer": 2, "middle": 2} if called else {}
    assert world.ran == {**around, "a": 1, "q": 2, "b": 1}


@pytest.mark.parametrize("called", [True, False], ids=["called", "as nodes"])
async def test_o10_several_questions_of_one_node_are_answered_one_after_the_other(made, called):
    async with AsyncExitStack() as stack:
        world = Levels(await opened(stack, made), "one?", "two?", "three?", called=called)
        asked = []
        result = await world.graph.ainvoke({}, cfg())
        while "__interrupt__" in result:
            (question,) = result["__interrupt__"]
            asked.append(question)
            result = await world.graph.ainvoke(Command(resume=question.value.upper()), cfg())

    assert [q.value for q in asked] == ["one?", "two?", "three?"]
    assert len({q.id for q in asked}) == 3
    assert result["log"] == ["a", "ONE?", "TWO?", "THREE?", "b"]
    assert (world.ran["a"], world.ran["q"], world.ran["b"]) == (1, 4, 1)


async def test_o10_three_levels_in_each_of_several_sends(made):
    async with AsyncExitStack() as stack:
        world = Levels(await opened(stack, made), "who?", fan_out=4)
        first = await world.graph.ainvoke({}, cfg())
        ids = [q.id for q in first["__interrupt__"]]
        second = await world.graph.ainvoke(Command(resume={ids[1]: "B", ids[3]: "D"}), cfg())
        counts = dict(world.ran)
        done = await world.graph.ainvoke(Command(resume={ids[0]: "A", ids[2]: "C"}), cfg())

    assert len(set(ids)) == 4
    assert [q.id for q in second["__interrupt__"]] == [ids[0], ids[2]]
    # A send is known by its number; the one with 0 has no mark.
    assert [counts[f"q{n}"] for n in ("", 1, 2, 3)] == [1, 2, 1, 2]
    assert [world.ran[f"q{n}"] for n in ("", 1, 2, 3)] == [2, 2, 2, 2]
    assert [world.ran[f"a{n}"] for n in ("", 1, 2, 3)] == [1, 1, 1, 1]
    assert done["log"] == ["a", "A", "b", "a", "B", "b", "a", "C", "b", "a", "D", "b"]


@pytest.mark.parametrize("called", [True, False], ids=["called", "as nodes"])
async def test_o10_streamed_with_its_namespaces(made, called):
    async with AsyncExitStack() as stack:
        world = Levels(await opened(stack, made), "who?", called=called)

        async def streamed(value: Any) -> list[tuple[int, str, Any]]:
            stream = world.graph.astream(value, cfg(), stream_mode="updates", subgraphs=True)
            return [(len(ns), *next(iter(update.items()))) async for ns, update in stream]

        first = await streamed({})
        second = await streamed(Command(resume="answer"))

    assert first[0] == (2, "a", {"log": ["a"]})
    assert [(name, [q.value for q in found]) for _, name, found in first[1:]] == [("__interrupt__", ["who?"])]
    assert [(depth, name) for depth, name, _ in second] == [(2, "q"), (2, "b"), (1, "middle"), (0, "outer")]
    assert second[-1][2]["log"] == ["a", "answer", "b"]


async def test_o10_the_question_is_shown_by_the_state_of_every_level(made):
    async with AsyncExitStack() as stack:
        world = Levels(await opened(stack, made), "who?", called=False)
        await world.graph.ainvoke({}, cfg())
        state = await world.graph.aget_state(cfg(), subgraphs=True)

    found = []
    while state is not None:
        (task,) = state.tasks
        found.append((state.next, [q.value for q in state.interrupts]))
        state = task.state
    assert found == [(("outer",), ["who?"]), (("middle",), ["who?"]), (("q",), ["who?"])]


async def test_o10_a_failure_inside_runs_only_what_failed_again(made):
    async with AsyncExitStack() as stack:
        world = Levels(await opened(stack, made), "who?")
        failures = [ConnectionError("once")]
        node = world.node("b", ())

        async def b(state):
            if failures:
                raise failures.pop()
            return await node(state)

        inner = StateGraph(S)
        for name, run in [("a", world.node("a", ())), ("q", world.node("q", ("who?",))), ("b", b)]:
            inner.add_node(name, run)
        inner.add_edge(START, "a").add_edge("a", "q").add_edge("q", "b")
        middle = world.around(inner.compile(), "middle", True)
        call = world.calling(middle, "outer")
        saver = world.graph.checkpointer
        graph = StateGraph(S).add_node("outer", call).add_edge(START, "outer").compile(checkpointer=saver)
        await graph.ainvoke({}, cfg())
        with pytest.raises(ConnectionError):
            await graph.ainvoke(Command(resume="answer"), cfg())
        done = await graph.ainvoke(None, cfg())

    assert done["log"] == ["a", "answer", "b"]
    assert world.ran == {"outer": 3, "middle": 3, "a": 1, "q": 2, "b": 1}
