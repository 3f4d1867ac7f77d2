"""Fitting transforms on the train split, in one pass: a module per kind of transform, with `fitter` and `graph`.

What is fitted is JSON, and applied by the module of the same name in `tasks.reader`, in snapshots and exports;
`graph` makes operations of TensorFlow of it that do the same, for several columns at once, where there are such.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.config.transform import DEFAULTS, TRANSFORMS, NumberTransform, TransformConfig
from tasks.errors import Refused
from tasks.reader.values import Values
from tasks.snapshots.transforms.columns import typed
from tasks.snapshots.transforms.graphs import Graph
from tasks.sources.features import Feature, of_role

if TYPE_CHECKING:
    import pyarrow as pa

Rows = NDArray[np.int64]

NUMBERS, CATEGORIES = "numbers", "categories"
"""The arrays that several columns share."""

LABEL, TARGET, WEIGHT = "label", "target", "weight"
RESERVED = (NUMBERS, CATEGORIES, LABEL, TARGET, WEIGHT, "tokens", "row", "origin", "pieces", "key")
"""Names of a snapshot's other arrays and of its batches; `tokens` are those of a language model."""

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
ALONE = ("text", "words", "image", "audio")
"""Kinds of columns whose transforms make arrays of their own, but for functions."""

PARAMETERS = ("fill", "values", "levels", "boundaries", "buckets")
"""What is an array of constants in the graph of several columns; in all else of their states they are equal."""


@dataclass(frozen=True)
class Fitted:
    """A fitted transform of a column."""

    state: dict[str, Any]
    """What `tasks.reader` needs to apply it, JSON; `kind` names the module."""

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


def choose(features: Mapping[str, Feature], given: Mapping[str, TransformConfig]) -> dict[str, TransformConfig]:
    """Return the transform of each input in order of name: the given one, or that of its kind.

    Raises:
        Refused: one is given for a column that is not an input, or of a kind that it does not take; or a column's
            array has the name of another.
    """
    inputs = of_role(dict(features), "input")
    for name, transform in given.items():
        setting = f"snapshot.transforms.{name}"
        if name not in features:
            known = f"the inputs are {', '.join(inputs)}"
            raise Refused(setting, f"no column {name}", known, "correct the name, or leave it out")
        if name not in inputs:
            rule = "only inputs of the model are transformed"
            raise Refused(setting, f"{name} is the {features[name].role}", rule, "leave it out")
        _check(setting, inputs[name], transform)
    chosen = {name: given.get(name) or DEFAULTS[feature.kind]() for name, feature in inputs.items()}
    for name, feature in inputs.items():
        if (feature.kind in ALONE or feature.shape) and chosen[name].kind != "function":
            own_array(name)
    return chosen


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
    if name in RESERVED:
        rule = f"an array of a snapshot has this name, as have {', '.join(each for each in RESERVED if each != name)}"
        raise Refused("source.columns", column, rule, "rename the column")
    return name


def _check(setting: str, feature: Feature, transform: TransformConfig) -> None:
    if feature.kind not in transform.reads:
        fitting = [kind for kind, section in TRANSFORMS.items() if feature.kind in section.reads]
        rule = f"takes a column of type {' or '.join(transform.reads)}, and this one is of type {feature.kind}"
        raise Refused(f"{setting}.kind", transform.kind, rule, f"use {', '.join(fitting)}")
    if not feature.shape or feature.kind != "number":
        return
    if not transform.reads_arrays:
        fitting = [kind for kind, section in TRANSFORMS.items() if "number" in section.reads and section.reads_arrays]
        rule = f"takes single numbers, and this column holds arrays of shape {list(feature.shape)}"
        raise Refused(f"{setting}.kind", transform.kind, rule, f"use {', '.join(fitting)}")
    if isinstance(transform, NumberTransform):
        if transform.missing.indicator is True:
            raise Refused(f"{setting}.missing.indicator", "true", "an array of numbers has none", "leave it out")
        if transform.missing.fill == "median":
            rule = "the median of an array's values is not computed"
            raise Refused(f"{setting}.missing.fill", "median", rule, "use mean, zero or a number")


def fitter(name: str, feature: Feature, transform: TransformConfig, folder: Path) -> Fitter:
    """Return a fitter of a column that has seen nothing; `folder` is the `transform/` with the files of functions."""
    made: Fitter = import_module(f"tasks.snapshots.transforms.{transform.kind}").fitter(
        name, feature, transform, folder
    )
    return made


def formula(state: dict[str, Any]) -> str:
    """Return what a fitted transform computes, but for its `PARAMETERS`: of equal ones there is one `graph`."""
    return json.dumps({name: value for name, value in state.items() if name not in PARAMETERS}, sort_keys=True)


def graph(states: Sequence[dict[str, Any]]) -> Graph | str:
    """Return fitted transforms of one `formula` as operations of TensorFlow, or why only the reader can apply them."""
    made: Graph | str = import_module(f"tasks.snapshots.transforms.{states[0]['kind']}").graph(states)
    return made


def fit(
    transforms: Mapping[str, TransformConfig],
    features: Mapping[str, Feature],
    read: Callable[[list[str]], Iterable[pa.Table]],
    folder: Path = Path(),
) -> dict[str, Fitted]:
    """Fit transforms by column, in one pass over the train split.

    Args:
        read: returns tables of the train split in order, from the names of the columns that are needed.
        folder: the `transform/` with the files of functions.
    """
    fitters = {name: fitter(name, features[name], transform, folder) for name, transform in transforms.items()}
    reading = {name: each for name, each in fitters.items() if each.reads}
    row = 0
    for table in read(list(reading)):
        rows = np.arange(row, row + table.num_rows, dtype=np.int64)
        for name, each in reading.items():
            each.add(typed(table[name], features[name]), rows)
        row += table.num_rows
    return {name: each.fitted() for name, each in fitters.items()}
