"""Drawing a graph: what is refused, and with which words."""

import operator
from functools import partial
from typing import Annotated, Literal

import pytest
from typing_extensions import TypedDict

from langgraph_async.channels import Topic
from langgraph_async.errors import GraphBuildError, SchemaError
from langgraph_async.graph import END, START, StateGraph
from langgraph_async.managed import IsLastStep
from langgraph_async.types import Command, RetryPolicy, TimeoutPolicy


class State(TypedDict):
    log: Annotated[list, operator.add]
    x: int


class Private(TypedDict):
    secret: str


async def node(state: State) -> dict:
    return {}


def sync_node(state):
    return {}


def graph(*names: str) -> StateGraph:
    builder = StateGraph(State)
    for name in names:
        builder.add_node(name, node)
    return builder


def test_a_valid_drawing_compiles_twice():
    builder = graph("a").add_edge(START, "a").add_edge("a", END)

    first, second = builder.compile(), builder.compile(name="again")

    assert list(first.nodes) == list(second.nodes) == [START, "a"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: graph("a").add_node("a", node), "Node `a` already present"),
        (lambda: graph(START), "Node `__start__` is reserved"),
        (lambda: graph(END), "Node `__end__` is reserved"),
        (lambda: graph("a|b"), r"'\|' is a reserved character and is not allowed in the node names"),
        (lambda: graph("a:b"), "':' is a reserved character and is not allowed in the node names"),
        (lambda: graph().add_node("a", node, timeout=0), "greater than 0"),
        (lambda: graph().add_node("a", node, timeout=TimeoutPolicy(idle_timeout=-1)), "greater than 0"),
        (lambda: graph().add_node("a", node, destinations="b"), "must be a sequence of names or a dict"),
        (lambda: graph("a").add_edge(END, "a"), "END cannot be a start node"),
        (lambda: graph("a").add_edge("a", START), "START cannot be an end node"),
        (lambda: graph("a").add_edge(["a", "b"], "a"), "Need to add_node `b` first"),
        (lambda: graph("a").add_edge(["a"], "weather"), "Need to add_node `weather` first"),
        (lambda: graph("a").add_edge([], "a"), "is empty"),
        (lambda: graph("a", "b").add_edge(["a"], "b", on_missing="never"), "on_missing must be"),
        (lambda: graph().add_sequence([]), "Sequence requires at least one node"),
        (lambda: graph().add_sequence([node, node]), "Node names must be unique"),
        (lambda: graph("a").add_conditional_edges(END, sync_node), "END cannot be a start node"),
        (lambda: graph("a").add_conditional_edges("a", sync_node, "b"), "path_map of branch"),
        (lambda: graph().add_node("a", 3), "Node 'a': Expected a function"),
        (lambda: graph().set_node_defaults(timeout=-1), "greater than 0"),
    ],
)
def test_a_fault_is_refused_where_it_is_drawn(draw, message):
    with pytest.raises(GraphBuildError, match=message):
        draw()


@pytest.mark.parametrize(
    ("builder", "options", "message"),
    [
        (graph("a"), {}, "Graph must have an entrypoint"),
        (graph("weather").add_edge(START, "wether"), {}, "unknown node `wether`.*Did you mean 'weather'"),
        (
            graph("weather").add_edge(START, "weather").add_edge("wether", END),
            {},
            "starting at unknown node 'wether'.*'weather'",
        ),
        (
            graph("a", "b").add_edge(START, "a").add_conditional_edges("a", sync_node, {"yes": "c"}),
            {},
            "At 'a' node, 'sync_node' branch found unknown target 'c'",
        ),
        (graph().add_node("a", node, destinations=["nowhere"]).add_edge(START, "a"), {}, "unknown node `nowhere`"),
        (
            graph("a").add_edge(START, "a"),
            {"interrupt_before": ["A"]},
            "Interrupt node `A` not found.*Did you mean 'a'",
        ),
        (graph("a").add_edge(START, "a"), {"interrupt_after": ["c"]}, "Interrupt node `c` not found"),
        (graph("a").add_edge(START, "a"), {"interrupt_before": "a"}, "must be a list of node names or"),
        (graph("a").add_edge(START, "a"), {"renamed": {"old": "b"}}, "'b' is no node"),
        (graph("a", "b").add_edge(START, "a"), {"renamed": {"b": "a"}}, "'b' is still a node"),
        (graph().add_node("a", sync_node, timeout=3).add_edge(START, "a"), {}, "only supported for async nodes"),
        (
            graph().add_node("a", sync_node).add_edge(START, "a").set_node_defaults(timeout=3),
            {},
            "only supported for async nodes",
        ),
    ],
)
def test_compile_refuses_and_names_the_graph(builder, options, message):
    with pytest.raises(GraphBuildError, match=message) as caught:
        builder.compile(name="forecast", **options)

    assert "'forecast'" in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_node_without_action_is_a_runtime_error():
    with pytest.raises(RuntimeError, match="has nothing to do"):
        graph().add_node("a")


def test_interrupt_names_are_checked_even_next_to_a_star():
    builder = graph("a").add_edge(START, "a")

    with pytest.raises(GraphBuildError, match="`b` not found"):
        builder.compile(interrupt_before=["b"], interrupt_after="*")


