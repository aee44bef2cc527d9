"""Fields, defaults and `Annotated` extras of a state schema, whatever kind of class it is.

Knows TypedDict, dataclass, pydantic (v2), msgspec and attrs classes, named tuples and plain annotated classes;
anything else, such as ``list[str]``, is one value without fields: a root. None of the libraries is imported
unless a schema of its kind is at hand.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass
from functools import lru_cache, partial
from types import FunctionType, MemberDescriptorType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    cast,
    get_args,
    get_origin,
)

import typing_extensions
from typing_extensions import ReadOnly

SchemaKind: TypeAlias = Literal[
    "typeddict", "dataclass", "pydantic", "msgspec", "attrs", "namedtuple", "object", "root"
]


class HintError(TypeError):
    """An annotation cannot be resolved.

    Attributes:
        schema: Name of the schema.
        field: Name of the field, or ``""`` when it cannot be told which.
    """

    def __init__(self, message: str, *, schema: str, field: str = "") -> None:
        super().__init__(message)
        self.schema = schema
        self.field = field


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema.

    Attributes:
        name: Its name.
        hint: Its resolved annotation with the `Annotated` extras, without ``Required``, ``NotRequired``,
            ``ReadOnly`` and ``Final``; names of ``type`` statements are replaced by what they stand for.
        required: Whether an instance cannot be without it.
        default: Its default, or `dataclasses.MISSING`.
        default_factory: Makes its default, or None.
    """

    name: str
    hint: Any
    required: bool = True
    default: Any = dataclasses.field(default_factory=lambda: MISSING)
    default_factory: Callable[[], Any] | None = None


# -- kinds --------------------------------------------------------------------------------------------------


def schema_kind(schema: Any) -> SchemaKind:
    """Tell what kind of schema this is; parametrised, as in ``State[int]``, it is of the kind of ``State``."""
    cls: Any = get_origin(schema) or schema
    return _class_kind(cast("Any", cls)) if inspect.isclass(cls) else "root"


@lru_cache(maxsize=1024)
def _class_kind(cls: type) -> SchemaKind:
    if typing.is_typeddict(cls) or typing_extensions.is_typeddict(cls):
        return "typeddict"
    if dataclasses.is_dataclass(cls):
        return "dataclass"
    if hasattr(cls, "model_fields") and hasattr(cls, "__pydantic_validator__"):
        return "pydantic"
    if hasattr(cls, "__struct_fields__"):
        return "msgspec"
    if hasattr(cls, "__attrs_attrs__"):
        return "attrs"
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "namedtuple"
    return "object" if any(_raw_annotations(base) for base in cls.__mro__) else "root"


