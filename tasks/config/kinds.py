"""Families of sections of which one is chosen by `kind`: a kind is a class, and every list of them derives from it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tasks.config.base import Section, kinds_of


class Kind(Section):
    """A section that is one of a family. Its field `kind` has the name by which it is chosen as its default.

    A class may say its `place` in the lists of the family: `class MlpModel(OwnArchitecture, place=1)`. Kinds of one
    place follow one another by name. The first of those that fit is the default where there is one.
    """

    if TYPE_CHECKING:
        kind: str
        place: ClassVar[int]

    def __init_subclass__(cls, place: int | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if place is not None:
            cls.place = place

    @classmethod
    def kinds(cls) -> dict[str, type[Self]]:
        """Return the classes of the family that have been imported, by `kind`, in the order of their places."""
        return dict(sorted(kinds_of(cls).items(), key=lambda entry: (entry[1].place, entry[0])))


Kind.place = 50


def import_kinds(package: str, path: Iterable[str]) -> None:
    """Import the modules of a package, so that the kinds in them are known; those of packages within it are not.

    Args:
        package: its name.
        path: its `__path__`.
    """
    for module in iter_modules(path):
        if not module.ispkg:
            import_module(f"{package}.{module.name}")
