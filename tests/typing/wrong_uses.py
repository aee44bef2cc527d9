"""Uses that a type checker must refuse, on the lines marked. Never run: `test_types.py` has mypy read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from typing_extensions import TypedDict

from langgraph_async.config import RunnableConfig
from langgraph_async.func import task
from langgraph_async.graph import StateGraph
from langgraph_async.graph.state import CompiledStateGraph
from langgraph_async.runtime import Runtime
from langgraph_async.types import CachePolicy, Command, Interrupt, RetryPolicy, Send, TimeoutPolicy, interrupt


@dataclass
class Context:
    user: str


Send(1, {})  # error: [arg-type]
Send("a")  # error: [call-arg]
Send("a", 1, timeout="2s")  # error: [arg-type]
Command("a")  # error: [call-arg]
Command(go_to="a")  # error: [call-arg]
RetryPolicy(max_attempts="3")  # error: [arg-type]
RetryPolicy(retry_on=ValueError("x"))  # error: [arg-type]
TimeoutPolicy(run_timeout="1")  # error: [arg-type]
TimeoutPolicy(refresh_on="never")  # error: [arg-type]
CachePolicy(ttl="60")  # error: [arg-type]

misspelt: RunnableConfig = {"configurabel": {}}  # error: [typeddict-unknown-key]
not_a_number: RunnableConfig = {"recursion_limit": "10"}  # error: [typeddict-item]


def elsewhere() -> Command[Literal["a", "b"]]:
    return Command(goto="c")  # error: [arg-type]


def no_such_field(runtime: Runtime[Context]) -> object:
    return runtime.context.name  # error: [attr-defined]


def frozen(send: Send) -> None:
    send.node = "b"  # error: [misc]


def wrong_answer(asked: Interrupt[int]) -> str:
    return asked.value  # error: [return-value]


class State(TypedDict):
    count: int


class Other(TypedDict):
    text: str


def wants_other(graph: CompiledStateGraph[Other]) -> None: ...


interrupt()  # error: [call-arg]
interrupt("a", schema=int)  # error: [call-arg]

StateGraph()  # error: [call-arg]
StateGraph({"count": int})  # error: [arg-type]
StateGraph(State, Context("x"))  # error: [arg-type]
StateGraph(State).add_node("a", run_sync="process")  # error: [arg-type]
StateGraph(State).add_node("a", retry_policy=3)  # error: [arg-type]
StateGraph(State).add_node("a", timeout="1s")  # error: [arg-type]
StateGraph(State).add_node(1)  # error: [arg-type]
StateGraph(State).add_node("a", 1)  # error: [arg-type]
StateGraph(State).add_edge("a")  # error: [call-arg]
StateGraph(State).compile(checkpointer="memory")  # error: [arg-type]
StateGraph(State).compile(saver=None)  # error: [call-arg]
wants_other(StateGraph(State).compile())  # error: [arg-type]
other_state: StateGraph[Other] = StateGraph(State)  # error: [arg-type]


async def wrong_runs(graph: CompiledStateGraph[State]) -> None:
    await graph.ainvoke()  # error: [call-overload]
    await graph.ainvoke({}, durability="never")  # error: [call-overload]
    await graph.ainvoke({}, stream_mode="value")  # error: [arg-type]
    await graph.ainvoke({}, version="v3")  # error: [call-overload]
    await graph.ainvoke({}, {"recursion_limits": 3})  # error: [call-overload]
    print((await graph.ainvoke({}, version="v2")).values)  # error: [attr-defined]
    await graph.astream({})  # error: [misc]
    graph.astream({}, subgraph=True)  # error: [call-arg]


@task
async def lengthen(text: str, *, by: int = 1) -> str:
    return text * by


lengthen(1)  # error: [arg-type]
lengthen("a", to=2)  # error: [call-arg]


async def not_awaited() -> str:
    return lengthen("a")  # error: [return-value]


async def wrong_result() -> int:
    return await lengthen("a")  # error: [return-value]
