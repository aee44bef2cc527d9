"""What graphs say about the types of their input, output and config."""

import operator
from dataclasses import dataclass
from typing import Annotated, NotRequired

import pytest
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from langgraph_async.channels import BinaryOperatorAggregate, EphemeralValue, LastValue, Topic
from langgraph_async.graph import START, StateGraph
from langgraph_async.managed import RemainingSteps
from langgraph_async.pregel import NodeBuilder, Pregel
from langgraph_async.warnings import LangGraphDeprecatedSinceV10


async def node(state):
    return {}


def compiled(schema, context=None, **schemas):
    return StateGraph(schema, context, **schemas).add_node("a", node).add_edge(START, "a").compile()


def raw(inputs, outputs, name="LangGraph"):
    channels = {
        "a": EphemeralValue(int),
        "_d": BinaryOperatorAggregate(int, operator.add),
        "b": LastValue(int),
        "c": Topic(str),
    }
    step = NodeBuilder().subscribe_only("a").do(str).write_to("b")
    return Pregel(nodes={"n": step}, channels=channels, input_channels=inputs, output_channels=outputs, name=name)


class Plain(TypedDict):
    x: int
    note: NotRequired[str]
    left: RemainingSteps


class Odd(TypedDict):
    _hidden: int
    json: str
    model_config: int


class Model(BaseModel):
    x: int = 3


class Out(TypedDict):
    text: str


@dataclass
class Context:
    user: str


def test_a_declared_schema_becomes_a_model_that_checks_the_input():
    model = compiled(Plain).get_input_schema()

    assert model.__name__ == "LangGraphInput"
    assert set(model.model_fields) == {"x", "note"}
    assert model.model_validate({"x": 1}).x == 1
    with pytest.raises(ValidationError):
        model.model_validate({"x": "one"})


def test_a_pydantic_schema_is_its_own_model():
    graph = compiled(Model)

    assert graph.get_input_schema() is graph.get_output_schema() is Model


def test_input_and_output_have_models_of_their_own():
    graph = compiled(Plain, input_schema=Model, output_schema=Out)

    assert graph.get_input_schema() is Model
    assert set(graph.get_output_schema().model_fields) == {"text"}
    assert (graph.InputType, graph.OutputType) == (Model, Out)


def test_names_that_a_model_cannot_have_are_fields_under_an_alias():
    model = compiled(Odd).get_input_schema()

    assert set(model.model_fields) == {"private__hidden", "private_json", "private_model_config"}
    assert set(model.model_json_schema()["properties"]) == {"_hidden", "json", "model_config"}
    made = model.model_validate({"_hidden": 1, "json": "x", "model_config": 2})
    assert (made.private__hidden, made.private_json) == (1, "x")


def test_a_root_state_is_a_model_of_one_value():
    model = compiled(Annotated[list[int], operator.add]).get_output_schema()

    assert model.model_validate([1, 2]).root == [1, 2]
    assert model.model_json_schema()["title"] == "LangGraphOutput"


def test_one_channel_gives_its_type():
    graph = raw("a", "c")

    assert graph.InputType is int
    assert graph.get_input_jsonschema() == {"title": "LangGraphInput", "type": "integer"}
    assert graph.get_output_schema().model_validate(["x"]).root == ["x"]


def test_several_channels_give_a_dict_in_which_any_may_be_left_out():
    graph = raw(["a", "_d"], ["b", "c"], name="Sum")

    assert (graph.InputType, graph.OutputType) == (None, None)
    assert graph.get_input_jsonschema() == {
        "properties": {
            "a": {"default": None, "title": "A", "type": "integer"},
            "_d": {"default": None, "title": "D", "type": "integer"},
        },
        "title": "SumInput",
        "type": "object",
    }
    assert graph.get_output_schema().model_validate({"b": 1}).c is None


def test_a_raw_graph_has_the_schema_of_its_context():
    graph = raw("a", "b").copy({"context_schema": Context})

    assert graph.get_context_jsonschema()["title"] == "Context"


def test_a_config_schema_has_the_context_and_the_fields_asked_for():
    graph = compiled(Plain, Context)

    with pytest.warns(LangGraphDeprecatedSinceV10, match="Use `get_context_jsonschema`"):
        model = graph.config_schema(include=["tags"])
    with pytest.warns(LangGraphDeprecatedSinceV10, match="Use `get_context_jsonschema` instead"):
        schema = graph.get_config_jsonschema()

    assert list(model.model_fields) == ["configurable", "tags"]
    assert (schema["title"], list(schema["properties"])) == ("LangGraphConfig", ["configurable"])


def test_without_pydantic_types_are_known_and_models_name_the_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pydantic", None)
    graph = raw("a", "b")

    assert graph.OutputType is int
    with pytest.raises(ImportError, match="pip install pydantic"):
        graph.get_input_schema()
