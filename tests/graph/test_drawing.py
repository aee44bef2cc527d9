"""Drawings: edges, and the Mermaid text that users know."""

import itertools
import operator
from typing import Annotated, Literal

import pytest
from typing_extensions import TypedDict

from langgraph_async.graph import END, START, StateGraph
from langgraph_async.types import Command


class State(TypedDict):
    log: Annotated[list, operator.add]


async def node(state):
    return {}


def draw(names, edges, branches=(), *, subgraphs=None, xray=False, **options):
    builder = StateGraph(State)
    for name in names:
        builder.add_node(name, (subgraphs or {}).get(name, node), defer=name.startswith("late"))
    for start, end in edges:
        builder.add_edge(start, end)
    for number, (source, path_map) in enumerate(branches):

        def route(state):
            return END

        route.__name__ = f"route{number}"
        builder.add_conditional_edges(source, route, path_map)
    return builder.compile(**options).get_graph(xray=xray)


def lines(graph):
    """Return the edges of the Mermaid text, without the fixed lines."""
    return [line.strip() for line in graph.draw_mermaid().splitlines() if "->" in line]


def test_the_text_of_a_chain():
    assert draw("ab", [(START, "a"), ("a", "b"), ("b", END)]).draw_mermaid() == (
        "---\n"
        "config:\n"
        "  flowchart:\n"
        "    curve: linear\n"
        "---\n"
        "graph TD;\n"
        "\t__start__([<p>__start__</p>]):::first\n"
        "\ta(a)\n"
        "\tb(b)\n"
        "\t__end__([<p>__end__</p>]):::last\n"
        "\t__start__ --> a;\n"
        "\ta --> b;\n"
        "\tb --> __end__;\n"
        "\tclassDef default fill:#f2f0ff,line-height:1.2\n"
        "\tclassDef first fill-opacity:0\n"
        "\tclassDef last fill:#bfb6fc\n"
    )


@pytest.mark.parametrize(
    ("names", "edges", "branches", "expected"),
    [
        (
            "abc",
            [(START, "a"), ("b", "a")],
            [("a", {"yes": "b", "no & maybe": "c", "stop": END})],
            [
                "__start__ --> a;",
                "a -. &nbsp;stop&nbsp; .-> __end__;",
                "a -. &nbsp;yes&nbsp; .-> b;",
                "a -. &nbsp;no & maybe&nbsp; .-> c;",
                "b --> a;",
                "c --> __end__;",
            ],
        ),
        ("ab", [(START, "a")], [("a", ["b"])], ["__start__ --> a;", "a -.-> b;", "b --> __end__;"]),
        (
            "abcd",
            [(START, "a"), ("a", "b"), ("a", "c"), (["b", "c"], "d")],
            [],
            ["__start__ --> a;", "a --> b;", "a --> c;", "b --> d;", "c --> d;", "d --> __end__;"],
        ),
        (
            "ab",
            [(START, "a"), (START, "b"), (["a", "b"], END)],
            [],
            ["__start__ --> a;", "__start__ --> b;", "a --> __end__;", "b --> __end__;"],
        ),
        ("abc", [(START, "a"), (["a", "b"], "c")], [], ["__start__ --> a;", "a --> __end__;"]),
        (
            "ab",
            [(START, "a"), ("a", "b"), ("b", "a")],
            [],
            ["__start__ --> a;", "a --> b;", "b --> a;", "b -.-> __end__;"],
        ),
        ("a", [(START, "a"), ("a", "a")], [], ["__start__ --> a;", "a -.-> __end__;", "a --> a;"]),
        (
            "abc",
            [(START, "a"), ("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")],
            [],
            ["__start__ --> a;", "a --> b;", "a --> c;", "b --> a;", "c --> a;"],
        ),
        (
            "ab",
            [(START, "a"), ("a", "b")],
            [("a", {"x": "b"})],
            ["__start__ --> a;", "a -. &nbsp;x&nbsp; .-> b;", "b --> __end__;"],
        ),
        (
            ["a", "b", "late"],
            [(START, "a"), ("a", "b"), ("a", "late"), ("b", "late")],
            [],
            ["__start__ --> a;", "a --> b;", "a --> late;", "b --> late;", "late --> __end__;"],
        ),
        (
            ["my node", "ü"],
            [(START, "my node"), ("my node", "ü")],
            [],
            ["__start__ --> my\\20node;", "my\\20node --> \\fc;", "\\fc --> __end__;"],
        ),
    ],
)
def test_edges_as_the_peer_draws_them(names, edges, branches, expected):
    assert lines(draw(names, edges, branches)) == expected


