"""Threads of graphs in graphs."""

from __future__ import annotations

from typing import Any

from handover.kind import Bodies, answers, answers_by_id, kind, luck
from handover.kinds_pauses import LEFT_ALONE, asks
from handover.kinds_steps import RETRIED, chain, compiled, fails, linked, says


@kind(begin=[{"x": 1}], finish=[answers("yes")])
def a_question_in_a_subgraph(lg: Any, bodies: Bodies) -> Any:
    inner = {"i": says(bodies, "i"), "q": asks(lg, bodies, "q"), "j": says(bodies, "j")}
    nodes = {"a": says(bodies, "a"), "s": linked(lg, inner, "^i iq qj").compile(), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^a as sz"))


@kind(begin=[{"x": 1}], finish=[answers("yes", "sure")])
def questions_two_levels_down(lg: Any, bodies: Bodies) -> Any:
    deep = linked(lg, {"k": says(bodies, "k"), "q": asks(lg, bodies, "q", 2)}, "^k kq").compile()
    middle = linked(lg, {"m": says(bodies, "m"), "d": deep, "n": says(bodies, "n")}, "^m md dn").compile()
    return compiled(linked(lg, {"a": says(bodies, "a"), "s": middle, "z": says(bodies, "z")}, "^a as sz"))


@kind(begin=[{"log": []}, answers_by_id(q0="p!")], finish=[answers("q!")], meant=[LEFT_ALONE])
def two_subgraphs_partly_answered(lg: Any, bodies: Bodies) -> Any:
    nodes = {name: linked(lg, {"n": asks(lg, bodies, name)}, "^n").compile() for name in "pq"}
    return compiled(linked(lg, nodes | {"z": says(bodies, "z")}, "^p ^q pqz"))


@kind(begin=[{"x": 1}], finish=[answers("yes"), {"x": 2}, answers("again")])
def a_subgraph_with_memory(lg: Any, bodies: Bodies) -> Any:
    inner = linked(lg, {"i": says(bodies, "i"), "q": asks(lg, bodies, "q")}, "^i iq").compile(checkpointer=True)
    return compiled(linked(lg, {"a": says(bodies, "a"), "s": inner, "z": says(bodies, "z")}, "^a as sz"))


@kind(begin=[{"x": 1}, {"x": 2}], finish=[{"x": 3}])
def a_subgraph_with_memory_between_turns(lg: Any, bodies: Bodies) -> Any:
    inner = chain(lg, bodies, "ij").compile(checkpointer=True)
    return compiled(linked(lg, {"s": inner, "z": says(bodies, "z")}, "^s sz"))


@kind(begin=[{"x": 1}], finish=[None])
def a_breakpoint_in_a_subgraph(lg: Any, bodies: Bodies) -> Any:
    inner = chain(lg, bodies, "ijk").compile(interrupt_before=["j"])
    return compiled(linked(lg, {"s": inner, "z": says(bodies, "z")}, "^s sz"))


@kind(begin=[{"x": 1}], finish=[luck, None], meant=[RETRIED])
def a_failure_in_a_subgraph(lg: Any, bodies: Bodies) -> Any:
    inner = linked(lg, {"i": says(bodies, "i"), "b": fails(bodies, "b")}, "^i ib").compile()
    return compiled(linked(lg, {"s": inner, "z": says(bodies, "z")}, "^s sz"))


@kind(begin=[lambda owner: owner.die({"x": 1}, ["branch:to:k", "branch:to:i"])], finish=[None])
def dead_in_a_subgraph(lg: Any, bodies: Bodies) -> Any:
    async def j(state: Any) -> Any:
        bodies.enter("j")
        await bodies.wait()
        return {"log": ["j"]}

    nodes = {"h": says(bodies, "h"), "i": says(bodies, "i"), "j": j, "k": says(bodies, "k")}
    inner = linked(lg, nodes, "^h hi hj ik jk").compile()
    return compiled(linked(lg, {"s": inner, "z": says(bodies, "z")}, "^s sz"))


@kind(begin=[{"x": 1}], finish=[answers("one", "two")])
def subgraphs_called_in_a_node(lg: Any, bodies: Bodies) -> Any:
    inner = linked(lg, {"i": says(bodies, "i"), "q": asks(lg, bodies, "q")}, "^i iq").compile()

    async def calls(state: Any) -> Any:
        bodies.enter("calls")
        first = await inner.ainvoke({"x": "first"})
        second = await inner.ainvoke({"x": "second"})
        return {"log": [first["log"], second["log"]]}

    return compiled(linked(lg, {"c": calls, "z": says(bodies, "z")}, "^c cz"))


@kind(begin=[{"x": 1}], finish=[answers_by_id(q0="one", q1="two")])
def subgraphs_that_are_sent_to(lg: Any, bodies: Bodies) -> Any:
    inner = linked(lg, {"i": says(bodies, "i"), "q": asks(lg, bodies, "q")}, "^i iq").compile()
    builder = linked(lg, {"s": inner, "z": says(bodies, "z")}, "sz")
    builder.add_conditional_edges(lg.START, lambda state: [lg.Send("s", {"log": [i]}) for i in range(2)], ["s"])
    return compiled(builder)


@kind(begin=[{"x": 1}], finish=[answers("yes"), None])
def a_command_to_the_parent(lg: Any, bodies: Bodies) -> Any:
    async def up(state: Any) -> Any:
        bodies.enter("up")
        return lg.Command(graph=lg.Command.PARENT, update={"log": ["up"]}, goto="z")

    inner = linked(lg, {"q": asks(lg, bodies, "q"), "u": up}, "^q qu").compile()
    nodes = {"s": inner, "y": says(bodies, "y"), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^s"), interrupt_before=["z"])


async def _edit_inside(owner: Any) -> None:
    state = await owner.graph.aget_state(owner.config, subgraphs=True)
    await owner.graph.aupdate_state(state.tasks[0].state.config, {"log": ["edited"]})


@kind(begin=[{"x": 1}, _edit_inside], finish=[None])
def a_subgraph_edited_at_a_breakpoint(lg: Any, bodies: Bodies) -> Any:
    inner = chain(lg, bodies, "ijk").compile(interrupt_before=["j"])
    return compiled(linked(lg, {"s": inner, "z": says(bodies, "z")}, "^s sz"))
