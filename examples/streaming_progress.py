"""Watch two nodes work side by side: their own progress (custom), what each changed (updates), the state (values).

python examples/streaming_progress.py
"""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from langgraph_async import END, START, StateGraph
from langgraph_async.types import StreamWriter


class Kitchen(TypedDict):
    served: Annotated[list[str], operator.add]


async def cook(dish: str, steps: list[str], writer: StreamWriter) -> dict[str, Any]:
    for number, step in enumerate(steps, 1):
        await asyncio.sleep(0.02)
        writer({"dish": dish, "step": step, "done": number / len(steps)})
    return {"served": [dish]}


async def soup(state: Kitchen, writer: StreamWriter) -> dict[str, Any]:
    return await cook("soup", ["chop", "simmer", "season"], writer)


async def bread(state: Kitchen, writer: StreamWriter) -> dict[str, Any]:
    return await cook("bread", ["knead", "bake"], writer)


def build_graph() -> Any:
    builder = StateGraph(Kitchen)
    builder.add_node(soup)
    builder.add_node(bread)
    builder.add_edge(START, "soup")
    builder.add_edge(START, "bread")
    builder.add_edge(["soup", "bread"], END)
    return builder.compile()


async def main() -> None:
    async for mode, chunk in build_graph().astream({"served": []}, stream_mode=["custom", "updates", "values"]):
        if mode == "custom":
            print(f"{chunk['dish']}: {chunk['step']} ({chunk['done']:.0%})")
        else:
            print(f"{mode}: {chunk}")


if __name__ == "__main__":
    asyncio.run(main())