def test_destinations_of_commands_are_conditional_edges_with_labels():
    def go(state) -> Command[Literal["b", "__end__"]]: ...

    builder = StateGraph(State).add_node("a", go).add_node("b", node, destinations={"a": "again"}).add_edge(START, "a")

    assert lines(builder.compile().get_graph()) == [
        "__start__ --> a;",
        "a -.-> __end__;",
        "a -.-> b;",
        "b -. &nbsp;again&nbsp; .-> a;",
    ]


def test_metadata_deferral_and_breakpoints_are_written_under_the_name():
    builder = StateGraph(State).add_node("a", node, metadata={"k": "v"}, defer=True).add_edge(START, "a")

    drawn = builder.compile(interrupt_before=["a"], interrupt_after=["a"]).get_graph()

    assert drawn.nodes["a"].metadata == {"k": "v", "defer": True, "__interrupt": "before,after"}
    assert "a(a<hr/><small><em>k = v\ndefer = True\n__interrupt = before,after</em></small>)" in drawn.draw_mermaid()


def inner(edges=((START, "s"), ("s", "t"))):
    builder = StateGraph(State).add_node("s", node).add_node("t", node)
    for start, end in edges:
        builder.add_edge(start, end)
    return builder.compile()


def test_a_subgraph_is_one_node_unless_xrayed():
    drawn = draw(["a", "X"], [(START, "a"), ("a", "X")], subgraphs={"X": inner()})

    assert lines(drawn) == ["__start__ --> a;", "a --> X;", "X --> __end__;"]


def test_xray_draws_the_inside_of_a_subgraph():
    drawn = draw(["a", "X", "z"], [(START, "a"), ("a", "X"), ("X", "z")], subgraphs={"X": inner()}, xray=True)

    assert "\tsubgraph X\n\tX\\3as(s)\n\tX\\3at(t)\n\tX\\3as --> X\\3at;\n\tend\n" in drawn.draw_mermaid()
    assert lines(drawn)[:4] == ["X\\3at --> z;", "__start__ --> a;", "a --> X\\3as;", "z --> __end__;"]


def test_xray_goes_as_deep_as_it_is_told():
    middle = (
        StateGraph(State).add_node("m", node).add_node("Y", inner()).add_edge(START, "m").add_edge("m", "Y").compile()
    )
    outer = StateGraph(State).add_node("X", middle).add_edge(START, "X").compile()

    assert set(outer.get_graph(xray=1).nodes) == {START, END, "X:m", "X:Y"}
    assert set(outer.get_graph(xray=True).nodes) == {START, END, "X:m", "X:Y:s", "X:Y:t"}
    assert set(outer.get_graph().nodes) == {START, END, "X"}


def test_start_and_end_of_a_subgraph_stay_where_several_nodes_meet_them():
    both = inner([(START, "s"), (START, "t")])
    drawn = draw(["X"], [(START, "X")], subgraphs={"X": both}, xray=True)

    assert set(drawn.nodes) == {START, END, "X:__start__", "X:s", "X:t", "X:__end__"}


def test_a_drawing_is_json():
    drawn = draw("a", [(START, "a")], [("a", {"x": "a", "y": END})]).to_json()

    assert [node["id"] for node in drawn["nodes"]] == [START, "a", END]
    assert drawn["edges"] == [
        {"source": START, "target": "a"},
        {"source": "a", "target": END, "data": "y", "conditional": True},
        {"source": "a", "target": "a", "data": "x", "conditional": True},
    ]


async def test_the_async_spelling_draws_the_same():
    compiled = inner()

    assert (await compiled.aget_graph()).to_json() == compiled.get_graph().to_json()


def test_a_chain_longer_than_the_loop_limit_is_drawn_whole():
    names = [f"n{i:03}" for i in range(400)]
    drawn = draw(names, [(START, names[0]), *itertools.pairwise(names)])

    assert len(drawn.edges) == 401
