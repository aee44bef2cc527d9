"""Threads with more in them than lists of text: messages, deltas, many types, other channels."""

import dataclasses
import datetime as dt
import decimal
import enum
import operator
import uuid
from typing import Annotated, Any

import pydantic
from typing_extensions import TypedDict

from handover.kind import Bodies, answers, kind, luck, runs
from handover.kinds_steps import RETRIED, compiled, linked, says

COUNTED = ("^(middle|end) own.*counters_since_delta_snapshot", "when the whole value is stored is up to the library")
BYTEARRAY = (r"own.*\['x'\]", "LangGraph's SQLite saver turns a bytearray into bytes")
KEPT_OPEN = (r"own.*\['interrupts'\]", "LangGraph shows no question after an edit until it is asked again")


def _messages(lg: Any) -> Any:
    class Chat(TypedDict, total=False):
        messages: Annotated[list[Any], lg.add_messages]
        x: Any

    return Chat


@kind(begin=[{"messages": [("user", "hi")]}], finish=[answers("fine")])
def messages(lg: Any, bodies: Bodies) -> Any:
    from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage

    async def model(state: Any) -> Any:
        bodies.enter("model")
        call = {"name": "look", "args": {"q": ["x"]}, "id": "c1"}
        return {"messages": [AIMessage("calling", id="m1", tool_calls=[call])]}

    async def tool(state: Any) -> Any:
        bodies.enter("tool")
        return {"messages": [ToolMessage("found", tool_call_id="c1", id="m2", artifact={"n": 1})]}

    async def ask(state: Any) -> Any:
        bodies.enter("ask")
        return {"messages": [("human", lg.interrupt("how?"))]}

    async def tidy(state: Any) -> Any:
        bodies.enter("tidy")
        return {"messages": [RemoveMessage(id="m2"), AIMessage("bye", id="m1")]}

    builder = lg.StateGraph(_messages(lg)).add_sequence([model, tool, ask, tidy]).add_edge(lg.START, "model")
    return compiled(builder)


def _adds(values: list[Any], writes: list[Any]) -> list[Any]:
    return [*values, *(item for write in writes for item in write)]


def _delta_graph(lg: Any, bodies: Bodies, every: int, **nodes: Any) -> Any:
    class Deltas(TypedDict, total=False):
        log: Annotated[list[Any], lg.DeltaChannel(_adds, snapshot_frequency=every)]
        x: Any

    builder = lg.StateGraph(Deltas)
    names = list(nodes)
    for name, node in nodes.items():
        builder.add_node(name, node)
    for one, two in zip([lg.START, *names], names, strict=False):
        builder.add_edge(one, two)
    return builder


def _asks(lg: Any, bodies: Bodies) -> Any:
    async def q(state: Any) -> Any:
        bodies.enter("q")
        return {"log": [lg.interrupt(len(state["log"]))]}

    return q


def _delta_nodes(lg: Any, bodies: Bodies) -> dict[str, Any]:
    return {"a": says(bodies, "a"), "b": says(bodies, "b"), "q": _asks(lg, bodies), "z": says(bodies, "z")}


@kind(begin=[{"log": ["in"]}], finish=[answers("yes"), {"log": ["more"]}, answers("again")], meant=[COUNTED])
def deltas(lg: Any, bodies: Bodies) -> Any:
    return compiled(_delta_graph(lg, bodies, 100, **_delta_nodes(lg, bodies)))


@kind(begin=[{"log": ["in"]}, answers("yes"), {"log": ["more"]}], finish=[answers("again")], meant=[COUNTED])
def deltas_with_snapshots(lg: Any, bodies: Bodies) -> Any:
    return compiled(_delta_graph(lg, bodies, 2, **_delta_nodes(lg, bodies)))


