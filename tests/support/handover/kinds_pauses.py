"""Threads that wait for answers."""

from __future__ import annotations

from typing import Any

from handover.kind import Bodies, answers, answers_by_id, kind, luck, runs
from handover.kinds_steps import RETRIED, compiled, linked, says

LEFT_ALONE = ("^ran", "LangGraph runs nodes again whose questions are not answered")
ANSWERED = (r"\['interrupts'\]", "LangGraph shows a question as open that was answered, when its node fails then")


def asks(lg: Any, bodies: Bodies, name: str, count: int = 1) -> Any:
    """Return a node that asks, one question after another."""

    async def node(state: Any) -> Any:
        bodies.enter(name)
        return {"log": [[name, *(lg.interrupt(f"{name}{i}") for i in range(count))]]}

    return node


@kind(begin=[{"x": 1}], finish=[answers({"yes": [1]})])
def one_question(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a"), "q": asks(lg, bodies, "q"), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^a aq qz"))


@kind(begin=[{"x": 1}], finish=[answers("one", "two", "three")])
def three_questions_in_a_node(lg: Any, bodies: Bodies) -> Any:
    return compiled(linked(lg, {"q": asks(lg, bodies, "q", 3)}, "^q"))


@kind(begin=[{"x": 1}, answers("one", "two")], finish=[answers("three")])
def two_of_three_questions_answered(lg: Any, bodies: Bodies) -> Any:
    return compiled(linked(lg, {"q": asks(lg, bodies, "q", 3)}, "^q"))


@kind(begin=[{"x": 1}], finish=[answers_by_id(q0="p!", q1="q!")])
def parallel_questions(lg: Any, bodies: Bodies) -> Any:
    nodes = {"p": asks(lg, bodies, "p"), "q": asks(lg, bodies, "q"), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^p ^q pqz"))


@kind(begin=[{"x": 1}, answers_by_id(q0="p!", q2="r!")], finish=[answers("q!")], meant=[LEFT_ALONE])
def parallel_questions_partly_answered(lg: Any, bodies: Bodies) -> Any:
    nodes = {name: asks(lg, bodies, name) for name in "pqr"} | {"z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^p ^q ^r pqrz"))


@kind(begin=[{"x": 1}, answers_by_id(q0="first")], finish=[answers_by_id(q0="second", q1="q!")], meant=[LEFT_ALONE])
def a_second_question_beside_an_open_one(lg: Any, bodies: Bodies) -> Any:
    nodes = {"p": asks(lg, bodies, "p", 2), "q": asks(lg, bodies, "q")}
    return compiled(linked(lg, nodes, "^p ^q"))


@kind(begin=[{"x": 1}], finish=[answers_by_id(q0=10, q1=11, q2=12)])
def questions_in_a_fan_out(lg: Any, bodies: Bodies) -> Any:
    async def work(job: Any) -> Any:
        bodies.enter(f"work {job['i']}")
        return {"log": [[job["i"], lg.interrupt(job["i"])]]}

    builder = linked(lg, {"work": work, "z": says(bodies, "z")}, "")
    builder.add_edge("work", "z")
    builder.add_conditional_edges(lg.START, lambda state: [lg.Send("work", {"i": i}) for i in range(3)], ["work"])
    return compiled(builder)


@kind(begin=[{"x": 1}, answers_by_id(q1="b!")], finish=[answers_by_id(q0="a!", q1="c!")], meant=[LEFT_ALONE])
def a_fan_out_partly_answered(lg: Any, bodies: Bodies) -> Any:
    async def work(job: Any) -> Any:
        bodies.enter(f"work {job['i']}")
        return {"log": [[job["i"], lg.interrupt(job["i"])]]}

    builder = linked(lg, {"work": work}, "")
    builder.add_conditional_edges(lg.START, lambda state: [lg.Send("work", {"i": i}) for i in range(3)], ["work"])
    return compiled(builder)


@kind(begin=[{"x": 1}], finish=[answers("yes")])
def a_question_beside_a_finished_node(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a", x=3), "q": asks(lg, bodies, "q"), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^a ^q aqz"))


