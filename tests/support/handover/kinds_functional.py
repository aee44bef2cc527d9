"""Threads of workflows that are written as functions."""

from __future__ import annotations

from typing import Any

from handover.kind import Bodies, answers, kind, luck
from handover.kinds_steps import RETRIED, S


@kind(begin=[3], finish=[answers("yes")])
def a_workflow_that_asks(lg: Any, bodies: Bodies) -> Any:
    @lg.task
    async def double(n: int) -> int:
        bodies.enter(f"double {n}")
        return n * 2

    def build(saver: Any) -> Any:
        @lg.entrypoint(checkpointer=saver)
        async def flow(n: int) -> Any:
            bodies.enter("flow")
            numbers = [await double(n), await double(n + 1)]
            return [*numbers, lg.interrupt("sure?"), await double(n + 2)]

        return flow

    return build


@kind(begin=[3, answers("yes")], finish=[answers("no")])
def a_workflow_whose_task_asks(lg: Any, bodies: Bodies) -> Any:
    @lg.task
    async def ask(what: str) -> Any:
        bodies.enter(f"ask {what}")
        return lg.interrupt(what)

    def build(saver: Any) -> Any:
        @lg.entrypoint(checkpointer=saver)
        async def flow(n: int) -> Any:
            bodies.enter("flow")
            return [await ask("first"), await ask("second")]

        return flow

    return build


@kind(begin=["a"], finish=["b", "c"])
def a_workflow_that_remembers(lg: Any, bodies: Bodies) -> Any:
    def build(saver: Any) -> Any:
        @lg.entrypoint(checkpointer=saver)
        async def flow(text: str, *, previous: Any = None) -> Any:
            bodies.enter("flow")
            return lg.entrypoint.final(value=[text, previous], save={"last": text, "before": previous})

        return flow

    return build


@kind(begin=[1], finish=[luck, None], meant=[RETRIED])
def a_workflow_that_failed(lg: Any, bodies: Bodies) -> Any:
    @lg.task
    async def good(n: int) -> int:
        bodies.enter("good")
        return n + 1

    @lg.task
    async def bad(n: int) -> int:
        bodies.enter("bad")
        bodies.try_luck()
        return n + 1

    def build(saver: Any) -> Any:
        @lg.entrypoint(checkpointer=saver)
        async def flow(n: int) -> int:
            bodies.enter("flow")
            return await bad(await good(n))

        return flow

    return build


@kind(begin=[lambda owner: owner.die(1, ["__return__"])], finish=[None])
def a_workflow_that_died(lg: Any, bodies: Bodies) -> Any:
    @lg.task
    async def good(n: int) -> int:
        bodies.enter("good")
        return n + 1

    @lg.task
    async def slow(n: int) -> int:
        bodies.enter("slow")
        await bodies.wait()
        return n * 10

    def build(saver: Any) -> Any:
        @lg.entrypoint(checkpointer=saver)
        async def flow(n: int) -> int:
            bodies.enter("flow")
            return await slow(await good(n))

        return flow

    return build


@kind(begin=[2], finish=[answers("yes")])
def tasks_called_in_tasks(lg: Any, bodies: Bodies) -> Any:
    @lg.task
    async def inner(n: int) -> int:
        bodies.enter(f"inner {n}")
        return n + 1

    @lg.task
    async def outer(n: int) -> list[int]:
        bodies.enter(f"outer {n}")
        return [await inner(n), await inner(n * 10)]

    def build(saver: Any) -> Any:
        @lg.entrypoint(checkpointer=saver)
        async def flow(n: int) -> Any:
            bodies.enter("flow")
            found = await outer(n)
            return [found, lg.interrupt("ok?")]

        return flow

    return build


@kind(begin=[{"x": 1}], finish=[answers("yes")])
def tasks_called_in_a_node(lg: Any, bodies: Bodies) -> Any:
    @lg.task
    async def double(n: int) -> int:
        bodies.enter(f"double {n}")
        return n * 2

    async def node(state: Any) -> Any:
        bodies.enter("node")
        return {"x": [await double(4), lg.interrupt("ok?"), await double(5)]}

    def build(saver: Any) -> Any:
        builder = lg.StateGraph(S).add_node("node", node).add_edge(lg.START, "node")
        return builder.compile(checkpointer=saver)

    return build
