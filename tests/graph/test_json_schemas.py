"""JSON schemas of input, output and context."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, NotRequired

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_async.graph import START, StateGraph


async def node(state):
    return {}


def compiled(schema, name=None, **schemas):
    return StateGraph(schema, **schemas).add_node("a", node).add_edge(START, "a").compile(name=name)


class Plain(TypedDict):
    x: int
    note: NotRequired[str]


class Model(BaseModel):
    x: int = 3


@dataclass
class Data:
    x: int
    log: Annotated[list[str], operator.add] = field(default_factory=list)
    note: str | None = None
    _hidden: int = 1


def test_a_typed_dict_gives_its_own_schema():
    schema = compiled(Plain).get_input_jsonschema()

    assert schema["title"] == "Plain"
    assert schema["required"] == ["x"]
    assert schema["properties"]["note"]["type"] == "string"


def test_a_pydantic_model_gives_its_own_schema():
    assert compiled(Model).get_output_jsonschema() == Model.model_json_schema()


def test_a_dataclass_gives_a_model_named_after_the_graph_with_its_defaults():
    schema = compiled(Data, name="Report").get_input_jsonschema()

    assert schema["title"] == "ReportInput"
    assert schema["required"] == ["x"]
    assert set(schema["properties"]) == {"x", "log", "note", "_hidden"}
    assert schema["properties"]["note"]["default"] is None
    assert schema["properties"]["_hidden"]["default"] == 1


def test_a_root_state_gives_the_schema_of_its_type():
    schema = compiled(list[int]).get_output_jsonschema()

    assert schema == {"items": {"type": "integer"}, "title": "LangGraphOutput", "type": "array"}


def test_context_schemas():
    assert compiled(Plain).get_context_jsonschema() is None
    assert compiled(Plain, context_schema=Model).get_context_jsonschema() == Model.model_json_schema()
    assert compiled(Plain, context_schema=Data).get_context_jsonschema()["title"] == "Data"
    with pytest.raises(ValueError, match="Invalid context schema type"):
        compiled(Plain, context_schema=int).get_context_jsonschema()


def test_without_pydantic_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pydantic", None)

    with pytest.raises(ImportError, match="pip install pydantic"):
        compiled(Plain).get_input_jsonschema()


def test_a_default_that_is_made_anew_is_shown():
    @dataclass
    class WithList:
        log: Annotated[list[str], operator.add] = field(default_factory=list)

    graph = StateGraph(WithList).add_node("a", lambda _: None).add_edge(START, "a").compile()

    assert graph.get_input_jsonschema()["properties"]["log"]["default"] == []
