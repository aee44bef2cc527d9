"""What does a turn of a long conversation cost, in time and in stored bytes?"""

from __future__ import annotations

import itertools
import operator
import random
from functools import partial
from typing import Annotated, Any

from typing_extensions import TypedDict

from benchmarks.databases import KINDS, Kind, opened
from benchmarks.measure import Case, Library, Sampler, repeated, weighed
from benchmarks.report import main

WORDS = [chr(97 + place % 26) * (2 + place % 7) for place in range(200)]


def sentences(seed: int) -> str:
    """Return some 200 characters of text."""
    return " ".join(random.Random(seed).choices(WORDS, k=33))


def prepare(library: Library, kind: Kind, turns: int, messages: bool) -> Sampler:
    database = opened(library, kind)
    reducer = library.add_messages if messages else operator.add
    schema = TypedDict("State", {"messages": Annotated[list, reducer]})  # noqa: UP013 - a local name cannot be resolved later

    def said(role: str, number: int) -> Any:
        return (role, sentences(number)) if messages else {"role": role, "content": sentences(number)}

    async def answer(state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [said("ai", len(state["messages"]))]}

    builder = library.StateGraph(schema)
    builder.add_node("answer", answer)
    builder.add_edge(library.START, "answer")
    builder.add_edge("answer", library.END)
    graph = builder.compile(checkpointer=database.saver)
    threads = itertools.count()
    thread = ""

    async def chat() -> None:
        nonlocal thread
        thread = str(next(threads))
        config = {"configurable": {"thread_id": thread}}
        for turn in range(turns):
            result = await graph.ainvoke({"messages": [said("user", -turn)]}, config, durability="async")
        assert len(result["messages"]) == 2 * turns

    return weighed(repeated(chat, turns), lambda: database.stored_bytes(thread) / turns)


CASES = [
    Case(
        "chat",
        f"{turns} turns, {'messages' if messages else 'list'}, {kind}",
        "turn",
        partial(prepare, kind=kind, turns=turns, messages=messages),
        large=turns > 20,
    )
    for kind in KINDS
    for messages in (True, False)
    for turns in (20, 200)
]

if __name__ == "__main__":
    main(CASES)
