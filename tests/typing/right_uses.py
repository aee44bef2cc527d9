"""Uses that a type checker must accept. Never run: `test_types.py` has mypy read it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from langgraph_async.config import RunnableConfig
from langgraph_async.func import entrypoint, task
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
