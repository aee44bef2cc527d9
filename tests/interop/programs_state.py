"""Programs over schemas: private keys, input and output schemas, root states, dataclasses, models, managed values."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Required

from programs import S, compiled, link, says
from pydantic import BaseModel
from traces import Trace, watch
from typing_extensions import TypedDict


class In(TypedDict):
    x: int


class Out(TypedDict):
    y: int


class Both(TypedDict):
    x: int
    y: int
    log: Annotated[list[str], operator.add]


class Private(TypedDict):
    secret: str


@dataclass
class D:
    x: int = 0
    log: Annotated[list[str], operator.add] = field(default_factory=list)


class M(BaseModel):
    x: int
    note: str | None = None
    log: Annotated[list[str], operator.add] = []


async def p_input_and_output_schema(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(Both, input_schema=In, output_schema=Out)
    builder.add_node("a", lambda s: t.add("a sees", sorted(s.items())) or {"y": s["x"] + 1, "log": ["a"]})
    builder.add_edge(lg.START, "a")
    await watch(t, lg, compiled(builder), [{"x": 1, "y": 5, "log": ["no"]}, {"x": 2}])


async def p_private_schema(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(Both)

    def a(state: Both) -> Any:
        return {"secret": "s", "y": 1}

    def b(state: Private) -> Any:
        t.add("b sees", state)
        return {"log": [state["secret"]]}

    b.__annotations__ = {"state": Private}
    builder.add_node("a", a)
    builder.add_node("b", b)
    link(lg, builder, "^a ab")
    await watch(t, lg, compiled(builder), [{"x": 1}])


async def p_explicit_node_input_schema(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(Both)
    builder.add_node("a", lambda s: t.add("a sees", s) or {"y": 1}, input_schema=In)
    builder.add_node("m", lambda s: t.add("m sees", s) or {"y": 2}, input_schema=M)
    link(lg, builder, "^a am")
    await watch(t, lg, compiled(builder), [{"x": 1}], shapes=["ainvoke", "all"])


async def p_root_list(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(Annotated[list, operator.add])
    builder.add_node("a", lambda s: t.add("a sees", s) or ["a"])
    builder.add_node("b", lambda s: None)
    builder.add_node("c", lambda s: lg.Command(update=["c"], goto="d"))
    builder.add_node("d", lambda s: [])
    link(lg, builder, "^a ab bc")
    await watch(t, lg, compiled(builder), [["in"], ["more"]])


async def p_root_text(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(str)
    builder.add_node("a", lambda s: s + "a")
    builder.add_node("b", lambda s: s + "b")
    link(lg, builder, "^a ab")
    await watch(t, lg, compiled(builder), ["in", "", "again"])


async def p_root_branch(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(Annotated[list, operator.add])

    async def a(state: Any) -> Any:
        return ["a"]

    async def b(state: Any) -> Any:
        return ["b" + str(state)]

    builder.add_node("a", a)
    builder.add_node("b", b)
    builder.add_edge(lg.START, "a")
    builder.add_conditional_edges("a", lambda s: [lg.Send("b", 1), "b"] if len(s) < 3 else lg.END)
    await watch(t, lg, compiled(builder), [["in"], []])


async def p_root_commands_in_list(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(Annotated[list, operator.add])
    builder.add_node("a", lambda s: [lg.Command(update=["1"], goto="b"), ["2"]])
    builder.add_node("b", lambda s: ["b"])
    builder.add_edge(lg.START, "a")
    await watch(t, lg, compiled(builder), [["in"]])


async def p_dataclass_state(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(D)
    builder.add_node("a", lambda s: t.add("a sees", s) or {"x": s.x + 1, "log": ["a"]})
    builder.add_node("b", lambda s: D(x=s.x + 1, log=["b"]))
    builder.add_conditional_edges("a", lambda s: t.add("route sees", s) or "b")
    link(lg, builder, "^a")
    await watch(t, lg, compiled(builder), [{"x": 1}, D(x=5), {"log": ["only"]}])


async def p_model_state(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(M)
    builder.add_node("a", lambda s: t.add("a sees", s) or {"x": s.x + 1, "log": ["a"]})
    builder.add_node("b", lambda s: M(x=s.x + 1, log=["b"]))
    link(lg, builder, "^a ab")
    await watch(t, lg, compiled(builder), [{"x": "1"}, M(x=5), {"x": 3, "note": "n"}])


async def p_model_state_bad_input(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(M)
    builder.add_node("a", lambda s: {"x": 1})
    builder.add_edge(lg.START, "a")
    await watch(t, lg, compiled(builder), [{"x": "nope"}, {}], saver=False)


async def p_model_input_schema(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(Both, input_schema=M)
    builder.add_node("a", lambda s: t.add("a sees", s) or {"y": 1})
    builder.add_edge(lg.START, "a")
    await watch(t, lg, compiled(builder), [{"x": "7"}], shapes=["ainvoke", "all"])


async def p_send_to_model_node(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(M)
    builder.add_node("a", lambda s: {"log": ["a"]})

    async def b(state: Any) -> Any:
        return {"log": [t.plain(state)]}

    builder.add_node("b", b)
    builder.add_edge(lg.START, "a")
    builder.add_conditional_edges("a", lambda s: [lg.Send("b", {"x": "3"})])
    await watch(t, lg, compiled(builder), [{"x": 1}])


class Managed(TypedDict, total=False):
    log: Annotated[list, operator.add]


async def p_managed_values(lg: Any, t: Trace) -> None:
    class State(TypedDict, total=False):
        log: Annotated[list, operator.add]
        left: lg.RemainingSteps
        last: lg.IsLastStep

    State.__annotations__ = {
        "log": Annotated[list, operator.add],
        "left": lg.RemainingSteps,
        "last": lg.IsLastStep,
    }
    builder = lg.StateGraph(State, input_schema=Managed, output_schema=Managed)
    builder.add_node("a", lambda s: {"log": [(s["left"], s["last"])]})
    builder.add_edge(lg.START, "a")
    builder.add_conditional_edges("a", lambda s: "a" if len(s["log"]) < 3 else lg.END)
    await watch(t, lg, compiled(builder), [{"log": []}], saver=False, config={"recursion_limit": 8})
    await watch(t, lg, compiled(builder), [{"log": []}], saver=False)


async def p_channels_in_annotations(lg: Any, t: Trace) -> None:
    class State(TypedDict, total=False):
        log: list

    State.__annotations__ = {
        "log": Annotated[list, operator.add],
        "eph": Annotated[int, lg.EphemeralValue],
        "top": Annotated[list[int], lg.Topic(int, accumulate=True)],
        "any": Annotated[int, lg.AnyValue],
        "un": Annotated[int, lg.UntrackedValue],
    }
    builder = lg.StateGraph(State)
    returns = {
        "a": {"eph": 1, "top": 1, "any": 1, "un": 1},
        "b": {"log": ["b"], "top": [2, 3]},
        "b2": {"any": 4},
        "c": {},
        "d": None,
    }
    for name, returned in returns.items():

        async def node(state: Any, name: str = name, returned: Any = returned) -> Any:
            t.add(name, sorted(state.items()))
            return returned

        node.__annotations__ = {}
        builder.add_node(name, node)
    link(lg, builder, "^-a a-b a-b2 b-b2-c c-d")
    await watch(t, lg, compiled(builder), [{"log": ["in"], "eph": 0}, {"top": 9, "un": 3}])


async def p_not_required(lg: Any, t: Trace) -> None:
    class State(TypedDict, total=False):
        x: Required[int]
        y: NotRequired[Annotated[list, operator.add]]
        z: Literal["a"]

    builder = lg.StateGraph(S)
    builder.add_node("a", lambda s: t.add("a sees", s) or {"log": ["a"]})
    builder.add_edge(lg.START, "a")
    await watch(t, lg, compiled(builder), [{"log": ["in"]}], shapes=["ainvoke"])
    for kind in ("input", "output"):
        g = lg.StateGraph(D).add_node("a", says("a")).add_edge(lg.START, "a").compile()
        t.add(kind, getattr(g, f"get_{kind}_jsonschema")())


async def p_json_schemas(lg: Any, t: Trace) -> None:
    for schema in (S, Both, D, M, Annotated[list[str], operator.add], str):
        g = lg.StateGraph(schema).add_node("a", lambda s: s).add_edge(lg.START, "a").compile()
        for kind in ("input", "output", "context"):
            try:
                t.add(f"{schema} {kind}", getattr(g, f"get_{kind}_jsonschema")())
            except Exception as exc:
                t.add(f"{schema} {kind}", exc)


async def p_layout(lg: Any, t: Trace) -> None:
    from programs import graph

    builder = graph(lg, "a b c d", "^a ab ac bcd", d={"defer": True})
    g = builder.compile()
    t.add("channels", dict(sorted((k, type(c).__name__) for k, c in g.channels.items())))
    t.add(
        "nodes",
        {
            k: (sorted(n.triggers), n.channels if isinstance(n.channels, str) else list(n.channels))
            for k, n in g.nodes.items()
        },
    )
    t.add("input", g.input_channels)
    t.add("output", list(g.output_channels))
    t.add("stream", list(g.stream_channels))
    t.add("asis", list(g.stream_channels_asis))
    t.add("name", (g.name, g.get_name(), g.stream_mode, g.debug, g.step_timeout, g.checkpointer))
