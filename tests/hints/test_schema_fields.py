"""Reading the fields of every kind of schema. (No string annotations here: see `lazy_schemas` for those.)"""

import dataclasses
import operator
import subprocess
import sys
import typing
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Generic, NamedTuple, NotRequired, Required, TypeVar

import attrs
import lazy_schemas
import msgspec
import pydantic
import pytest
import typing_extensions
from typing_extensions import ReadOnly

from langgraph_async.hints import HintError, annotated, schema_fields, schema_kind

T = TypeVar("T")
Log = Annotated[list[str], operator.add]


class Typed(typing.TypedDict):
    log: Log
    note: NotRequired[Annotated[str, "extra"]]


class Extended(typing_extensions.TypedDict, total=False):
    log: Required[ReadOnly[Log]]
    note: Annotated[ReadOnly[str], "outer"]


@dataclass
class Data:
    log: Log
    count: int = 3
    tags: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "data"
    initial: dataclasses.InitVar[int] = 0


class Model(pydantic.BaseModel):
    log: Log
    count: int = pydantic.Field(default=3, ge=0)
    tags: list[str] = ["a"]
    made: dict[str, int] = pydantic.Field(default_factory=dict)
    kind: ClassVar[str] = "model"
    _private: int = 1


class Struct(msgspec.Struct):
    log: Log
    count: int = 3
    tags: list[str] = []


@attrs.define
class Attrs:
    log: Log
    count: int = 3
    tags: list[str] = attrs.Factory(list)


class Named(NamedTuple):
    log: Log
    count: int = 3


class Plain:
    log: Log
    count: int = 3
    kind: ClassVar[str] = "plain"


class PlainChild(Plain):
    more: Final[int] = 1


class Bare:
    pass


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (Typed, "typeddict"),
        (Extended, "typeddict"),
        (lazy_schemas.LazyGeneric[int], "typeddict"),
        (Data, "dataclass"),
        (Model, "pydantic"),
        (Struct, "msgspec"),
        (Attrs, "attrs"),
        (Named, "namedtuple"),
        (Plain, "object"),
        (PlainChild, "object"),
        (Bare, "root"),
        (int, "root"),
        (list[str], "root"),
        (Log, "root"),
        (int | str, "root"),
        (Any, "root"),
    ],
)
def test_the_kind_of_a_schema(schema: Any, kind: str) -> None:
    assert schema_kind(schema) == kind


def test_a_root_has_no_fields() -> None:
    assert schema_fields(Log) == {}


@pytest.mark.parametrize("schema", [Typed, Extended, Data, Model, Struct, Attrs, Named, Plain, lazy_schemas.Lazy])
def test_extras_are_kept_and_qualifiers_are_not(schema: Any) -> None:
    found = schema_fields(schema)["log"]

    assert annotated(found.hint) == (list[str], (operator.add,))
    assert found.required
    assert found.default is dataclasses.MISSING
    assert found.default_factory is None


@pytest.mark.parametrize("schema", [Data, Model, Struct, Attrs, Named, Plain])
def test_defaults_are_read(schema: Any) -> None:
    found = schema_fields(schema)["count"]

    assert (found.required, found.default, found.default_factory) == (False, 3, None)


@pytest.mark.parametrize(("schema", "value"), [(Data, []), (Model, ["a"]), (Struct, []), (Attrs, [])])
def test_a_mutable_default_is_made_anew_each_time(schema: Any, value: list[str]) -> None:
    found = schema_fields(schema)["tags"]
    assert found.default_factory is not None
    one, two = found.default_factory(), found.default_factory()

    assert one == two == value
    assert one is not two
    assert found.default is dataclasses.MISSING


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (Data, ["log", "count", "tags"]),
        (Model, ["log", "count", "tags", "made"]),
        (PlainChild, ["log", "count", "more"]),
        (lazy_schemas.LazyDataclass, ["later"]),
        (lazy_schemas.Lazy, ["log", "count", "needed"]),
    ],
)
def test_fields_are_those_of_an_instance_in_the_order_of_declaration(schema: Any, names: list[str]) -> None:
    assert sorted(schema_fields(schema)) == sorted(names)