def _raw_annotations(cls: type) -> dict[str, Any]:
    """Return the annotations in the body of `cls` itself; those that cannot be resolved yet as references."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(cls)


# -- fields -------------------------------------------------------------------------------------------------


def schema_fields(schema: Any) -> dict[str, Field]:
    """Return the fields of `schema` by name, in the order of their declaration; none for a root.

    Raises:
        HintError: An annotation names something that cannot be found.
    """
    kind = schema_kind(schema)
    if kind == "root":
        return {}
    cls = get_origin(schema) or schema
    if kind == "pydantic":
        return {field.name: field for field in _pydantic_fields(cls)}
    hints = _hints_of(cls)
    bound = _type_arguments(cls, get_args(schema))
    return {field.name: field for field in _READERS[kind](cls, {n: _bind(h, bound) for n, h in hints.items()})}


def _typeddict_fields(cls: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for name, hint in hints.items():
        bare, required = unqualified(hint)
        # With string annotations, the class itself does not know of (Not)Required inside them.
        yield Field(name, bare, name in cls.__required_keys__ if required is None else required)


def _dataclass_fields(cls: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for field in dataclasses.fields(cls):
        factory: Any = None if field.default_factory is MISSING else field.default_factory
        required = field.default is MISSING and factory is None
        yield Field(field.name, unqualified(hints[field.name])[0], required, field.default, factory)


def _pydantic_fields(cls: Any) -> Iterator[Field]:
    try:
        hints = {} if cls.__pydantic_generic_metadata__["args"] else _hints_of(cls)
    except HintError:
        hints = {}  # pydantic looks into the scope around the class too, and knows better
    for name, info in cls.model_fields.items():
        hint = hints.get(name)
        if hint is None:
            hint = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
        required = info.is_required()
        factory = info.default_factory
        if factory is not None and getattr(info, "default_factory_takes_validated_data", False):
            factory = None
        default = MISSING if required or info.default_factory is not None else info.default
        if type(default) in (list, dict, set):
            default, factory = MISSING, partial(copy.deepcopy, default)
        yield Field(name, unqualified(hint)[0], required, default, factory)


def _msgspec_fields(cls: Any, hints: dict[str, Any]) -> Iterator[Field]:
    from msgspec import NODEFAULT
    from msgspec.structs import fields

    for field in fields(cls):
        default = MISSING if field.default is NODEFAULT else field.default
        factory: Any = None if field.default_factory is NODEFAULT else field.default_factory
        yield Field(field.name, unqualified(hints[field.name])[0], field.required, default, factory)


def _attrs_fields(cls: Any, hints: dict[str, Any]) -> Iterator[Field]:
    from attrs import NOTHING

    for field in cls.__attrs_attrs__:
        default, factory = field.default, None
        if hasattr(default, "takes_self"):  # an attrs.Factory, which as a type is only a function
            factory = None if default.takes_self else default.factory
        if default is NOTHING or hasattr(default, "takes_self"):
            default = MISSING
        hint = unqualified(hints.get(field.name, Any))[0]
        yield Field(field.name, hint, field.default is NOTHING, default, factory)


def _namedtuple_fields(cls: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for name in cls._fields:
        default = cls._field_defaults.get(name, MISSING)
        yield Field(name, unqualified(hints.get(name, Any))[0], default is MISSING, default)


def _object_fields(cls: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for name, hint in hints.items():
        if name == "__slots__" or hint is ClassVar or get_origin(hint) is ClassVar:
            continue
        default = inspect.getattr_static(cls, name, MISSING)
        if isinstance(default, (MemberDescriptorType, FunctionType, property)):
            default = MISSING
        yield Field(name, unqualified(hint)[0], default is MISSING, default)


_READERS: Final[dict[str, Callable[[Any, dict[str, Any]], Iterator[Field]]]] = {
    "typeddict": _typeddict_fields,
    "dataclass": _dataclass_fields,
    "msgspec": _msgspec_fields,
    "attrs": _attrs_fields,
    "namedtuple": _namedtuple_fields,
    "object": _object_fields,
}


# -- annotations --------------------------------------------------------------------------------------------


def unaliased(hint: Any) -> Any:
    """Return what `hint` stands for if it is the name of a ``type`` statement, else `hint`."""
    while True:
        alias = get_origin(hint) or hint
        if type(alias).__name__ != "TypeAliasType":
            return hint
        arguments = get_args(hint)
        hint = _bind(alias.__value__, dict(zip(alias.__type_params__, arguments, strict=False)))


def unqualified(hint: Any) -> tuple[Any, bool | None]:
    """Return `hint` without the qualifiers of a field, and what ``Required`` or ``NotRequired`` said, if any did.

    Extras of nested `Annotated` come together, the innermost first.
    """
    required: bool | None = None
    extras: tuple[Any, ...] = ()
    while True:
        hint = unaliased(hint)
        origin = get_origin(hint)
        if origin is Annotated:
            hint, *inner = get_args(hint)
            extras = (*inner, *extras)
        elif origin in (Required, NotRequired, ReadOnly, Final):
            if origin in (Required, NotRequired):
                required = origin is Required if required is None else required
            (hint,) = get_args(hint)
        else:
            return (Annotated[hint, *extras] if extras else hint), required


def annotated(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type and the `Annotated` extras of `hint`, which has been through `unqualified`."""
    if get_origin(hint) is Annotated:
        typ, *extras = get_args(hint)
        return typ, tuple(extras)
    return hint, ()


def _type_arguments(cls: Any, arguments: tuple[Any, ...]) -> dict[Any, Any]:
    return dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))


def _bind(hint: Any, bound: dict[Any, Any]) -> Any:
    """Return `hint` with type variables replaced."""
    if not bound:
        return hint
    if isinstance(hint, typing.TypeVar):
        return bound.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or inspect.isclass(hint):
        return hint
    return hint[tuple(bound.get(parameter, parameter) for parameter in parameters)]


