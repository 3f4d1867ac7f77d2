"""The roles of columns that were found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tasks.guess.tags import Tagged


@dataclass(frozen=True)
class Columns:
    """Types and roles of all columns."""

    types: dict[str, str]
    key: str | None = None
    label: str | None = None
    targets: tuple[str, ...] = ()
    group: str | None = None
    split: str | None = None
    classes: dict[str, int] = field(default_factory=dict)
    """Rows of the sample by class."""
    labels: dict[str, int] = field(default_factory=dict)
    """Rows of the sample by label, of which several may apply to a row."""
    said: tuple[str, ...] = ()
    """Lines for the user: what was chosen, and why."""
    splits: tuple[str, ...] = ()
    """Different values of the column `split`."""
    tagged: Tagged | None = None
    """The words and their tags, where the classes are those of words."""
    formats: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How cells are written (`source.formats`)."""
    placeholders_of: dict[str, list[str]] = field(default_factory=dict)
    """By column, cells without a letter or digit that mean a missing value."""
    kept: tuple[str, ...] = ()
    """Cells that usually mean a missing value, and are a class."""

    @property
    def placeholders(self) -> list[str]:
        """Those of all columns, sorted."""
        return sorted({text for texts in self.placeholders_of.values() for text in texts})

    @property
    def task(self) -> str:
        """What a model of these columns is trained for."""
        if self.tagged:
            return "tagging"
        if len(self.targets) > 1 or (self.targets and self.types[self.targets[0]] == "labels"):
            return "multilabel"
        return "classification" if self.label else "regression"

    @property
    def inputs(self) -> list[str]:
        """The columns that the model reads."""
        roles = {self.key, self.label, self.group, self.split, *self.targets}
        return [name for name, kind in self.types.items() if kind != "ignore" and name not in roles]
