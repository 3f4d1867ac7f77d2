"""What `millrace init` has found: roles of columns, and choices of the user."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from tasks.errors import Refused
from tasks.guess.column import WHOLE_OR_DECIMAL
from tasks.guess.splits import Splits


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


SUPPORTED = (
    "understood are: a file or folder of CSV, JSON lines, Parquet, TFRecord or WebDataset tar files; a database; a "
    "folder or archive with a folder of images or sounds for each class, or with text files; a data set that "
    "tensorflow-datasets has prepared, or its name"
)


@dataclass(frozen=True, kw_only=True)
class Guess:
    """The result of `guess_source`."""

    what: Literal["images", "text", "words", "table"]
    """Which preset fits: an image classifier, a language model, a tagger, or a model over any columns."""
    source: dict[str, Any]
    """The config section."""
    counts: dict[str, int]
    """Examples by class, files by suffix, or rows."""
    description: str
    """One line for the user."""
    splits: Splits
    examples: int
    """Number of examples, about."""
    columns: Columns
    """Types and roles of the columns."""
    sample: dict[str, pa.Array] = field(default_factory=dict)
    """Raw rows of a table, by column."""
    task: str = "classification"
    transforms: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of a table, those whose sizes follow from the data (`snapshot.transforms`)."""
    shape: tuple[int, int, int] = (0, 0, 0)
    """Height, width and channels of the snapshot of images."""
    sizes: str = ""
    """Range of the images' sizes, for the user."""
    levels: str = ""
    """Why the range of grey levels is chosen by the data, for the user; nothing where all of them are taken."""
    bytes: int = 0
    """Size of all texts."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of files that the source does not read, by suffix."""
    said: tuple[str, ...] = ()
    """Further lines for the user: what was seen, and what was chosen why."""

    @property
    def name(self) -> str:
        """The name of source and preset."""
        return str(self.source["name"])

    @property
    def classes(self) -> list[str]:
        """The classes of the label."""
        return list(self.columns.classes)


@dataclass(frozen=True)
class Choices:
    """What the user decides."""

    suffix: str | None = None
    """Selects one of several kinds of files."""
    label: str | None = None
    """The column that is predicted."""
    key: str | None = None
    """The column that is the key."""
    table: str | None = None
    """The table of a database."""


def name_of(path: Path | str) -> str:
    """Return the last part of a path as a valid `source.name`."""
    plain = re.sub(r"[^a-z0-9]+", "_", Path(path).name.lower()).strip("_")
    return plain if plain[:1].isalpha() else f"data_{plain}".rstrip("_")


def refuse(path: Path | str, saw: str) -> Refused:
    """Return the error for what is no source."""
    return Refused("PATH", f"{path}: {saw}", SUPPORTED, "bring it into one of these forms, or write a preset by hand")


@dataclass(frozen=True)
class Tagged:
    """A column of words and one of their tags."""

    words: str
    tags: str
    classes: dict[str, int]
    """Words of the sample by tag; numbers in their order."""
    length: int
    """A length for rows of words, which cuts few."""
    longest: int
    """Words of the longest row."""

    @property
    def numbered(self) -> bool:
        """Whether the classes are numbers, and not their names."""
        return all(WHOLE_OR_DECIMAL.fullmatch(name) for name in self.classes)
