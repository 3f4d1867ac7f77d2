"""What `millrace init` has found, and what the user chose beforehand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from tasks.errors import Refused
from tasks.guess.roles import Columns
from tasks.guess.splits import Splits

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
