"""Families of sections of which one is chosen by `kind`: a kind is a class, and every list of them derives from it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from importlib import import_module
from itertools import count
from operator import or_
from pkgutil import iter_modules
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, Field

from tasks.config.base import Section, subclasses

_declarations = count()


class Kind(Section):
    """A section that is one of a family. Its field `kind` has the name by which it is chosen as its default.

    A class may say its `place` in the lists of the family: `class MlpModel(OwnArchitecture, place=1)`. Of one place,
    kinds are listed by module and in the order of the file. The first of those that fit is the default where there is
    one.
    """

    place: ClassVar[int] = 50
    _declared: ClassVar[int]

    kind: str

    def __init_subclass__(cls, place: int | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._declared = next(_declarations)
        if place is not None:
            cls.place = place

    @classmethod
    def listed_by(cls) -> tuple[Any, ...]:
        """Return what the kinds of the family are listed by."""
        return cls.place, cls.__module__, cls._declared

    @classmethod
    def kinds(cls) -> dict[str, type[Self]]:
        """Return the classes of the family that have been imported, by `kind`, in the order of the lists."""
        named = {kind_of(each): each for each in sorted(subclasses(cls), key=lambda each: each.listed_by())}
        return {kind: each for kind, each in named.items() if kind is not None}


def kind_of(section: type[BaseModel]) -> str | None:
    """Return the `kind` of a section; None where it has none."""
    field = section.model_fields.get("kind")
    return None if field is None or field.is_required() else field.default


def _as_tabs(schema: dict[str, Any]) -> None:
    """Replace `oneOf` by `anyOf`, which Prefect's form shows as tabs instead of raw JSON."""
    schema["anyOf"] = schema.pop("oneOf")
    del schema["discriminator"]


BY_KIND = Field(discriminator="kind", json_schema_extra=_as_tabs)
"""Marks a union of sections that is discriminated by `kind`."""


def any_of(kinds: Iterable[type[Section]]) -> Any:
    """Return the type of a field that holds one of these sections, told apart by `kind`."""
    return Annotated[reduce(or_, kinds), BY_KIND]


def import_kinds(package: str, path: Iterable[str]) -> None:
    """Import all modules of a package, by its name and `__path__`, so that the kinds in them are known."""
    for module in iter_modules(path, f"{package}."):
        import_module(module.name)
