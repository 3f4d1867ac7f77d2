"""The base class of config sections, the marks of fields that do not decide a result, and sizes in bytes."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, Strict, StringConstraints
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

Family = TypeVar("Family")

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
"""A name that is used for files and folders."""

OWN_CODE = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"


class NamesOwnCode:
    """Marks a field with functions of the user's, which are imported from the `folder` of its section."""


HAS_OWN_CODE = NamesOwnCode()
OwnCode = Annotated[str, StringConstraints(pattern=OWN_CODE), HAS_OWN_CODE]
"""A function of the user's: `package.module:function`."""


LISTED = Strict(False)
"""Marks a tuple, which is a list in YAML and JSON."""


PATTERNS = {OWN_CODE: "must be package.module:function"}
"""What text of a pattern must be, in words; sections with patterns of their own add them."""


def _title(section: type[BaseModel]) -> str:
    """Return the title of a tab in Prefect's form: the `kind`."""
    kind = section.model_fields.get("kind")
    return kind.default if kind else section.__name__


class Section(BaseModel):
    """A closed, immutable part of the config: unknown keys are errors; docstrings below fields describe them.

    Types are strict: `true` and `"60"` are no numbers; an integer is accepted as a float.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, model_title_generator=_title
    )

    form_first: ClassVar[tuple[str, ...]] = ()
    """The fields that Prefect's form shows before the others: those that people change most."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name, text in descriptions(cls).items():
            properties[name].setdefault("description", text)
        if cls.form_first:  # by `position` Prefect (3.8) sorts the fields of its forms
            for position, name in enumerate(dict.fromkeys((*cls.form_first, *properties))):
                properties[name]["position"] = position
        return schema

    @property
    def secrets(self) -> tuple[str, ...]:
        """The variables that its fields refer to, by `env:NAME`."""
        return ()

    def decides(self, name: str) -> bool:
        """Return whether a field with its present value can change a result."""
        marks = {type(mark) for mark in type(self).model_fields[name].metadata}
        return NotIdentity not in marks and name not in self.later()

    def later(self) -> set[str]:
        """Return the fields that were added later and have their defaults, which earlier bytes do not have."""
        fields = type(self).model_fields
        return {
            name
            for name, field in fields.items()
            if any(isinstance(mark, Later) for mark in field.metadata) and getattr(self, name) == field.default
        }


@cache
def descriptions(section: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a section's fields, by field; of one that has a description of its own this.

    They are read when a schema or a page is made. pydantic's own `use_attribute_docstrings` (2.14) reads and parses the
    source of each class when it is defined, which took half of the time that the import of the config takes.
    """
    found = {name: text for each in reversed(section.__mro__) for name, text in _docstrings(each)}
    texts = {name: field.description or found.get(name) for name, field in section.model_fields.items()}
    return {name: text for name, text in texts.items() if text}


def _docstrings(section: type) -> Iterator[tuple[str, str]]:
    body: list[ast.stmt] = _source(section.__module__).body
    for name in section.__qualname__.replace(".<locals>", "").split("."):
        body = next((each.body for each in body if isinstance(each, SCOPES) and each.name == name), [])
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


SCOPES = (ast.ClassDef, ast.FunctionDef)


@cache
def _source(module: str) -> ast.Module:
    try:
        return ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):  # built in, or typed at a prompt
        return ast.Module([], [])


class Conflict(ValueError):
    """A value that conflicts with another field of its section."""

    def __init__(self, field: str, saw: Any, rule: str, remedy: str) -> None:
        super().__init__(f"{field} ({saw}) {rule}; {remedy}")
        self.field, self.saw, self.rule, self.remedy = field, saw, rule, remedy


def subclasses(family: type[Family]) -> Iterator[type[Family]]:
    """Yield all subclasses of a class."""
    for inner in family.__subclasses__():
        yield inner
        yield from subclasses(inner)


class NotIdentity:
    """Marks a field that cannot change a result, only how, where or how fast it is computed."""


class Later:
    """Marks a field that was added later: with its default it is not part of digests."""


@dataclass(frozen=True)
class IsPath:
    """Marks a field with the path of a file or folder, relative to the preset."""

    suffix: str = ""
    """Suffix of the values that are paths; others are names."""
    has: str = ""
    """What is in the values that are paths; others are names."""

    def of(self, value: str) -> bool:
        """Return whether a value is a path."""
        return value.endswith(self.suffix) and self.has in value


NOT_IDENTITY = NotIdentity()
LATER = Later()


def identity(value: Any) -> Any:
    """Return the JSON value of a config for digests, with the fields that can change a result."""
    if isinstance(value, Section):
        return {
            name: identity(getattr(value, name)) for name in sorted(type(value).model_fields) if value.decides(name)
        }
    if isinstance(value, dict):
        return {str(key): identity(item) for key, item in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [identity(item) for item in value]
    return value


SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def size_in_bytes(value: Any) -> Any:
    """Return the bytes of a text (`2MB`, `500 kB`); any other value as it is.

    Raises:
        ValueError: a text that is no size.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    unit = next((unit for unit in sorted(SIZES, key=len, reverse=True) if text.endswith(unit)), None)
    number = text.removesuffix(unit).strip() if unit else ""
    try:
        size = float(number) * SIZES[unit or ""]
    except (ValueError, KeyError):
        raise ValueError(f"must be a size; write a number of bytes, or one with a unit: {', '.join(SIZES)}") from None
    if not 1 <= size < 2**63:
        raise ValueError("must be at least one byte and less than 8 EiB; write another size")
    return int(size)


Bytes = Annotated[int, BeforeValidator(size_in_bytes), Field(gt=0)]
"""A number of bytes; as text `2MB`, `500kB`, `1.5MiB`."""