@kind(
    begin=[runs({"log": ["in"]}, durability="exit")],
    finish=[answers("yes", durability="exit"), runs({"log": ["more"]}, durability="exit"), answers("again")],
    meant=[COUNTED],
)
def deltas_stored_at_exit(lg: Any, bodies: Bodies) -> Any:
    return compiled(_delta_graph(lg, bodies, 100, **_delta_nodes(lg, bodies)))


@kind(begin=[{"log": ["in"]}], finish=[luck, None], meant=[COUNTED, RETRIED])
def deltas_and_a_failure(lg: Any, bodies: Bodies) -> Any:
    async def bad(state: Any) -> Any:
        bodies.enter("bad")
        bodies.try_luck()
        return {"log": ["bad"]}

    builder = _delta_graph(lg, bodies, 100, a=says(bodies, "a"), bad=bad)
    builder.add_node("c", says(bodies, "c"))
    return compiled(builder.add_edge("a", "c"))


@kind(
    begin=[{"log": ["in"]}, lambda owner: owner.graph.aupdate_state(owner.config, {"log": ["edit"]}, "b")],
    finish=[None, answers("yes")],
    meant=[COUNTED, KEPT_OPEN],
)
def deltas_edited(lg: Any, bodies: Bodies) -> Any:
    return compiled(_delta_graph(lg, bodies, 100, **_delta_nodes(lg, bodies)))


@kind(begin=[{"log": ["in"]}], finish=[answers("yes")], meant=[COUNTED])
def deltas_overwritten(lg: Any, bodies: Bodies) -> Any:
    async def o(state: Any) -> Any:
        bodies.enter("o")
        return {"log": lg.Overwrite(["o"])}

    return compiled(_delta_graph(lg, bodies, 100, a=says(bodies, "a"), o=o, q=_asks(lg, bodies)))


async def _fork(owner: Any) -> None:
    past = await owner.past("b")
    await owner.run(None, past.config)


@kind(begin=[{"log": ["in"]}, _fork], finish=[answers("yes")], meant=[COUNTED])
def deltas_forked(lg: Any, bodies: Bodies) -> Any:
    return compiled(_delta_graph(lg, bodies, 100, **_delta_nodes(lg, bodies)))


def _either(lg: Any, bodies: Bodies, *, deltas: bool) -> Any:
    reducer = lg.DeltaChannel(_adds) if deltas else operator.add

    class Either(TypedDict, total=False):
        log: Annotated[list[Any], reducer]
        x: Any

    builder = lg.StateGraph(Either)
    for name, node in _delta_nodes(lg, bodies).items():
        builder.add_node(name, node)
    for one, two in ((lg.START, "a"), ("a", "b"), ("b", "q"), ("q", "z")):
        builder.add_edge(one, two)
    return compiled(builder)


@kind(begin=[{"log": ["in"]}], finish=[answers("yes"), {"log": ["more"]}, answers("again")])
def deltas_that_become_a_list(lg: Any, bodies: Bodies) -> Any:
    return _either(lg, bodies, deltas=not bodies.second)


@kind(begin=[{"log": ["in"]}], finish=[answers("yes"), {"log": ["more"]}, answers("again")], meant=[COUNTED])
def a_list_that_becomes_deltas(lg: Any, bodies: Bodies) -> Any:
    return _either(lg, bodies, deltas=bodies.second)


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str] = dataclasses.field(default_factory=list)


class Colour(enum.Enum):
    RED = "r"


