"""Uses that a type checker must accept. Never run: `test_types.py` has mypy read it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from typing_extensions import TypedDict

from langgraph_async.config import RunnableConfig
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import END, START, StateGraph
from langgraph_async.graph.state import CompiledStateGraph
from langgraph_async.pregel import Pregel
from langgraph_async.runtime import Runtime
from langgraph_async.types import (
    CachePolicy,
    Command,
    Interrupt,
    Overwrite,
    RetryPolicy,
    Send,
    StreamWriter,
    TimeoutPolicy,
    interrupt,
)


@dataclass
class Context:
    user: str


def routes() -> list[Command[Literal["a", "b"]]]:
    return [Command(goto="a"), Command(goto=["a", "b"]), Command(goto=Send("b", 1), update={"x": Overwrite([])})]


def sends() -> list[Send]:
    return [Send("a", {"x": 1}), Send("a", None, timeout=2.5), Send("a", 1, timeout=timedelta(seconds=2))]


def policies() -> tuple[RetryPolicy, TimeoutPolicy, CachePolicy]:
    retry = RetryPolicy(max_attempts=5, retry_on=(ValueError, OSError))
    return retry, TimeoutPolicy(run_timeout=1, idle_timeout=timedelta(seconds=3)), CachePolicy(ttl=60)


def config() -> RunnableConfig:
    return {"configurable": {"thread_id": "1"}, "recursion_limit": 10, "max_concurrency": 4, "tags": ["x"]}


async def node(state: dict[str, Any], runtime: Runtime[Context], writer: StreamWriter) -> dict[str, str]:
    writer({"user": runtime.context.user})
    return {"user": runtime.context.user}


def question(asked: Interrupt[dict[str, str]]) -> str:
    return asked.value["question"]


class State(TypedDict):
    count: int


class Answer(TypedDict):
    text: str


async def step(state: State, runtime: Runtime[Context]) -> Command[Literal["ask", "__end__"]]:
    return Command(update={"count": state["count"] + len(runtime.context.user)}, goto="ask")


def ask(state: State, config: RunnableConfig) -> dict[str, Any]:
    return {"count": interrupt({"so far": state["count"]}, response_schema=int)}


def route(state: State) -> Literal["step"] | list[Send]:
    return "step" if state["count"] else [Send("ask", state)]


def drawn() -> StateGraph[State, Context, State, State]:
    graph: StateGraph[State, Context, State, State] = StateGraph(State, Context)
    retries = RetryPolicy(max_attempts=2)
    graph.add_node(step).add_node("ask", ask, retry_policy=[retries], timeout=timedelta(seconds=1), defer=True)
    graph.add_node("inner", inner()).add_edge(START, "step").add_edge(["step", "ask"], "inner").add_edge("inner", END)
    return graph.add_conditional_edges("ask", route, ["step", END])


def inner() -> CompiledStateGraph[State]:
    return StateGraph(State).add_node("step", lambda state: state).set_entry_point("step").compile(checkpointer=True)


def with_answer() -> CompiledStateGraph[State, Context, State, Answer]:
    return StateGraph(State, Context, input_schema=State, output_schema=Answer).compile(interrupt_before=["step"])


def as_engine(graph: CompiledStateGraph[State, Context]) -> Pregel[State, Context]:
    return graph.with_config({"tags": ["x"]}, run_name="y")


async def run(graph: CompiledStateGraph[State, Context]) -> int:
    found = await graph.ainvoke({"count": 1}, {"recursion_limit": 3}, context=Context("x"), durability="sync")
    await graph.ainvoke(Command(resume=found), stream_mode="updates", interrupt_after="*")
    async for part in graph.astream(None, stream_mode=["values", "custom"], subgraphs=True, version="v2"):
        print(part)
    state = await graph.aget_state({"configurable": {"thread_id": "1"}})
    output = await graph.ainvoke({"count": 1}, version="v2")
    return len(state.next) + output.value["count"] + len(output.interrupts)


async def run_with_answer() -> str:
    return (await with_answer().ainvoke({"count": 1}, version="v2")).value["text"]


@task
async def lengthen(text: str, *, by: int = 1) -> str:
    return text * by


@task(name="shorten")
def cut(text: str) -> str:
    return text[:1]


class Holder:
    @task
    async def method(self, number: int) -> list[int]:
        return [number]


async def calls() -> tuple[str, tuple[str, str], list[int]]:
    future: asyncio.Future[str] = lengthen("a", by=2)
    return await future, await asyncio.gather(lengthen("a"), cut("b")), await Holder().method(1)


@entrypoint()
async def workflow(number: int) -> entrypoint.final[int, str]:
    return entrypoint.final(value=number, save=str(number))
