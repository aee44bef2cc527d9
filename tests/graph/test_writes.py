"""A node's output as writes, and what is refused."""

import operator
from dataclasses import dataclass
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_async.errors import InvalidUpdateError, ParentCommand
from langgraph_async.graph import END, START, StateGraph
from langgraph_async.graph.compile import translate
from langgraph_async.graph.writes import NodeWriter, Places
from langgraph_async.managed import IsLastStep
from langgraph_async.types import Command, Overwrite, Send

KEYED = NodeWriter(
    Places(graph="g", keys=frozenset({"x", "log"}), managed=frozenset({"last"}), nodes=frozenset({"a", "b"})), "n"
)
ROOT = NodeWriter(Places(graph="g", keys=frozenset({"__root__"}), nodes=frozenset({"a", "b"})), "n")


@dataclass
class Update:
    x: int
    log: list


@pytest.mark.parametrize(
    ("output", "writes"),
    [
        (None, []),
        ({}, []),
        ({"log": [1], "x": None}, [("log", [1]), ("x", None)]),
        (Update(1, [2]), [("x", 1), ("log", [2])]),
        (Command(update={"x": 1}), [("x", 1)]),
        (Command(update=[("x", 1), ("x", 2)]), [("x", 1), ("x", 2)]),
        (Command(update=Update(1, [])), [("x", 1), ("log", [])]),
        (Command(update={"x": 1}, goto="a"), [("x", 1), ("branch:to:a", None)]),
        (Command(goto=["a", END, Send("b", 3)]), [("branch:to:a", None), ("__pregel_tasks", Send("b", 3))]),
        (Command(graph="other", update={"x": 1}), [("x", 1)]),
        (Command(resume=1), []),
        (Send("a", 1), [("__pregel_tasks", Send("a", 1))]),
        (
            [Command(goto="a", update={"x": 1}), {"log": [2]}, Command(goto="b"), None],
            [("x", 1), ("log", [2]), ("branch:to:a", None), ("branch:to:b", None)],
        ),
        ({"last": True, "x": 1}, [("x", 1)]),
    ],
)
def test_outputs_of_a_keyed_state(output, writes):
    assert list(KEYED(output)) == writes


@pytest.mark.parametrize(
    ("output", "writes"),
    [
        (None, []),
        (0, [("__root__", 0)]),
        ({"a": 1}, [("__root__", {"a": 1})]),
        ([1, 2], [("__root__", [1, 2])]),
        (Command(update=[1]), [("__root__", [1])]),
        (Command(update={"a": 1}), [("__root__", {"a": 1})]),
        (Command(update=[("user", "hi")]), [("__root__", [("user", "hi")])]),
        (Command(update={"__root__": 1}, goto="a"), [("__root__", 1), ("branch:to:a", None)]),
        ([Command(goto="a"), 5], [("__root__", 5), ("branch:to:a", None)]),
        (Send("a", 1), [("__pregel_tasks", Send("a", 1))]),
    ],
)
def test_outputs_of_a_root_state(output, writes):
    assert list(ROOT(output)) == writes


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ({"lgo": 1}, "Node 'n' of graph 'g' wrote to 'lgo'.*Did you mean 'log'"),
        (Command(update={"y": 1}), "wrote to 'y'"),
        (Command(update=[("y", 1)]), "wrote to 'y'"),
        ([Command(), {"y": 1}], "wrote to 'y'"),
        (Command(update=3), "Expected dict, got 3"),
        ("hello", "Expected dict, got 'hello' from node 'n'"),
        ([{"x": 1}], "Expected dict, got"),
        ([Send("a", 1), Send("b", 2)], "Expected dict, got"),
        (Command(goto="A"), "goes to unknown node 'A'.*Did you mean 'a'"),
        (Command(goto=3), "In Command.goto, expected Send/str, got int"),
        (Send("c", 1), "sends to unknown node 'c'"),
        (Command(goto=Send(END, 1)), "Cannot send a packet to the END node"),
    ],
)
def test_what_cannot_be_written_names_node_and_key_or_target(output, message):
    with pytest.raises(InvalidUpdateError, match=message):
        KEYED(output)


def test_an_output_that_is_no_update_has_the_peers_code():
    with pytest.raises(InvalidUpdateError, match="INVALID_GRAPH_NODE_RETURN_VALUE"):
        KEYED("hello")


@pytest.mark.parametrize("wrap", [lambda command: command, lambda command: [Command(update={"x": 1}), command]])
def test_a_command_for_the_parent_is_raised_with_its_own_keys_unchecked(wrap):
    command = Command(graph=Command.PARENT, update={"of the parent": 1}, goto="elsewhere")

    with pytest.raises(ParentCommand) as caught:
        KEYED(wrap(command))

    assert caught.value.command is command


@given(st.dictionaries(st.sampled_from(["x", "log"]), st.integers()))
def test_a_command_writes_what_the_dict_in_it_writes(update):
    assert list(KEYED(Command(update=update))) == list(KEYED(update)) == list(update.items())


class State(TypedDict):
    x: int
    log: Annotated[list, operator.add]
    last: IsLastStep


class Input(TypedDict):
    x: int


class Checked(BaseModel):
    x: int = 0
    total: Annotated[int, operator.add] = 0


async def node(state):
    return {}


def input_writer(state, **schemas):
    return translate(StateGraph(state, **schemas).add_node("a", node).add_edge(START, "a"), name="g").nodes[START].write


def test_only_keys_of_the_input_schema_are_written_and_other_known_keys_are_passed_over():
    write = input_writer(State, input_schema=Input)

    assert list(write({"x": 1, "log": [1], "last": True})) == [("x", 1)]
    assert list(write({})) == []


def test_a_key_of_the_input_that_no_schema_has_is_not_written():
    assert input_writer(State)({"lgo": 1}) == []


def test_an_input_that_is_no_dict_is_refused():
    with pytest.raises(InvalidUpdateError, match="Expected dict, got 'hello' as the input of graph 'g'"):
        input_writer(State)("hello")


def test_an_instance_is_an_input():
    assert list(input_writer(State)(Update(1, [2]))) == [("x", 1), ("log", [2])]


def test_a_root_input_is_written_as_it_is():
    assert list(input_writer(list)([1])) == [("__root__", [1])]


def test_plain_keys_of_a_pydantic_state_are_checked_and_converted_when_written():
    nodes = translate(StateGraph(Checked).add_node("a", node).add_edge(START, "a"), name="g").nodes

    assert list(nodes["a"].write({"x": "7"})) == [("x", 7)]
    assert list(nodes[START].write({"x": "7"})) == [("x", 7)]
    with pytest.raises(InvalidUpdateError, match="Node 'a' of graph 'g' wrote a value to 'x'"):
        nodes["a"].write({"x": "seven"})
    with pytest.raises(InvalidUpdateError, match=r"The input of graph 'g' has a value for 'x'"):
        nodes[START].write({"x": "seven"})


def test_updates_of_reduced_keys_are_left_to_the_reducer():
    write = translate(StateGraph(Checked).add_node("a", node).add_edge(START, "a")).nodes["a"].write

    assert list(write({"total": Overwrite(3)})) == [("total", Overwrite(3))]
    assert list(write({"total": "odd"})) == [("total", "odd")]
