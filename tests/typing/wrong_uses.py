"""Uses that a type checker must refuse, on the lines marked. Never run: `test_types.py` has mypy read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from langgraph_async.config import RunnableConfig
from langgraph_async.func import task
from langgraph_async.runtime import Runtime
from langgraph_async.types import CachePolicy, Command, Interrupt, RetryPolicy, Send, TimeoutPolicy


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


@task
async def lengthen(text: str, *, by: int = 1) -> str:
    return text * by


lengthen(1)  # error: [arg-type]
lengthen("a", to=2)  # error: [call-arg]


async def not_awaited() -> str:
    return lengthen("a")  # error: [return-value]


async def wrong_result() -> int:
    return await lengthen("a")  # error: [return-value]
