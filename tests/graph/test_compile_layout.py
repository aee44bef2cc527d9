"""What a drawing becomes: channels, triggers, policies. The names are on disk."""

import itertools
import operator
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_async.channels import (
    EphemeralValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
)
from langgraph_async.errors import NodeError
from langgraph_async.graph import END, START, StateGraph
from langgraph_async.graph.compile import translate
from langgraph_async.managed import RemainingSteps
from langgraph_async.pregel.node import Join
from langgraph_async.types import CachePolicy, RetryPolicy, TimeoutPolicy


class State(TypedDict):
    log: Annotated[list, operator.add]
    x: int


async def node(state):
    return {}


async def handler(state, error: NodeError):
    return {}


def route(state):
    return "b"


def test_edges_become_writes_to_the_channels_that_trigger_their_ends():
    builder = StateGraph(State).add_node("a", node).add_node("b", node)
    parts = translate(builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", END))

    assert list(parts.channels) == ["log", "x", "__start__", "branch:to:a", "branch:to:b"]
    assert isinstance(parts.channels["branch:to:a"], EphemeralValue)
    assert parts.nodes[START].edges == (("branch:to:a", None),)
    assert parts.nodes[START].hidden
    assert parts.nodes["a"].triggers == ("branch:to:a",)
    assert parts.nodes["a"].channels == ("log", "x")
    assert parts.nodes["a"].edges == (("branch:to:b", None),)
    assert parts.nodes["b"].edges == ()
    assert all(channel.key == key for key, channel in parts.channels.items())


def test_a_waiting_edge_is_a_barrier_in_the_order_of_its_list():
    builder = StateGraph(State).add_node("a", node).add_node("b", node).add_node("c", node)
    parts = translate(builder.add_edge(START, "a").add_edge(["b", "a"], "c", on_missing="skip"))

    assert parts.joins == (Join("join:b+a:c", ("b", "a"), "c", "skip"),)
    assert type(parts.channels["join:b+a:c"]) is NamedBarrierValue
    assert parts.nodes["c"].triggers == ("branch:to:c", "join:b+a:c")
    assert parts.nodes["a"].edges == (("join:b+a:c", "a"),)


def test_a_waiting_edge_to_end_is_nothing():
    builder = StateGraph(State).add_node("a", node).add_node("b", node)
    parts = translate(builder.add_edge(START, "a").add_edge(["a", "b"], END))

    assert parts.joins == ()
    assert parts.nodes["a"].edges == ()


def test_a_deferred_node_has_channels_that_open_at_the_end():
    builder = StateGraph(State).add_node("a", node).add_node("b", node).add_node("d", node, defer=True)
    parts = translate(builder.add_edge(START, "a").add_edge(["a", "b"], "d"))

    assert isinstance(parts.channels["branch:to:d"], LastValueAfterFinish)
    assert isinstance(parts.channels["join:a+b:d"], NamedBarrierValueAfterFinish)


def test_explicit_policies_win_over_defaults():
    own, default = RetryPolicy(max_attempts=2), RetryPolicy(max_attempts=9)
    cache = CachePolicy(ttl=3)
    builder = StateGraph(State).add_node("a", node, retry_policy=own, timeout=1).add_node("b", node)
    builder.add_edge(START, "a").set_node_defaults(
        retry_policy=[default], timeout=5, cache_policy=cache, error_handler=handler
    )
    nodes = translate(builder).nodes

    assert nodes["a"].retry_policy == (own,)
    assert nodes["a"].timeout == TimeoutPolicy(run_timeout=1.0)
    assert nodes["b"].retry_policy == (default,)
    assert nodes["b"].timeout == TimeoutPolicy(run_timeout=5.0)
    assert nodes["b"].cache_policy is cache


def test_error_handlers_get_retries_and_timeouts_and_no_cache():
    builder = StateGraph(State).add_node("a", node, error_handler=handler).add_edge(START, "a")
    builder.set_node_defaults(retry_policy=RetryPolicy(), timeout=5, cache_policy=CachePolicy(), error_handler=handler)
    nodes = translate(builder).nodes

    own = nodes["__error_handler__a"]
    assert nodes["a"].error_handler == "__error_handler__a"
    assert own.is_error_handler
    assert own.error_handler is None
    assert own.retry_policy == (RetryPolicy(),)
    assert own.timeout == TimeoutPolicy(run_timeout=5.0)
    assert own.cache_policy is None
    assert own.action.inject == {"error": False}


def test_a_root_state_is_one_channel():
    compiled = StateGraph(Annotated[list, operator.add]).add_node("a", node).add_edge(START, "a").compile()

    assert compiled.output_channels == "__root__"
    assert compiled.nodes["a"].channels == "__root__"


def test_managed_values_are_read_and_not_shown():
    class Managed(TypedDict):
        x: int
        left: RemainingSteps

    compiled = StateGraph(Managed).add_node("a", node).add_edge(START, "a").compile()

    assert compiled.nodes["a"].channels == ("x", "left")
    assert tuple(compiled.output_channels) == ("x",)
    assert tuple(compiled.stream_channels) == ("x",)


def test_only_the_output_schema_is_put_out_and_all_keys_are_state():
    class Output(TypedDict):
        x: int

    class Private(TypedDict):
        secret: str

    compiled = (
        StateGraph(State, output_schema=Output).add_node("a", node, input_schema=Private).add_edge(START, "a").compile()
    )

    assert tuple(compiled.output_channels) == ("x",)
    assert tuple(compiled.stream_channels) == ("log", "x", "secret")


def test_classes_are_mapped_and_dicts_are_not():
    @dataclass
    class Data:
        x: int = 1

    data = translate(StateGraph(Data).add_node("a", node).add_edge(START, "a"))
    plain = translate(StateGraph(State).add_node("a", node).add_edge(START, "a"))

    assert data.nodes["a"].mapper({"x": 3}) == Data(3)
    assert data.schemas.output_mapper({"x": 3}) == Data(3)
    assert plain.nodes["a"].mapper is None


def test_a_router_reads_what_its_source_reads_unless_it_says_otherwise():
    class Private(TypedDict):
        secret: str

    def private_route(state: Private):
        return "b"

    builder = StateGraph(State).add_node("a", node, input_schema=Private).add_node("b", node)
    builder.add_conditional_edges("b", private_route)
    nodes = translate(builder.add_conditional_edges(START, route).add_conditional_edges("a", route)).nodes

    assert nodes[START].routers[0].channels == ("log", "x")
    assert nodes["a"].routers[0].channels == ("secret",)
    assert nodes["b"].routers[0].channels == ("secret",)


def test_a_reduced_key_of_a_pydantic_state_is_checked_after_the_step():
    class Model(BaseModel):
        total: Annotated[int, operator.add] = 0
        name: str = ""

    schemas = translate(StateGraph(Model).add_node("a", node).add_edge(START, "a")).schemas

    assert list(schemas.result_validators) == ["total"]
    assert schemas.result_validators["total"]("5") == 5


def test_declared_types_reach_the_savers_allowlist():
    class Model(BaseModel):
        name: str = ""

    class Saver:
        def __init__(self, types=frozenset()):
            self.types = types

        async def aget_tuple(self, config): ...

        async def aput(self, *args): ...

        def with_allowlist(self, types):
            return Saver(types)

    compiled = StateGraph(Model).add_node("a", node).add_edge(START, "a").compile(checkpointer=Saver())

    assert Model in compiled.checkpointer.types


def test_ten_thousand_nodes_compile_without_quadratic_work():
    builder = StateGraph(State)
    names = [f"n{i}" for i in range(10_000)]
    for name in names:
        builder.add_node(name, node)
    builder.add_edge(START, names[0])
    for start, end in itertools.pairwise(names):
        builder.add_edge(start, end)

    parts = translate(builder)

    assert len(parts.nodes) == 10_001