@kind(begin=[{"x": 1}], finish=[luck, answers("yes"), None], meant=[RETRIED])
def a_question_beside_a_failure(lg: Any, bodies: Bodies) -> Any:
    async def bad(state: Any) -> Any:
        bodies.enter("bad")
        bodies.try_luck()
        return {"log": ["bad"]}

    return compiled(linked(lg, {"q": asks(lg, bodies, "q"), "bad": bad}, "^q").add_edge(lg.START, "bad"))


@kind(begin=[{"x": 1}, answers("yes")], finish=[luck, None], meant=[RETRIED, ANSWERED])
def answered_then_failed(lg: Any, bodies: Bodies) -> Any:
    async def q(state: Any) -> Any:
        bodies.enter("q")
        answer = lg.interrupt("sure?")
        bodies.try_luck()
        return {"log": [answer]}

    return compiled(linked(lg, {"q": q, "z": says(bodies, "z")}, "^q qz"))


@kind(
    begin=[{"log": ["in"]}, luck, lambda owner: owner.die(owner.lg.Command(resume="yes"), ["x"])],
    finish=[None],
    meant=[RETRIED],
)
def answered_then_dead(lg: Any, bodies: Bodies) -> Any:
    async def q(state: Any) -> Any:
        bodies.enter("q")
        return {"x": lg.interrupt("sure?")}

    async def p(state: Any) -> Any:
        bodies.enter("p")
        bodies.try_luck()
        await bodies.wait()
        return {"log": ["p"]}

    return compiled(linked(lg, {"q": q, "p": p}, "^q ^p"))


@kind(begin=[{"x": 1}, luck, None], finish=[answers("yes")], meant=[(r"\['error'\]", RETRIED[1])])
def failed_then_finished_beside_a_question(lg: Any, bodies: Bodies) -> Any:
    async def routed(state: Any) -> Any:
        bodies.enter("routed")
        bodies.try_luck()
        return {"log": ["routed"]}

    nodes = {"routed": routed, "q": asks(lg, bodies, "q"), "w": says(bodies, "w"), "z": says(bodies, "z")}
    builder = linked(lg, nodes, "^q").add_edge(lg.START, "routed").add_edge("routed", "z")
    builder.add_conditional_edges("routed", lambda state: [lg.Send("w", {"i": 1})], ["w"])
    return compiled(builder)


@kind(begin=[{"x": 1}, answers("yes")], finish=[answers("no")])
def asked_again_by_a_loop(lg: Any, bodies: Bodies) -> Any:
    builder = linked(lg, {"q": asks(lg, bodies, "q"), "a": says(bodies, "a")}, "^q qa")
    builder.add_conditional_edges("a", lambda state: "q" if len(state["log"]) < 4 else lg.END)
    return compiled(builder)


@kind(begin=[{"x": 1}], finish=[{"x": "else"}, answers("yes")])
def a_question_dropped_for_new_input(lg: Any, bodies: Bodies) -> Any:
    return compiled(linked(lg, {"q": asks(lg, bodies, "q")}, "^q"))


@kind(begin=[{"x": 1}], finish=[lambda owner: owner.run(owner.lg.Command(resume="r", update={"x": "u"}))])
def answered_with_an_update(lg: Any, bodies: Bodies) -> Any:
    nodes = {"q": asks(lg, bodies, "q"), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^q qz"))


@kind(begin=[runs({"x": 1}, durability="exit")], finish=[answers("yes", "sure", durability="exit")])
def questions_stored_at_exit(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a"), "q": asks(lg, bodies, "q", 2), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^a aq qz"))


@kind(begin=[{"x": 1}], finish=[answers(5)])
def a_question_with_a_schema(lg: Any, bodies: Bodies) -> Any:
    async def q(state: Any) -> Any:
        bodies.enter("q")
        return {"log": [lg.interrupt("how many?", response_schema=int)]}

    return compiled(linked(lg, {"q": q}, "^q"))


@kind(begin=[{"x": 1}], finish=[answers("yes"), None])
def a_question_and_a_breakpoint(lg: Any, bodies: Bodies) -> Any:
    nodes = {"q": asks(lg, bodies, "q"), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^q qz"), interrupt_before=["z"])
