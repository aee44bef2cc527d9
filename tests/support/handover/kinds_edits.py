"""Threads whose state was edited, forked, copied or cleared."""

from __future__ import annotations

from typing import Any

from handover.kind import Bodies, Owner, answers, kind
from handover.kinds_pauses import asks
from handover.kinds_steps import chain, compiled, linked, says

KEPT_OPEN = (r"\['interrupts'\]", "LangGraph shows no question after an edit until it is asked again")


def edit(values: Any, as_node: str | None = None, **more: Any) -> Any:
    """Return a step that updates the state."""

    async def do(owner: Owner) -> None:
        await owner.graph.aupdate_state(owner.config, values, as_node, **more)

    return do


def run_from(*following: str) -> Any:
    """Return a step that runs on from the newest state after which the given nodes came."""

    async def do(owner: Owner) -> None:
        await owner.run(None, (await owner.past(*following)).config)

    return do


@kind(begin=[{"x": 1}, edit({"log": ["edit"], "x": 2})], finish=[None])
def edited(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies), interrupt_before=["b"])


@kind(begin=[{"x": 1}, edit({"log": ["edit"]}, "b")], finish=[None])
def edited_as_a_later_node(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies, "abcd"), interrupt_before=["b"])


@kind(begin=[edit({"log": ["edit"]})], finish=[None])
def made_by_an_edit(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies))


@kind(begin=[{"x": 1}, edit(None, "__end__")], finish=[{"x": 2}])
def cleared(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies), interrupt_before=["b"])


@kind(begin=[{"x": 1}, edit({"x": 5}, "__input__")], finish=[None, None])
def edited_as_input(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies), interrupt_before=["b"])


@kind(begin=[{"x": 1}, edit(None, "__copy__")], finish=[None])
def copied(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies), interrupt_before=["b"])


async def _bulk(owner: Owner) -> None:
    update = owner.lg.StateUpdate
    steps = [[update({"x": 1}, "__input__")], [update({"log": ["a"]}, "a")], [update({"log": ["b"]}, "b")]]
    await owner.graph.abulk_update_state(owner.config, steps)


@kind(begin=[_bulk], finish=[None])
def made_by_a_bulk_edit(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies))


async def _both(owner: Owner) -> None:
    update = owner.lg.StateUpdate
    await owner.graph.abulk_update_state(owner.config, [[update({"log": ["a"]}, "a"), update({"log": ["b"]}, "b")]])


@kind(begin=[{"x": 1}, _both], finish=[None])
def edited_as_two_nodes_at_once(lg: Any, bodies: Bodies) -> Any:
    nodes = {name: says(bodies, name) for name in "abc"}
    return compiled(linked(lg, nodes, "^a ^b abc"), interrupt_before=["a"])


@kind(begin=[{"x": 1}, run_from("b")], finish=[{"x": 2}])
def forked_by_running_on_from_the_past(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies))


async def _edit_the_past(owner: Owner) -> None:
    past = await owner.past("b")
    await owner.graph.aupdate_state(past.config, {"log": ["other"]})


@kind(begin=[{"x": 1}, _edit_the_past], finish=[None])
def forked_by_an_edit_of_the_past(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies))


@kind(begin=[{"x": 1}, answers("one"), run_from("q")], finish=[answers("two")])
def forked_to_ask_again(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a"), "q": asks(lg, bodies, "q"), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^a aq qz"))


@kind(begin=[{"x": 1}, answers("one")], finish=[run_from("q"), answers("two")])
def forked_by_the_other_owner(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a"), "q": asks(lg, bodies, "q"), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^a aq qz"))


@kind(begin=[{"x": 1}, edit({"log": ["edit"]}, "a")], finish=[None, answers("yes")], meant=[KEPT_OPEN])
def edited_while_a_question_is_open(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a"), "q": asks(lg, bodies, "q"), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^a aq qz"))


@kind(begin=[{"x": 1}, edit({"log": ["for q"]}, "q")], finish=[None])
def a_question_skipped_by_an_edit(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a"), "q": asks(lg, bodies, "q"), "z": says(bodies, "z")}
    return compiled(linked(lg, nodes, "^a aq qz"))
