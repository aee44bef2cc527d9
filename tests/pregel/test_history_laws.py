"""Whatever is done to a thread, its history only grows."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypedDict

from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_async import END, START, Command, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "1"}}


def add(left: list[str], right: list[str]) -> list[str]:
    return [*left, *right]


class State(TypedDict, total=False):
    log: Annotated[list[str], add]


async def a(state: State) -> Any:
    return {"log": ["a"]}


async def ask(state: State) -> Any:
    return {"log": [interrupt("who?")]}


def make() -> Any:
    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("ask", ask)
    builder.add_node("side", a)
    builder.add_edge(START, "a")
    builder.add_edge(START, "side")
    builder.add_edge("a", "ask")
    return builder.compile(checkpointer=InMemorySaver())


OPERATIONS = st.tuples(
    st.sampled_from(["run", "replay", "answer", "a", "ask", "__input__", "__copy__", "clear"]),
    st.integers(min_value=0, max_value=9),
)


async def perform(graph: Any, operation: str, config: Any) -> None:
    if operation == "run":
        await graph.ainvoke({"log": ["in"]}, CONFIG)
    elif operation == "replay":
        await graph.ainvoke(None, config)
    elif operation == "answer":
        if (await graph.aget_state(CONFIG)).interrupts:
            await graph.ainvoke(Command(resume="me"), CONFIG)
    elif operation == "clear":
        await graph.aupdate_state(config, None, END)
    elif operation == "__copy__":
        await graph.aupdate_state(config, [], operation)
    else:
        await graph.aupdate_state(config, {"log": [operation]}, operation)


def fixed(state: Any) -> Any:
    """Return what never changes of a stored state."""
    return (state.config, state.parent_config, state.values, state.metadata, state.created_at, state.next)


@settings(max_examples=40, deadline=None)
@given(st.lists(OPERATIONS, max_size=8))
def test_old_states_stay_as_they_were(operations: list[tuple[str, int]]) -> None:
    async def scenario() -> None:
        graph = make()
        await graph.ainvoke({"log": ["in"]}, CONFIG)
        before: list[Any] = []
        for operation, place in operations:
            states = [state async for state in graph.aget_state_history(CONFIG)]
            assert [fixed(state) for state in states[len(states) - len(before) :]] == before
            before = [fixed(state) for state in states]
            await perform(graph, operation, states[place % len(states)].config)
            newest = await graph.aget_state(CONFIG)
            assert newest.config["configurable"]["checkpoint_id"] >= states[0].config["configurable"]["checkpoint_id"]
            assert len({question.id for question in newest.interrupts}) == len(newest.interrupts)

    asyncio.run(scenario())
