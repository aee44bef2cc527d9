"""A payment above a limit waits for a person; the answer may correct the amount.

python examples/human_approval.py
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from typing_extensions import TypedDict

from langgraph_async import END, START, Command, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver

LIMIT = 100


class Payment(TypedDict, total=False):
    payee: str
    amount: int
    status: str


def check(payment: Payment) -> Command[Literal["pay", "review"]]:
    return Command(goto="review" if payment["amount"] > LIMIT else "pay")


def review(payment: Payment) -> Command[Literal["pay", "__end__"]]:
    answer = interrupt({"question": f"Pay {payment['amount']} to {payment['payee']}?"})
    if not answer["approved"]:
        return Command(update={"status": "refused"}, goto=END)
    return Command(update={"amount": answer.get("amount", payment["amount"])}, goto="pay")


async def pay(payment: Payment) -> dict[str, Any]:
    return {"status": f"paid {payment['amount']}"}


def build_graph() -> Any:
    builder = StateGraph(Payment)
    builder.add_node(check)
    builder.add_node(review)
    builder.add_node(pay)
    builder.add_edge(START, "check")
    builder.add_edge("pay", END)
    return builder.compile(checkpointer=InMemorySaver())


async def main() -> None:
    graph = build_graph()
    small = await graph.ainvoke({"payee": "Ann", "amount": 20}, {"configurable": {"thread_id": "small"}})
    print("Ann:", small["status"])

    large = {"configurable": {"thread_id": "large"}}
    paused = await graph.ainvoke({"payee": "Bob", "amount": 5000}, large)
    print("asked:", paused["__interrupt__"][0].value["question"])
    waiting = await graph.aget_state(large)
    print("waiting in:", *waiting.next)

    # Minutes or days later, in answer to the question:
    done = await graph.ainvoke(Command(resume={"approved": True, "amount": 500}), large)
    print("Bob:", done["status"])


if __name__ == "__main__":
    asyncio.run(main())
