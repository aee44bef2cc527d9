"""Threads of plain graphs: stopped, failed, dead in the middle of a step, fanned out, in every durability mode."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from handover.kind import Bodies, kind, luck, runs

RETRIED = (r"^end.*\['history'\].*\['error'\]", "LangGraph leaves a first attempt's error beside a later success")


class S(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any


def says(bodies: Bodies, name: str, **more: Any) -> Any:
    """Return a node that logs its name."""

    async def node(state: Any) -> Any:
        bodies.enter(name)
        return {"log": [name], **more}

    node.__name__ = name
    return node


def waits(bodies: Bodies, name: str) -> Any:
    """Return a node that never ends while nodes are held up."""

    async def node(state: Any) -> Any:
        bodies.enter(name)
        await bodies.wait()
        return {"log": [name]}

    return node


def fails(bodies: Bodies, name: str) -> Any:
    """Return a node that fails until luck changes."""

    async def node(state: Any) -> Any:
        bodies.enter(name)
        bodies.try_luck()
        return {"log": [name]}

    return node


def linked(lg: Any, nodes: dict[str, Any], edges: str, **options: dict[str, Any]) -> Any:
    """Return a builder with nodes, and edges written like ``"^a ab abc"`` (^ start; three names and more: a join)."""
    builder = lg.StateGraph(S)
    for name, node in nodes.items():
        builder.add_node(name, node, **options.get(name, {}))
    for edge in edges.split():
        *starts, end = (lg.START if name == "^" else name for name in edge)
        builder.add_edge(starts if len(starts) > 1 else starts[0], end)
    return builder


def compiled(builder: Any, **options: Any) -> Any:
    return lambda saver: builder.compile(checkpointer=saver, **options)


def chain(lg: Any, bodies: Bodies, nodes: str = "abc") -> Any:
    edges = " ".join(f"{one}{two}" for one, two in zip("^" + nodes, nodes, strict=False))
    return linked(lg, {name: says(bodies, name) for name in nodes}, edges)


@kind(begin=[{"log": ["in"], "x": {"n": [1, None, 2.5]}}], finish=[None])
def stopped_before_a_node(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies), interrupt_before=["b"])


@kind(begin=[{"x": 1}], finish=[None, None])
def stopped_after_a_node(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies), interrupt_after=["a", "b"])


@kind(begin=[{"x": 1}], finish=[None, None])
def stopped_before_every_node(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies), interrupt_before="*")


@kind(begin=[{"x": 1}], finish=[{"x": "zwei"}, {}])
def finished(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies))


@kind(begin=[{"x": 1}], finish=[{"log": ["new"]}])
def stopped_then_given_new_input(lg: Any, bodies: Bodies) -> Any:
    return compiled(chain(lg, bodies), interrupt_before=["b"])


@kind(begin=[runs({"x": 0}, config={"recursion_limit": 3})], finish=[None])
def out_of_steps(lg: Any, bodies: Bodies) -> Any:
    builder = chain(lg, bodies, "ab")

    def again(state: S) -> str:
        return "a" if len(state["log"]) % 6 else lg.END

    builder.add_conditional_edges("b", again)
    return compiled(builder)


@kind(begin=[{"x": 1}], finish=[None])
def half_a_join(lg: Any, bodies: Bodies) -> Any:
    nodes = {name: says(bodies, name) for name in "abcdj"}
    return compiled(linked(lg, nodes, "^a ^b bc cd adj"), interrupt_before=["d"])


@kind(begin=[{"x": 1}], finish=[None, {"x": 2}, None])
def a_deferred_node(lg: Any, bodies: Bodies) -> Any:
    nodes = {name: says(bodies, name) for name in "abcz"}
    return compiled(linked(lg, nodes, "^a ^b bc az cz", z={"defer": True}), interrupt_before=["c"])


@kind(begin=[{"x": 1}], finish=[None])
def a_branch_taken(lg: Any, bodies: Bodies) -> Any:
    builder = chain(lg, bodies, "a")
    builder.add_node("b", says(bodies, "b"))
    builder.add_node("c", says(bodies, "c"))
    builder.add_conditional_edges("a", lambda state: ["b", "c"] if state["x"] else "b", ["b", "c"])
    return compiled(builder, interrupt_before=["c"])


@kind(begin=[{"x": 1}], finish=[None])
def sent_but_not_run(lg: Any, bodies: Bodies) -> Any:
    builder = chain(lg, bodies, "a")
    builder.add_node("work", _worker(bodies, "work"))
    builder.add_conditional_edges("a", lambda state: [lg.Send("work", {"i": i}) for i in range(3)], ["work"])
    return compiled(builder, interrupt_before=["work"])


def _worker(bodies: Bodies, name: str, unlucky: int = -1) -> Any:
    async def work(job: Any) -> Any:
        bodies.enter(f"{name} {job['i']}")
        if job["i"] == unlucky:
            bodies.try_luck()
        return {"log": [job["i"]]}

    return work


@kind(begin=[{"x": 1}], finish=[luck, None], meant=[RETRIED])
def a_fan_out_with_one_failure(lg: Any, bodies: Bodies) -> Any:
    builder = chain(lg, bodies, "a")
    builder.add_node("work", _worker(bodies, "work", unlucky=2))
    builder.add_node("z", says(bodies, "z"))
    builder.add_edge("work", "z")
    builder.add_conditional_edges("a", lambda state: [lg.Send("work", {"i": i}) for i in range(3)], ["work"])
    return compiled(builder)


@kind(begin=[lambda owner: owner.die({"x": 1}, ["log", "branch:to:z"])], finish=[None])
def dead_in_a_fan_out(lg: Any, bodies: Bodies) -> Any:
    async def work(job: Any) -> Any:
        bodies.enter(f"work {job['i']}")
        if job["i"]:
            await bodies.wait()
        return {"log": [job["i"]]}

    builder = linked(lg, {"work": work, "z": says(bodies, "z")}, "")
    builder.add_edge("work", "z")
    builder.add_conditional_edges(lg.START, lambda state: [lg.Send("work", {"i": i}) for i in range(2)], ["work"])
    return compiled(builder)


@kind(begin=[lambda owner: owner.die({"x": 1}, ["branch:to:c"])], finish=[None])
def dead_beside_a_finished_node(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a", x=5), "b": waits(bodies, "b"), "c": says(bodies, "c")}
    return compiled(linked(lg, nodes, "^a ^b ac bc"))


@kind(begin=[lambda owner: owner.die({"x": 1}, ["branch:to:c"])], finish=[{"x": 9}])
def dead_then_given_new_input(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a", x=5), "b": waits(bodies, "b"), "c": says(bodies, "c")}
    return compiled(linked(lg, nodes, "^a ^b ac bc"))


@kind(begin=[lambda owner: owner.die({"x": 1}, ["__no_writes__"])], finish=[None])
def dead_beside_a_node_that_said_nothing(lg: Any, bodies: Bodies) -> Any:
    async def silent(state: Any) -> None:
        bodies.enter("a")

    return compiled(linked(lg, {"a": silent, "b": waits(bodies, "b")}, "^a ^b"))


@kind(begin=[{"x": 1}], finish=[luck, None], meant=[RETRIED])
def failed(lg: Any, bodies: Bodies) -> Any:
    return compiled(linked(lg, {"a": says(bodies, "a"), "b": fails(bodies, "b")}, "^a ab"))


@kind(begin=[{"x": 1}], finish=[luck, None], meant=[RETRIED])
def failed_beside_a_finished_node(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a", x=5), "b": fails(bodies, "b"), "c": says(bodies, "c")}
    return compiled(linked(lg, nodes, "^a ^b ac bc"))


@kind(begin=[{"x": 1}, None], finish=[None, luck, None], meant=[RETRIED])
def failed_several_times(lg: Any, bodies: Bodies) -> Any:
    nodes = {"a": says(bodies, "a"), "b": fails(bodies, "b")}
    return compiled(linked(lg, nodes, "^a ^b"))


@kind(begin=[{"x": 1}], finish=[{"x": 2}, luck, {"x": 3}])
def failed_then_given_new_input(lg: Any, bodies: Bodies) -> Any:
    return compiled(linked(lg, {"a": says(bodies, "a"), "b": fails(bodies, "b")}, "^a ab"))


@kind(
    begin=[{"x": 1}],
    finish=[None],
    meant=[(r"\['history'\]\[\d\]\['(next|tasks)'\]", "LangGraph's history does not show the handler's task")],
)
def failed_and_handled(lg: Any, bodies: Bodies) -> Any:
    async def handler(state: Any, error: NodeError) -> Any:  # noqa: F821 - both libraries know it by its name
        bodies.enter("handler")
        return {"log": ["handled", error.node]}

    nodes = {"a": fails(bodies, "a"), "b": says(bodies, "b")}
    return compiled(linked(lg, nodes, "^a ab", a={"error_handler": handler}), interrupt_before=["b"])


@kind(begin=[{"x": 1}], finish=[luck, None], meant=[RETRIED])
def a_failed_input_step(lg: Any, bodies: Bodies) -> Any:
    return compiled(linked(lg, {"a": fails(bodies, "a")}, "^a"))


@kind(
    begin=[{"x": 1}],
    finish=[luck, None],
    meant=[("views", "LangGraph shows such a node as finished")],
    peer_cannot="It takes a node whose router failed for finished, and never routes.",
    gives={"x": 1, "log": ["a", "b", "c"]},
)
def failed_in_a_router(lg: Any, bodies: Bodies) -> Any:
    def route(state: Any) -> str:
        bodies.enter("route")
        bodies.try_luck()
        return "c"

    builder = linked(lg, {name: says(bodies, name) for name in "abc"}, "^a ab")
    builder.add_conditional_edges("a", route, ["c"])
    return compiled(builder)


@kind(begin=[{"x": 1}], finish=[None])
def gone_to_by_command(lg: Any, bodies: Bodies) -> Any:
    async def a(state: Any) -> Any:
        bodies.enter("a")
        return lg.Command(update={"log": ["a"], "x": 2}, goto=["b", lg.Send("c", {"x": 7})])

    nodes = {"a": a, "b": says(bodies, "b"), "c": says(bodies, "c")}
    return compiled(linked(lg, nodes, "^a"), interrupt_before=["b"])


@kind(
    begin=[{"x": 1}, lambda owner: owner.run(owner.lg.Command(update={"log": ["u"], "x": 8}, goto="d"))],
    finish=[None],
    meant=[(r"\['history'\]\[2\]\['(next|tasks)'\]", "LangGraph leaves out where the command led to")],
)
def commanded_while_stopped(lg: Any, bodies: Bodies) -> Any:
    builder = chain(lg, bodies)
    builder.add_node("d", says(bodies, "d"))
    return compiled(builder, interrupt_before=["b", "d"])


@kind(
    begin=[lambda owner: owner.cancel({"x": 1}, "b")],
    finish=[None],
    meant=[(r"\['error'\]", "LangGraph does not record that a node was cancelled")],
)
def cancelled(lg: Any, bodies: Bodies) -> Any:
    return compiled(linked(lg, {"a": says(bodies, "a"), "b": waits(bodies, "b")}, "^a ab"))


def _durability(mode: str) -> None:
    def build(lg: Any, bodies: Bodies) -> Any:
        nodes = {"a": says(bodies, "a"), "b": says(bodies, "b"), "c": fails(bodies, "c"), "d": says(bodies, "d")}
        return compiled(linked(lg, nodes, "^a ab bc bd"), interrupt_before=["b"])

    build.__name__ = f"stored_at_{mode}" if mode == "exit" else f"stored_{mode}"
    kind(begin=[runs({"x": 1}, durability=mode), runs(None, durability=mode)], finish=[luck, None], meant=[RETRIED])(
        build
    )


for _mode in ("sync", "async", "exit"):
    _durability(_mode)