def _hints_of(cls: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception as exc:
        raise _unresolved(cls, exc) from exc


def _unresolved(cls: Any, exc: Exception) -> HintError:
    missing = getattr(exc, "name", None) if isinstance(exc, NameError) else None
    bases = (*getattr(cls, "__orig_bases__", ()), *cls.__mro__)
    for base in (get_origin(base) or base for base in bases):
        for name, raw in _raw_annotations(base).items() if inspect.isclass(base) else ():
            if missing is not None and missing in _names_in(raw):
                return HintError(
                    f"Field '{name}' of {cls.__qualname__}: cannot resolve {missing!r} in its annotation. A name "
                    f"in a string annotation must be found in module {cls.__module__}; move it to the module's "
                    f"top level, out of `if TYPE_CHECKING` and out of functions.",
                    schema=cls.__qualname__,
                    field=name,
                )
    return HintError(f"Cannot resolve the annotations of {cls.__qualname__}: {exc}", schema=cls.__qualname__)


def _names_in(raw: Any) -> set[str]:
    text = raw if isinstance(raw, str) else getattr(raw, "__forward_arg__", None) or repr(raw)
    for mark in "[](),.|'\"{}":
        text = text.replace(mark, " ")
    return set(text.split())


# -- instances ----------------------------------------------------------------------------------------------


def mapper(schema: Any) -> Callable[[dict[str, Any]], Any] | None:
    """Return what builds an instance of `schema` from a dict of the fields that have a value.

    None where a dict will do (TypedDict, named tuples and plain annotated classes), or there are no fields (a root).
    The function raises what the constructor raises, for a missing field or a value that is not valid.
    """
    kind = schema_kind(schema)
    cls: Any = get_origin(schema) or schema
    if kind in ("typeddict", "namedtuple", "object", "root"):
        return None
    names = _constructor_names(cls, kind)
    if all(name == parameter for name, parameter in names.items()):
        return lambda values: cls(**values)
    return lambda values: cls(**{to: value for key, value in values.items() if (to := names[key]) is not None})


def _constructor_names(cls: Any, kind: SchemaKind) -> dict[str, str | None]:
    """Return, by field, the constructor's parameter; None for a field that it does not take."""
    if kind == "dataclass":
        return {field.name: field.name if field.init else None for field in dataclasses.fields(cls)}
    if kind == "attrs":
        return {field.name: field.alias if field.init else None for field in cls.__attrs_attrs__}
    if kind == "pydantic":
        config = cls.model_config
        if config.get("populate_by_name") or config.get("validate_by_name"):
            return {name: name for name in cls.model_fields}
        aliases = {name: info.validation_alias for name, info in cls.model_fields.items()}
        return {name: alias if isinstance(alias, str) else name for name, alias in aliases.items()}
    return {}


def fields_of_instance(obj: Any) -> list[tuple[str, Any]] | None:
    """Return the fields of `obj` that are set, with their values; None when its class declares no fields.

    Of a pydantic model, a field that is None counts as not set, unless it was given explicitly or its default
    is something else.
    """
    cls: Any = type(obj)
    kind = _class_kind(cls)
    if kind == "root":
        return None
    if kind == "pydantic":
        given = obj.model_fields_set
        return [
            (name, value)
            for name, info in cls.model_fields.items()
            if (value := getattr(obj, name, None)) is not None
            or (name in given)
            or info.is_required()
            or info.default is not None
        ]
    return [(name, getattr(obj, name)) for name in _field_names(cls) if hasattr(obj, name)]


def may_be_left_out(obj: Any) -> frozenset[str]:
    """Return the fields of `obj` that have a default and, as far as its class tells, were not given explicitly.

    Only pydantic models tell; of other classes every field that has a default may have been left to it.
    """
    cls: Any = type(obj)
    optional = _optional_fields(cls)
    return optional - obj.model_fields_set if _class_kind(cls) == "pydantic" else optional


@lru_cache(maxsize=1024)
def _optional_fields(cls: Any) -> frozenset[str]:
    return frozenset(name for name, field in schema_fields(cls).items() if not field.required)


@lru_cache(maxsize=1024)
def _field_names(cls: Any) -> tuple[str, ...]:
    kind = _class_kind(cls)
    if kind == "dataclass":
        return tuple(field.name for field in dataclasses.fields(cls))
    if kind == "msgspec":
        return tuple(cls.__struct_fields__)
    if kind == "attrs":
        return tuple(field.name for field in cls.__attrs_attrs__)
    if kind == "namedtuple":
        return tuple(cls._fields)
    return tuple(schema_fields(cls))


def validator(schema: Any) -> dict[str, Callable[[Any], Any]]:
    """Return, for each field of a pydantic model, what checks and converts a value of it; for others, nothing.

    The functions apply the field's type, constraints and field validators (which see no other fields); the
    model's own validators, which need a whole instance, are not run. They take whole values of the field: the
    update of a key with a reducer is something else. They raise ``pydantic.ValidationError``.
    """
    if schema_kind(schema) != "pydantic":
        return {}
    cls: Any = get_origin(schema) or schema
    cls.model_rebuild()
    fields, config, definitions = _model_fields_core(cls.__pydantic_core_schema__)
    return {name: _field_validator(name, field, config, definitions) for name, field in fields.items()}


def _model_fields_core(core: Any) -> tuple[dict[str, Any], Any, list[Any]]:
    """Return pydantic's inner schemas of a model's fields, out of the wrappers around them, its config and its
    definitions; no fields for a model that is a single value or makes its own schema.

    Source: ``pydantic_core.core_schema``, the functions ``definitions_schema``, ``model_schema`` and
    ``model_fields_schema``.
    """
    definitions: list[Any] = []
    config = None
    while core["type"] != "model-fields":
        if core["type"] == "definition-ref":
            core = next(each for each in definitions if each.get("ref") == core["schema_ref"])
            continue
        if core["type"] == "definitions":
            definitions = [*definitions, *core["definitions"]]
        elif core["type"] == "model":
            config = core.get("config")
        if core.get("root_model") or "schema" not in core:
            return {}, config, definitions
        core = core["schema"]
    return core["fields"], config, definitions


def _field_validator(name: str, field: dict[str, Any], config: Any, definitions: list[Any]) -> Callable[[Any], Any]:
    from pydantic_core import SchemaValidator

    # Alone in a model-fields schema, so that errors name the field and validators that want `info` get it.
    bare = {key: value for key, value in field.items() if key != "validation_alias"}
    core: Any = {"type": "model-fields", "fields": {name: bare}}
    if definitions:
        core = {"type": "definitions", "schema": core, "definitions": definitions}
    check = SchemaValidator(core, config).validate_python

    def validate(value: Any) -> Any:
        fields, _, _ = check({name: value})
        return fields[name]

    return validate
