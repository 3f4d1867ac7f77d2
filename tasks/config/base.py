"""The base class of config sections, and the marks of fields that do not decide a result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints
from pydantic_core import PydanticUndefined

Family = TypeVar("Family", bound="Section")

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


def _as_tabs(schema: dict[str, Any]) -> None:
    """Replace `oneOf` by `anyOf`, which Prefect's form shows as tabs instead of raw JSON."""
    schema["anyOf"] = schema.pop("oneOf")
    del schema["discriminator"]


BY_KIND = Field(discriminator="kind", json_schema_extra=_as_tabs)
"""Marks a union of sections that is discriminated by `kind`."""


def _title(section: type[BaseModel]) -> str:
    """Return the title of a tab in Prefect's form: the `kind`."""
    kind = section.model_fields.get("kind")
    return kind.default if kind else section.__name__


class Section(BaseModel):
    """A closed, immutable part of the config: unknown keys are errors, docstrings are descriptions.

    Types are strict: `true` and `"60"` are no numbers; an integer is accepted as a float.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        model_title_generator=_title,
    )

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


class Conflict(ValueError):
    """A value that conflicts with another field of its section."""

    def __init__(self, field: str, saw: Any, rule: str, remedy: str) -> None:
        super().__init__(f"{field} ({saw}) {rule}; {remedy}")
        self.field, self.saw, self.rule, self.remedy = field, saw, rule, remedy


def kinds_of(family: type[Family]) -> dict[str, type[Family]]:
    """Return the kinds of a family by name, in the order of their definition: its subclasses that have a `kind`."""
    found: dict[str, type[Family]] = {}
    for section in family.__subclasses__():
        if (kind := section.model_fields.get("kind")) is not None and kind.default is not PydanticUndefined:
            found[kind.default] = section
        found |= kinds_of(section)
    return found


def subclasses(family: type[Any]) -> Iterator[type[Any]]:
    """Yield all subclasses of a class."""
    for inner in family.__subclasses__():
        yield inner
        yield from subclasses(inner)


def union_of(sections: Iterable[type[Section]]) -> Any:
    """Return the type of a field that is one of these sections, to be discriminated by `BY_KIND`."""
    return reduce(or_, sections)


def any_of(family: type[Section]) -> Any:
    """Return the type of a field that holds any kind of a family: the union of its sections, told apart by `kind`.

    It has the kinds that are defined by then: it stands below the last of them.
    """
    return Annotated[union_of(kinds_of(family).values()), BY_KIND]


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