@pytest.mark.parametrize("wrong", ["memory", 3, object(), dict])
def test_a_checkpointer_must_be_a_saver(wrong):
    with pytest.raises(TypeError, match="Invalid checkpointer provided"):
        graph("a").add_edge(START, "a").compile(checkpointer=wrong)


def test_two_branches_of_one_source_need_two_names():
    builder = graph("a").add_conditional_edges("a", sync_node)

    with pytest.raises(GraphBuildError, match="Branch with name `sync_node` already exists for node `a`"):
        builder.add_conditional_edges("a", sync_node)


def test_a_default_handler_does_not_stay_in_the_builder():
    builder = graph("a").add_edge(START, "a").set_node_defaults(error_handler=node)

    builder.compile()
    compiled = builder.compile()

    assert list(builder.nodes) == ["a"]
    assert compiled.nodes["a"].error_handler == "__default_error_handler__"
    assert compiled.nodes["__default_error_handler__"].is_error_handler


def test_a_node_named_like_the_default_handler_is_refused():
    builder = graph("__default_error_handler__").add_edge(START, "__default_error_handler__")

    with pytest.raises(GraphBuildError, match="__default_error_handler__"):
        builder.set_node_defaults(error_handler=node).compile()


def test_names_are_read_off_functions_partials_and_objects():
    class Caller:
        async def __call__(self, state):
            return {}

    builder = StateGraph(State).add_node(node).add_node(partial(sync_node)).add_node(Caller())

    assert list(builder.nodes) == ["node", "sync_node", "Caller"]


def test_a_sequence_is_nodes_and_edges_between_them():
    builder = StateGraph(State).add_sequence([node, ("second", node), sync_node])

    assert builder.edges == {("node", "second"), ("second", "sync_node")}


def test_the_first_parameter_says_what_a_node_reads():
    async def private(state: Private) -> dict:
        return {}

    async def untyped(state: dict) -> dict:
        return {}

    builder = StateGraph(State).add_node(private).add_node(untyped).add_node("forced", private, input_schema=State)

    assert builder.nodes["private"].input_schema is Private
    assert builder.nodes["untyped"].input_schema is State
    assert builder.nodes["forced"].input_schema is State
    assert set(builder.channels) == {"log", "x", "secret"}


@pytest.mark.parametrize(
    "hint", [Command[Literal["a", "b"]], Command[Literal["a", "b"]] | None, dict | Command[Literal["a", "b"]]]
)
def test_a_return_hint_declares_the_destinations_of_commands(hint):
    async def goes(state):
        return None

    goes.__annotations__["return"] = hint

    assert dict(StateGraph(State).add_node(goes).nodes["goes"].ends) == {"a": "a", "b": "b"}


def test_a_channel_in_the_annotation_of_a_root_state_is_its_channel():
    compiled = StateGraph(Annotated[list, Topic(int)]).add_node("a", sync_node).add_edge(START, "a").compile()

    assert isinstance(compiled.builder.channels["__root__"], Topic)


def test_hints_that_cannot_be_resolved_say_nothing():
    async def lost(state: "Nowhere") -> "Neither":  # noqa: F821
        return {}

    assert StateGraph(State).add_node(lost).nodes["lost"].input_schema is State


def test_an_input_schema_may_restate_a_reduced_key_without_its_reducer():
    class Input(TypedDict):
        log: list

    builder = StateGraph(State, input_schema=Input)

    assert builder.channels["log"].operator is operator.add


def test_two_different_reducers_for_one_key_are_refused():
    class Other(TypedDict):
        log: Annotated[list, operator.or_]

    with pytest.raises(SchemaError, match="'log' already exists with a different type"):
        StateGraph(State, output_schema=Other)


def test_managed_values_cannot_be_input_or_output():
    class Managed(TypedDict):
        last: IsLastStep

    with pytest.raises(SchemaError, match="Invalid managed channels detected in Managed: last"):
        StateGraph(State, input_schema=Managed)


@pytest.mark.parametrize("key", ["__start__", "__pregel_tasks", "branch:to:a", "__interrupt__"])
def test_reserved_names_cannot_be_keys(key):
    with pytest.raises(SchemaError, match="reserved name"):
        StateGraph(TypedDict("Odd", {key: int}))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StateGraph(State, input=Private), "`input` is deprecated.*`input_schema`"),
        (lambda: StateGraph(State, output=Private), "`output` is deprecated.*`output_schema`"),
        (lambda: StateGraph(State, config_schema=Private), "`config_schema` is deprecated.*`context_schema`"),
        (lambda: graph().add_node("a", node, retry=RetryPolicy()), "`retry` is deprecated.*`retry_policy`"),
        (lambda: graph().add_node("a", node, input=Private), "`input` is deprecated.*`input_schema`"),
    ],
)
def test_old_spellings_warn(call, message):
    with pytest.warns(DeprecationWarning, match=message):
        call()


def test_a_misspelt_argument_is_a_type_error_with_a_hint():
    with pytest.raises(TypeError, match="'retry_polcy'"):
        graph().add_node("a", node, retry_polcy=RetryPolicy())


def test_later_additions_do_not_change_a_compiled_graph(caplog):
    builder = graph("a").add_edge(START, "a")
    compiled = builder.compile()

    builder.add_node("b", node)

    assert "b" not in compiled.nodes
    assert "already compiled" in caplog.text