def test_required_keys_are_right_even_where_annotations_are_strings() -> None:
    required = {name: found.required for name, found in schema_fields(lazy_schemas.LazyNotRequired).items()}
    inherited = {name: found.required for name, found in schema_fields(lazy_schemas.Lazy).items()}

    assert required == {"a": False, "b": False, "c": True}
    assert inherited == {"log": True, "count": False, "needed": True}
    assert schema_fields(Typed)["note"].required is False
    assert schema_fields(Extended)["note"].required is False


def test_a_qualifier_inside_annotated_is_taken_out() -> None:
    assert schema_fields(lazy_schemas.LazyNotRequired)["b"].hint == Annotated[int, "extra"]
    assert schema_fields(Extended)["note"].hint == Annotated[str, "outer"]
    assert schema_fields(PlainChild)["more"].hint is int


def test_parametrised_schemas_have_their_types_filled_in() -> None:
    fields = schema_fields(lazy_schemas.LazyGeneric[int])

    assert fields["items"].hint == Annotated[list[int], operator.add]
    assert fields["one"].hint is int
    assert schema_fields(lazy_schemas.LazyGeneric)["one"].hint is lazy_schemas.T


def test_parametrised_pydantic_models_have_their_types_filled_in() -> None:
    class Box(pydantic.BaseModel, Generic[T]):
        items: Annotated[list[T], operator.add]

    assert schema_fields(Box[int])["items"].hint == Annotated[list[int], operator.add]


def test_names_of_type_statements_are_looked_through() -> None:
    alias = typing_extensions.TypeAliasType("alias", Log)
    generic = typing_extensions.TypeAliasType("generic", Annotated[list[T], operator.add], type_params=(T,))

    class State(typing_extensions.TypedDict):
        log: alias  # type: ignore[valid-type]
        items: generic[int]  # type: ignore[valid-type]

    assert schema_fields(State)["log"].hint == Log
    assert schema_fields(State)["items"].hint == Annotated[list[int], operator.add]


def test_an_annotation_that_cannot_be_resolved_is_named() -> None:
    with pytest.raises(HintError, match="Field 'price' of Unresolvable: cannot resolve 'Decimal'") as caught:
        schema_fields(lazy_schemas.Unresolvable)

    assert (caught.value.schema, caught.value.field) == ("Unresolvable", "price")
    assert isinstance(caught.value.__cause__, NameError)


def test_an_attrs_default_that_needs_the_instance_is_not_a_first_value() -> None:
    @attrs.define
    class Dependent:
        a: int = 1
        b: int = attrs.Factory(lambda self: self.a, takes_self=True)

    found = schema_fields(Dependent)["b"]
    assert (found.required, found.default, found.default_factory) == (False, dataclasses.MISSING, None)


def test_reading_hints_loads_no_schema_library() -> None:
    code = (
        "import sys, dataclasses; from langgraph_async import hints\n"
        "@dataclasses.dataclass\nclass S:\n    a: int = 1\n"
        "hints.schema_fields(S), hints.validator(S), hints.mapper(S), hints.fields_of_instance(S())\n"
        "print([m for m in ('pydantic', 'msgspec', 'attrs', 'attr') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is newer")
def test_type_statements_and_type_parameters_are_understood() -> None:
    names: dict[str, Any] = {"TypedDict": typing.TypedDict, "Annotated": Annotated, "add": operator.add}
    exec(
        "type Log[T] = Annotated[list[T], add]\nclass State[T](TypedDict):\n    log: Log[T]\n    one: T\n",
        names,
    )
    fields = schema_fields(names["State"][int])

    assert fields["log"].hint == Annotated[list[int], operator.add]
    assert fields["one"].hint is int