class Places(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    points: Annotated[list[Point], operator.add]
    colour: Colour


@kind(begin=[{"points": [Point(1, ["a"])], "colour": Colour.RED}], finish=[answers("yes")])
def values_of_own_types(lg: Any, bodies: Bodies) -> Any:
    async def q(state: Any) -> Any:
        bodies.enter("q")
        kinds = [type(state["points"][0]) is Point, state["colour"] is Colour.RED]
        return {"log": [lg.interrupt("ok?"), kinds], "points": [Point(2)]}

    builder = lg.StateGraph(Places).add_node("q", q).add_node("z", says(bodies, "z"))
    return compiled(builder.add_edge(lg.START, "q").add_edge("q", "z"))


class Form(pydantic.BaseModel):
    log: Annotated[list[Any], operator.add] = []
    point: Point | None = None
    name: str = ""


@kind(begin=[{"name": "n", "point": Point(1, ["a"])}], finish=[answers("yes")])
def a_pydantic_state(lg: Any, bodies: Bodies) -> Any:
    async def q(state: Form) -> Any:
        bodies.enter("q")
        return {"log": [lg.interrupt(state.name), repr(state.point)], "name": "m"}

    builder = lg.StateGraph(Form).add_node("q", q).add_node("z", says(bodies, "z"))
    return compiled(builder.add_edge(lg.START, "q").add_edge("q", "z"))


_MANY = {
    "set": {1, 2},
    "date": dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.UTC),
    "delta": dt.timedelta(1, 2, 3),
    "decimal": decimal.Decimal("1.10"),
    "uuid": uuid.UUID(int=7),
    "bytes": b"\x00\xff",
    "nested": {"list": [None, True, -1, 2**60, 1.5, "ü"], "2": {"a": {"b": []}}},
    "text": "x" * 300,
}


@kind(begin=[{"x": _MANY}], finish=[answers(_MANY)])
def values_of_many_types(lg: Any, bodies: Bodies) -> Any:
    async def q(state: Any) -> Any:
        bodies.enter("q")
        kinds = {key: type(value).__name__ for key, value in state["x"].items()}
        return {"log": [lg.interrupt(_MANY), kinds]}

    return compiled(linked(lg, {"q": q, "z": says(bodies, "z", x=b"raw")}, "^q qz"))


@kind(begin=[{"x": None}], finish=[None, None, None, None, None, None], meant=[BYTEARRAY])
def plain_values_at_top_level(lg: Any, bodies: Bodies) -> Any:
    values = {"a": 1.5, "b": "text", "c": 2**40, "d": b"bytes", "e": True, "f": bytearray(b"x"), "g": {"k": 0.0}}
    nodes = {name: says(bodies, name, x=value) for name, value in values.items()}
    return compiled(linked(lg, nodes, "^a ab bc cd de ef fg"), interrupt_before="*")


@kind(begin=[{"x": 1}], finish=[None])
def an_overwritten_list(lg: Any, bodies: Bodies) -> Any:
    async def o(state: Any) -> Any:
        bodies.enter("o")
        return {"log": lg.Overwrite(["o"])}

    return compiled(
        linked(lg, {"a": says(bodies, "a"), "o": o, "z": says(bodies, "z")}, "^a ao oz"), interrupt_before=["z"]
    )


@kind(begin=[{"a": 1}], finish=[None])
def channels_by_hand(lg: Any, bodies: Bodies) -> Any:
    def node(name: str, reads: str, *writes: str) -> Any:
        async def run(value: Any) -> Any:
            bodies.enter(name)
            return {"sum": 1} if isinstance(value, list) else value + 1

        return lg.NodeBuilder().subscribe_only(reads).do(run).write_to(*writes)

    def build(saver: Any) -> Any:
        return lg.Pregel(
            nodes={"one": node("one", "a", "b", "topic", "any"), "two": node("two", "b", "topic", "out", "any")},
            channels={
                "a": lg.EphemeralValue(int), "b": lg.EphemeralValue(int), "topic": lg.Topic(int, accumulate=True),
                "any": lg.AnyValue(int), "out": lg.LastValue(int), "un": lg.UntrackedValue(int),
                "sum": lg.BinaryOperatorAggregate(int, operator.add),
            },
            input_channels=["a"], output_channels=["out", "topic"], stream_channels=["out", "topic", "any"],
            interrupt_before_nodes=["two"], checkpointer=saver,
        )  # fmt: skip

    return build
