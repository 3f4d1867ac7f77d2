"""Transforms of the columns of a table: the union of their sections, which is chosen for each, fitting them, and where
their results go: the arrays of the snapshot, and its `transform/transform.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.config.kinds import any_of, import_kinds
from tasks.config.task import SERVED_AS
from tasks.errors import Refused
from tasks.reader import FORMAT
from tasks.snapshots import transforms
from tasks.snapshots.transforms import CATEGORIES, NUMBERS, Fitted, Transform, own_array
from tasks.snapshots.transforms.graphs import Graph
from tasks.snapshots.transforms.numbers import NumberTransform
from tasks.sources.features import Feature, of_role
from tasks.sources.kinds.formats import CellFormat

if TYPE_CHECKING:
    import pyarrow as pa

import_kinds(transforms.__name__, transforms.__path__)

TRANSFORMS: dict[str, type[Transform]] = Transform.kinds()
"""The sections by `kind`."""

if TYPE_CHECKING:
    TransformConfig = Transform
else:
    TransformConfig = any_of(TRANSFORMS.values())

DEFAULTS = {kind: section for section in TRANSFORMS.values() if section.usual for kind in section.reads}
"""The transform of a feature without one, by its kind."""

PARAMETERS = ("fill", "values", "levels", "boundaries", "buckets")
"""What is an array of constants in the graph of several columns; in all else of their states they are equal."""


def choose(features: Mapping[str, Feature], given: Mapping[str, Transform]) -> dict[str, Transform]:
    """Return the transform of each input in order of name: the given one, or that of its kind.

    Raises:
        Refused: one is given for a column that is not an input, or of a kind that it does not take; or a column's
            array has the name of another.
    """
    inputs = of_role(features, "input")
    for name, transform in given.items():
        setting = f"snapshot.transforms.{name}"
        if name not in features:
            known = f"the inputs are {', '.join(inputs)}"
            raise Refused(setting, f"no column {name}", known, "correct the name, or leave it out")
        if name not in inputs:
            rule = "only inputs of the model are transformed"
            raise Refused(setting, f"{name} is the {features[name].role}", rule, "leave it out")
        _check(setting, inputs[name], transform)
    chosen = {name: given.get(name) or DEFAULTS[feature.kind].model_validate({}) for name, feature in inputs.items()}
    for name, feature in inputs.items():
        if chosen[name].is_alone(feature):
            own_array(name)
    return chosen


def _check(setting: str, feature: Feature, transform: Transform) -> None:
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


def formula(state: dict[str, Any]) -> str:
    """Return what a fitted transform computes, but for its `PARAMETERS`: of equal ones there is one `graph`."""
    return json.dumps({name: value for name, value in state.items() if name not in PARAMETERS}, sort_keys=True)


def graph(states: Sequence[dict[str, Any]]) -> Graph | str:
    """Return fitted transforms of one `formula` as operations of TensorFlow, or why only the reader can apply them."""
    return TRANSFORMS[states[0]["kind"]].graph(states)


def fit(
    chosen: Mapping[str, Transform],
    features: Mapping[str, Feature],
    read: Callable[[list[str]], Iterable[pa.Table]],
    folder: Path = Path(),
) -> dict[str, Fitted]:
    """Fit transforms by column, in one pass over the train split.

    Args:
        read: returns tables of the train split in order, from the names of the columns that are needed.
        folder: the `transform/` with the files of functions.
    """
    from tasks.records.reading import typed  # PyArrow, which a flow needs only here

    fitters = {name: transform.fitter(name, features[name], folder) for name, transform in chosen.items()}
    reading = {name: each for name, each in fitters.items() if each.reads}
    row = 0
    for table in read(list(reading)):
        rows = np.arange(row, row + table.num_rows, dtype=np.int64)
        for name, each in reading.items():
            each.add(typed(table[name], features[name]), rows)
        row += table.num_rows
    return {name: each.fitted() for name, each in fitters.items()}


SHARED = {NUMBERS: "float32", CATEGORIES: "int32"}
"""Dtype of the arrays that several columns share."""


@dataclass(frozen=True)
class Layout:
    """The arrays of a snapshot."""

    features: dict[str, dict[str, Any]]
    """What the manifest says of each array: dtype, shape, role, names and more."""

    description: dict[str, Any]
    """The contents of `transform.json`."""


def lay_out(features: Mapping[str, Feature], fitted: Mapping[str, Fitted], source: Mapping[str, Any]) -> Layout:
    """Place the results of transforms, in order of the columns' names.

    Args:
        features: those of the records.
        fitted: the transforms of the inputs.
        source: the config of the records' source, which says how rows are written.

    Raises:
        Refused: two results have the same name.
    """
    arrays: dict[str, dict[str, Any]] = {}
    places = []
    for name, transform in sorted(fitted.items()):
        if transform.array is None:
            if (own := own_array(name)) in arrays:
                rule = f"another column's array is called {own}"
                raise Refused("source.columns", name, rule, "rename the column")
            arrays[own] = {**transform.feature, "role": "input"}
            places.append({"column": name, "array": own})
            continue
        shared = arrays.setdefault(transform.array, {"dtype": SHARED[transform.array], "shape": [0], "role": "input"})
        start = shared["shape"][0]
        for key, values in transform.feature.items():
            shared[key] = [*shared.get(key, []), *values]
        shared["shape"] = [len(shared["names"])]
        places.append({"column": name, "array": transform.array, "start": start, "stop": shared["shape"][0]})
    _check_shared(arrays)
    formats = {name: CellFormat.model_validate(form).state() for name, form in source.get("formats", {}).items()}
    inputs = of_role(features, "input")
    labels, targets = of_role(features, "label"), of_role(features, "target")
    description = {
        "format": FORMAT,
        "kind": "table",
        "columns": [
            {
                "name": name,
                "kind": feature.kind,
                "shape": list(feature.shape) if feature.kind == "number" else [],
                **({"format": formats[name]} if name in formats else {}),
                **({"file": source["files"][name]} if name in source.get("files", {}) else {}),
            }
            for name, feature in inputs.items()
        ],
        "missing": list(source.get("missing", [])),
        "csv": _csv(source) if source.get("kind") == "csv" else None,
        "transforms": {name: transform.state for name, transform in sorted(fitted.items())},
        "arrays": {
            name: {"dtype": SERVED_AS.get(array["dtype"], array["dtype"]), "shape": array["shape"]}
            for name, array in sorted(arrays.items())
        },
        "layout": places,
        "classes": [each for feature in labels.values() for each in feature.classes or ()],
        "targets": target_names(targets),
    }
    return Layout(dict(sorted(arrays.items())), description)


def _csv(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return how rows are written in the source's CSV files: what is between cells, and the names of columns in their
    order where no line has them (`header`), of which those that are predicted (`outputs`) need not be there."""
    main = [source["label"]] if source["label"] is not None else source["targets"]
    outputs = [*main, *source.get("outputs", [])]
    header = None if source["header"] is True else source["header"]
    form = {name: source[name] for name in ("encoding", "delimiter", "quote", "escape")}
    return {**form, "header": header, "outputs": outputs}


def target_names(targets: Mapping[str, Feature]) -> list[str]:
    """Return the names of the values of `target`: of the columns in order, of an array those of its values."""
    names: list[str] = []
    for name, feature in sorted(targets.items()):
        size = feature.shape[0] if feature.shape else 1
        names += feature.names or ([name] if not feature.shape else [f"{name}.{place}" for place in range(size)])
    return names


def _check_shared(arrays: Mapping[str, dict[str, Any]]) -> None:
    for shared in SHARED:
        names = arrays.get(shared, {}).get("names", [])
        if twice := sorted({name for name in names if names.count(name) > 1}):
            rule = "a column, and a number that is made of another column, have this name"
            raise Refused("source.columns", twice[0], rule, "rename the column")
