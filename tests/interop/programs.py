"""Programs over state graphs: edges, branches, joins, sends, commands. Each runs on either library."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from traces import Trace, watch
from typing_extensions import TypedDict


class S(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any


def says(name: str, **more: Any) -> Any:
    """Return a node that logs its name."""

    async def node(state: S) -> Any:
        return {"log": [name], **more}

    node.__name__ = name
    return node


def graph(lg: Any, nodes: str, edges: str, **node_options: Any) -> Any:
    """Return a builder with logging nodes, and edges written like ``"^a ab b$"`` (^ start, $ end)."""
    builder = lg.StateGraph(S)
    for name in nodes.split():
        builder.add_node(name, says(name), **node_options.get(name, {}))
    link(lg, builder, edges)
    return builder


def link(lg: Any, builder: Any, edges: str) -> None:
    """Add edges written like ``"^a ab abc"`` to a builder; three names and more are a join on all but the last."""
    ends = {"^": lg.START, "$": lg.END}
    for edge in edges.split():
        *starts, end = (ends.get(name, name) for name in (edge.split("-") if "-" in edge else edge))
        builder.add_edge(starts if len(starts) > 1 else starts[0], end)


def compiled(builder: Any, **options: Any) -> Any:
    return lambda saver: builder.compile(checkpointer=saver, **options)


async def p_chain(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(graph(lg, "a b c", "^a ab bc c$")), [{"log": ["in"], "x": 1}, {"x": 2}])


async def p_chain_without_saver(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(graph(lg, "a b", "^a ab b$")), [{"log": ["in"]}, {}], saver=False)


async def p_fan_out_and_in(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(graph(lg, "a c b d", "^a ac ab bd cd")), [{"x": 0}])


async def p_join(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(graph(lg, "a b c d", "^a ^b bc acd")), [{"x": 0}, {"x": 1}])


async def p_join_plus_edge(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(graph(lg, "a b c d", "^a ab ac bcd cd")), [{"x": 0}])


async def p_join_to_end(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(graph(lg, "a b", "^a ^b ab$")), [{"x": 0}])


async def p_deferred(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(graph(lg, "a b c d e", "^a ab ac bd de ce", e={"defer": True})), [{"x": 0}, {"x": 1}])


async def p_deferred_join(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c d e", "^a ab ac bd bce", e={"defer": True})
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_deferred_again(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b d", "^a ab bd ad", d={"defer": True})

    def again(state: S) -> str:
        return "a" if len(state["log"]) < 5 else lg.END

    builder.add_conditional_edges("d", again)
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_branch_unmapped(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c", "^a")
    builder.add_conditional_edges("a", lambda s: "b" if s["x"] else "c")
    await watch(t, lg, compiled(builder), [{"x": 0}, {"x": 1}])


async def p_branch_mapped(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c", "^a")
    builder.add_conditional_edges("a", lambda s: s["x"], {0: "b", 1: "c", 2: lg.END})
    await watch(t, lg, compiled(builder), [{"x": 0}, {"x": 1}, {"x": 2}, {"x": 3}])


async def p_branch_list_map(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c", "^a")

    async def route(state: S) -> Any:
        return ["b", "c"]

    builder.add_conditional_edges("a", route, ["b", "c"])
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_branch_from_start(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b", "a$ b$")
    builder.add_conditional_edges(lg.START, lambda s: ["a", "b"] if s.get("x") else "a")
    await watch(t, lg, compiled(builder), [{"x": 0}, {"x": 1}])


async def p_branch_bad_results(lg: Any, t: Trace) -> None:
    for bad in (None, lg.START, [None], lg.Send(lg.END, 1), [], ()):
        builder = graph(lg, "a b", "^a")
        builder.add_conditional_edges("a", lambda s, bad=bad: bad)
        t.case(bad)
        await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["ainvoke", "all"])


async def p_branch_to_end(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b", "^a")
    builder.add_conditional_edges("a", lambda s: [lg.END, "b"])
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_two_branches(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c d", "^a ad")

    def one(state: S) -> str:
        return "c"

    def two(state: S) -> Any:
        return [lg.Send("b", {"x": 1}), "c"]

    builder.add_conditional_edges("a", one)
    builder.add_conditional_edges("a", two)
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_branch_sees_fresh_state(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)
    builder.add_node("a", says("a", x=7))
    builder.add_node("b", says("b"))
    builder.add_edge(lg.START, "a")

    def route(state: S) -> str:
        t.add("route", dict(state))
        return "b"

    builder.add_conditional_edges("a", route)
    await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["ainvoke"])


async def p_branch_with_config(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b", "^a")

    def route(state: S, config: dict, runtime: Any, writer: Any) -> str:
        writer({"routing": sorted(k for k in config["metadata"])})
        return "b"

    route.__annotations__ = {}
    builder.add_conditional_edges("a", route)
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_map_reduce(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)

    async def work(state: Any) -> Any:
        return {"log": [state["i"]]}

    builder.add_node("plan", says("plan"))
    builder.add_node("work", work)
    builder.add_node("sum", says("sum"))
    builder.add_edge(lg.START, "plan")
    builder.add_conditional_edges("plan", lambda s: [lg.Send("work", {"i": i}) for i in range(4)], ["work"])
    builder.add_edge("work", "sum")
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_sends_from_start(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c", "ab")
    builder.add_conditional_edges(lg.START, lambda s: [lg.Send("a", {"x": 5}), lg.Send("a", "text"), "c"])
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_send_and_edge(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c", "^a ab ac")
    builder.add_conditional_edges("a", lambda s: [lg.Send("c", {"x": 1}), lg.Send("b", {"x": 2})])
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_bare_send_returned(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)
    builder.add_node("a", lambda s: lg.Send("b", {"x": 3}))
    builder.add_node("b", says("b"))
    builder.add_edge(lg.START, "a")
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_send_list_returned(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)
    builder.add_node("a", lambda s: [lg.Send("b", {"x": 3})])
    builder.add_node("b", says("b"))
    builder.add_edge(lg.START, "a")
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_sends_chain(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)

    async def a(state: Any) -> Any:
        n = state.get("x", 0)
        return lg.Command(
            update={"log": [f"a{n}"]}, goto=[lg.Send("a", {"x": n - 1}), lg.Send("b", {"x": n})] if n else []
        )

    builder.add_node("a", a)
    builder.add_node("b", says("b"))
    builder.add_edge(lg.START, "a")
    await watch(t, lg, compiled(builder), [{"x": 2}])


async def p_commands(lg: Any, t: Trace) -> None:
    returns = {
        "goto": lg.Command(goto="b"),
        "update": lg.Command(update={"log": ["u"], "x": 1}),
        "both": lg.Command(update={"log": ["u"]}, goto=["b", "c", "b"]),
        "end": lg.Command(update={"x": 3}, goto=lg.END),
        "pairs": lg.Command(update=[("log", ["p"]), ("log", ["q"]), ("x", 2)], goto="b"),
        "list": [lg.Command(update={"log": ["1"]}, goto="b"), {"log": ["2"]}, lg.Command(goto="c")],
        "tuple": (lg.Command(update={"log": ["1"]}), {"log": ["2"], "x": 5}),
        "send": lg.Command(goto=lg.Send("b", {"x": 9})),
        "sends": lg.Command(goto=[lg.Send("b", {"x": 9}), "c", lg.Send("b", {"x": 8})]),
        "empty": lg.Command(),
        "resume": lg.Command(resume="ignored", goto="b"),
        "other graph": lg.Command(graph="else", update={"x": 4}, goto="b"),
        "parent at root": lg.Command(graph=lg.Command.PARENT, update={"x": 4}),
    }
    for name, returned in returns.items():
        builder = lg.StateGraph(S)
        builder.add_node("a", lambda s, returned=returned: returned)
        builder.add_node("b", says("b"))
        builder.add_node("c", says("c"))
        builder.add_edge(lg.START, "a")
        t.case(name)
        await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["ainvoke", "all", "all v2"])


async def p_command_and_edge(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)
    builder.add_node("a", lambda s: lg.Command(update={"log": ["a"]}, goto="b"))
    builder.add_node("b", says("b"))
    builder.add_node("c", says("c"))
    link(lg, builder, "^a ab ac")
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_bad_returns(lg: Any, t: Trace) -> None:
    for returned in ("text", 3, [1], [{"log": ["a"]}], {}, None, ["a"], {"log": "xy"}):
        builder = lg.StateGraph(S)
        builder.add_node("a", lambda s, returned=returned: returned)
        builder.add_edge(lg.START, "a")
        t.case(returned)
        await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["ainvoke", "all"])


async def p_bad_inputs(lg: Any, t: Trace) -> None:
    for given in ("text", 3, [1], {}, None, {"nope": 1}, [("x", 1)], ("x", 1)):
        t.case(given)
        await watch(t, lg, compiled(graph(lg, "a", "^a")), [given, {"x": 1}], shapes=["ainvoke", "all"])


async def p_two_writers_of_one_key(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)
    builder.add_node("a", says("a", x=1))
    builder.add_node("b", says("b", x=2))
    link(lg, builder, "^a ^b")
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_overwrite(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)
    builder.add_node("a", lambda s: {"log": lg.Overwrite(["o"])})
    builder.add_node("b", lambda s: {"log": {"__overwrite__": ["p"]}})
    builder.add_node("c", says("c"))
    link(lg, builder, "^a ab bc")
    await watch(t, lg, compiled(builder), [{"log": ["in"]}])


async def p_failing_node(lg: Any, t: Trace) -> None:
    calls: list[int] = []

    async def bad(state: S) -> Any:
        calls.append(1)
        if len(calls) % 2:
            raise ValueError("bad luck")
        return {"log": ["bad"]}

    for others in ("^b", "^b ^a", "^b ^c"):
        builder = graph(lg, "a c d", "")
        builder.add_node("b", bad)
        link(lg, builder, f"{others} bd")
        t.case(others)
        calls.clear()
        await watch(t, lg, compiled(builder), [{"x": 0}, None, None, {"x": 1}])


async def p_new_input_after_failure(lg: Any, t: Trace) -> None:
    calls: list[int] = []

    async def bad(state: S) -> Any:
        calls.append(1)
        if len(calls) % 2:
            raise ValueError("bad luck")
        return {"log": ["bad"]}

    builder = graph(lg, "a c d", "")
    builder.add_node("b", bad)
    link(lg, builder, "^a ^b ac bd")
    await watch(t, lg, compiled(builder), [{"x": 0}, {"x": 1}, None])


async def p_recursion_limit(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b", "^a ab ba")
    await watch(t, lg, compiled(builder), [{"x": 0}], saver=False, shapes=["ainvoke"], config={"recursion_limit": 0})
    await watch(t, lg, compiled(builder), [{"x": 0}], saver=False, shapes=["ainvoke"], config={"recursion_limit": 5})


async def p_sequence(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S).add_sequence([says("a"), ("z", says("b")), says("c")]).set_entry_point("a")
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_sync_nodes(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)
    builder.add_node("a", lambda s: {"log": ["a"], "x": s["x"] + 1})
    builder.add_node("b", lambda s: {"log": [s["x"]]})
    link(lg, builder, "^a ab")
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_output_keys(lg: Any, t: Trace) -> None:
    for keys in ("x", ["x"], ["log", "x"], [], "nope"):
        t.case(keys)
        await watch(t, lg, compiled(graph(lg, "a b", "^a ab")), [{"x": 0}], output_keys=keys)


async def p_stream_mode_forms(lg: Any, t: Trace) -> None:
    for mode in (("updates", "values"), [], ["values"], "nope", ["nope", "updates"], ["updates", "updates"]):
        t.case(mode)
        shapes = ["ainvoke", "default", "ainvoke v2"]
        await watch(t, lg, compiled(graph(lg, "a b", "^a ab")), [{"x": 0}], stream_mode=mode, shapes=shapes)


async def p_durability(lg: Any, t: Trace) -> None:
    for mode in ("sync", "async", "exit"):
        t.case(mode)
        await watch(t, lg, compiled(graph(lg, "a b", "^a ab")), [{"x": 0}, {"x": 1}], durability=mode)


async def p_command_input(lg: Any, t: Trace) -> None:
    for given in (
        lg.Command(goto="c"),
        lg.Command(update={"x": 9, "log": ["u"]}),
        lg.Command(update={"x": 9}, goto="b"),
        lg.Command(goto=[lg.Send("b", {"x": 4}), "c"]),
        lg.Command(goto=lg.END),
        lg.Command(graph=lg.Command.PARENT, goto="b"),
        lg.Command(goto=3),
    ):
        t.case(given)
        await watch(t, lg, compiled(graph(lg, "a b c", "^a ab")), [{"x": 0}, given], shapes=["ainvoke", "all"])


async def p_generic_stream_writer(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)

    async def a(state: S, writer: Any) -> Any:
        writer(1)
        writer({"k": [2]})
        return {"log": ["a"]}

    async def b(state: S) -> Any:
        lg.get_stream_writer()("b")
        writer = lg.get_runtime().stream_writer
        writer("b2")
        return {"log": ["b"]}

    a.__annotations__ = {}
    builder.add_node("a", a)
    builder.add_node("b", b)
    link(lg, builder, "^a ab")
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_run_id_resumes(lg: Any, t: Trace) -> None:
    from traces import Turn

    conf = {"configurable": {"thread_id": "t"}, "metadata": {"run_id": "r1", "k": "v"}}
    await watch(t, lg, compiled(graph(lg, "a b", "^a ab")), [Turn({"x": 0}, conf), Turn({"x": 1}, conf)])
