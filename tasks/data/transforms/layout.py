"""Where the results of transforms go: the arrays of a table's snapshot, and its `transform/transform.json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.config.snapshot import SERVED_AS
from tasks.data.features import Feature, of_role
from tasks.data.reader import FORMAT
from tasks.data.transforms import CATEGORIES, NUMBERS, Fitted
from tasks.errors import Refused

LABEL, TARGET, WEIGHT = "label", "target", "weight"
SHARED = {NUMBERS: "float32", CATEGORIES: "int32"}
"""Dtype of the arrays that several columns share."""

RESERVED = (LABEL, TARGET, WEIGHT, "row", "origin", "pieces", "key")
"""Names of a snapshot's other arrays and of its batches."""

FILE_NAME = re.compile(r"\w[\w.-]*( [\w.-]+)*")


@dataclass(frozen=True)
class Layout:
    """The arrays of a snapshot."""

    features: dict[str, dict[str, Any]]
    """What the manifest says of each array: dtype, shape, role, names and more."""

    description: dict[str, Any]
    """The contents of `transform.json`."""


def lay_out(features: Mapping[str, Feature], fitted: Mapping[str, Fitted], missing: list[str]) -> Layout:
    """Place the results of transforms, in order of the columns' names.

    Args:
        features: those of the records.
        fitted: the transforms of the inputs.
        missing: texts that are missing values in the source.

    Raises:
        Refused: two results have the same name, or one cannot name an array.
    """
    arrays: dict[str, dict[str, Any]] = {}
    places = []
    for name, transform in sorted(fitted.items()):
        if transform.array is None:
            _check_own(name)
            arrays[name] = {**transform.feature, "role": "input"}
            places.append({"column": name, "array": name})
            continue
        shared = arrays.setdefault(transform.array, {"dtype": SHARED[transform.array], "shape": [0], "role": "input"})
        start = shared["shape"][0]
        for key, values in transform.feature.items():
            shared[key] = [*shared.get(key, []), *values]
        shared["shape"] = [len(shared["names"])]
        places.append({"column": name, "array": transform.array, "start": start, "stop": shared["shape"][0]})
    _check_shared(arrays, fitted)
    inputs = of_role(dict(features), "input")
    labels, targets = of_role(dict(features), "label"), of_role(dict(features), "target")
    description = {
        "format": FORMAT,
        "kind": "table",
        "columns": [
            {"name": name, "kind": feature.kind, "shape": list(feature.shape) if feature.kind == "number" else []}
            for name, feature in inputs.items()
        ],
        "missing": missing,
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


def target_names(targets: Mapping[str, Feature]) -> list[str]:
    """Return the names of the values of `target`: of the columns in order, of an array those of its values."""
    names: list[str] = []
    for name, feature in sorted(targets.items()):
        size = feature.shape[0] if feature.shape else 1
        names += feature.names or ([name] if not feature.shape else [f"{name}.{place}" for place in range(size)])
    return names


def _check_own(name: str) -> None:
    if name in RESERVED:
        rule = f"an array of a snapshot has this name, as have {', '.join(each for each in RESERVED if each != name)}"
        raise Refused("source.columns", name, rule, "rename the column")
    if not FILE_NAME.fullmatch(name):
        rule = "it names files: letters, digits, single spaces, and _ . - within"
        raise Refused("source.columns", name, rule, "rename the column")


def _check_shared(arrays: Mapping[str, dict[str, Any]], fitted: Mapping[str, Fitted]) -> None:
    for shared in SHARED:
        if shared in fitted and fitted[shared].array is None and any(each.array == shared for each in fitted.values()):
            rule = "the array of all single numbers, or of all ids, has this name"
            raise Refused("source.columns", shared, rule, "rename the column")
        names = arrays.get(shared, {}).get("names", [])
        if twice := sorted({name for name in names if names.count(name) > 1}):
            rule = "a column, and a number that is made of another column, have this name"
            raise Refused("source.columns", twice[0], rule, "rename the column")
