"""What a transform is: settings, what it learns from the train split, and its operations of TensorFlow. A class a kind.

What is fitted is JSON, and applied by the function of the same name in `tasks.reader`, in snapshots and exports;
`graph` makes operations of TensorFlow of it that do the same, for several columns at once, where there are such.

A file of this folder with a class of `Transform` is found, and no other line names it. They import neither TensorFlow
nor Pillow at their top, as the config is read by processes that compute nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.config import task
from tasks.config.kinds import Kind
from tasks.config.task import LABEL, OUTPUT, TARGET, WEIGHT
from tasks.errors import Refused
from tasks.reader.values import Values
from tasks.snapshots.transforms.graphs import Graph
from tasks.sources.features import Feature

Rows = NDArray[np.int64]

NUMBERS, CATEGORIES = "numbers", "categories"
"""The arrays that several columns share."""

RESERVED = (NUMBERS, CATEGORIES, LABEL, TARGET, WEIGHT, "tokens", "row", "origin", "pieces", "key")
"""Names of a snapshot's other arrays and of its batches; `tokens` are those of a language model."""

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Fitted:
    """A fitted transform of a column."""

    state: dict[str, Any]
    """What `tasks.reader` needs to apply it, JSON; `kind` names the function."""

    feature: dict[str, Any]
    """Of a share of `numbers`: `names`, `mean` and `variance` of each number; of `categories`: `names` and `sizes`; of
    an array of its own: `dtype`, `shape` and what else the manifest's features say of it."""

    array: str | None = None
    """`NUMBERS` or `CATEGORIES`; None where the column has an array of its own."""

    summary: dict[str, float] = field(default_factory=dict)
    """Figures for people, such as the size of a vocabulary."""

    files: dict[str, bytes] = field(default_factory=dict)
    """Files of `transform/` that belong to the state."""


class Fitter(Protocol):
    """Learns a transform from the values of the train split, in any batches."""

    @property
    def reads(self) -> bool:
        """Whether it needs values at all."""
        ...

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from the values of some rows of the train split; `rows` are their numbers there."""
        ...

    def fitted(self) -> Fitted:
        """Return the transform."""
        ...


@dataclass(frozen=True)
class Known:
    """The fitter of a transform that has nothing to learn."""

    transform: Fitted
    reads: bool = False

    def add(self, values: Values, rows: Rows) -> None:
        """Learn nothing."""

    def fitted(self) -> Fitted:
        """Return the transform."""
        return self.transform


class Transform(Kind):
    """A transform of a column."""

    reads: ClassVar[tuple[str, ...]]
    """The kinds of features that it takes."""
    reads_arrays: ClassVar[bool] = False
    """Whether it takes arrays of numbers."""
    usual: ClassVar[bool] = False
    """Whether it is the one of the features that it takes, where none is given."""
    makes: ClassVar[str | None] = task.NUMBERS
    """The kind of input that it makes; None where only what is fitted tells."""
    alone: ClassVar[bool] = False
    """Whether it makes an array of its own also of a column of single values."""
    no_graph: ClassVar[str] = ""
    """Why only the reader can apply it, where it has no operations of TensorFlow."""

    def is_alone(self, feature: Feature) -> bool:
        """Return whether it is known to make an array of its own of such a column."""
        return self.alone or bool(feature.shape)

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        """Return a fitter of a column that has seen nothing; `folder` is the `transform/` with the user's functions."""
        raise NotImplementedError

    @classmethod
    def graph(cls, states: Sequence[dict[str, Any]]) -> Graph | str:
        """Return fitted transforms of one `formula` as operations of TensorFlow, or why there are none."""
        return cls.no_graph


def own_array(column: str) -> str:
    """Return the name of a column's array: `my_text` of a column `my text`.

    It names files and the layers of the model, so that it has letters of ASCII, digits and _ . - only. Where other
    letters are replaced, a hash keeps different columns apart.

    Raises:
        Refused: another array of a snapshot has this name.
    """
    name = NOT_IN_NAMES.sub("_", column)
    if not column.isascii():
        name = f"{name}_{hashlib.sha256(column.encode()).hexdigest()[:8]}"
    if not name[0].isalnum():
        name = f"column{name}"
    if name == "tokens":  # as lists of words are called; the array of this name is a language model's
        return "column_tokens"
    if name in RESERVED or name.startswith(OUTPUT):
        others = ", ".join(each for each in (*RESERVED, f"{OUTPUT}COLUMN") if each != name)
        rule = f"an array of a snapshot has this name, as have {others}"
        raise Refused("source.columns", column, rule, "rename the column")
    return name


def no_flag(value: Any) -> Any:
    """Refuse `true` and `false`, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, or a word; choose one of them")
    return value
