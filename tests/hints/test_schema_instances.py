"""Building instances of a schema, taking them apart, and checking values against it."""

import typing
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest

from langgraph_async.hints import fields_of_instance, mapper, validator


@dataclass
class Data:
    a: int
    b: str = "x"
    c: int = field(default=0, init=False)


class Model(pydantic.BaseModel):
    a: int
    b: str = "x"


class Struct(msgspec.Struct):
    a: int
    b: str = "x"


@attrs.define
class Attrs:
    a: int
    _b: str = "x"


class Named(NamedTuple):
    a: int
    b: str = "x"


class Plain:
    a: int

    def __init__(self, a: int) -> None:
        self.a = a


class Typed(typing.TypedDict):
    a: int


@pytest.mark.parametrize("schema", [Typed, Named, Plain, int, list[int], Annotated[int, 1]])
def test_where_a_dict_will_do_there_is_no_mapper(schema: Any) -> None:
    assert mapper(schema) is None


@pytest.mark.parametrize("schema", [Data, Model, Struct])
def test_an_instance_is_built_from_the_keys_that_have_a_value(schema: Any) -> None:
    build = mapper(schema)
    assert build is not None

    assert build({"a": 1}) == schema(a=1, b="x")
    assert build({"a": 1, "b": "y"}) == schema(a=1, b="y")


def test_fields_that_the_constructor_does_not_take_are_left_out() -> None:
    build = mapper(Data)
    assert build is not None

    assert build({"a": 1, "c": 5}).c == 0


def test_private_attrs_fields_are_given_by_their_alias() -> None:
    build = mapper(Attrs)
    assert build is not None

    assert build({"a": 1, "_b": "y"}) == Attrs(a=1, b="y")


def test_pydantic_fields_with_an_alias_are_built_by_field_name() -> None:
    class Aliased(pydantic.BaseModel):
        a: int = pydantic.Field(alias="A")

    build = mapper(Aliased)
    assert build is not None
    assert build({"a": 1}).a == 1
    assert validator(Aliased)["a"]("2") == 2


def test_a_pydantic_instance_is_validated_when_built() -> None:
    build = mapper(Model)
    assert build is not None

    assert build({"a": "7"}).a == 7
    with pytest.raises(pydantic.ValidationError):
        build({"a": "x"})


@pytest.mark.parametrize(
    ("instance", "values"),
    [
        (Data(1), [("a", 1), ("b", "x"), ("c", 0)]),
        (Struct(1), [("a", 1), ("b", "x")]),
        (Attrs(1), [("a", 1), ("_b", "x")]),
        (Named(1), [("a", 1), ("b", "x")]),
        (Plain(1), [("a", 1)]),
        (Model(a=1), [("a", 1), ("b", "x")]),
    ],
)
def test_an_instance_gives_its_fields(instance: Any, values: list[tuple[str, Any]]) -> None:
    assert fields_of_instance(instance) == values


@pytest.mark.parametrize("value", [1, "x", None, [1], {"a": 1}, object()])
def test_what_is_no_instance_of_a_schema_gives_none(value: Any) -> None:
    assert fields_of_instance(value) is None


def test_a_pydantic_field_that_is_none_counts_only_if_given_or_different_from_its_default() -> None:
    class Nullable(pydantic.BaseModel):
        required: int | None
        plain: int | None = None
        given: int | None = None
        changed: int | None = 5

    instance = Nullable(required=None, given=None)
    instance.changed = None

    assert fields_of_instance(instance) == [("required", None), ("given", None), ("changed", None)]


def test_an_unset_attribute_of_a_plain_class_is_left_out() -> None:
    assert fields_of_instance(Plain.__new__(Plain)) == []


def test_only_pydantic_schemas_have_validators() -> None:
    assert validator(Data) == {}
    assert validator(Typed) == {}
    assert validator(int) == {}


def test_a_validator_converts_and_checks_one_field() -> None:
    class Checked(pydantic.BaseModel):
        number: Annotated[int, pydantic.Field(ge=0)]
        short: str = pydantic.Field(default="", max_length=2)
        name: str = "x"

        @pydantic.field_validator("name")
        @classmethod
        def lower(cls, value: str, info: pydantic.ValidationInfo) -> str:
            assert info.data == {}
            return value.lower()

        @pydantic.model_validator(mode="after")
        def whole(self) -> "Checked":
            raise AssertionError("needs a whole instance")

    checks = validator(Checked)

    assert checks["number"]("7") == 7
    assert checks["name"]("ABC") == "abc"
    with pytest.raises(pydantic.ValidationError, match="number"):
        checks["number"](-1)
    with pytest.raises(pydantic.ValidationError, match="at most 2"):
        checks["short"]("abc")


def test_the_models_config_applies_to_its_validators() -> None:
    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True, arbitrary_types_allowed=True)
        number: int

    with pytest.raises(pydantic.ValidationError):
        validator(Strict)["number"]("7")


class Tree(pydantic.BaseModel):
    children: list["Tree"] = []
    model: Model | None = None


def test_models_that_hold_models_and_themselves_have_validators() -> None:
    checks = validator(Tree)

    assert checks["children"]([{"children": [{}]}]) == [Tree(children=[Tree()])]
    assert checks["model"]({"a": "1"}) == Model(a=1)


def test_a_model_that_is_a_single_value_has_no_field_validators() -> None:
    assert validator(pydantic.RootModel[int]) == {}
