"""Count the words of many texts at once, and keep the order in which they were handed out.

python examples/map_reduce.py
"""

from __future__ import annotations

import asyncio
import operator
from collections import Counter
from typing import Annotated, Any

from typing_extensions import TypedDict

from langgraph_async import END, START, Send, StateGraph

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "the dog sleeps",
    "a fox and a dog are no friends",
]


def add_counts(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return dict(Counter(left) + Counter(right))


class Corpus(TypedDict):
    texts: list[str]
    lengths: Annotated[list[int], operator.add]
    counts: Annotated[dict[str, int], add_counts]


def split(corpus: Corpus) -> list[Send]:
    return [Send("count", {"text": text, "place": place}) for place, text in enumerate(corpus["texts"])]


async def count(part: dict[str, Any]) -> dict[str, Any]:
    # The first text takes longest, and its result still comes first.
    await asyncio.sleep(0.03 / (1 + part["place"]))
    words = part["text"].split()
    return {"lengths": [len(words)], "counts": dict(Counter(words))}


def build_graph() -> Any:
    builder = StateGraph(Corpus)
    builder.add_node(count)
    builder.add_conditional_edges(START, split, ["count"])
    builder.add_edge("count", END)
    return builder.compile()


async def main() -> None:
    result = await build_graph().ainvoke({"texts": TEXTS})
    print("words per text:", result["lengths"])
    for word, times in Counter(result["counts"]).most_common(3):
        print(f"{word}: {times}")


if __name__ == "__main__":
    asyncio.run(main())
